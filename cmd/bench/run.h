/* run.h - one operation as a process of its own: how long it takes and its largest memory. */
#ifndef GT_CMD_BENCH_RUN_H
#define GT_CMD_BENCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { GT_BENCH_SAID = 200 };

struct gt_bench_sample {
	double time_s;
	uint64_t peak_bytes;      /* the largest resident memory of the process */
	char said[GT_BENCH_SAID]; /* the first line of its standard error */
};

/*
 * Run `words` (ended by NULL; the first is looked for in PATH, or is a path) with its standard
 * output thrown away, and no signal blocked. With `synced`, the file of that path is brought to the
 * disk before the clock stops. *status gets the exit status. Errors: GT_EIO when it cannot be
 * started or dies by a signal.
 */
int gt_bench_run(struct gt_bench_sample *out, int *status, char *const *words, const char *synced,
    struct gt_err *err);

/* Read a file from start to end in pieces of a MiB. */
int gt_bench_read(struct gt_bench_sample *out, const char *path, struct gt_err *err);

#endif
