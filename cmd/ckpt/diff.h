/* diff.h - gtrain ckpt diff: printing its findings. */
#ifndef GT_CMD_CKPT_DIFF_H
#define GT_CMD_CKPT_DIFF_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/diff.h"

void gt_ckpt_diff_text(FILE *out, const struct gt_diff *diff, const char *a, const char *b);
void gt_ckpt_diff_json(FILE *out, const struct gt_diff *diff);

#endif
