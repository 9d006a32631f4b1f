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
	equal "$(jq -c '[.batch, .optimizer, .lr]' run/config.json)" '[16,"adamw",0.001]'
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
	cat >compare.c <<-'END'
		#include <stdio.h>
		#include <string.h>

		#include "cmd/eval_options.h"
		#include "cmd/generate_options.h"
		#include "cmd/train/options.h"
		#include "lib/base/opt_json.h"

		static json_t *values(const struct gt_opt *table, void *cli, const void *from, void *to, size_t size)
		{
			struct gt_err err = GT_ERR_INIT;
			struct gt_opts opts;
			json_t *json;

			if (gt_opts_init(&opts, table, cli, &err))
				return NULL;
			if (from)
				memcpy(to, from, size);
			json = gt_opts_to_json(&opts, &err);
			gt_opts_release(&opts);
			return json;
		}

		#define COMPARE(name, cli_type, member, type, init)                                                  \
			do {                                                                                          \
				cli_type a = { 0 }, b = { 0 };                                                         \
				type o;                                                                               \
				json_t *x, *y;                                                                        \
				memset(&o, 255, sizeof(o));                                                           \
				init(&o);                                                                             \
				x = values(gt_cmd_##name##_options(), &a, NULL, NULL, 0);                              \
				y = values(gt_cmd_##name##_options(), &b, &o, &b.member, sizeof(o));                  \
				if (!x || !json_equal(x, y))                                                          \
					printf(#name ": %s\nnot %s\n", json_dumps(y, 0), json_dumps(x, 0));            \
				else                                                                                  \
					printf(#name ": %zu options\n", json_object_size(x));                          \
			} while (0)

		int main(void)
		{
			COMPARE(train, struct gt_train_cli, train, struct gt_train_options, gt_train_options_init);
			COMPARE(eval, struct gt_eval_cli, eval, struct gt_eval_options, gt_eval_options_init);
			COMPARE(generate, struct gt_generate_cli, sampling, struct gt_sampling, gt_sampling_init);
			return 0;
		}
	END
	mapfile -t objects < <(find "$build/obj/cmd" "$build/obj/recipes.o" -name '*.o' ! -name main.o)
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -DGT_VERSION='""' -I"$ROOT" -o compare compare.c "${objects[@]}" "${flags[@]}"
	run -0 ./compare
	[[ ${lines[0]} == "train: "*" options" && ${lines[1]} == "eval: "*" options" && ${lines[2]} == "generate: "*" options" ]] || {
		printf '%s\n' "$output"
		return 1
	}
}
