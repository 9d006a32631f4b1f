/* verify.h - gtrain ckpt verify: print the errors found in a checkpoint; decide the exit status. */
#ifndef GT_CMD_CKPT_VERIFY_H
#define GT_CMD_CKPT_VERIFY_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/verify.h"

/* `verify` has the findings of a check of a checkpoint (lib/ckpt/tools/verify.h). Return whether
 * these findings make the command fail. The command fails if the file is damaged, if a part of the
 * file could not be read, or if a pickle names globals (classes or functions) that a safe loader
 * rejects. With `strict`, the command also fails if a tensor contains NaN or Inf. */
bool gt_ckpt_verify_fails(const struct gt_verify *verify, bool strict);

/* Print the findings as text, or as one JSON document. `repair` is the result of the option
 * --repair, or NULL if this option is not given. The caller must check the stream for write
 * errors. */
void gt_ckpt_verify_text(FILE *out, const struct gt_verify *verify, bool color);
void gt_ckpt_verify_json(
    FILE *out, const struct gt_verify *verify, const struct gt_repair *repair, bool strict);

#endif
