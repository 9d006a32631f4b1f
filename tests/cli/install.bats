#!/usr/bin/env bats
# install.bats - what make install puts down is complete, and a stranger can build against it.

bats_require_minimum_version 1.5.0

# Tests read one installation; `uninstall` and the test that takes a file away have their own.
setup_file() {
	[ -z "${SANITIZE-}" ] || return 0
	cd "$BATS_TEST_DIRNAME/../.." || return 1
	make --no-print-directory "BUILD=${BUILD:-build}" "DESTDIR=$BATS_FILE_TMPDIR/root" PREFIX=/opt/gtrain install
}

setup() {
	[ -z "${SANITIZE-}" ] || skip "the build has sanitizers"
	cd "$BATS_TEST_DIRNAME/../.." || return 1
	root=$BATS_FILE_TMPDIR/root
	export PKG_CONFIG_PATH=$root/opt/gtrain/lib/pkgconfig
}

# Install in a folder of this test.
install_here() {
	root=$BATS_TEST_TMPDIR/root
	make_here=(make --no-print-directory "BUILD=${BUILD:-build}" "DESTDIR=$root" PREFIX=/opt/gtrain)
	"${make_here[@]}" install
}

@test "install puts the program, library, header and man pages under DESTDIR and PREFIX" {
	[ -x "$root/opt/gtrain/bin/gtrain" ]
	[ -f "$root/opt/gtrain/lib/libgtrain.a" ]
	[ -f "$root/opt/gtrain/lib/libgtrain.so.0" ]
	[ "$(readlink "$root/opt/gtrain/lib/libgtrain.so")" = libgtrain.so.0 ]
	for page in man/*.[137]; do
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

@test "gtrain.h is the only header, in C99 and C++, and can be included twice" {
	[ "$(find "$root/opt/gtrain/include" -type f -printf '%P\n')" = gtrain.h ]
	cd "$root/opt/gtrain/include"
	printf '#include <gtrain.h>\n#include <gtrain.h>\n' >"$BATS_TEST_TMPDIR/twice.h"
	${CC:-cc} -std=c99 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only -x c "$BATS_TEST_TMPDIR/twice.h"
	command -v c++ >/dev/null || skip "c++: not installed"
	cat >"$BATS_TEST_TMPDIR/user.cc" <<-'END'
		#include <cstdio>
		#include <gtrain.h>

		int main()
		{
			gtrain_error error;
			gtrain *run = nullptr;

			return gtrain_open(&run, "model=none", &error) == GTRAIN_EINVAL ? 0 : 1;
		}
	END
	read -ra flags <<<"$(pkg-config --define-variable=prefix="$root/opt/gtrain" --cflags --libs gtrain)"
	c++ -std=c++11 -pedantic -Wall -Wextra -Werror -o "$BATS_TEST_TMPDIR/user" "$BATS_TEST_TMPDIR/user.cc" "${flags[@]}"
	LD_LIBRARY_PATH=$root/opt/gtrain/lib "$BATS_TEST_TMPDIR/user"
}

@test "the shared library exports the functions of gtrain.h with a version, and nothing else" {
	command -v nm >/dev/null || skip "nm: not installed"
	nm -D --defined-only "$root/opt/gtrain/lib/libgtrain.so.0" | sed -n 's/.* T //p' | sort >"$BATS_TEST_TMPDIR/exported"
	grep -oE '\bgtrain_[a-z_]+\(' "$root/opt/gtrain/include/gtrain.h" | tr -d '(' | sort -u >"$BATS_TEST_TMPDIR/names"
	grep -A2 '^GTRAIN_API' "$root/opt/gtrain/include/gtrain.h" | grep -oE '\bgtrain_[a-z_]+\(' | tr -d '(' | sort -u |
		sed 's/$/@@GTRAIN_0/' | diff - "$BATS_TEST_TMPDIR/exported"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/exported")" = "$(wc -l <"$BATS_TEST_TMPDIR/names")" ]
}

@test "the library for MPI is installed where the program looks for it" {
	[ -e "${BUILD:-build}/libgtrain-mpi.so" ] || skip "mpi: gtrain was built without MPI"
	command -v mpirun >/dev/null || skip "mpirun: not installed"
	install_here
	run -0 --separate-stderr mpirun --allow-run-as-root --oversubscribe -n 2 "$root/opt/gtrain/bin/gtrain" bench allreduce \
		--backend mpi --sizes 1K --rounds 1
	[[ $output == "2 ranks, mpi,"* ]]
	rm "$root/opt/gtrain/lib/gtrain/libgtrain-mpi.so"
	run ! --separate-stderr mpirun --allow-run-as-root --oversubscribe -n 1 "$root/opt/gtrain/bin/gtrain" bench allreduce \
		--backend mpi --sizes 1K --rounds 1
	[[ $stderr == *"there is no libgtrain-mpi.so: this gtrain was built without MPI"*"hint: install MPI"* ]]
}

@test "a program builds against the installed libraries by pkg-config alone, and runs" {
	cat >"$BATS_TEST_TMPDIR/user.c" <<-'END'
		#include <gtrain.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			struct gtrain_error error;
			struct gtrain *run;

			printf("%s\n", gtrain_version());
			if (gtrain_open(&run, argc > 1 ? argv[1] : "", &error)) {
				printf("%d: %s\n%s\n", (int)error.code, error.text, error.hint);
				return 1;
			}
			gtrain_close(run);
			return 0;
		}
	END
	# The file was installed for PREFIX; DESTDIR is only where it lies for now.
	there=(pkg-config --define-variable=prefix="$root/opt/gtrain")
	read -ra flags <<<"$("${there[@]}" --cflags --libs gtrain)"
	read -ra static <<<"$("${there[@]}" --static --cflags --libs gtrain | sed 's/-lgtrain\b/-l:libgtrain.a/')"
	cd "$BATS_TEST_TMPDIR"
	${CC:-cc} -Wall -Werror -o shared user.c "${flags[@]}"
	${CC:-cc} -Wall -Werror -o alone user.c "${static[@]}"
	readelf -d shared | grep -F 'libgtrain.so.0'
	run ! grep -F libgtrain.so alone
	export LD_LIBRARY_PATH=$root/opt/gtrain/lib
	for program in ./shared ./alone; do
		run -0 "$program" $'model=mlp\ndata=random:8/3'
		[ "$output" = "$("$root/opt/gtrain/bin/gtrain" --version | sed 's/gtrain //')" ]
		run -1 "$program" $'model=mpl\ndata=random:8/3'
		[[ $output == *$'\n-1: unknown model \'mpl\'\n'*"'mlp'"* ]]
	done
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
	run ! grep -rlF "$PWD" "$root/opt/gtrain/lib/pkgconfig" "$root/opt/gtrain/include"
	run ! grep -F "$root" "$PKG_CONFIG_PATH/gtrain.pc"
}

@test "uninstall leaves nothing of it, and what others put there" {
	install_here
	touch "$root/opt/gtrain/bin/other"
	"${make_here[@]}" uninstall
	[ "$(find "$root" -type f)" = "$root/opt/gtrain/bin/other" ]
	[ "$(find "$root" -type l)" = "" ]
}
