/* run.h - run an operation in a process of its own, and measure its time and largest memory. */
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
 * Run `words` (ended by NULL; the first is looked for in PATH, or is a path) with standard output
 * to /dev/null, and no signal blocked. If `synced` is not NULL, the time includes an fsync() of the
 * file of this path. *status becomes the exit status. Errors: GT_EIO if the process cannot be
 * started or is killed by a signal.
 */
int gt_bench_run(struct gt_bench_sample *out, int *status, char *const *words, const char *synced,
    struct gt_err *err);

/* Read a file from start to end in pieces of a MiB. */
int gt_bench_read(struct gt_bench_sample *out, const char *path, struct gt_err *err);

#endif
