/* generate_options.h - what `gtrain generate` is told. */
#ifndef GT_CMD_GENERATE_OPTIONS_H
#define GT_CMD_GENERATE_OPTIONS_H

#include <stdint.h>

#include "cmd/cmd.h"

struct gt_generate_cli {
	struct gt_cmd_common common;

	const char *model, *vocab; /* NULL: what the run directory of `ckpt` says */
	const char *ckpt, *prompt;
	int64_t tokens, top_k, seed;
	int64_t threads; /* 0: one per core */
	double temperature, top_p;
};

const struct gt_opt *gt_cmd_generate_options(void);

#endif
