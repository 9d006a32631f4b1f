/* eval_options.h - what `gtrain eval` is told. */
#ifndef GT_CMD_EVAL_OPTIONS_H
#define GT_CMD_EVAL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/cmd.h"
#include "lib/train/amp.h"

struct gt_eval_cli {
	struct gt_cmd_common common;

	const char *model; /* NULL: what the run directory of `ckpt` says */
	const char *ckpt, *data, *device;
	const char *vocab;      /* NULL: what lies beside `ckpt` */
	struct gt_opt_list map; /* REGEX=REPLACEMENT, in order */
	bool strict;
	int64_t batch, workers;
	int64_t threads; /* 0: one per core */
	enum gt_amp amp;
};

const struct gt_opt *gt_cmd_eval_options(void);

#endif
