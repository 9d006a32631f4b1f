/* job.h - inside comm: a job that the launcher has started. */
#ifndef GT_COMM_LAUNCH_JOB_H
#define GT_COMM_LAUNCH_JOB_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/progress.h"
#include "lib/comm/launch/launch.h"

enum { GT_LAST_LINES = 10, GT_LAST_LINE_BYTES = 512, GT_LINE_BYTES = 8192 };

/* The standard error of one rank: the launcher reads it and copies it to the rank's log and to its
 * own log. */
struct gt_lines {
	int from;                 /* a pipe; -1: closed */
	int to;                   /* the rank's log, or -1 */
	struct gt_log *show;      /* lines are also printed here; or NULL */
	struct gt_log *log;       /* for errors in writing the rank's log */
	char before[24];          /* put before each printed line: "rank 3: " or "" */
	char line[GT_LINE_BYTES]; /* the line that is not complete yet */
	size_t used;
	bool may_draw; /* a line that begins with a carriage return is a progress line .. */
	bool drawing;  /* .. and the incomplete line is one */
	/* the last lines, overwritten in a circle; `count` counts all lines */
	char last[GT_LAST_LINES][GT_LAST_LINE_BYTES];
	size_t count;
};

/* Read the bytes that have arrived. Close the pipe at its end, or with `last`, which is set when
 * the rank has ended. */
void gt_lines_read(struct gt_lines *lines, bool last);

/* Print the last lines to `log`, each after "rank N: ". */
void gt_lines_repeat(const struct gt_lines *lines, int rank, struct gt_log *log);

void gt_lines_close(struct gt_lines *lines);

struct gt_launched {
	pid_t pid; /* 0: has ended */
	struct gt_lines lines;
};

struct gt_launch {
	const struct gt_launch_options *options;
	int restart;
	struct gt_launched *rank; /* [nproc] */
	int alive;                /* ranks that run */
	int first, status;        /* the first rank that failed, or -1, and its exit status */
	int asked;                /* number of signals that asked the launcher to end */
	double asked_at;          /* time of the first of these signals */
	double kill_at;           /* time at which the remaining ranks are killed; 0: never */
	int signals;              /* a signalfd */
	sigset_t caught, old_mask;
	struct sigaction old_child;
	/* the progress line of rank 0, which is erased before another line is printed */
	struct gt_progress drawing;
};

/* Block signals and read them from a file descriptor; restore the old mask. */
int gt_launch_take_signals(struct gt_launch *launch, struct gt_err *err);
void gt_launch_give_back_signals(struct gt_launch *launch);

/* Start all ranks. After a failure, rank[] holds the ranks that run. */
int gt_launch_start(struct gt_launch *launch, struct gt_err *err);

/* Watch the ranks until all have ended. With `failed`, kill them first. */
int gt_launch_watch(struct gt_launch *launch, bool failed, struct gt_err *err);

/* The processors and threads of a rank. */
struct gt_share {
	int threads; /* value of OMP_NUM_THREADS; 0: do not set it */
	bool bound;  /* bind the rank to the processors in `set` */
	cpu_set_t set;
};

/* Divide the processors among share[nproc]. */
int gt_launch_share(struct gt_share *share, int nproc, struct gt_err *err);

/* This process's environment with the variables of a rank added; free it with
 * gt_launch_free_environment(). */
struct gt_rank_env {
	int rank, size, port, restart, listen_fd, threads, columns;
	const char *secret;
};
char **gt_launch_environment(const struct gt_rank_env *rank, struct gt_err *err);
void gt_launch_free_environment(char **env);

#endif
