/* bench_options.h - what `gtrain bench` is told. */
#ifndef GT_CMD_BENCH_OPTIONS_H
#define GT_CMD_BENCH_OPTIONS_H

#include "cmd/cmd.h"

enum { GT_BENCH_MAX_ROUNDS = 100 };

struct gt_bench_ckpt_cli {
	struct gt_cmd_common common;
	const char *dir;
	int64_t rounds;
	bool csv;
};

const struct gt_opt *gt_cmd_bench_ckpt_options(void);
int gt_cmd_bench_ckpt(int argc, char **argv);

#endif
