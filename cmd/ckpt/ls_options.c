/* ls_options.c - what `gtrain ckpt ls` is told. */
#include "cmd/ckpt/ls.h"

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_ls_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to show" },
	{ "stats", 0, GT_OPT_FLAG, AT(stats),
	    .help = "read the tensors too: min, max, mean, std, NaN, Inf, zeros" },
	{ "all", 'a', GT_OPT_FLAG, AT(all),
	    .help = "every value that is no tensor, not only the first" },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "threads that read for --stats",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_ls_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_ckpt_ls_options(void)
{
	return table;
}
