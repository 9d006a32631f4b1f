/* options.h - the options of `gtrain bench`. */
#ifndef GT_CMD_BENCH_OPTIONS_H
#define GT_CMD_BENCH_OPTIONS_H

#include "cmd/cmd.h"
#include "lib/base/measure.h"
#include "lib/comm/comm.h"

enum { GT_BENCH_MAX_ROUNDS = GT_MEASURE_MAX_ROUNDS };

struct gt_bench_ckpt_cli {
	struct gt_cmd_common common;
	const char *dir;
	int64_t rounds;
	bool csv;
};

struct gt_bench_allreduce_cli {
	struct gt_cmd_common common;
	const char *sizes, *device, *backends;
	int64_t nproc, rounds;
	struct gt_comm_options comm; /* its backend is not set */
	int dtype, buffers;          /* indices into gt_bench_dtypes, gt_bench_buffers */
	bool csv;
};

struct gt_bench_gemm_cli {
	struct gt_cmd_common common;
	const char *device, *shapes, *dtypes;
	int64_t rounds;
	double seconds;
	bool csv;
};

struct gt_bench_copy_cli {
	struct gt_cmd_common common;
	const char *device, *sizes;
	int64_t rounds;
	double seconds;
	bool csv;
};

extern const char *const gt_bench_dtypes[], *const gt_bench_buffers[];

const struct gt_opt *gt_cmd_bench_allreduce_options(void);
int gt_cmd_bench_allreduce(int argc, char **argv);

const struct gt_opt *gt_cmd_bench_copy_options(void);
int gt_cmd_bench_copy(int argc, char **argv);

const struct gt_opt *gt_cmd_bench_gemm_options(void);
int gt_cmd_bench_gemm(int argc, char **argv);

const struct gt_opt *gt_cmd_bench_ckpt_options(void);
int gt_cmd_bench_ckpt(int argc, char **argv);

#endif
