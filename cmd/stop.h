/* stop.h - a thread that waits for SIGINT, SIGTERM and SIGHUP, and stops training. */
#ifndef GT_CMD_STOP_H
#define GT_CMD_STOP_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/train/report/observer.h"

/* A thread that handles SIGINT, SIGTERM and SIGHUP, which all other threads block. */
struct gt_stop {
	atomic_bool stop_requested; /* set by the first signal if `graceful` */
	/* The first signal only requests a stop, and one more than 0.1 s later ends the process;
	 * otherwise the first one ends it. */
	atomic_bool graceful;
	/* output: the signal that set `stop_requested`; 0: none, or sent as a rank was lost */
	atomic_int asked;
	/* for messages; set before the training loop begins; NULL: none */
	struct gt_log *log;
	_Atomic int64_t saved_step; /* step of the last checkpoint; 0: there is none */
	atomic_bool ending;         /* the thread returns at the next signal */
	pthread_t thread;
	sigset_t signals; /* that it waits for */
	sigset_t before;  /* the caller's signal mask before gt_stop_listen() */
};

/* Block the signals and start the thread, before any other thread inherits the signal mask. */
int gt_stop_listen(struct gt_stop *s, struct gt_err *err);

/* Return an observer that sets `graceful` when the training loop begins, and keeps `saved_step`. */
struct gt_observer gt_stop_observer(struct gt_stop *s);

/* End the thread, and restore the signal mask. */
void gt_stop_release(struct gt_stop *s);

#endif
