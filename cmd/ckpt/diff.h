/* diff.h - gtrain ckpt diff: what it is told, and how it prints. */
#ifndef GT_CMD_CKPT_DIFF_H
#define GT_CMD_CKPT_DIFF_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/diff.h"

struct gt_ckpt_diff_cli {
	double tolerance;
	bool state_dict;
	int64_t threads;
	struct gt_cmd_common common;
};

void gt_ckpt_diff_text(FILE *out, const struct gt_diff *diff, const char *a, const char *b);
void gt_ckpt_diff_json(FILE *out, const struct gt_diff *diff);

int gt_cmd_ckpt_diff(int argc, char **argv);
const struct gt_opt *gt_cmd_ckpt_diff_options(void);

#endif
