/* diff_options.c - what `gtrain ckpt diff` is told. */
#include <math.h>

#include "cmd/ckpt/diff.h"

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_diff_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What counts" },
	{ "tolerance", 0, GT_OPT_DOUBLE, AT(tolerance), "X",
	    "numbers at most X apart are the same", .initial = "0", .max = INFINITY },
	{ "state-dict", 0, GT_OPT_FLAG, AT(state_dict),
	    .help = "compare the state_dicts alone, without 'module.' and '_orig_mod.'" },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "threads that read",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_diff_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_ckpt_diff_options(void)
{
	return table;
}
