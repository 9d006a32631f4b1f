/* fault.c - a mapped file that becomes shorter while it is read. */
#include <signal.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "lib/base/file.h"

/*
 * The system has one way to say that a page of a mapping is no longer in its file: SIGBUS to the
 * thread that reads. There is nothing to go on with, so the handler says why, and ends the process.
 */
static void end_by_fault(int signal_number, siginfo_t *info, void *context)
{
	static const char text[] =
	    "gtrain: error: " GT_MAP_SHRANK "\nhint: " GT_MAP_SHRANK_HINT "\n";

	(void)context;
	if (info->si_code != BUS_ADRERR) { /* memory that is broken, a bug of ours: as ever */
		signal(signal_number, SIG_DFL);
		raise(signal_number);
		return;
	}
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	gt_atomic_end_by_fault();
	_exit(GT_EXIT_FAILED);
}

void gt_cmd_watch_mappings(void)
{
	struct sigaction action = { .sa_sigaction = end_by_fault, .sa_flags = SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
