/* run.c - one operation as a process of its own. */
#include "cmd/bench/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/stop.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/walk.h"

enum {
	EXEC_FAILED = 127,
	STDERR_BYTES = 1 << 16, /* at most so many are searched for the error */
	POLL_MS = 50,
	/* after the first signal, the second one follows: see cmd/stop.h; then SIGKILL */
	SECOND_SIGNAL_MS = 300,
	KILL_MS = 10000
};

/* Execute the program in the child. */
static void exec_benchmark(const struct gt_bench_process *p, int error_fd, pid_t parent)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || null < 0 ||
	    dup2(null, STDIN_FILENO) < 0 ||
	    dup2(p->stdout_fd < 0 ? null : p->stdout_fd, STDOUT_FILENO) < 0 ||
	    dup2(error_fd, STDERR_FILENO) < 0)
		_exit(EXEC_FAILED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(p->words[0], p->words);
	_exit(EXEC_FAILED);
}

/* The line of an error may follow warnings, and name a rank. */
static void find_error_line(char out[GT_BENCH_ERROR_LINE_BYTES], int error_fd)
{
	static const char mark[] = "gtrain: error: ";
	char text[STDERR_BYTES];
	ssize_t n = pread(error_fd, text, sizeof(text) - 1, 0);
	const char *start;

	text[n > 0 ? n : 0] = '\0';
	start = strstr(text, mark);
	start = start ? start + sizeof(mark) - 1 : text;
	snprintf(out, GT_BENCH_ERROR_LINE_BYTES, "%.*s", (int)strcspn(start, "\n"), start);
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

/* Wait for the child. If the user asks to stop, ask the child twice, so that it stops at once. */
static int wait_for_child(pid_t child, int *how, struct rusage *usage,
    const struct gt_bench_process *p, struct gt_err *err)
{
	int pid_fd = p->stop ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
	struct pollfd end = { .fd = pid_fd, .events = POLLIN };
	int rc = 0;

	if (p->stop && pid_fd < 0)
		rc = gt_err_sys(err, "cannot watch '%s'", p->words[0]);
	for (int waited = 0; !rc && p->stop && poll(&end, 1, POLL_MS) <= 0;) {
		if (!*p->stop)
			continue;
		if (!waited || waited == SECOND_SIGNAL_MS)
			kill(child, SIGTERM);
		if (waited == KILL_MS)
			kill(child, SIGKILL);
		waited += POLL_MS;
	}
	if (rc)
		kill(child, SIGKILL);
	if (pid_fd >= 0)
		close(pid_fd);
	while (wait4(child, how, 0, usage) < 0)
		if (errno != EINTR)
			return gt_err_sys(err, "cannot wait for '%s'", p->words[0]);
	return rc;
}

/* Seconds of all processors since the system started, by /proc/stat; zeroed if it is not known. */
struct processor_time {
	double idle_s, all_s;
};

/* The first line has the time of all processors: user, nice, system, idle, iowait, irq, softirq,
 * steal. */
static struct processor_time read_processor_time(void)
{
	enum { FIELDS = 8, IDLE = 3, WAIT = 4 };
	struct processor_time out = { 0 };
	double tick_s = 1 / (double)sysconf(_SC_CLK_TCK);
	unsigned long long ticks[FIELDS];
	FILE *stat = fopen("/proc/stat", "re");

	if (stat &&
	    fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1],
	        &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) == FIELDS) {
		for (int i = 0; i < FIELDS; i++)
			out.all_s += (double)ticks[i] * tick_s;
		out.idle_s = (double)(ticks[IDLE] + ticks[WAIT]) * tick_s;
	}
	if (stat)
		fclose(stat);
	return out;
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void note_processors(
    struct gt_bench_sample *out, const struct processor_time *before, const struct rusage *usage)
{
	struct processor_time now = read_processor_time();
	double own_s = seconds_of(usage->ru_utime) + seconds_of(usage->ru_stime);

	out->processors_s = now.all_s - before->all_s;
	out->idle_s = now.idle_s - before->idle_s;
	out->others_s = out->processors_s - out->idle_s - own_s;
}

