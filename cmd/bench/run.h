/* run.h - run an operation in a separate process, and measure its time and peak memory. */
#ifndef GT_CMD_BENCH_RUN_H
#define GT_CMD_BENCH_RUN_H

#include <jansson.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/cmd.h"
#include "lib/base/err.h"

enum { GT_BENCH_ERROR_LINE_BYTES = 200 }; /* bytes of an error's first line */

struct gt_bench_sample {
	double time_s;
	uint64_t peak_bytes; /* largest resident memory of the process */
	/* Seconds of all processors of the machine during the run: in other programs, idle, and all
	 * together; 0: not known. */
	double others_s, idle_s, processors_s;
	/* The line of the error that the process wrote to standard error, without "gtrain: error:
	 * "; if there is none, the first line. */
	char error_line[GT_BENCH_ERROR_LINE_BYTES];
};

struct gt_bench_process {
	char *const *words; /* the command line, ended by NULL */
	const char *synced; /* a file to sync within the measured time; NULL: none */
	int stdout_fd;      /* the standard output of the process; -1: it is discarded */
	/* When this becomes true, end the process, and return GT_EIO; NULL: never. */
	const atomic_bool *stop;
};

/* Run a process until it ends. *status is its exit status, or 127 if it cannot be executed. If this
 * process dies, so does the other. */
int gt_bench_run(struct gt_bench_sample *out, int *status, const struct gt_bench_process *process,
    struct gt_err *err);

/* Run a process, and parse the JSON document that it prints. If it fails, *out is NULL, and `why`
 * has the reason of gt_bench_note_failure(). Errors: those of gt_bench_run(). */
int gt_bench_run_json(json_t **out, int *status, char *const *words, const atomic_bool *stop,
    char why[GT_BENCH_ERROR_LINE_BYTES], struct gt_err *err);

/* Make an empty folder for temporary files in `dir`, or, if that is NULL, in TMPDIR or /tmp.
 * Errors: GT_EIO. */
int gt_bench_make_folder(char out[PATH_MAX], const char *dir, struct gt_err *err);

/* A measurement that a signal can stop. */
struct gt_bench_work {
	char *folder;    /* [PATH_MAX]; measure() finds the path of an empty folder here */
	const char *dir; /* where that is made, as by gt_bench_make_folder() */
	/* measure() finds a flag here that a signal sets */
	const atomic_bool **stop;
	int (*measure)(void *self, struct gt_log *log, struct gt_err *err);
	void *self;
};

/* Call measure(), and remove its folder. *done is set if it succeeds. A signal that it heeds is no
 * error: the program ends by the signal after the command (env->asked). Errors: GT_EIO; those of
 * measure(). */
int gt_bench_measure(
    bool *done, const struct gt_bench_work *work, struct gt_cmd_env *env, struct gt_err *err);

/* Write the reason why a process has failed: its error, or its exit status. */
void gt_bench_note_failure(char why[GT_BENCH_ERROR_LINE_BYTES], const char *error_line, int status);

/* Measure the time of reading a file in this process. out->peak_bytes is 0. */
int gt_bench_time_read(struct gt_bench_sample *out, const char *path, struct gt_err *err);

#endif
