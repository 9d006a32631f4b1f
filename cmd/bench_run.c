/* bench_run.c - one operation as a process of its own. */
#include "cmd/bench_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"

enum { EXEC_FAILED = 127 };

/* In the child. Errors go nowhere: a benchmark prints its table alone. */
static void become(char *const *words)
{
	int null = open("/dev/null", O_WRONLY);

	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		_exit(EXEC_FAILED);
	execvp(words[0], words);
	_exit(EXEC_FAILED);
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
	double start = gt_clock_s();
	struct rusage usage;
	pid_t child = fork();
	int how, rc = 0;

	if (!child)
		become(words);
	if (child < 0)
		return gt_err_sys(err, "cannot start '%s'", words[0]);
	while (wait4(child, &how, 0, &usage) < 0)
		if (errno != EINTR)
			return gt_err_sys(err, "cannot wait for '%s'", words[0]);
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

int gt_bench_read(struct gt_bench_sample *out, const char *path, struct gt_err *err)
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
	*out = (struct gt_bench_sample){ gt_clock_s() - start, 0 };
	return n < 0 ? err->code : 0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double gt_bench_median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_size);
	return values[(count - 1) / 2];
}
