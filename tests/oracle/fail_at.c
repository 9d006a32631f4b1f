/* fail_at.c - let the N-th system call of a command on files of a folder fail. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * usage: fail_at FOLDER CALL N HOW COMMAND...
 *
 * HOW is the name of an error, or `short`: a read or write of half of the bytes. CALL is a name of
 * the table below. Only calls on files of FOLDER count, in whichever thread or process, so that the
 * loader's do not. With `-` for CALL nothing fails, and "CALL COUNT" lines go to the file HOW.
 * Exit status: that of the command, 128 + N where signal N ended it; 99 where tracing failed.
 *
 * A preloaded library would miss the writes of stdio, which call the kernel inside libc.
 */

enum { NO_FD = -1, TRACE_FAILED = 99 };

static const struct call {
	const char *name;
	long number;
	int fd;     /* the argument that is a descriptor; of a folder where there is a path */
	int path;   /* the argument that is a path */
	int length; /* the argument that is a number of bytes */
} calls[] = {
	{ "openat", SYS_openat, 0, 1, -1 },
	{ "read", SYS_read, 0, -1, 2 },
	{ "pread", SYS_pread64, 0, -1, 2 },
	{ "write", SYS_write, 0, -1, 2 },
	{ "pwrite", SYS_pwrite64, 0, -1, 2 },
	{ "fsync", SYS_fsync, 0, -1, -1 },
	{ "fdatasync", SYS_fdatasync, 0, -1, -1 },
	{ "ftruncate", SYS_ftruncate, 0, -1, -1 },
	{ "fallocate", SYS_fallocate, 0, -1, -1 },
	{ "mmap", SYS_mmap, 4, -1, -1 },
	{ "copy_file_range", SYS_copy_file_range, 0, -1, 4 },
	{ "ioctl", SYS_ioctl, 0, -1, -1 },
	{ "flock", SYS_flock, 0, -1, -1 },
	{ "close", SYS_close, 0, -1, -1 },
	{ "getdents", SYS_getdents64, 0, -1, -1 },
	{ "fstatat", SYS_newfstatat, 0, 1, -1 },
	{ "renameat2", SYS_renameat2, 0, 1, -1 },
	{ "unlinkat", SYS_unlinkat, 0, 1, -1 },
#ifdef SYS_rename
	{ "rename", SYS_rename, NO_FD, 0, -1 },
	{ "unlink", SYS_unlink, NO_FD, 0, -1 },
	{ "mkdir", SYS_mkdir, NO_FD, 0, -1 },
	{ "link", SYS_link, NO_FD, 0, -1 },
#endif
};

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static const struct {
	const char *name;
	int number;
} errors[] = { { "ENOSPC", ENOSPC }, { "EIO", EIO }, { "EINTR", EINTR }, { "EMFILE", EMFILE },
	{ "ENOMEM", ENOMEM }, { "EACCES", EACCES }, { "EDQUOT", EDQUOT } };

struct tracer {
	const char *folder;
	const struct call *call; /* to fail; NULL: none */
	long wanted;
	int error; /* 0: short */
	long counts[CALLS];
	pid_t failing; /* the thread whose call was changed and has not returned */
	unsigned long long length;
};

static void die(const char *doing)
{
	fprintf(stderr, "fail_at: %s: %s\n", doing, strerror(errno));
	exit(TRACE_FAILED);
}

#ifdef __x86_64__
static void change_call(struct tracer *t, pid_t pid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs))
		die("PTRACE_GETREGS");
	if (t->error) {
		regs.orig_rax = (unsigned long long)-1;
	} else {
		unsigned long long *length = t->call->length == 4 ? &regs.r8 : &regs.rdx;

		t->length = *length;
		*length = *length > 1 ? *length / 2 : *length;
	}
	if (ptrace(PTRACE_SETREGS, pid, NULL, &regs))
		die("PTRACE_SETREGS");
	t->failing = pid;
}

/* The kernel leaves the registers of arguments as they are, so the caller relies on them. */
static void change_result(struct tracer *t, pid_t pid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs))
		die("PTRACE_GETREGS");
	if (t->error)
		regs.rax = (unsigned long long)-t->error;
	else
		*(t->call->length == 4 ? &regs.r8 : &regs.rdx) = t->length;
	if (ptrace(PTRACE_SETREGS, pid, NULL, &regs))
		die("PTRACE_SETREGS");
	t->failing = 0;
}
#else
static void change_call(struct tracer *t, pid_t pid)
{
	(void)t;
	(void)pid;
	errno = ENOTSUP;
	die("this processor");
}

