/* generate_options.h - what `gtrain generate` is told. */
#ifndef GT_CMD_GENERATE_OPTIONS_H
#define GT_CMD_GENERATE_OPTIONS_H

#include <stdint.h>

#include "cmd/cmd.h"
#include "lib/train/token_sampler.h"

struct gt_generate_cli {
	struct gt_cmd_common common;

	const char *model, *vocab, *tokenizer; /* NULL: those of the run directory of `ckpt` */
	const char *ckpt, *prompt, *device;
	struct gt_sampling sampling;
	int64_t tokens;
	int64_t threads; /* 0: one per core */
	bool tf32;
};

const struct gt_opt *gt_cmd_generate_options(void);

#endif
