/* verify_options.c - what `gtrain ckpt verify` is told. */
#include "cmd/ckpt/verify.h"

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_verify_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to do" },
	{ "repair", 0, GT_OPT_FLAG, AT(repair),
	    .help = "first cut off what an interrupted edit in place has left" },
	{ "strict", 0, GT_OPT_FLAG, AT(strict),
	    .help = "NaN and Inf are failures too, not only damage and globals" },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "threads that read",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_verify_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_ckpt_verify_options(void)
{
	return table;
}
