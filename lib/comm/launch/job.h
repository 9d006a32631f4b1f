/* job.h - private: the launcher's data about a job, its ranks and their output. */
#ifndef GT_COMM_LAUNCH_JOB_H
#define GT_COMM_LAUNCH_JOB_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "lib/base/progress.h"
#include "lib/comm/launch/launch.h"

enum {
	GT_LAST_LINES = 10,       /* lines kept for each rank */
	GT_LAST_LINE_BYTES = 512, /* bytes kept of each */
	GT_LINE_BYTES = 8192      /* longer lines are printed in parts */
};

/* The standard error of one rank, copied to its log file and to the launcher's. */
struct gt_lines {
	int from;                 /* read end of the pipe from the rank; -1: closed */
	int to;                   /* file descriptor of the rank's log file; -1: none */
	struct gt_log *show;      /* prints the lines; NULL: none does */
	struct gt_log *log;       /* errors in writing the log file */
	char before[24];          /* prefix of each printed line: "rank 3: " or "" */
	char line[GT_LINE_BYTES]; /* the current line, which is not complete yet */
	size_t used;              /* bytes in `line` */
	/* a line that begins with a carriage return is a progress line (lib/base/progress.h) */
	bool may_draw;
	bool drawing; /* the current line is a progress line */
	/* complete line k is last[k % GT_LAST_LINES] */
	char last[GT_LAST_LINES][GT_LAST_LINE_BYTES];
	size_t count; /* number of complete lines so far */
};

/* Read the bytes in the pipe. Close it at its end, or if `last`: the rank has ended. */
void gt_lines_read(struct gt_lines *lines, bool last);

/* Print the kept lines, each with the prefix "rank N: ". */
void gt_lines_repeat(const struct gt_lines *lines, int rank, struct gt_log *log);

/* Has the rank written an error (GT_LAUNCH_ERROR)? Are the lines of two ranks from there on the
 * same? */
bool gt_lines_has_error(const struct gt_lines *lines);
bool gt_lines_same_error(const struct gt_lines *a, const struct gt_lines *b);

/* Write out an incomplete line, and close the files. */
void gt_lines_close(struct gt_lines *lines);

/* The process of a rank. */
struct gt_launched {
	pid_t pid;  /* 0: the process has ended */
	int report; /* read end of a pipe for exec()'s errno; -1: closed */
	int input;  /* write end of the pipe to a rank on another host; -1: none */
	struct gt_lines lines;
};

/* A job. Times are values of gt_clock_s(). */
struct gt_launch {
	const struct gt_launch_options *options;
	int restart;              /* restarts so far */
	struct gt_launched *rank; /* [nproc] */
	int alive;                /* ranks that run */
	int first, status;        /* the first rank that failed, or -1; its exit status */
	siginfo_t first_end;      /* its end, not reported yet */
	/* the first rank that exited with GT_LAUNCH_FOLLOWS, or -1 */
	int follower;
	bool in_vain;      /* a rank has exited with GT_LAUNCH_IN_VAIN */
	bool left_behind;  /* a rank was killed and does not end */
	int asked;         /* the first signal to end the job; 0: none */
	int stop_requests; /* signals to end the job */
	/* the last one counted; within 0.1 s it may be the same request, sent twice */
	double last_request_s;
	/* when ranks that still run get SIGTERM, after the first has ended with an error or
	 * GT_LAUNCH_FOLLOWS; 0: never */
	double ask_at;
	/* when ranks that still run are killed; 0: never */
	double kill_at;
	int signals; /* signalfd() */
	/* the blocked signals; the mask to restore */
	sigset_t caught, old_mask;
	struct sigaction old_child; /* the handling of SIGCHLD to restore */
	/* rank 0's progress line, erased before another line is printed */
	struct gt_progress drawing;
};

/* Block the signals that the launcher handles, and open launch->signals. */
int gt_launch_take_signals(struct gt_launch *launch, struct gt_err *err);

/* Undo gt_launch_take_signals(). */
void gt_launch_give_back_signals(struct gt_launch *launch);

/* Start all ranks. On failure, earlier ranks may already run. */
int gt_launch_start(struct gt_launch *launch, struct gt_err *err);

/* Fail if a rank's exec() has failed. */
int gt_launch_read_report(struct gt_launch *launch, int rank, struct gt_err *err);

/* Watch the ranks until all have ended or were left behind. `failed`: kill them first. */
int gt_launch_watch(struct gt_launch *launch, bool failed, struct gt_err *err);

/* ---- hosts.c ---- */

/* A rank on another host. */
struct gt_remote_rank {
	int rank, host, local_rank; /* `host` is an index in options->hosts */
	int port, restart;
};

/* Set the host and the local rank of r->rank. */
void gt_launch_find_remote(struct gt_remote_rank *r, const struct gt_launch_options *o);

/* Return the command that a shell on the rank's host runs, which reads the secret from its standard
 * input, and ends the rank at the end of that. The caller frees it. */
char *gt_launch_remote_command(
    const struct gt_launch_options *o, const struct gt_remote_rank *r, struct gt_err *err);

/* Write a word in quotes for a shell. */
void gt_launch_quote(FILE *out, const char *word);

/* The processors and threads of one rank. */
struct gt_share {
	int threads;   /* value of OMP_NUM_THREADS; 0: do not set it */
	bool bound;    /* bind the rank to the processors in `set` */
	cpu_set_t set; /* valid if `bound` */
};

/* Divide the processors: share[nproc], zeroed for one rank or if OMP_NUM_THREADS is set. */
int gt_launch_share(struct gt_share *share, int nproc, struct gt_err *err);

/* Values of a rank's variables; `threads` or `columns` 0: the variable is not set. */
struct gt_rank_env {
	int rank, size, port, restart, listen_fd, threads, columns;
	const char *secret;
};

/* Copy the environment with the variables of a rank. Free it with gt_launch_free_environment(). */
char **gt_launch_environment(const struct gt_rank_env *rank, struct gt_err *err);
void gt_launch_free_environment(char **env);

#endif
