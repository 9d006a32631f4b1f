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

/* Rank 1 writes its number; rank 0 fails when it is told to. */
static const char script[] = "if [ $RANK = 1 ]; then echo $$ >new; mv new pid; fi; "
                             "while [ $RANK = 1 ] || [ ! -e go ]; do sleep 0.05; done; exit 5";

static _Noreturn void launch(void)
{
	char *argv[] = { "sh", "-c", (char *)script, NULL };
	struct gt_log log = { .stream = fopen("err", "w"), .level = GT_LOG_NORMAL };
	struct gt_launch_options options = {
		.nproc = 2, .program = "/bin/sh", .argv = argv, .max_restarts = 1, .log = &log
	};
	struct gt_err err = GT_ERR_INIT;
	int status;

	if (gt_launch(&status, &options, &err))
		status = 99;
	fclose(log.stream);
	_exit(status);
}

static void read_text(const char *path, char *text, size_t size)
{
	FILE *f = NULL;

	for (int i = 0; i < 1000 && !(f = fopen(path, "re")); i++)
		usleep(10000);
	assert_non_null(f);
	text[fread(text, 1, size - 1, f)] = '\0';
	fclose(f);
}

/* The tracer of a process hears of its end first. Until then, the process seems to run to its
 * parent. */
static void a_rank_that_does_not_end_is_left_behind(void **state)
{
	char folder[] = "/tmp/gtrain-stuck-XXXXXX", text[4096];
	double from;
	pid_t launcher, rank;
	int status;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	fflush(NULL);
	launcher = fork();
	if (!launcher)
		launch();
	read_text("pid", text, sizeof(text));
	rank = (pid_t)atoi(text);
	if (ptrace(PTRACE_SEIZE, rank, NULL, NULL)) {
		kill(launcher, SIGKILL);
		skip(); /* containers may forbid it */
	}
	from = gt_clock_s();
	close(open("go", O_WRONLY | O_CREAT, 0666));
	assert_int_equal(waitpid(launcher, &status, 0), launcher);
	assert_true(gt_clock_s() - from > 10 && gt_clock_s() - from < 30);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 5);
	read_text("err", text, sizeof(text));
	assert_non_null(strstr(text, "warning: rank 0 exited with status 5"));
	assert_non_null(strstr(text, "warning: rank 1 was killed, and has not ended 10 s later"));
	assert_null(strstr(text, "restart"));
	assert_int_equal(waitpid(rank, &status, __WALL), rank);
	assert_int_equal(chdir("/"), 0);
	snprintf(text, sizeof(text), "rm -r %s", folder);
	assert_int_equal(system(text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_does_not_end_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
