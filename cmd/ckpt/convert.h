/* convert.h - gtrain ckpt convert, select and merge: what they are told. */
#ifndef GT_CMD_CKPT_CONVERT_H
#define GT_CMD_CKPT_CONVERT_H

#include "cmd/ckpt/rewrite.h"

struct gt_ckpt_convert_cli {
	bool weights_only;
	struct gt_ckpt_target_cli target;
	struct gt_cmd_common common;
};

enum { GT_CKPT_TO_HUGGING_FACE = 4 }; /* --to hf, of convert alone */

struct gt_ckpt_select_cli {
	const char *path;
	struct gt_opt_list keys;
	struct gt_ckpt_target_cli target;
	struct gt_cmd_common common;
};

struct gt_ckpt_merge_cli {
	bool average;
	struct gt_ckpt_target_cli target;
	struct gt_cmd_common common;
};

enum { GT_CKPT_MERGE_MAX = 256 }; /* files at once */

int gt_cmd_ckpt_convert(int argc, char **argv);
int gt_cmd_ckpt_select(int argc, char **argv);
int gt_cmd_ckpt_merge(int argc, char **argv);
const struct gt_opt *gt_cmd_ckpt_convert_options(void);
const struct gt_opt *gt_cmd_ckpt_select_options(void);
const struct gt_opt *gt_cmd_ckpt_merge_options(void);

#endif
