/* test_comm_launch.c - jobs of shell scripts that end well, badly or not at all. */
#include <sched.h>
#include <sys/syscall.h>

#include "lib/comm/rendezvous/rendezvous.h"
#include "tests/unit/launch_fixture.h"

static bool stands_still; /* rank 1 stops before it becomes its program */

/* In place of the C library's function, between fork() and the program of a rank. */
int execve(const char *path, char *const *argv, char *const *env)
{
	for (char *const *word = env; stands_still && *word; word++)
		if (!strcmp(*word, "RANK=1"))
			raise(SIGSTOP);
	return (int)syscall(SYS_execve, path, argv, env);
}

/* Every rank's variables, one line each, in env-N. */
#define TELL                                                                                       \
	"echo \"$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $GTRAIN_RESTART\" "   \
	">env-$RANK; echo \"$MASTER_PORT $GTRAIN_SECRET\" >job-$RANK;"

static void ranks_learn_who_they_are(void **state)
{
	struct plan plan = { .nproc = 3,
		.columns = 44, /* for rank 0 alone */
		.script = TELL
		"echo $GTRAIN_COLUMNS >>env-$RANK; echo out $RANK; echo err $RANK >&2; cat; "
		"if [ $RANK = 0 ]; then test -S /proc/self/fd/$GTRAIN_LISTEN_FD; "
		"else test -z \"$GTRAIN_LISTEN_FD\"; fi" };
	struct job job;
	struct outcome o;
	char first[128];

	(void)state;
	setenv("GTRAIN_LISTEN_FD", "77", 1); /* another job's */
	job = begin(&plan);
	o = end(&job);
	unsetenv("GTRAIN_LISTEN_FD");
	assert_true(!o.rc && !o.ended.status);
	for (int i = 0; i < 3; i++) {
		char name[32], line[64];

		snprintf(name, sizeof(name), "env-%d", i);
		snprintf(line, sizeof(line), "%d 3 %d 3 127.0.0.1 0\n%s\n", i, i, i ? "" : "44");
		assert_string_equal(text_of(&job, name), line);
		snprintf(name, sizeof(name), "job-%d", i);
		if (!i)
			strcpy(first, text_of(&job, name));
		assert_string_equal(text_of(&job, name), first);
		snprintf(name, sizeof(name), "log/rank-%d.log", i);
		snprintf(line, sizeof(line), "err %d\n", i);
		assert_string_equal(text_of(&job, name), line);
	}
	assert_true(atoi(first) > 0);
	assert_int_equal(strspn(strchr(first, ' ') + 1, "0123456789abcdef"), 64);
	assert_string_equal(text_of(&job, "out"), "out 0\n");
	assert_string_equal(text_of(&job, "err"), "err 0\n");
	clean(&job);
}

/* Rank 1 of 3 fails, or all do something in turn; `pids` has all ranks and their children. */
#define OTHERS "echo $$ >>pids; [ $RANK = 1 ] || { sleep 100 & echo $! >>pids; wait; exit 0; };"

static const struct {
	const char *script;
	int status;
	const char *text;  /* in our standard error */
	double at_least_s; /* it takes; at most 2 s more. Also cause_s */
} ends[] = {
	{ OTHERS "exit 3", 1, "rank 1 exited with status 1; its log is log/rank-1.log\n", 0 },
	{ OTHERS "exit 4", 1, "rank 1 exited with status 1; its log is log/rank-1.log\n", 0.2 },
	{ "echo $$ >>pids; [ $RANK = 1 ] || exit 4; sleep 0.3; echo why >&2; exit 5", 5,
	    "rank 1 exited with status 5; its log is log/rank-1.log\nrank 1: why\n", 0 },
	{ OTHERS "kill -SEGV $$", 139, "warning: rank 1 was killed by SIGSEGV", 0 },
	{ OTHERS "kill -KILL $$", 137, "1 was killed by SIGKILL; its log is log/rank-1.log\n", 0 },
	{ OTHERS "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i >&2; done; exit 14", 14,
	    "rank-1.log\nrank 1: line 3\nrank 1: line 4\n", 0 },
	{ OTHERS "printf 'no end' >&2; exit 5", 5, "rank 1: no end\n", 0 },
	{ OTHERS "sleep 100 & echo $! >>pids; exit 6", 6, "status 6", 0 },
	{ "echo $$ >>pids; [ $RANK = 0 ] && { echo why >&2; exit 7; }; kill -STOP $$", 7,
	    "why\nwarning: rank 0 exited with status 7; its log is log/rank-0.log\n", 0 },
	{ "trap '' TERM; echo $$ >>pids; if [ $RANK = 2 ]; then while [ ! -e ready-0 ] || "
	  "[ ! -e ready-1 ]; do sleep 0.01; done; exit 8; fi; touch ready-$RANK; "
	  "while :; do sleep 1; done",
	    8, "rank 2 exited with status 8", 1.4 },
	{ "[ $RANK = 1 ] || exit 0; sleep 0.3; kill -STOP $$", 0, "", 0 }, /* when others end */
};

