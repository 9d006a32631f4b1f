/* train.h - private to bench train: the rows of its table, the runs that fill them, the output. */
#ifndef GT_CMD_BENCH_TRAIN_H
#define GT_CMD_BENCH_TRAIN_H

#include <limits.h>
#include <stdatomic.h>

#include "cmd/bench/options.h"
#include "cmd/bench/run.h"
#include "lib/train/report/scaling.h"

enum { GT_BENCH_TRAIN_STEPS = 10000 }; /* most steps of a run that are measured */

/* A row: one mode on some ranks with one precision. */
struct gt_bench_train_row {
	const char *mode; /* "single", or a word of --parallel */
	const char *amp;
	int ranks;
	int64_t batch, bucket_bytes; /* bucket_bytes 0: as `train` chooses it */
	const char *backend;         /* a word of --backend; NULL: as `train` chooses it */
	/* Why there are no figures, or "". refused: the options cannot be combined; otherwise a run
	 * has failed. */
	char why[GT_BENCH_ERROR_LINE_BYTES];
	bool refused;
	/* The parameters, and the memory of each rank, as planned. */
	int64_t parameters;
	uint64_t planned_bytes;
	uint64_t memory_bytes; /* most memory of a rank in the measured steps; 0: not known */
	/* rates: samples per second of all measured steps, sorted after the last round;
	 * rates_unwaited: the same, without the time in which the steps waited for data */
	double *rates, *rates_unwaited;
	int rate_count;
	int64_t tokens_per_sample; /* 0: the samples have no tokens */
	/* sums over the runs, as in struct gt_bench_sample */
	double others_s, idle_s, processors_s;
	/* samples_per_s is the median over the steps, and data_wait the part of the time by which
	 * the median of rates_unwaited is faster */
	struct gt_scaling_run run;
	/* 0: there is no run of one rank to compare with */
	double speed_up;
	/* expected_per_s: samples per second that the machine should give; 0: not known */
	double allreduce_s, expected_per_s;
	enum gt_scaling_verdict verdict; /* if expected_per_s is known */
};

struct gt_bench_train {
	const struct gt_bench_train_cli *cli;
	char *const *more; /* [more_count] options handed on to train */
	int more_count;
	struct gt_bench_train_row *rows;
	int row_count;
	char self[PATH_MAX];     /* this program's file */
	char folder[PATH_MAX];   /* temporary folder of the run directories */
	const atomic_bool *stop; /* the user asks to stop */
	size_t processors;       /* that this process can use */
	size_t gpus;             /* in the list of devices; 0: the device is the CPU */
};

/* ---- train.c ---- */

/* Check the command line, and find this program and the processors or GPUs. `also` has options that
 * may not be handed on to train, ended by NULL; or it is NULL. The caller calls
 * gt_bench_train_close(), also after an error. */
int gt_bench_train_open(struct gt_bench_train *b, const struct gt_cmd_env *env,
    const char *const *also, struct gt_err *err);
void gt_bench_train_close(struct gt_bench_train *b);

/* Append a row to b->rows, which has space for it. mode and amp are indices of the lists of
 * words. */
int gt_bench_train_add_row(
    struct gt_bench_train *b, int mode, int amp, int ranks, struct gt_err *err);

/* ---- train_run.c ---- */

/* Plan the run of a row by `train --dry-run`: set the fields of the plan and run.samples, or why.
 * Errors: those of gt_bench_run(). */
int gt_bench_train_plan(
    const struct gt_bench_train *b, struct gt_bench_train_row *row, struct gt_err *err);

/* Return the command line of `train` for a row, for a shell; the caller frees it. */
char *gt_bench_train_command(
    const struct gt_bench_train *b, const struct gt_bench_train_row *row, struct gt_err *err);

/* Train for some steps, and add their rates to the row; or set row->why. */
int gt_bench_train_run(
    const struct gt_bench_train *b, struct gt_bench_train_row *row, struct gt_err *err);

/* Set *time_s to the seconds of an all-reduce of `bytes` bytes, by `bench allreduce`; 0 with `why`
 * set if it fails. */
int gt_bench_train_allreduce(const struct gt_bench_train *b, int ranks, int64_t bytes,
    double *time_s, char why[GT_BENCH_ERROR_LINE_BYTES], struct gt_err *err);

/* ---- train_print.c ---- */

int gt_bench_train_print(const struct gt_bench_train *b, struct gt_err *err);

#endif
