#!/usr/bin/env bats
# library.bats - the library as an installed program's: gtrain.h, default options, the example.

bats_require_minimum_version 1.5.0

setup() {
	load helpers
	[ -z "${SANITIZE-}" ] || skip "the build has sanitizers"
	build=$(realpath "${BUILD:-$ROOT/build}")
	root=$BATS_TEST_TMPDIR/root
	cd "$ROOT" || return 1
	make --no-print-directory "BUILD=${BUILD:-build}" "DESTDIR=$root" PREFIX=/opt/gtrain install >/dev/null
	export PKG_CONFIG_PATH=$root/opt/gtrain/lib/pkgconfig
	read -ra flags <<<"$(pkg-config --define-variable=prefix="$root/opt/gtrain" --cflags --libs gtrain)"
	cd "$BATS_TEST_TMPDIR" || return 1
}

@test "the example builds against the installed library, trains, evaluates and looks into its files" {
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -o example "$ROOT/tests/example/example.c" "${flags[@]}"
	run -0 --separate-stderr ./example random:8/3,samples=64 run
	[[ $output == *"step 1: loss "*"step 12: loss "*"trained 12 steps of mlp"*" of 64 right"*"0.weight: "*" elements"* ]]
	[[ $stderr == *"memory: "* ]]
	# What it leaves is a run as any other, which the program goes on with.
	gtrain eval --ckpt run --data random:8/3,samples=64 --json
	equal "$status" 0
	gtrain train --resume auto --out run --epochs 5
	equal "$status" 0
	[[ $err == *"--epochs 3 -> 5: the run ends at step 20"*"done: 20 steps"* ]]
	equal "$(values run/config.json '.batch, .optimizer, .lr')" '[16,"adamw",0.001]'
	run -1 --separate-stderr ./example random:8/3,samples=64 run
	[[ $stderr == *"example: run holds a run"* || $stderr == *"'run' holds a run that is at step 20 already"* ]]
	run -1 --separate-stderr ./example csv:missing.csv other
	[[ $stderr == "example: "*"missing.csv"* ]]
	run -2 ./example
}

@test "gtrain.h can be included by itself, and twice" {
	printf '#include <gtrain/gtrain.h>\n#include <gtrain/gtrain.h>\nint main(void) { return sizeof(struct gt_train_options) == 0; }\n' >alone.c
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -o alone alone.c "${flags[@]}"
	run -0 ./alone
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
	compare() { # COMMAND OBJECT MEMBER OPTIONS INIT
		local objects

		mapfile -t objects < <(cd "$ROOT" && find cmd -name '*.c' ! -path cmd/main.c ! -path "cmd/$2.c" -printf "$build/obj/%p\n" | sed 's/c$/o/')
		${CC:-cc} -std=gnu11 -D_GNU_SOURCE -DGT_VERSION='""' -I"$ROOT" -DSOURCE="\"cmd/$2.c\"" -DCLI="struct gt_$1_cli" \
			-DCOMMAND="gt_cmd_$1" -DMEMBER="$3" -DOPTIONS="struct $4" -DINIT="$5" -o "compare-$1" compare.c "${objects[@]}" "$build/obj/recipes.o" "$build/obj/report.o" "${flags[@]}"
		run -0 "./compare-$1"
		[[ $output == *[0-9]" options" ]]
	}
	compare eval eval eval gt_eval_options gt_eval_options_init
	compare generate generate sampling gt_sampling gt_sampling_init
}
