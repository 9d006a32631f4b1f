/* options.h - the options and the functions of the `gtrain bench` commands. */
#ifndef GT_CMD_BENCH_OPTIONS_H
#define GT_CMD_BENCH_OPTIONS_H

#include "cmd/cmd.h"
#include "lib/base/measure.h"
#include "lib/comm/comm.h"

enum { GT_BENCH_MAX_ROUNDS = GT_MEASURE_MAX_ROUNDS };

/* The options of `gtrain bench ckpt`. */
struct gt_bench_ckpt_cli {
	struct gt_cmd_common common;
	const char *dir; /* folder for output files; NULL: the folder of the checkpoint */
	int64_t rounds;  /* number of runs of each operation */
	bool csv;
};

/* The options of `gtrain bench allreduce`. In this struct and the structs below, strings are values
 * of options as the user wrote them. */
struct gt_bench_allreduce_cli {
	struct gt_cmd_common common;
	const char *sizes, *device, *backends;
	int64_t nproc, rounds;
	/* comm.backend is not used: the command measures each backend in the list `backends` */
	struct gt_comm_options comm;
	int dtype, buffers; /* indices in gt_bench_dtypes and gt_bench_buffers */
	bool csv;
};

/* The options of `gtrain bench gemm`. */
struct gt_bench_gemm_cli {
	struct gt_cmd_common common;
	const char *device, *shapes, *dtypes;
	int64_t rounds;
	double seconds; /* length of a round, in which the measured work is repeated */
	bool csv;
};

/* The options of `gtrain bench copy`. */
struct gt_bench_copy_cli {
	struct gt_cmd_common common;
	const char *device, *sizes;
	int64_t rounds;
	double seconds; /* length of a round, in which the measured work is repeated */
	bool csv;
};

/* The options of `gtrain bench train`. */
struct gt_bench_train_cli {
	struct gt_cmd_common common;
	const char *model, *data, *modes, *nproc, *amp, *device;
	const char *dir; /* folder for the temporary run directories; NULL: TMPDIR, or /tmp */
	int64_t batch, threads, rounds;
	int64_t steps, discard; /* measured steps of a run, and the steps before them */
	double bound;           /* a row below this fraction of the expected rate is degraded */
	bool csv, markdown;
};

/* The options of `gtrain bench loader`. */
struct gt_bench_loader_cli {
	struct gt_cmd_common common;
	const char *data, *model, *augment, *workers;
	int64_t batch, prefetch, rounds;
	double seconds;   /* length of a round */
	double step_rate; /* steps per second that the loader has to feed; 0: not given */
	bool csv;
};

/* The options of `gtrain bench sweep`. */
struct gt_bench_sweep_cli {
	struct gt_cmd_common common;
	/* of the runs; common, modes, nproc, amp, batch and bound have no options here */
	struct gt_bench_train_cli train;
	const char *batches, *buckets, *backends;
	int parallel, amp; /* indices in gt_parallel_names and gt_amp_names */
	int64_t nproc;
};

/* The options of `gtrain bench calibrate`. */
struct gt_bench_calibrate_cli {
	struct gt_cmd_common common;
	const char *output, *device;
	const char *model, *data; /* NULL: the models that the command has */
	const char *dir;          /* folder for temporary run directories; NULL: TMPDIR, or /tmp */
	int64_t batch, nproc, threads, rounds, steps;
};

/* The words of --modes: "single", then those of `train --parallel`; NULL at the end. */
extern const char *const gt_bench_train_modes[];

/* The words that --dtype and --buffers of `gtrain bench allreduce` accept. Both lists end with
 * NULL. */
extern const char *const gt_bench_dtypes[], *const gt_bench_buffers[];

/* The option tables of the commands (lib/base/opt.h), and the commands. */
extern const struct gt_opt gt_bench_allreduce_options[], gt_bench_copy_options[],
    gt_bench_gemm_options[], gt_bench_ckpt_options[], gt_bench_train_options[],
    gt_bench_calibrate_options[], gt_bench_loader_options[], gt_bench_sweep_options[];
extern const struct gt_cmd_work gt_cmd_bench_allreduce, gt_cmd_bench_copy, gt_cmd_bench_gemm,
    gt_cmd_bench_ckpt, gt_cmd_bench_train, gt_cmd_bench_calibrate, gt_cmd_bench_loader,
    gt_cmd_bench_sweep;

#endif