static void change_result(struct tracer *t, pid_t pid)
{
	change_call(t, pid);
}
#endif

static bool read_text(pid_t pid, uint64_t address, char *out, size_t size)
{
	for (size_t i = 0; i + sizeof(long) <= size; i += sizeof(long)) {
		long word;

		errno = 0;
		word = ptrace(PTRACE_PEEKDATA, pid, (char *)(uintptr_t)address + i, NULL);
		if (errno)
			return false;
		memcpy(out + i, &word, sizeof(word));
		if (memchr(&word, 0, sizeof(word)))
			return true;
	}
	return false;
}

static bool begins_with(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

static bool is_file_below(pid_t pid, int fd, const char *folder)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), fd == -100 ? "/proc/%d/cwd" : "/proc/%d/fd/%d", pid, fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return begins_with(path, folder);
}

static bool concerns(
    const struct call *c, pid_t pid, const struct __ptrace_syscall_info *info, const char *folder)
{
	char path[PATH_MAX];
	int fd = c->fd == NO_FD ? -100 : (int)info->entry.args[c->fd];

	if (c->path < 0)
		return fd >= 0 && is_file_below(pid, fd, folder);
	if (!read_text(pid, info->entry.args[c->path], path, sizeof(path)))
		return false;
	return *path == '/' ? begins_with(path, folder) : is_file_below(pid, fd, folder);
}

static void look_at_entry(struct tracer *t, pid_t pid, const struct __ptrace_syscall_info *info)
{
	for (int i = 0; i < CALLS; i++) {
		if ((uint64_t)calls[i].number != info->entry.nr)
			continue;
		if (!concerns(&calls[i], pid, info, t->folder))
			return;
		if (++t->counts[i] == t->wanted && t->call == &calls[i])
			change_call(t, pid);
		return;
	}
}

static void look(struct tracer *t, pid_t pid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) < 0)
		return; /* it was killed meanwhile */
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		look_at_entry(t, pid, &info);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->failing == pid)
		change_result(t, pid);
}

/* Until the first process has ended; returns how. */
static int trace(struct tracer *t, pid_t first)
{
	int status;

	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		int sig = 0;

		if (pid < 0)
			die("waitpid");
		if (!WIFSTOPPED(status)) {
			if (pid == first)
				return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				                           : WEXITSTATUS(status);
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			look(t, pid);
		else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
			sig = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)sig);
	}
}

static pid_t start(char **command)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
	                     PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			die("PTRACE_TRACEME");
		raise(SIGSTOP);
		execvp(command[0], command);
		die(command[0]);
	}
	if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options) ||
	    ptrace(PTRACE_SYSCALL, pid, NULL, NULL))
		die("ptrace");
	return pid;
}

static void write_counts(const struct tracer *t, const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		die(path);
	for (int i = 0; i < CALLS; i++)
		fprintf(f, "%s %ld\n", calls[i].name, t->counts[i]);
	if (fclose(f))
		die(path);
}

static bool parse(struct tracer *t, char **argv)
{
	t->folder = argv[1];
	t->wanted = atol(argv[3]);
	t->error = -1;
	for (int i = 0; i < CALLS; i++)
		if (!strcmp(argv[2], calls[i].name))
			t->call = &calls[i];
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (!strcmp(argv[4], errors[i].name))
			t->error = errors[i].number;
	if (t->call && t->call->length >= 0 && !strcmp(argv[4], "short"))
		t->error = 0;
	return !strcmp(argv[2], "-") || (t->call && t->wanted > 0 && t->error >= 0);
}

int main(int argc, char **argv)
{
	struct tracer t = { 0 };
	int status;

	if (argc < 6 || !parse(&t, argv)) {
		fprintf(stderr, "usage: fail_at FOLDER CALL|- N ERROR|short|FILE COMMAND...\n");
		return TRACE_FAILED;
	}
	status = trace(&t, start(argv + 5));
	if (!t.call)
		write_counts(&t, argv[4]);
	return status;
}
