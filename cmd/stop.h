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
 * take locks. Before it ends the process, it calls gt_atomic_end() (lib/base/file.h): this waits
 * until a change of a file in place is complete, and removes temporary files.
 */
struct gt_stop {
	/* request to stop; set by the first signal if `graceful` is true */
	atomic_bool stop_requested;
	/* true: the first signal sets `stop_requested`, and a later signal ends the process. false:
	 * the first signal ends the process. */
	atomic_bool graceful;
	struct gt_log *log; /* log of the message about the first signal; set before `graceful` */
	atomic_bool ending; /* set by gt_stop_release(): the next signal ends the thread */
	pthread_t thread;
	sigset_t before; /* signal mask of the thread that called gt_stop_listen() */
};

/* Block the two signals, and start the thread, with `graceful` false. Call this before any other
 * thread starts, because new threads inherit the signal mask. Errors: GT_ENOMEM. */
int gt_stop_listen(struct gt_stop *s, struct gt_err *err);

/* Return an observer that sets `graceful` when the training loop begins. Before that, no code reads
 * `stop_requested`, and the process may wait without a time limit. So a signal ends the process at
 * once. */
struct gt_observer gt_stop_observer(struct gt_stop *s);

/* End the thread, and restore the signal mask. */
void gt_stop_release(struct gt_stop *s);

#endif