#define ERROR(text) "echo 'gtrain: error: " text "' >&2; echo 'hint: h' >&2; exit 5"

/* What is printed of errors that ranks write: cause_s is 0.5 s. */
static const struct {
	const char *script, *err;
} errors[] = {
	{ ERROR("e"), "gtrain: error: e\nhint: h\n" },
	{ "sleep 0.$RANK; " ERROR("e"), "gtrain: error: e\nhint: h\n" },
	{ "[ $RANK = 1 ] || sleep 0.2; " ERROR("e"), "gtrain: error: e\nhint: h\n" },
	{ "[ $RANK = 2 ] && { trap '' TERM; sleep 0.1; exit 4; }; " ERROR("e"),
	    "gtrain: error: e\nhint: h\n" },
	{ "[ $RANK = 0 ] || exit 4; " ERROR("e"),
	    "gtrain: error: e\nhint: h\nwarning: rank 0 exited with status 5; its log is "
	    "log/rank-0.log\n" },
	{ "[ $RANK = 1 ] || exec sleep 100; " ERROR("e"),
	    "warning: rank 1 exited with status 5; its log is log/rank-1.log\n"
	    "rank 1: gtrain: error: e\nrank 1: hint: h\n" },
	{ "[ $RANK = 0 ] && { sleep 0.2; echo 'gtrain: error: other' >&2; exit 1; }; "
	  "[ $RANK = 1 ] || exit 4; " ERROR("e"),
	    "gtrain: error: other\nwarning: rank 1 exited with status 5; its log is "
	    "log/rank-1.log\nrank 1: gtrain: error: e\nrank 1: hint: h\n" },
};

static void an_error_common_to_ranks_is_printed_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		struct plan plan = { 3, .script = errors[i].script, .cause_s = 0.5 };
		struct job job = begin(&plan);
		struct outcome o = end(&job);

		if (o.rc || o.ended.status != 5)
			fail_msg("error %zu: status %d", i, o.ended.status);
		assert_string_equal(text_of(&job, "err"), errors[i].err);
		clean(&job);
	}
}

static void one_end_ends_all(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct plan plan = { 3, .script = ends[i].script, .cause_s = ends[i].at_least_s };
		struct job job = begin(&plan);
		struct outcome o = end(&job);
		double took_s = gt_clock_s() - job.started_s;

		if (o.rc || o.ended.status != ends[i].status)
			fail_msg("end %zu: status %d", i, o.ended.status);
		expect_text(&job, "err", ends[i].text, true);
		expect_text(&job, "err", "line 2\n", false); /* the last ten */
		if (took_s < ends[i].at_least_s || took_s > ends[i].at_least_s + 2)
			fail_msg("end %zu: %.2f s", i, took_s);
		nothing_is_left(&job);
		clean(&job);
	}
}

/* Before they are killed: time to say something, say. */
static void ranks_are_asked_first(void **state)
{
	struct plan plan = {
		.nproc = 2,
		.script =
		    "if [ $RANK = 1 ]; then until [ -e up ]; do sleep 0.01; done; exit 6; fi; "
		    "trap 'echo asked >asked; exit 0' TERM; echo >up; while :; do sleep 0.01; done"
	};
	struct job job = begin(&plan);

	(void)state;
	assert_int_equal(end(&job).ended.status, 6);
	expect_text(&job, "asked", "asked\n", true);
	clean(&job);
}

