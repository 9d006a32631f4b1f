/* verify.h - gtrain ckpt verify: printing its findings. */
#ifndef GT_CMD_CKPT_VERIFY_H
#define GT_CMD_CKPT_VERIFY_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/verify.h"

/* Whether the findings make the command fail. Damage does, and so do globals that a safe loader
 * does not load; NaN and Inf do only with `strict`. */
bool gt_ckpt_verify_fails(const struct gt_verify *verify, bool strict);

void gt_ckpt_verify_text(FILE *out, const struct gt_verify *verify, bool color);
void gt_ckpt_verify_json(
    FILE *out, const struct gt_verify *verify, const struct gt_repair *repair, bool strict);

#endif
