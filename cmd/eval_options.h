/* eval_options.h - the options of `gtrain eval`. */
#ifndef GT_CMD_EVAL_OPTIONS_H
#define GT_CMD_EVAL_OPTIONS_H

#include <stdint.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/train/eval.h"

/* The library's options, and those of the command alone. */
struct gt_eval_cli {
	struct gt_cmd_common common;
	struct gt_eval_options eval;
	struct gt_comm_options comm;
	bool per_class, confusion;
	const char *tokenizer;   /* in place of eval.vocab; NULL: not given */
	const char *predictions; /* a file to write */
	int nproc;
	int64_t threads; /* 0: one per core */
};

const struct gt_opt *gt_cmd_eval_options(void);

#endif
