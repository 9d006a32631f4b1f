/* stop.h - SIGINT and SIGTERM, heard by a thread of their own. */
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
 * A handler would run on whichever thread computes, and runs stopped inside oneDNN 2.6's products
 * were seen to end with a corrupted heap. So every thread blocks the two signals, but for one that
 * waits for them. That thread may also take locks. Before it ends the process, it removes temporary
 * files that are being written, or waits until a change in place is whole.
 */
struct gt_stop {
	atomic_bool asked;  /* by a first signal while `polite` */
	atomic_bool polite; /* false: a signal ends the process at once */
	struct gt_log *log; /* hears of the first signal; set before `polite` */
	atomic_bool ending; /* the signal that comes next is gt_stop_release()'s own */
	pthread_t thread;
	sigset_t before; /* the caller's signal mask */
};

/* Listen; not yet polite. Call it before any other thread starts: they inherit the mask. */
int gt_stop_listen(struct gt_stop *s, struct gt_err *err);

/* Sets `polite` when the training loop begins. Before that nothing reads `asked`, and a wait
 * may never end, so a signal ends the process. */
struct gt_observer gt_stop_observer(struct gt_stop *s);
void gt_stop_release(struct gt_stop *s);

#endif
