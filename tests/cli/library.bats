#!/usr/bin/env bats
# library.bats - the library in programs: the examples of its manual page, a careful host, default options.

bats_require_minimum_version 1.5.0

setup() {
	load helpers
	load ../common/manual_program
	[ -z "${SANITIZE-}" ] || skip "the build has sanitizers"
	build=$(realpath "${BUILD:-$ROOT/build}")
	root=$BATS_TEST_TMPDIR/root
	cd "$ROOT" || return 1
	make --no-print-directory "BUILD=${BUILD:-build}" "DESTDIR=$root" PREFIX=/opt/gtrain install >/dev/null
	export PKG_CONFIG_PATH=$root/opt/gtrain/lib/pkgconfig
	there=(pkg-config --define-variable=prefix="$root/opt/gtrain")
	read -ra flags <<<"$("${there[@]}" --cflags --libs gtrain)"
	export LD_LIBRARY_PATH=$root/opt/gtrain/lib OMP_NUM_THREADS=1
	cd "$BATS_TEST_TMPDIR" || return 1
}

# Write program NUMBER of the manual page to FILE.
example() { # NUMBER FILE
	(cd "$ROOT" && manual_program "$1") >"$2"
}

@test "the program in C of gtrain-lib(3) builds against the installed files, and gtrain reads its checkpoint" {
	example 1 circle.c
	${CC:-cc} -std=c11 -Wall -Wextra -Werror -o circle circle.c "${flags[@]}"
	run -0 --separate-stderr ./circle
	[[ $output == "step 100: loss "*"step 400: loss "*"% right"*"the origin is inside"*"0.weight has 2 dimensions"*"2.bias has 1"* ]]
	[ -z "$stderr" ]
	printf 'x,y,class\n0.1,0.1,1\n0,0,1\n0.9,0.9,0\n-0.9,-0.95,0\n' >points.csv
	gtrain eval --ckpt circle.ckpt --data csv:points.csv,standardise=no --json
	equal "$status" 0
	equal "$(jq .top1 <<<"$out")" 1
	gtrain train --resume circle.ckpt --model mlp --data csv:points.csv,standardise=no --batch 32 --out more --steps 401
	equal "$status" 0
	[[ $err == *"resuming from circle.ckpt"*"done: 401 steps"* ]]
	mkdir circle.d && mv circle.ckpt circle.d && mkdir circle.ckpt
	run -1 --separate-stderr ./circle
	[[ $stderr == "circle: "*"circle.ckpt"* ]]
}

@test "the program in Fortran of gtrain-lib(3) builds against the installed files, and learns" {
	command -v gfortran >/dev/null || skip "gfortran: not installed"
	example 2 line.f90
	gfortran -Wall -Wextra -Werror -o line line.f90 "${flags[@]}"
	run -0 --separate-stderr ./line
	[[ $output == "step 100: loss "*"step 300: loss  0.000"* ]]
	[ -z "$stderr" ]
}

