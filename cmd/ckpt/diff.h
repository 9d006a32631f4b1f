/* diff.h - `gtrain ckpt diff`: print the differences between two checkpoints. */
#ifndef GT_CMD_CKPT_DIFF_H
#define GT_CMD_CKPT_DIFF_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/diff.h"

/* Print the differences that gt_diff_make() has found, as text or as one JSON document. `a` and `b`
 * are the paths of the two checkpoints. */
void gt_ckpt_diff_text(FILE *out, const struct gt_diff *diff, const char *a, const char *b);
void gt_ckpt_diff_json(FILE *out, const struct gt_diff *diff);

#endif
