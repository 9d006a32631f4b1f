/* verify.h - gtrain ckpt verify: what it is told, and how it prints. */
#ifndef GT_CMD_CKPT_VERIFY_H
#define GT_CMD_CKPT_VERIFY_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/verify.h"

struct gt_ckpt_verify_cli {
	bool repair, strict;
	int64_t threads;
	struct gt_cmd_common common;
};

/* Whether the findings make the command fail: damage and globals do, with `strict` numbers too. */
bool gt_ckpt_verify_fails(const struct gt_verify *verify, bool strict);

void gt_ckpt_verify_text(FILE *out, const struct gt_verify *verify, bool color);
void gt_ckpt_verify_json(
    FILE *out, const struct gt_verify *verify, const struct gt_repair *repair, bool strict);

int gt_cmd_ckpt_verify(int argc, char **argv);
const struct gt_opt *gt_cmd_ckpt_verify_options(void);

#endif
