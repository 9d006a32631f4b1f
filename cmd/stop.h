/* stop.h - a thread that waits for SIGINT and SIGTERM. */
#ifndef GT_CMD_STOP_H
#define GT_CMD_STOP_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/train/report/observer.h"

/*
 * A signal handler would interrupt any thread that computes. A thread that was interrupted inside a
 * product of oneDNN 2.6 left a corrupted heap. So all threads block the two signals, except one
 * thread that waits for them. Unlike a handler, this thread may also take locks. Before it ends the
 * process, it removes temporary files that are being written, or waits until a change in place is
 * whole.
 */
struct gt_stop {
	atomic_bool asked;  /* set by the first signal while `polite` */
	atomic_bool polite; /* false: a signal ends the process at once */
	struct gt_log *log; /* the first signal is logged here; set before `polite` */
	atomic_bool ending; /* the next signal comes from gt_stop_release() */
	pthread_t thread;
	sigset_t before; /* the caller's signal mask */
};

/* Start the thread, with `polite` false. Call this before any other thread starts, because threads
 * inherit the signal mask. */
int gt_stop_listen(struct gt_stop *s, struct gt_err *err);

/* Sets `polite` when the training loop begins. Before that no loop reads `asked`, and a wait may
 * never end, so a signal ends the process at once. */
struct gt_observer gt_stop_observer(struct gt_stop *s);
void gt_stop_release(struct gt_stop *s);

#endif
