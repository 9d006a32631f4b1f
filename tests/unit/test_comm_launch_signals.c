/* test_comm_launch_signals.c - signals to the launcher of a job, and its death. */
#include "tests/unit/launch_fixture.h"

/* Each rank writes the signals it gets; a loop, as sh acts on a signal between commands. */
#define LISTEN                                                                                     \
	"echo $$ >>pids; for s in INT TERM HUP QUIT USR1; do trap \"echo $s >>heard-$RANK\" $s; "  \
	"done; trap 'echo $? >/dev/null' EXIT; echo >up-$RANK; "                                   \
	"until grep -q '[A-Z]' heard-$RANK 2>/dev/null; do sleep 0.01; done; "

static void signals_are_forwarded(void **state)
{
	static const struct {
		int number;
		const char *name;
	} signals[] = { { SIGINT, "INT\n" }, { SIGTERM, "TERM\n" }, { SIGHUP, "HUP\n" },
		{ SIGQUIT, "QUIT\n" }, { SIGUSR1, "USR1\n" } };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct plan plan = { .nproc = 2, .max_restarts = 3, .script = LISTEN "exit 0" };
		struct job job = begin(&plan);
		struct outcome o;

		await_file(&job, "up-0");
		await_file(&job, "up-1");
		kill(job.launcher, signals[i].number);
		o = end(&job);
		assert_int_equal(o.ended.status, 0);
		assert_int_equal(
		    o.ended.asked, signals[i].number == SIGUSR1 ? 0 : signals[i].number);
		assert_string_equal(text_of(&job, "heard-0"), signals[i].name);
		assert_string_equal(text_of(&job, "heard-1"), signals[i].name);
		nothing_is_left(&job);
		clean(&job);
	}
}

/* The first signal has no time limit; after it nothing is started again, whatever the status. */
static void a_second_signal_kills(void **state)
{
	struct plan plan = { .nproc = 2,
		.max_restarts = 3,
		.script = LISTEN "echo >saving-$RANK; while :; do sleep 0.1; done" };
	struct job job = begin(&plan);
	struct outcome o;

	(void)state;
	await_file(&job, "up-0");
	await_file(&job, "up-1");
	kill(job.launcher, SIGINT);
	await_file(&job, "saving-0");
	await_file(&job, "saving-1");
	rest(0.3); /* a signal that comes at once is the same request */
	kill(job.launcher, SIGTERM);
	o = end(&job);
	assert_true(o.ended.status == 137 && o.ended.asked == SIGINT);
	expect_text(&job, "err", "was killed", false); /* the launcher has killed them */
	expect_text(&job, "err", "asked a second time", true);
	expect_text(&job, "err", "the ranks are not restarted: the run was asked to end", true);
	nothing_is_left(&job);
	clean(&job);
}

/* ^Z and fg. The ranks start no process: a parent stops only after its child's exec(). */
static void jobs_can_be_paused(void **state)
{
	struct plan plan = { .nproc = 2,
		.script = "echo $$ >>pids; echo >up-$RANK; until [ -e go ]; do :; done" };
	struct job job = begin(&plan);
	char path[128];
	int status;

	(void)state;
	await_file(&job, "up-0");
	await_file(&job, "up-1");
	kill(job.launcher, SIGTSTP);
	assert_int_equal(waitpid(job.launcher, &status, WUNTRACED), job.launcher);
	assert_true(WIFSTOPPED(status));
	for (const char *p = text_of(&job, "pids"); *p; p += strcspn(p, "\n") + 1) {
		for (int i = 0; i < 400 && state_of(atoi(p)) != 'T'; i++)
			rest(0.005);
		assert_int_equal(state_of(atoi(p)), 'T');
	}
	snprintf(path, sizeof(path), "%s/go", job.folder);
	close(open(path, O_WRONLY | O_CREAT, 0666));
	kill(job.launcher, SIGCONT);
	assert_int_equal(end(&job).ended.status, 0);
	clean(&job);
}

static void ranks_die_with_the_launcher(void **state)
{
	struct plan plan = {
		.nproc = 4,
		.script =
		    "trap '' TERM HUP INT; echo $$ >>pids; echo >up-$RANK; while :; do sleep 1; done"
	};
	struct job job = begin(&plan);

	(void)state;
	for (int i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "up-%d", i);
		await_file(&job, name);
	}
	kill(job.launcher, SIGKILL);
	waitpid(job.launcher, NULL, 0);
	close(job.report);
	nothing_is_left(&job);
	clean(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_are_forwarded),
		cmocka_unit_test(a_second_signal_kills),
		cmocka_unit_test(jobs_can_be_paused),
		cmocka_unit_test(ranks_die_with_the_launcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
