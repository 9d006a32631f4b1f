/* convert_options.c - what `gtrain ckpt convert`, `select` and `merge` are told. */
#include <math.h>

#include "cmd/ckpt/convert.h"

/* gt_convert_words, and last a folder. */
static const char *const convert_words[] = { "pth", "legacy", "safetensors", "npz", "hf", NULL };

/* clang-format off */
static const struct gt_opt convert_table[] = {
	GT_CKPT_TARGET(struct gt_ckpt_convert_cli, convert_words,
	    ", hf (a folder of Hugging Face's)"),
	{ "weights-only", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_convert_cli, weights_only),
	    .help = "leave behind what torch.load(weights_only=True) refuses" },
	GT_CMD_COMMON(struct gt_ckpt_convert_cli),
	{ 0 }
};

static const struct gt_opt select_table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to take" },
	{ "path", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_select_cli, path), "KEY[.KEY...]",
	    .help = "the value under a key: model, model.state_dict, optimizer" },
	{ "keys", 0, GT_OPT_LIST, GT_OPT_FIELD(struct gt_ckpt_select_cli, keys), "GLOB",
	    .help = "tensors of the state_dict by name: 'layer1.*'; may be given several times" },
	GT_CKPT_TARGET(struct gt_ckpt_select_cli, gt_convert_words, ""),
	GT_CMD_COMMON(struct gt_ckpt_select_cli),
	{ 0 }
};

static const struct gt_opt merge_table[] = {
	{ .type = GT_OPT_HEADING, .help = "How to merge" },
	{ "average", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_merge_cli, average),
	    .help = "the mean of files with the same tensors, summed in float64" },
	GT_CKPT_TARGET(struct gt_ckpt_merge_cli, gt_convert_words, ""),
	GT_CMD_COMMON(struct gt_ckpt_merge_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_ckpt_convert_options(void)
{
	return convert_table;
}

const struct gt_opt *gt_cmd_ckpt_select_options(void)
{
	return select_table;
}

const struct gt_opt *gt_cmd_ckpt_merge_options(void)
{
	return merge_table;
}
