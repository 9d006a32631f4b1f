/* run.h - run an operation in a separate process, and measure its time and peak memory. */
#ifndef GT_CMD_BENCH_RUN_H
#define GT_CMD_BENCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { GT_BENCH_ERROR_LINE_BYTES = 200 }; /* bytes of an error's first line */

struct gt_bench_sample {
	double time_s;
	uint64_t peak_bytes; /* largest resident memory of the process */
	/* The first line that the process wrote to standard error, without "gtrain: error: ". */
	char first_error_line[GT_BENCH_ERROR_LINE_BYTES];
};

/* Run the command line `words`, ended by NULL, with standard output discarded. *status is its exit
 * status, or 127 if it cannot be executed. After success, sync the file `synced`, if not NULL,
 * within the measured time. */
int gt_bench_run(struct gt_bench_sample *out, int *status, char *const *words, const char *synced,
    struct gt_err *err);

/* Measure the time of reading a file in this process. out->peak_bytes is 0. */
int gt_bench_time_read(struct gt_bench_sample *out, const char *path, struct gt_err *err);

#endif
