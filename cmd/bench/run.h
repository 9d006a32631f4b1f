/* run.h - run an operation in a separate process, and measure its time and peak memory. */
#ifndef GT_CMD_BENCH_RUN_H
#define GT_CMD_BENCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { GT_BENCH_ERROR_LINE_BYTES = 200 }; /* size of gt_bench_sample.first_error_line */

struct gt_bench_sample {
	double time_s;
	uint64_t peak_bytes; /* largest resident memory of the process */
	/* The first line that the process wrote to standard error, without "gtrain: error: ". */
	char first_error_line[GT_BENCH_ERROR_LINE_BYTES];
};

/*
 * Run a program in a new process, and wait for its end. `words` is the command line, ended by NULL.
 * words[0] is a path, or a name that is searched in PATH. In the new process, standard output is
 * /dev/null, and no signal is blocked.
 *
 * Set *status to the exit status of the program; 127 if the new process cannot execute the program.
 * If the exit status is 0 and `synced` is not NULL, sync the file with the path `synced` to the
 * disk. The measured time includes the sync.
 *
 * Errors: GT_EIO if no process can be created, if a signal kills the process, or if the file cannot
 * be synced; GT_ENOMEM.
 */
int gt_bench_run(struct gt_bench_sample *out, int *status, char *const *words, const char *synced,
    struct gt_err *err);

/* Measure the time of reading a file from start to end in this process, 1 MiB per read().
 * out->peak_bytes is 0. Errors: GT_EIO, GT_ENOMEM. */
int gt_bench_time_read(struct gt_bench_sample *out, const char *path, struct gt_err *err);

#endif
