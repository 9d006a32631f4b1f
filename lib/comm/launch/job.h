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

/* Standard error of one rank on its way to where it belongs. */
struct gt_lines {
	int from;                 /* a pipe; -1: closed */
	int to;                   /* the rank's log, or -1 */
	struct gt_log *show;      /* lines go here too, or NULL */
	struct gt_log *log;       /* for errors of the log itself */
	char before[24];          /* of each line shown: "rank 3: " or "" */
	char line[GT_LINE_BYTES]; /* the line that is not complete yet */
	size_t used;
	bool may_draw; /* a line that begins with a carriage return is a drawing .. */
	bool drawing;  /* .. as is the one that is not complete */
	char last[GT_LAST_LINES][GT_LAST_LINE_BYTES]; /* a ring, of `count` lines in all */
	size_t count;
};

/* Read the bytes that have arrived; close at the end of the pipe, or with `last`, when the rank has
 * ended. */
void gt_lines_read(struct gt_lines *lines, bool last);

/* The last lines, after "rank N: ", to `log`. */
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
	int alive;                /* ranks */
	int first, status;        /* the first rank that failed, or -1, and how */
	int asked;                /* how often we were told to end */
	double asked_at;          /* the first time */
	double kill_at;           /* when patience ends; 0: it doesn't */
	int signals;              /* a signalfd */
	sigset_t caught, old_mask;
	struct sigaction old_child;
	struct gt_progress
	    drawing; /* rank 0 has drawn something: its log erases it before a line */
};

/* Take the signals for a file descriptor, and give them back. */
int gt_launch_take_signals(struct gt_launch *launch, struct gt_err *err);
void gt_launch_give_back_signals(struct gt_launch *launch);

/* Start all ranks; on failure those that run are in rank[]. */
int gt_launch_start(struct gt_launch *launch, struct gt_err *err);

/* Until all have ended; `failed`: begin with killing them. */
int gt_launch_watch(struct gt_launch *launch, bool failed, struct gt_err *err);

/* The processors and threads of a rank. */
struct gt_share {
	int threads; /* for OMP_NUM_THREADS; 0: leave it */
	bool bound;  /* to .. */
	cpu_set_t set;
};

/* Shares for all ranks. */
int gt_launch_share(struct gt_share *share, int nproc, struct gt_err *err);

/* Our environment with a rank's variables in it: yours to free, with all strings, by the next. */
struct gt_rank_env {
	int rank, size, port, restart, listen_fd, threads, columns;
	const char *secret;
};
char **gt_launch_environment(const struct gt_rank_env *rank, struct gt_err *err);
void gt_launch_free_environment(char **env);

#endif
