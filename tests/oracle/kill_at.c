/* kill_at.c - kill_at [-TERM] FILE N COMMAND ...: kill a command before its N-th system call. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Calls count from the one that first opens FILE, which is number 1: the calls of a starting
 * program touch nothing. Exit status: 0 when it was killed (the number of the system call goes to
 * standard output), 3 when it ended before by itself with status 0, 1 otherwise. With -TERM it gets
 * SIGTERM instead, and goes on: 0, too, if that ends it, or if it ends by itself with status 0.
 *
 * Only the first thread's calls are counted. So the command gets one processor: it then shares its
 * work with no other thread, and makes the same calls each time.
 */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The first of the processors that this one may use, alone. */
static void use_one_processor(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		die("sched_getaffinity");
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity");
}

static void start(char **command)
{
	use_one_processor();
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		die("PTRACE_TRACEME");
	raise(SIGSTOP);
	execvp(command[0], command);
	die(command[0]);
}

static bool opens(pid_t pid, const struct __ptrace_syscall_info *call, const char *file)
{
	size_t length = strlen(file) + 1;

	if (call->entry.nr != SYS_openat || length > 4096)
		return false;
	for (size_t i = 0; i < length; i += sizeof(long)) {
		long word;

		errno = 0;
		word =
		    ptrace(PTRACE_PEEKDATA, pid, (char *)(uintptr_t)call->entry.args[1] + i, NULL);
		if (errno)
			return false;
		if (memcmp(&word, file + i, length - i < sizeof(word) ? length - i : sizeof(word)))
			return false;
	}
	return true;
}

/* To the next system call's entry; false when the process has ended. */
static bool next_call(pid_t pid, struct __ptrace_syscall_info *call, int *status)
{
	do {
		int sig = 0;

		do { /* signals go on to the process */
			if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)sig))
				die("PTRACE_SYSCALL");
			if (waitpid(pid, status, 0) < 0)
				die("waitpid");
			if (!WIFSTOPPED(*status))
				return false;
			sig = WSTOPSIG(*status) == SIGTRAP ? 0 : WSTOPSIG(*status);
		} while (WSTOPSIG(*status) != (SIGTRAP | 0x80));
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(*call), call) < 0)
			die("PTRACE_GET_SYSCALL_INFO");
	} while (call->op != PTRACE_SYSCALL_INFO_ENTRY);
	return true;
}

static int terminate(pid_t pid)
{
	int status;

	if (kill(pid, SIGTERM))
		die("SIGTERM");
	/* A thread of it may have heard by now, and ended it. */
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL) && errno != ESRCH)
		die("PTRACE_DETACH");
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGTERM ? 0 : 1;
	return WEXITSTATUS(status) ? 1 : 0;
}

int main(int argc, char **argv)
{
	bool politely = argc > 1 && !strcmp(argv[1], "-TERM");
	struct __ptrace_syscall_info call;
	long wanted, count = 0;
	int status;
	pid_t pid;

	argv += politely;
	argc -= politely;
	wanted = argc > 3 ? atol(argv[2]) : 0;
	if (wanted < 1) {
		fprintf(stderr, "usage: kill_at [-TERM] FILE N COMMAND...\n");
		return 1;
	}
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		start(argv + 3);
	if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status) ||
	    ptrace(
	        PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)))
		die("ptrace");
	while (next_call(pid, &call, &status)) {
		count += count || opens(pid, &call, argv[1]);
		if (count < wanted)
			continue;
		printf("%llu\n", (unsigned long long)call.entry.nr);
		if (politely)
			return terminate(pid);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return 0;
	}
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 3 : 1;
}
