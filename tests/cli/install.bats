#!/usr/bin/env bats
# install.bats - what make install puts down is complete, and a stranger can build against it.

bats_require_minimum_version 1.5.0

setup() {
	[ -z "${SANITIZE-}" ] || skip "the build has sanitizers"
	cd "$BATS_TEST_DIRNAME/../.." || return 1
	root=$BATS_TEST_TMPDIR/root
	make_here=(make --no-print-directory "BUILD=${BUILD:-build}" "DESTDIR=$root" PREFIX=/opt/gtrain)
	export PKG_CONFIG_PATH=$root/opt/gtrain/lib/pkgconfig
}

@test "install puts the program, library, headers and man pages under DESTDIR and PREFIX" {
	"${make_here[@]}" install
	[ -x "$root/opt/gtrain/bin/gtrain" ]
	[ -f "$root/opt/gtrain/lib/libgtrain.a" ]
	[ -f "$root/opt/gtrain/include/gtrain/lib/ckpt/ckpt.h" ]
	for page in man/*.[17]; do
		[ -e "$page" ] || continue
		[ -f "$root/opt/gtrain/share/man/man${page##*.}/${page##*/}" ]
	done
	cmp man/zh_CN/gtrain-tutorial.7 "$root/opt/gtrain/share/man/zh_CN/man7/gtrain-tutorial.7"
	cmp man/schemas/probe.json "$root/opt/gtrain/share/gtrain/schemas/probe.json"
	for file in completions/*; do
		[ -e "$file" ] || continue
		find "$root/opt/gtrain/share" -type f -exec cmp -s {} "$file" \; -print | grep -q .
	done
}

@test "gtrain.h and the headers that it needs are installed, and no others" {
	"${make_here[@]}" install
	cd "$root/opt/gtrain/include"
	[ ! -e gtrain/lib/data/csv.h ]
	[ ! -e gtrain/lib/gtrain.h ]
	# The compiler names each file that a program with gtrain.h reads.
	echo '#include <gtrain/gtrain.h>' |
		${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -I. -Igtrain -M -x c - | tr ' ' '\n' | sed -n 's,^gtrain/,,p' | sort -u >"$BATS_TEST_TMPDIR/read"
	(cd gtrain && find . -type f -printf '%P\n') | sort | diff "$BATS_TEST_TMPDIR/read" -
	for header in gtrain/lib/*/*.h gtrain/lib/*/*/*.h; do
		${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -I. -Igtrain -fsyntax-only -x c "$header"
	done
}

@test "the library for MPI is installed where the program looks for it" {
	[ -e "${BUILD:-build}/libgtrain-mpi.so" ] || skip "mpi: gtrain was built without MPI"
	command -v mpirun >/dev/null || skip "mpirun: not installed"
	"${make_here[@]}" install
	run -0 --separate-stderr mpirun --allow-run-as-root --oversubscribe -n 2 "$root/opt/gtrain/bin/gtrain" bench allreduce \
		--backend mpi --sizes 1K --rounds 1
	[[ $output == "2 ranks, mpi,"* ]]
	rm "$root/opt/gtrain/lib/gtrain/libgtrain-mpi.so"
	run ! --separate-stderr mpirun --allow-run-as-root --oversubscribe -n 1 "$root/opt/gtrain/bin/gtrain" bench allreduce \
		--backend mpi --sizes 1K --rounds 1
	[[ $stderr == *"there is no libgtrain-mpi.so: this gtrain was built without MPI"*"hint: install MPI"* ]]
}

@test "a program builds against the installed library by pkg-config alone, and runs" {
	"${make_here[@]}" install
	cat >"$BATS_TEST_TMPDIR/user.c" <<-'END'
		#include <stdio.h>
		#include <string.h>

		#include "lib/base/file.h"
		#include "lib/ckpt/ckpt.h"

		int main(int argc, char **argv)
		{
			struct gt_err err = GT_ERR_INIT;
			struct gt_mapping map;

			if (argc < 2 || gt_map(&map, argv[1], &err)) {
				fprintf(stderr, "%s\n", err.text);
				return 1;
			}
			printf("%zu bytes, %zu in a float32\n", map.size, gt_dtype_size(GT_F32));
			gt_unmap(&map);
			return 0;
		}
	END
	# The file was installed for PREFIX; DESTDIR is only where it lies for now.
	read -ra flags <<<"$(pkg-config --define-variable=prefix="$root/opt/gtrain" --cflags --libs gtrain)"
	cd "$BATS_TEST_TMPDIR"
	${CC:-cc} -Wall -Werror -o user user.c "${flags[@]}"
	printf 12345 >five
	run -0 ./user five
	[ "$output" = "5 bytes, 4 in a float32" ]
	run -1 ./user missing
	[[ $output == "cannot open 'missing'"* ]]
}

@test "the file for pkg-config has another folder of libraries" {
	made=$BATS_TEST_TMPDIR/made
	make --no-print-directory "BUILD=$made" PREFIX=/opt/gtrain libdir=/opt/gtrain/lib/some "$made/gtrain.pc"
	# shellcheck disable=SC2016 # pkg-config's own variable
	grep -qxF 'libdir=${prefix}/lib/some' "$made/gtrain.pc"
	make --no-print-directory "BUILD=$made" PREFIX=/opt/gtrain libdir=/usr/lib "$made/gtrain.pc"
	grep -qxF 'libdir=/usr/lib' "$made/gtrain.pc"
}

@test "the installed library needs no change when the build folder goes" {
	"${make_here[@]}" install
	run ! grep -rlF "$PWD" "$root/opt/gtrain/lib/pkgconfig" "$root/opt/gtrain/include"
	run ! grep -F "$root" "$PKG_CONFIG_PATH/gtrain.pc"
}

@test "uninstall leaves nothing of it, and what others put there" {
	"${make_here[@]}" install
	touch "$root/opt/gtrain/bin/other"
	"${make_here[@]}" uninstall
	[ "$(find "$root" -type f)" = "$root/opt/gtrain/bin/other" ]
	[ ! -e "$root/opt/gtrain/include/gtrain" ]
}
