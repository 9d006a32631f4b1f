/* test_comm_launch_stuck.c - a rank that does not end, though it was killed. */
#include "lib/comm/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/clock.h"

/* Rank 1 writes its number; rank 0 ends with the given status when it is told to. */
static const char script[] = "if [ $RANK = 1 ]; then echo $$ >new; mv new pid; fi; "
                             "while [ $RANK = 1 ] || [ ! -e go ]; do sleep 0.05; done; "
                             "echo why >&2; exit $0";

static const struct {
	const char *ends; /* rank 0's exit status */
	int status;       /* of the launcher */
	const char *text;
} cases[] = {
	{ "5", 5, "why\nwarning: rank 0 exited with status 5\n" },
	/* Rank 1 was killed for rank 0, so it is not the rank that failed. */
	{ "4", 1,
	    "(a call of a GPU's driver may not return)\nwarning: rank 0 exited with status 1\n" },
};

enum { CASES = sizeof(cases) / sizeof(*cases) };

struct job {
	char folder[64];
	pid_t launcher, stuck;
};

static _Noreturn void launch(const char *folder, const char *ends)
{
	char *argv[] = { "sh", "-c", (char *)script, (char *)ends, NULL };
	struct gt_log log = { .level = GT_LOG_NORMAL };
	struct gt_launch_options options = { .nproc = 2,
		.program = "/bin/sh",
		.argv = argv,
		.max_restarts = 1,
		.log = &log,
		.cause_s = 0.2 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_launch_end ended;

	if (chdir(folder))
		_exit(98);
	log.stream = fopen("err", "w");
	if (gt_launch(&ended, &options, &err))
		ended.status = 99;
	fclose(log.stream);
	_exit(ended.status);
}

static void read_text(const struct job *job, const char *name, char *text, size_t size)
{
	char path[256];
	FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/%s", job->folder, name);
	for (int i = 0; i < 1000 && !(f = fopen(path, "re")); i++)
		usleep(10000);
	assert_non_null(f);
	text[fread(text, 1, size - 1, f)] = '\0';
	fclose(f);
}

static void begin(struct job *job, const char *ends)
{
	char text[32];

	*job = (struct job){ .folder = "/tmp/gtrain-stuck-XXXXXX" };
	assert_non_null(mkdtemp(job->folder));
	fflush(NULL);
	job->launcher = fork();
	if (!job->launcher)
		launch(job->folder, ends);
	read_text(job, "pid", text, sizeof(text));
	job->stuck = (pid_t)atoi(text);
	if (ptrace(PTRACE_SEIZE, job->stuck, NULL, NULL)) {
		kill(job->launcher, SIGKILL);
		skip(); /* containers may forbid it */
	}
}

static void end(const struct job *job, size_t i)
{
	char text[4096];
	int status;

	assert_int_equal(waitpid(job->launcher, &status, 0), job->launcher);
	read_text(job, "err", text, sizeof(text));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != cases[i].status ||
	    !strstr(text, cases[i].text) || strstr(text, "restart") ||
	    !strstr(text, "warning: rank 1 was killed, and has not ended 10 s later"))
		fail_msg("case %zu: status %d: %s", i, WEXITSTATUS(status), text);
	assert_int_equal(waitpid(job->stuck, &status, __WALL), job->stuck);
	snprintf(text, sizeof(text), "rm -r %s", job->folder);
	assert_int_equal(system(text), 0);
}

/* The tracer of a process hears of its end first. Until then, the process seems to run to its
 * parent. The jobs wait at the same time. */
static void a_rank_that_does_not_end_is_left_behind(void **state)
{
	struct job jobs[CASES];
	char path[256];
	double from;

	(void)state;
	for (size_t i = 0; i < CASES; i++)
		begin(&jobs[i], cases[i].ends);
	from = gt_clock_s();
	for (size_t i = 0; i < CASES; i++) {
		snprintf(path, sizeof(path), "%s/go", jobs[i].folder);
		close(open(path, O_WRONLY | O_CREAT, 0666));
	}
	for (size_t i = 0; i < CASES; i++)
		end(&jobs[i], i);
	assert_true(gt_clock_s() - from > 10 && gt_clock_s() - from < 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_does_not_end_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
