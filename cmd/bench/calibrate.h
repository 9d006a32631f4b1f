/* calibrate.h - private to bench calibrate: its measurements, by processes of this program. */
#ifndef GT_CMD_BENCH_CALIBRATE_H
#define GT_CMD_BENCH_CALIBRATE_H

#include <limits.h>

#include "cmd/bench/options.h"
#include "cmd/bench/run.h"

struct gt_bench_calibrate {
	const struct gt_bench_calibrate_cli *cli;
	char self[PATH_MAX];     /* this program's file */
	char folder[PATH_MAX];   /* temporary folder of the run directories */
	const atomic_bool *stop; /* the user asks to stop */
	bool host;               /* the device is a CPU */
	char threads[24];        /* of a rank */
	/* ranks of a CPU with processors of their own, and their threads; 1: ops are measured on
	 * one rank only */
	int busy_ranks;
	char busy_threads[24];
	json_t *out; /* the file's content (lib/plan/calibration.h) */
};

/* calibrate_ops.c: check the model and the data of the command line, before rates are measured for
 * them. */
int gt_bench_calibrate_check(const struct gt_bench_calibrate *b, struct gt_err *err);

/* calibrate_rates.c: measure products, copies and all-reduces, and add them to b->out. Errors:
 * GT_EIO with the reason if a process fails. */
int gt_bench_calibrate_rates(struct gt_bench_calibrate *b, struct gt_log *log, struct gt_err *err);

/* calibrate_ops.c: train, and add to b->out the factor of each op: its time as a part of the time
 * that the rates in b->out give, alone and with b->busy_ranks ranks at work. */
int gt_bench_calibrate_ops(struct gt_bench_calibrate *b, struct gt_log *log, struct gt_err *err);

#endif
