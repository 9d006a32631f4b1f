/* stop.h - a thread that waits for SIGINT and SIGTERM, and stops training. */
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
 * A thread that handles SIGINT and SIGTERM. All other threads block the two signals.
 *
 * A signal handler could interrupt a thread at any point of a computation. With oneDNN 2.6, an
 * interrupt during a matrix product left a corrupted heap. A thread, unlike a handler, may also
 * take locks. Before the thread ends the process, it calls gt_atomic_end() (lib/base/file.h). If
 * a file is being edited in place, gt_atomic_end() waits until the edit is complete. Then
 * gt_atomic_end() removes temporary files.
 */
struct gt_stop {
	atomic_bool
	    stop_requested; /* request to stop; set by the first signal if `graceful` is true */
	/* true: the first signal sets `stop_requested`, and a later signal ends the process, but
	 * signals within 0.1 s of the first one are ignored. false: the first signal ends the
	 * process. */
	atomic_bool graceful;
	/* Output: the signal that set `stop_requested`, or 0. Also 0 if the launcher sent the
	 * signal because a rank was lost. */
	atomic_int asked;
	/* Receives a message when the first signal sets `stop_requested`, unless the launcher sent
	 * this signal because a rank was lost. Also receives a warning when a later signal ends the
	 * process, which names the last checkpoint. The caller sets this pointer before the
	 * training loop begins. NULL: no messages. */
	struct gt_log *log;
	_Atomic int64_t saved_step; /* steps done at the last checkpoint; 0: there is none */
	/* true: the thread returns at the next signal. gt_stop_release() sets this, then sends a
	 * signal. */
	atomic_bool ending;
	pthread_t thread;
	sigset_t before; /* the caller's signal mask before gt_stop_listen() */
};

/* Block SIGINT and SIGTERM, set `graceful` to false, and start the thread. Call this before any
 * other thread starts, because new threads inherit the signal mask. Errors: GT_ENOMEM. */
int gt_stop_listen(struct gt_stop *s, struct gt_err *err);

/* Return an observer that sets `graceful` when the training loop begins, and keeps `saved_step`.
 * Before the loop, a signal ends the process at once, because no code reads `stop_requested`, and
 * the process may be waiting without a time limit. */
struct gt_observer gt_stop_observer(struct gt_stop *s);

/* End the thread, and restore the signal mask. */
void gt_stop_release(struct gt_stop *s);

#endif
