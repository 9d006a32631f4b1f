/* stop.c - a thread that waits for SIGINT, SIGTERM and SIGHUP. */
#include "cmd/stop.h"

#include <string.h>

#include "cmd/cmd.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/thread_pool.h"
#include "lib/comm/launch/launch.h"

/* A signal may come twice, from the terminal and from timeout(1) or a shell; it counts once. */
#define TWICE_S 0.1

/* Under nohup(1), SIGHUP is ignored, and stays so. */
static void choose_signals(sigset_t *set)
{
	struct sigaction hangup;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
}

/* Files that are being written leave nothing, one that changes in place is old or new. */
static void end_process(int signal_number)
{
	gt_atomic_end();
	gt_cmd_end_by_signal(signal_number);
}

static void warn_of_loss(struct gt_stop *s)
{
	long long step = s->saved_step;

	if (!s->log)
		return;
	if (step)
		gt_log_warn(s->log,
		    "stopped at once: nothing was saved since the checkpoint of step %lld", step);
	else
		gt_log_warn(s->log, "stopped at once: nothing was saved");
}

/* Request the stop, as the first signal does. */
static void ask(struct gt_stop *s, const siginfo_t *info)
{
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == GT_LAUNCH_RANK_LOST)
		return;
	s->asked = info->si_signo;
	if (s->log)
		gt_log_info(s->log, "stopping after this step; a second signal stops at once");
}

static void *wait_for_signals(void *context)
{
	struct gt_stop *s = context;
	double first = 0;
	siginfo_t info;
	int signal_number;

	for (;;) {
		signal_number = sigwaitinfo(&s->signals, &info);
		if (signal_number < 0)
			continue;
		if (s->ending)
			return NULL;
		if (!s->graceful)
			end_process(signal_number);
		if (!atomic_exchange(&s->stop_requested, true)) {
			first = gt_clock_s();
			ask(s, &info);
		} else if (gt_clock_s() - first > TWICE_S) {
			warn_of_loss(s);
			end_process(signal_number);
		}
	}
}

/*
 * The signals are handled by a thread. A signal handler could interrupt a thread at any point of a
 * computation. With oneDNN 2.6, an interrupt during a matrix product left a corrupted heap. A
 * thread, unlike a handler, may also take locks. Before the thread ends the process, it calls
 * gt_atomic_end() (lib/base/file.h). If a file is being edited in place, gt_atomic_end() waits
 * until the edit is complete. Then gt_atomic_end() removes temporary files.
 */
int gt_stop_listen(struct gt_stop *s, struct gt_err *err)
{
	int failed;

	*s = (struct gt_stop){ 0 };
	choose_signals(&s->signals);
	pthread_sigmask(SIG_BLOCK, &s->signals, &s->before);
	failed = pthread_create(&s->thread, NULL, wait_for_signals, s);
	if (!failed)
		return 0;
	pthread_sigmask(SIG_SETMASK, &s->before, NULL);
	return gt_thread_fail(err, failed, "cannot start a thread");
}

static int loop_begins(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_stop *s = self;

	(void)err;
	s->saved_step = r->step;
	s->graceful = true;
	return 0;
}

static int checkpoint_saved(void *self, int64_t step, const char *path, struct gt_err *err)
{
	struct gt_stop *s = self;

	(void)path;
	(void)err;
	s->saved_step = step;
	return 0;
}

struct gt_observer gt_stop_observer(struct gt_stop *s)
{
	return (struct gt_observer){ .self = s, .start = loop_begins, .saved = checkpoint_saved };
}

void gt_stop_release(struct gt_stop *s)
{
	s->ending = true;
	pthread_kill(s->thread, SIGTERM);
	pthread_join(s->thread, NULL);
	pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}
