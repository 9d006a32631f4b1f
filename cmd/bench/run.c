/* run.c - one operation as a process of its own. */
#include "cmd/bench/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"

enum { EXEC_FAILED = 127 };

/* Execute the program in the child. Its output is discarded, as the benchmark prints only its
 * table. */
static void exec_benchmark(char *const *words, int error_fd)
{
	int null = open("/dev/null", O_WRONLY);
	sigset_t none;

	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(error_fd, STDERR_FILENO) < 0)
		_exit(EXEC_FAILED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(words[0], words);
	_exit(EXEC_FAILED);
}

/* The first line, without the "gtrain: error: " before it. */
static void take_line(char out[GT_BENCH_ERROR_LINE_BYTES], int error_fd)
{
	ssize_t n = pread(error_fd, out, GT_BENCH_ERROR_LINE_BYTES - 1, 0);
	char *start = out, *end;

	out[n > 0 ? n : 0] = '\0';
	end = strchr(out, '\n');
	if (end)
		*end = '\0';
	if (!strncmp(start, "gtrain: error: ", 15))
		start += 15;
	memmove(out, start, strlen(start) + 1);
}

static int sync_file(const char *path, struct gt_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0 || fsync(fd))
		rc = gt_err_sys(err, "cannot sync '%s'", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

int gt_bench_run(struct gt_bench_sample *out, int *status, char *const *words, const char *synced,
    struct gt_err *err)
{
	int error_fd = memfd_create("stderr", MFD_CLOEXEC);
	double start = gt_clock_s();
	struct rusage usage;
	pid_t child = error_fd < 0 ? -1 : fork();
	int how, rc = 0;

	if (!child)
		exec_benchmark(words, error_fd);
	if (child < 0)
		rc = gt_err_sys(err, "cannot start '%s'", words[0]);
	while (!rc && wait4(child, &how, 0, &usage) < 0)
		if (errno != EINTR)
			rc = gt_err_sys(err, "cannot wait for '%s'", words[0]);
	if (error_fd >= 0) {
		take_line(out->first_error_line, error_fd);
		close(error_fd);
	}
	if (rc)
		return rc;
	if (WIFSIGNALED(how))
		return gt_err_set(
		    err, GT_EIO, "'%s' was ended by signal %d", words[0], WTERMSIG(how));
	*status = WEXITSTATUS(how);
	if (synced && !*status)
		rc = sync_file(synced, err);
	out->time_s = gt_clock_s() - start;
	out->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
	return rc;
}

int gt_bench_time_read(struct gt_bench_sample *out, const char *path, struct gt_err *err)
{
	enum { PIECE = 1 << 20 };
	double start = gt_clock_s();
	char *piece = gt_calloc(1, PIECE, err);
	int fd = piece ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0)
		n = read(fd, piece, PIECE);
	if (n < 0 && piece)
		gt_err_sys(err, "cannot read '%s'", path);
	if (fd >= 0)
		close(fd);
	free(piece);
	*out = (struct gt_bench_sample){ .time_s = gt_clock_s() - start };
	return n < 0 ? err->code : 0;
}
