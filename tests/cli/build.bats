#!/usr/bin/env bats
# build.bats - the Makefile finds the libraries of the system: the version of oneDNN, its file and package, MPI.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers

setup() {
	[ -z "${SANITIZE-}" ] || skip "the build has sanitizers"
	cd "$ROOT" || return
	made=$BATS_TEST_TMPDIR/made system=$BATS_TEST_TMPDIR/system
	mkdir "$system"
}

# VARIABLE...: the flags of a build with these variables of make.
flags() {
	make --no-print-directory "BUILD=$made" "$@" "$made/flags" && cat "$made/flags"
}

@test "oneDNN: the header's major version chooses the source, and other versions are refused" {
	printf '#define DNNL_VERSION_MAJOR 4\n' >"$system/dnnl.h"
	run ! --separate-stderr flags "CPPFLAGS=-I$system"
	[[ $stderr == "gtrain needs oneDNN 2 or 3 and its header dnnl.h; this is oneDNN 4"* ]]
	printf '#error no header\n' >"$system/dnnl.h"
	run ! --separate-stderr flags "CPPFLAGS=-I$system"
	[[ $stderr == "gtrain needs oneDNN 2 or 3 and its header dnnl.h; there is none here: "*"make deps"* ]]
	for major in 2 3; do
		printf '#define DNNL_VERSION_MAJOR %d\n' $major >"$system/dnnl.h"
		run -0 make -n --no-print-directory "BUILD=$made" "CPPFLAGS=-I$system" "$made/libgtrain.a"
		[[ $output == *"kernels/cpu/dnnl_v$major.c"* && $output != *"kernels/cpu/dnnl_v$((5 - major)).c"* ]]
	done
}

@test "oneDNN: the file to open is the SONAME of the library, which names Debian's package" {
	${CC:-cc} -shared -Wl,-soname,libdnnl.so.3.6 -o "$system/libdnnl.so" -x c - <<<''
	run -0 flags "LDFLAGS=-L$system"
	[[ $output == *"-DGT_DNNL_SONAME='\"libdnnl.so.3.6\"' -DGT_DNNL_PACKAGE='\"libdnnl3.6\"'"* ]]
	# A library that is none: the header's major version has to do.
	echo text >"$system/libdnnl.so"
	printf '#define DNNL_VERSION_MAJOR 3\n' >"$system/dnnl.h"
	run -0 flags "LDFLAGS=-L$system" "CPPFLAGS=-I$system"
	[[ $output == *"-DGT_DNNL_SONAME='\"libdnnl.so.3\"' -DGT_DNNL_PACKAGE='\"libdnnl3\"'"* ]]
}

@test "MPI: a compiler that has no mpi.h is none, as where openmpi-bin is installed without libopenmpi-dev" {
	for result in 0 1; do
		printf '#!/bin/sh\nexit %d\n' $result >"$system/mpicc"
		chmod +x "$system/mpicc"
		run -0 make -n --no-print-directory "BUILD=$made" "MPICC=$system/mpicc" all
		case $result in
		0) [[ $output == *libgtrain-mpi.so* ]] ;;
		1) [[ $output != *libgtrain-mpi.so* ]] ;;
		esac
	done
}