int gt_bench_run(
    struct gt_bench_sample *out, int *status, const struct gt_bench_process *p, struct gt_err *err)
{
	int error_fd = memfd_create("stderr", MFD_CLOEXEC);
	struct processor_time before = read_processor_time();
	double start = gt_clock_s();
	struct rusage usage;
	pid_t parent = getpid(), child = error_fd < 0 ? -1 : fork();
	int how, rc = 0;

	if (!child)
		exec_benchmark(p, error_fd, parent);
	if (child < 0)
		rc = gt_err_sys(err, "cannot start '%s'", p->words[0]);
	else
		rc = wait_for_child(child, &how, &usage, p, err);
	if (error_fd >= 0) {
		find_error_line(out->error_line, error_fd);
		close(error_fd);
	}
	if (rc)
		return rc;
	if (p->stop && *p->stop)
		return gt_err_set(err, GT_EIO, "stopped by a signal");
	if (WIFSIGNALED(how))
		return gt_err_set(
		    err, GT_EIO, "'%s' was ended by signal %d", p->words[0], WTERMSIG(how));
	*status = WEXITSTATUS(how);
	if (p->synced && !*status)
		rc = sync_file(p->synced, err);
	out->time_s = gt_clock_s() - start;
	out->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
	note_processors(out, &before, &usage);
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

int gt_bench_make_folder(char out[PATH_MAX], const char *dir, struct gt_err *err)
{
	dir = dir ? dir : getenv("TMPDIR");
	snprintf(out, PATH_MAX, "%s/gtrain-bench-XXXXXX", dir && *dir ? dir : "/tmp");
	return mkdtemp(out) ? 0 : gt_err_sys(err, "cannot make the folder '%s'", out);
}

int gt_bench_measure(
    bool *done, const struct gt_bench_work *work, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_err failed = GT_ERR_INIT;
	struct gt_stop stop;
	int rc = gt_stop_listen(&stop, err);

	*done = false;
	if (rc)
		return rc;
	stop.graceful = true;
	*work->stop = &stop.stop_requested;
	rc = gt_bench_make_folder(work->folder, work->dir, &failed);
	if (!rc) {
		rc = work->measure(work->self, &env->log, &failed);
		gt_folder_remove_all(work->folder);
	}
	*done = !rc;
	if (rc && !stop.stop_requested)
		*err = failed;
	else
		rc = 0;
	*work->stop = NULL;
	gt_stop_release(&stop);
	env->asked = stop.asked;
	return rc;
}

void gt_bench_note_failure(char why[GT_BENCH_ERROR_LINE_BYTES], const char *error_line, int status)
{
	if (*error_line)
		snprintf(why, GT_BENCH_ERROR_LINE_BYTES, "%s", error_line);
	else
		snprintf(why, GT_BENCH_ERROR_LINE_BYTES, "exit status %d", status);
}

int gt_bench_run_json(json_t **out, int *status, char *const *words, const atomic_bool *stop,
    char why[GT_BENCH_ERROR_LINE_BYTES], struct gt_err *err)
{
	struct gt_bench_process process = {
		.words = words, .stdout_fd = memfd_create("stdout", MFD_CLOEXEC), .stop = stop
	};
	struct gt_bench_sample sample = { 0 };
	FILE *stream = process.stdout_fd < 0 ? NULL : fdopen(process.stdout_fd, "r");
	int rc;

	*out = NULL;
	if (!stream) {
		gt_err_sys(err, "cannot start '%s'", words[0]);
		if (process.stdout_fd >= 0)
			close(process.stdout_fd);
		return err->code;
	}
	rc = gt_bench_run(&sample, status, &process, err);
	if (!rc && !*status) {
		rewind(stream);
		*out = json_loadf(stream, 0, NULL);
		if (!*out)
			snprintf(why, GT_BENCH_ERROR_LINE_BYTES, "it printed no JSON");
	} else if (!rc) {
		gt_bench_note_failure(why, sample.error_line, *status);
	}
	fclose(stream);
	return rc;
}