static void jobs_are_started_again(void **state)
{
	static const struct {
		int max, status;
		const char *starts;
	} cases[] = { { 0, 9, "0\n" }, { 1, 9, "0\n1\n" }, { 2, 0, "0\n1\n2\n" },
		{ 5, 0, "0\n1\n2\n" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct plan plan = { .nproc = 2,
			.max_restarts = cases[i].max,
			.script =
			    "echo $$ >>pids; [ $RANK = 0 ] || { [ $GTRAIN_RESTART -ge 2 ] && exit 0; "
			    "sleep 100; }; echo $GTRAIN_RESTART >>starts; echo $GTRAIN_SECRET >>secrets; "
			    "[ $GTRAIN_RESTART -ge 2 ] || exit 9" };
		struct job job = begin(&plan);
		struct outcome o = end(&job);
		const char *secrets;

		assert_true(!o.rc && o.ended.status == cases[i].status);
		assert_string_equal(text_of(&job, "starts"), cases[i].starts);
		expect_text(
		    &job, "err", "all ranks are started again (restart 1 of", cases[i].max > 0);
		secrets = text_of(&job, "secrets");
		assert_true(!cases[i].max || strncmp(secrets, secrets + 65, 64) != 0);
		nothing_is_left(&job);
		clean(&job);
	}
}

static void programs_that_cannot_start_are_named(void **state)
{
	static const struct {
		struct plan plan;
		int rc;
		const char *text;
	} cases[] = {
		{ { .nproc = 2, .script = "", .program = "/not/there" }, GT_EIO,
		    ", '/not/there': No such file or directory" },
		{ { .nproc = 2, .script = "", .log_dir = "/proc/self" }, GT_EIO,
		    "cannot write '/proc/self/rank-0.log'" },
		{ { .nproc = 0, .script = "" }, GT_EINVAL, "0 ranks: not from 1 to 1024" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct job job = begin(&cases[i].plan);
		struct outcome o = end(&job);

		if (o.rc != cases[i].rc || o.ended.status != 1 || !strstr(o.text, cases[i].text))
			fail_msg("case %zu: %d, %d, %s", i, o.rc, o.ended.status, o.text);
		clean(&job);
	}
}

/* Whatever keeps a rank from becoming the program, such as a file system that does not answer, the
 * launcher takes signals and sees other ranks end. */
static void a_rank_that_does_not_start_stops_nobody(void **state)
{
	static const struct {
		const char *script; /* of rank 0 */
		int signal;         /* that the launcher gets; 0: none */
		int status;
	} cases[] = {
		{ "trap 'exit 7' TERM; echo >up; while :; do sleep 0.01; done", SIGTERM, 7 },
		{ "echo >up; exit 5", 0, 5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct plan plan = { .nproc = 2, .script = cases[i].script };
		struct job job;
		int status;

		stands_still = true;
		job = begin(&plan);
		stands_still = false;
		await_file(&job, "up");
		if (cases[i].signal)
			kill(job.launcher, cases[i].signal);
		status = end(&job).ended.status;
		/* Once it goes on, rank 1 ends by the signal that was sent to it. */
		if (status != cases[i].status && (!cases[i].signal || status != 143))
			fail_msg("case %zu: status %d", i, status);
		clean(&job);
	}
}

static void lines_stay_whole(void **state)
{
	struct plan plan = { .nproc = 4,
		.no_logs = true,
		.script =
		    "for i in 1 2 3 4 5 6 7 8 9; do printf 'a%s' $RANK >&2; printf 'b\\n' >&2; done; "
		    "printf 'end%s' $RANK >&2" };
	struct job job = begin(&plan);
	int count[4] = { 0 }, ended = 0;
	char *text, *line, *save = NULL;

	(void)state;
	assert_int_equal(end(&job).ended.status, 0);
	text = (char *)text_of(&job, "err");
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int rank = strstr(line, "rank ") == line ? atoi(line + 5) : 0;
		char right[32];

		assert_true(!rank || !strncmp(line + 6, ": ", 2));
		snprintf(right, sizeof(right), "a%db", rank);
		count[rank] += !strcmp(rank ? line + 8 : line, right);
		snprintf(right, sizeof(right), "end%d", rank);
		ended += !strcmp(rank ? line + 8 : line, right);
	}
	assert_true(count[0] == 9 && count[1] == 9 && count[2] == 9 && count[3] == 9);
	assert_int_equal(ended, 4);
	clean(&job);
}

/* 100,000 bytes without a line's end, and a log that is appended to. */
static void logs_hold_every_byte(void **state)
{
	struct plan plan = { .nproc = 2,
		.max_restarts = 1,
		.script = "[ $RANK = 1 ] || exit 0; head -c 50000 /dev/zero | tr '\\0' x >&2; "
		          "exit $((1 - GTRAIN_RESTART))" };
	struct job job = begin(&plan);

	(void)state;
	assert_int_equal(end(&job).ended.status, 0);
	assert_int_equal(strspn(text_of(&job, "log/rank-1.log"), "x"), 100000);
	assert_int_equal(strlen(text_of(&job, "log/rank-1.log")), 100000);
	clean(&job);
}

static void processors_are_shared(void **state)
{
	struct plan plan = { .nproc = 2,
		.script = "echo \"$OMP_NUM_THREADS $(grep Cpus_allowed_list /proc/self/status | "
		          "tr -dc '0-9,-')\" >share-$RANK" };
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
	char first[128];
	struct job job;

	(void)state;
	setenv("OMP_NUM_THREADS", "7", 1);
	job = begin(&plan);
	assert_int_equal(end(&job).ended.status, 0);
	strcpy(first, text_of(&job, "share-0"));
	assert_string_equal(first, text_of(&job, "share-1")); /* hands off */
	assert_int_equal(atoi(first), 7);
	clean(&job);
	unsetenv("OMP_NUM_THREADS");
	job = begin(&plan);
	assert_int_equal(end(&job).ended.status, 0);
	strcpy(first, text_of(&job, "share-0"));
	assert_in_range(atoi(first), 1, count / 2 > 1 ? count / 2 : 1);
	if (count >= 2)
		assert_string_not_equal(first, text_of(&job, "share-1"));
	clean(&job);
}

/* All steps: ranks start, get their numbers, meet over the inherited socket, exchange data. */
static void launched_ranks_meet(void **state)
{
	struct plan plan = { .nproc = 3 };
	struct job job = begin(&plan);
	struct outcome o = end(&job);

	(void)state;
	if (o.rc || o.ended.status)
		fail_msg("%d %d: %s", o.rc, o.ended.status, text_of(&job, "err"));
	assert_string_equal(text_of(&job, "out"), "012");
	clean(&job);
}

static int be_a_rank(void)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_rendezvous *r = NULL;
	struct gt_world world;
	char all[4] = "", mine;

	if (!gt_world_from_environment(&world, &err) &&
	    !gt_rendezvous_meet(&r, &world, "version 1\n", 10, &err)) {
		mine = (char)('0' + world.rank);
		(void)gt_rendezvous_exchange(r, &mine, 1, all, &err);
	}
	gt_rendezvous_leave(r);
	if (err.code)
		fprintf(stderr, "%s\n", err.text);
	printf("%s", all);
	return err.code || world.source != GT_WORLD_GTRAIN || (!world.rank && !world.listen_fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_learn_who_they_are),
		cmocka_unit_test(one_end_ends_all),
		cmocka_unit_test(an_error_common_to_ranks_is_printed_once),
		cmocka_unit_test(ranks_are_asked_first),
		cmocka_unit_test(jobs_are_started_again),
		cmocka_unit_test(programs_that_cannot_start_are_named),
		cmocka_unit_test(a_rank_that_does_not_start_stops_nobody),
		cmocka_unit_test(lines_stay_whole),
		cmocka_unit_test(logs_hold_every_byte),
		cmocka_unit_test(processors_are_shared),
		cmocka_unit_test(launched_ranks_meet),
	};

	(void)argv;
	return argc > 1 ? be_a_rank() : cmocka_run_group_tests(tests, NULL, NULL);
}
