/* fault.c - a mapped file that becomes shorter while it is read. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "lib/base/file.h"

/* Only functions that a handler may call, and no memory but the stack. */
static void print_fault(const char *path)
{
	static const char begin[] = "gtrain: error: ",
	                  text[] = GT_MAP_SHRANK "\nhint: " GT_MAP_SHRANK_HINT "\n";
	char line[2048];
	size_t n = sizeof(begin) - 1;

	memcpy(line, begin, n);
	if (path) {
		size_t length = strnlen(path, sizeof(line) - n - sizeof(text) - 4);

		line[n++] = '\'';
		memcpy(line + n, path, length);
		n += length;
		memcpy(line + n, "': ", 3);
		n += 3;
	}
	memcpy(line + n, text, sizeof(text) - 1);
	(void)!write(STDERR_FILENO, line, n + sizeof(text) - 1);
}

/*
 * The system has one way to say that a page of a mapping is no longer in its file: SIGBUS to the
 * thread that reads. There is nothing to go on with, so the handler says why, and ends the process.
 */
static void end_by_fault(int signal_number, siginfo_t *info, void *context)
{
	static atomic_flag ending = ATOMIC_FLAG_INIT;

	(void)context;
	if (info->si_code != BUS_ADRERR) { /* memory that is broken, a bug of ours: as ever */
		signal(signal_number, SIG_DFL);
		raise(signal_number);
		return;
	}
	while (atomic_flag_test_and_set(&ending)) /* another thread, which ends the process */
		pause();
	print_fault(gt_map_path_at(info->si_addr));
	gt_atomic_end_by_fault();
	_exit(GT_EXIT_FAILED);
}

void gt_cmd_watch_mappings(void)
{
	struct sigaction action = { .sa_sigaction = end_by_fault, .sa_flags = SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
