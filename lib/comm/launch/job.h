/* job.h - private: the launcher's data about a job, its ranks and their output. */
#ifndef GT_COMM_LAUNCH_JOB_H
#define GT_COMM_LAUNCH_JOB_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/progress.h"
#include "lib/comm/launch/launch.h"

enum {
	GT_LAST_LINES = 10,       /* number of last lines kept for each rank */
	GT_LAST_LINE_BYTES = 512, /* bytes kept of each of these lines, including the zero */
	GT_LINE_BYTES = 8192      /* longest printed line; longer lines are printed in parts */
};

/* The standard error of one rank. The launcher reads it and copies it to the rank's log file and to
 * the launcher's standard error. */
struct gt_lines {
	int from;                 /* read end of the pipe from the rank; -1: closed */
	int to;                   /* file descriptor of the rank's log file; -1: none */
	struct gt_log *show;      /* log to which lines are printed; NULL: do not print them */
	struct gt_log *log;       /* log for errors in writing the log file */
	char before[24];          /* prefix of each printed line: "rank 3: " or "" */
	char line[GT_LINE_BYTES]; /* the current line, which is not complete yet */
	size_t used;              /* bytes in `line` */
	/* true: a line that begins with a carriage return is a progress line
	 * (lib/base/progress.h) */
	bool may_draw;
	bool drawing; /* the current line is a progress line */
	/* the last complete lines: line k, counted from 0, is last[k % GT_LAST_LINES] */
	char last[GT_LAST_LINES][GT_LAST_LINE_BYTES];
	size_t count; /* number of complete lines so far */
};

/* Read the bytes that have arrived in the pipe. If its end is reached, close it. If `last` is set,
 * the rank has ended; then close the pipe in any case. */
void gt_lines_read(struct gt_lines *lines, bool last);

/* Print the last lines of the rank, which `lines` has kept, to `log`. Each line gets the prefix
 * "rank N: ". */
void gt_lines_repeat(const struct gt_lines *lines, int rank, struct gt_log *log);

/* Return whether both ranks have written an error (GT_LAUNCH_ERROR), and whether the lines from the
 * last error on are the same. The first function asks it of one rank. */
bool gt_lines_has_error(const struct gt_lines *lines);
bool gt_lines_same_error(const struct gt_lines *a, const struct gt_lines *b);

/* Write out the current line, even if it is not complete, and close the pipe and the log file. */
void gt_lines_close(struct gt_lines *lines);

/* The process of a rank. */
struct gt_launched {
	pid_t pid;  /* 0: the process has ended */
	int report; /* read end of a pipe that exec() closes, or that gives its errno; -1: closed */
	struct gt_lines lines;
};

/* A job. Times are values of gt_clock_s(). */
struct gt_launch {
	const struct gt_launch_options *options;
	int restart;              /* number of restarts so far */
	struct gt_launched *rank; /* [nproc] */
	int alive;                /* number of ranks that run */
	int first, status;        /* the first rank that failed, or -1; its exit status */
	siginfo_t first_end;      /* how this rank ended, until that is reported */
	/* the first rank that exited with GT_LAUNCH_FOLLOWS, so another rank has failed; or -1 */
	int follower;
	bool in_vain;     /* a rank has exited with GT_LAUNCH_IN_VAIN: a restart would fail again */
	bool left_behind; /* a rank was killed and does not end */
	int asked;        /* the first signal that requested the end of the job; 0: none */
	int stop_requests; /* number of received signals that request the end of the job */
	/* time of the last signal that was counted in `stop_requests`; a signal within 0.1 s after
	 * it is not counted, because it may be the same request, sent twice */
	double last_request_s;
	/* time at which the ranks that still run get SIGTERM. It is set when the first rank exits
	 * with GT_LAUNCH_FOLLOWS, to wait for a rank that fails by itself, and when the first rank
	 * ends with an error that it has written, as other ranks may find the same error. 0: never.
	 */
	double ask_at;
	/* time at which the ranks that still run are killed; 0: never. If a second signal requests
	 * the end of the job, they are killed at once, and those that still run at kill_at get
	 * SIGKILL once more. */
	double kill_at;
	int signals; /* file descriptor of signalfd(), from which signals are read */
	/* the signals that are blocked and read from `signals`; the signal mask to restore at the
	 * end */
	sigset_t caught, old_mask;
	struct sigaction old_child; /* the handling of SIGCHLD, to be restored at the end */
	/* the progress line of rank 0, which is erased before another line is printed */
	struct gt_progress drawing;
};

/* Block the signals that the launcher handles, and open launch->signals to read them. */
int gt_launch_take_signals(struct gt_launch *launch, struct gt_err *err);

/* Undo gt_launch_take_signals(). */
void gt_launch_give_back_signals(struct gt_launch *launch);

/* Start all ranks; they may not have called exec() yet. If the start of a rank fails, earlier ranks
 * may already run; launch->rank has their process ids. */
int gt_launch_start(struct gt_launch *launch, struct gt_err *err);

/* Read whether a rank has become the program: fail if its exec() has failed, succeed if exec() has
 * succeeded or has not returned yet. */
int gt_launch_read_report(struct gt_launch *launch, int rank, struct gt_err *err);

/* Watch the ranks until all have ended. `failed`: gt_launch_start() has failed, so kill all ranks
 * first. A rank that does not end within 10 seconds after it was killed is left behind. */
int gt_launch_watch(struct gt_launch *launch, bool failed, struct gt_err *err);

/* The processors and threads of one rank. */
struct gt_share {
	int threads;   /* value of OMP_NUM_THREADS; 0: do not set it */
	bool bound;    /* bind the rank to the processors in `set` */
	cpu_set_t set; /* valid if `bound` */
};

/* Divide the processors among nproc ranks: write share[nproc]. If there is only one rank, or if
 * OMP_NUM_THREADS is set, all shares are zeroed. */
int gt_launch_share(struct gt_share *share, int nproc, struct gt_err *err);

/* Values of the environment variables of one rank: RANK, WORLD_SIZE, MASTER_PORT, GTRAIN_RESTART,
 * GTRAIN_LISTEN_FD, OMP_NUM_THREADS, GTRAIN_COLUMNS and GTRAIN_SECRET, in the order of the members.
 * 0 in `threads` or `columns` means that the variable is not set. */
struct gt_rank_env {
	int rank, size, port, restart, listen_fd, threads, columns;
	const char *secret;
};

/* Return a copy of this process's environment with the variables of a rank. The caller frees it
 * with gt_launch_free_environment(). Returns NULL on failure. */
char **gt_launch_environment(const struct gt_rank_env *rank, struct gt_err *err);
void gt_launch_free_environment(char **env);

#endif