@test "the library leaves signals, the environment, the folder and the streams of a program as they are" {
	cat >host.c <<-'END'
		#define _GNU_SOURCE
		#include <gtrain.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/stat.h>
		#include <unistd.h>

		extern char **environ;

		/* All that a library could change, as text. */
		static char *state(void)
		{
			char *text = NULL, folder[4096];
			size_t size;
			FILE *f = open_memstream(&text, &size);
			struct sigaction action;
			sigset_t blocked;
			mode_t mask = umask(0);

			umask(mask);
			sigprocmask(SIG_SETMASK, NULL, &blocked);
			for (int i = 1; i < 65; i++)
				if (!sigaction(i, NULL, &action))
					fprintf(f, "%d %p %d\n", i, (void *)action.sa_sigaction, sigismember(&blocked, i));
			for (char **e = environ; *e; e++)
				fprintf(f, "%s\n", *e);
			fprintf(f, "%s %o\n", getcwd(folder, sizeof(folder)), (unsigned)mask);
			fclose(f);
			return text;
		}

		int main(int argc, char **argv)
		{
			struct gtrain_error error;
			struct gtrain *run;
			char *before = state();
			double loss;

			if (gtrain_open(&run, argv[argc - 1], &error))
				return puts(error.text), 1;
			if (gtrain_step(run, NULL, 0, &loss, &error) || gtrain_evaluate(run, NULL, 0, &loss, &error))
				return puts(error.text), 1;
			gtrain_close(run);
			return strcmp(before, state()) != 0;
		}
	END
	${CC:-cc} -Wall -Wextra -Werror -o host host.c "${flags[@]}"
	printf 'a,class\n1,0\n2,1\n3,0\n4,1\n' >data.csv
	# The data have a note: a column that is read in a way of its own.
	run -0 --separate-stderr ./host $'model=mlp\ndata=csv:data.csv\nval=csv:data.csv\nsteps=1'
	[ -z "$output$stderr" ]
	run -0 --separate-stderr ./host $'model=mlp\ndata=csv:data.csv\nval=csv:data.csv\nsteps=1\nlog=stderr'
	[[ $stderr == *"warning: val reads the same files as data"* ]]
	run -0 --separate-stderr ./host $'model=mlp\ndata=csv:data.csv\nval=csv:data.csv\nsteps=1\nlog=notes'
	[ -z "$output$stderr" ]
	grep -F "val reads the same files as data" notes
}

@test "default options are those of the program's tables" {
	# A command's struct of options is private to its file, which is therefore included.
	cat >compare.c <<-'END'
		#include <stdio.h>
		#include <string.h>

		#include SOURCE
		#include "lib/base/opt_json.h"

		static json_t *compare_json(CLI *cli, const void *from, void *to, size_t size)
		{
			struct gt_err err = GT_ERR_INIT;
			struct gt_opts opts;
			json_t *json;

			if (gt_opts_init(&opts, COMMAND.options, cli, &err))
				return NULL;
			if (from)
				memcpy(to, from, size);
			json = gt_opts_to_json(&opts, &err);
			gt_opts_release(&opts);
			return json;
		}

		int main(void)
		{
			CLI a = { 0 }, b = { 0 };
			OPTIONS o;
			json_t *x, *y;

			memset(&o, 255, sizeof(o));
			INIT(&o);
			x = compare_json(&a, NULL, NULL, 0);
			y = compare_json(&b, &o, &b.MEMBER, sizeof(o));
			if (x && json_equal(x, y))
				return printf("%zu options\n", json_object_size(x)) < 0;
			printf("%s\nnot %s\n", json_dumps(y, 0), json_dumps(x, 0));
			return 1;
		}
	END
	read -ra needed <<<"$("${there[@]}" --static --libs gtrain | sed 's/-lgtrain\b//')"
	compare() { # COMMAND OBJECT MEMBER OPTIONS INIT
		local objects

		mapfile -t objects < <(cd "$ROOT" && find cmd -name '*.c' ! -path cmd/main.c ! -path "cmd/$2.c" -printf "$build/obj/%p\n" | sed 's/c$/o/')
		${CC:-cc} -std=gnu11 -D_GNU_SOURCE -DGT_VERSION='""' -I"$ROOT" -DSOURCE="\"cmd/$2.c\"" -DCLI="struct gt_$1_cli" \
			-DCOMMAND="gt_cmd_$1" -DMEMBER="$3" -DOPTIONS="struct $4" -DINIT="$5" -o "compare-$1" compare.c "${objects[@]}" "$build/obj/recipes.o" "$build/obj/report.o" \
			"$build/libgtrain.a" "${needed[@]}"
		run -0 "./compare-$1"
		[[ $output == *[0-9]" options" ]]
	}
	compare generate generate/generate sampling gt_sampling gt_sampling_init
}
