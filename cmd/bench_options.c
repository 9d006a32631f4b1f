/* bench_options.c - what `gtrain bench` is told. */
#include "cmd/bench_options.h"

#define AT(member) offsetof(struct gt_bench_ckpt_cli, member)

/* clang-format off */
static const struct gt_opt ckpt_table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "rounds", 0, GT_OPT_INT, AT(rounds), "N", "times that every operation is run",
	    .initial = "3", .min = 1, .max = GT_BENCH_MAX_ROUNDS },
	{ "dir", 0, GT_OPT_STRING, AT(dir), "DIR", "folder for the files that are written",
	    .otherwise = "that of the checkpoint", .complete = GT_COMPLETE_DIR },
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "the table as comma-separated values" },
	GT_CMD_COMMON(struct gt_bench_ckpt_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_bench_ckpt_options(void)
{
	return ckpt_table;
}
