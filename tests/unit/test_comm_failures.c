/* test_comm_failures.c - ranks that are late, dead, gone or of another opinion are named. */
#include "tests/unit/comm_fixture.h"

#include <dirent.h>

#include "lib/base/clock.h"

enum { RANKS = 3, ODD_ONE = 2 };

/*
 * Soon enough for a test to wait for it, or so late that a failure noticed earlier was noticed in
 * another way.
 */
static const struct gt_shm_options soon = { .timeout_s = 0.2 }, much_later = { .timeout_s = 60 };

static const double noticed_s = 10; /* on a busy machine */

/* ---- ranks that fail ---- */

struct failing {
	const char *name;
	void (*act)(struct seat_of *s); /* the act of the odd one in place of calling "second" */
	bool threads;                   /* as well */
	bool memory;                    /* what is expected holds for shared memory alone */
	const struct gt_shm_options *options;
	const char *text[3], *hint; /* parts that the others' message has */
};

static void all_reduce(struct seat_of *s, const char *what, int64_t count, struct gt_err *err)
{
	static const float in[5000];
	float *out = calloc(5000, sizeof(*out));
	struct gt_collective c = { GT_ALL_REDUCE, in, out, count, .dtype = GT_F32, .what = what };

	if (out)
		gt_group_run(s->g, &c, err);
	free(out);
}

/* Comes too late, and is told so. */
static void sleep_over(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;

	usleep((useconds_t)(2.5e6 * soon.timeout_s));
	all_reduce(s, "second", 5000, &err);
	expect_rank(s, err.code == GT_EIO && strstr(err.text, "rank 2 is late"));
}

static void go_on(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;

	all_reduce(s, "third", 5000, &err);
	expect_rank(s, err.code == GT_EINVAL && strstr(err.text, "'third'"));
}

static void count_differently(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;

	all_reduce(s, "second", 4999, &err);
	expect_rank(s, err.code == GT_EINVAL && strstr(err.text, "4999"));
}

static void reduce_elsewhere(struct seat_of *s)
{
	static const float in[5000];
	struct gt_collective c = { GT_REDUCE, in, NULL, 5000, .dtype = GT_F32, .what = "second" };
	struct gt_err err = GT_ERR_INIT;

	gt_group_run(s->g, &c, &err);
	expect_rank(s, err.code == GT_EINVAL && strstr(err.text, "reduce 'second'"));
}

static void be_killed(struct seat_of *s)
{
	(void)s;
	raise(SIGKILL);
}

static void be_stopped(struct seat_of *s)
{
	stop_here(s);
}

static void leave(struct seat_of *s)
{
	gt_group_free(s->g);
	s->g = NULL;
}

static void stop_on_fault(int signal_number)
{
	(void)signal_number;
	raise(SIGSTOP);
}

/* Comes to the first meeting, and no further than to the first touch of its buffer. */
static void stop_inside(struct seat_of *s)
{
	float *in = mmap(NULL, 20000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct gt_collective c = { GT_ALL_REDUCE, in, in, 5000, .dtype = GT_F32, .what = "second" };
	struct gt_err err = GT_ERR_INIT;

	s->table->stays[s->rank] = true;
	signal(SIGSEGV, stop_on_fault);
	gt_group_run(s->g, &c, &err);
}

static const struct failing failing[] = {
	{ "late", sleep_over, true, false, &soon,
	    { "rank 2 is late for all-reduce 'second' (number 2)",
	        "the last one that it took part in was number 1, all-reduce 'first'" },
	    "timeout sets" },
	{ "skipping", go_on, true, false, &much_later,
	    { "collective number 2", "all-reduce 'second' of 5000 float32", "all-reduce 'third'" },
	    "same order" },
	{ "other count", count_differently, true, false, &much_later,
	    { "5000 float32", "4999 float32", "rank 2" }, "same order" },
	{ "other collective", reduce_elsewhere, true, false, &much_later,
	    { "all-reduce 'second' of 5000 float32, sum",
	        "reduce 'second' of 5000 float32, sum, to rank 0" },
	    "same order" },
	{ "killed", be_killed, false, false, &much_later,
	    { "rank 2 died before all-reduce 'second' (number 2)" }, "log" },
	{ "stopped", be_stopped, false, true, &soon, { "rank 2 is late for all-reduce 'second'" },
	    "rank 2, process " },
	{ "stopped inside", stop_inside, false, true, &soon,
	    { "rank 2 is late in all-reduce 'second' (number 2), which it has begun" },
	    "was stopped" },
	{ "left", leave, true, false, &much_later,
	    { "rank 2 left the group before all-reduce 'second'" }, "log" },
};

/* All others get the same message, soon, and again from whatever they call next. */
static void failing_body(struct seat_of *s)
{
	const struct failing *f = s->arg;
	struct gt_err err = GT_ERR_INIT, again = GT_ERR_INIT;
	double from;

	all_reduce(s, "first", 5000, &err);
	expect_rank(s, !err.code);
	if (s->rank == ODD_ONE) {
		f->act(s);
		return;
	}
	from = gt_clock_s();
	all_reduce(s, "second", 5000, &err);
	if (gt_clock_s() - from > noticed_s)
		fail_rank(s, "%s: only after %g s: %s", f->name, gt_clock_s() - from, err.text);
	for (int i = 0; i < 3 && f->text[i]; i++)
		if (!err.code || !strstr(err.text, f->text[i]))
			fail_rank(s, "%s: '%s' without '%s'", f->name, err.text, f->text[i]);
	if (!strstr(err.hint, f->hint))
		fail_rank(s, "%s: hint '%s' without '%s'", f->name, err.hint, f->hint);
	expect_rank(s, gt_barrier(s->g, &again) == err.code && !strcmp(err.text, again.text));
}

static void test_failures_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(failing) / sizeof(*failing); i++) {
		struct failing f = failing[i];

		if (f.memory && tests_messages())
			continue;
		run_ranks(true, RANKS, f.options, failing_body, &f);
		if (f.threads)
			run_ranks(false, RANKS, f.options, failing_body, &f);
	}
}

/* ---- the first collective, and messages ---- */

static void first_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;

	if (s->rank == 0) {
		expect_rank(s, gt_barrier(s->g, &err) == GT_EIO);
		expect_rank(s, !strcmp(err.text, "rank 1 is late for barrier (number 1): it took "
		                                 "part in none yet"));
	}
	rally(s);
}

static void message_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	float x = 0;
	struct gt_collective c = { GT_RECV, NULL, &x, 1, .dtype = GT_F32, .peer = 1,
		.what = "activations" };

	if (s->rank == 0) {
		expect_rank(s, gt_group_run(s->g, &c, &err) == GT_EIO);
		expect_rank(s, !strcmp(err.text, "rank 1 is late for recv 'activations' by rank 0 "
		                                 "(message 1 between them)"));
	}
	rally(s);
}

/* Messages number the ranks of a part as in the whole group. */
static void part_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	float x = 0;
	struct gt_collective c = { GT_RECV, NULL, &x, 1, .dtype = GT_F32, .peer = 1,
		.what = "activations" };
	struct gt_group *half, *again;

	expect_rank(s, !gt_group_split(&half, s->g, s->rank / 2, s->rank, &err));
	expect_rank(s, !gt_group_split(&again, half, 0, s->rank, &err));
	if (s->rank == 2) {
		expect_rank(s, gt_group_run(again, &c, &err) == GT_EIO);
		expect_rank(s, !strcmp(err.text, "rank 3 is late for recv 'activations' by rank 2 "
		                                 "(message 1 between them)"));
	}
	rally(s);
	gt_group_free(again);
	gt_group_free(half);
}

/* Ranks 1 and 2 ask for different sizes in a group without rank 0. */
static void part_memory_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_group *part;
	void *memory;

	expect_rank(s, !gt_group_split(&part, s->g, s->rank ? 0 : -1, 0, &err));
	if (part) {
		expect_rank(s, gt_group_alloc(part, 100000 * (size_t)s->rank, &memory, &err));
		expect_rank(s, !(tests_mpi() || tests_messages()) ||
		                   strstr(err.text, "rank 1 for 100000 bytes, rank 2 for 200000") ||
		                   strstr(err.text, "rank 2 for 200000 bytes, rank 1 for 100000"));
	}
	rally(s);
	gt_group_free(part);
}

/* Rank 3 is stopped, 2 waits for it in a group without 0, and 0 waits for 2. */
static void chain_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_group *row, *column;

	expect_rank(s, !gt_group_split(&row, s->g, s->rank / 2, s->rank, &err));
	expect_rank(s, !gt_group_split(&column, s->g, s->rank % 2, s->rank, &err));
	if (s->rank == 3)
		stop_here(s);
	if (s->rank == 2) {
		usleep(500000);
		expect_rank(s, gt_barrier(row, &err) == GT_EIO);
		expect_rank(s, strstr(err.text, "rank 3 is late"));
	} else if (s->rank == 0) {
		expect_rank(s, gt_barrier(column, &err) == GT_EIO);
		/* Over TCP rank 2 tells that it waits, if it is asked when it does. */
		expect_rank(s, strstr(err.text, "rank 2 is late") ||
		                   (tests_messages() && strstr(err.text, "rank 3 is late")));
		/* Only shared memory tells which process is stopped. */
		expect_rank(s, tests_messages() || (strstr(err.hint, "rank 3, process") &&
		                                       strstr(err.hint, "stopped")));
	}
	gt_group_free(column);
	gt_group_free(row);
}

static void message_size_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	float x[2] = { 0 };
	struct gt_collective c = { s->rank ? GT_SEND : GT_RECV, x, x, 1 + s->rank, .dtype = GT_F32,
		.peer = 1 - s->rank };

	gt_group_run(s->g, &c, &err);
	expect_rank(s, s->rank || strstr(err.text, "send of 2 float32, but recv of 1 float32"));
	rally(s);
}

static void background_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_collective c = { .kind = GT_BARRIER, .what = "in the background" };
	uint64_t tickets[2];

	if (s->rank == 0) {
		expect_rank(s, !gt_group_start(s->g, &c, &tickets[0], &err) &&
		                   !gt_group_start(s->g, &c, &tickets[1], &err));
		expect_rank(s, gt_group_wait(s->g, tickets[0], &err) == GT_EIO);
		expect_rank(s, strstr(err.text, "rank 1 is late for barrier 'in the background'"));
		for (int i = 0; i < 2; i++) /* which the second one never began */
			expect_rank(s, gt_group_wait(s->g, tickets[1 - i], &err) == GT_EIO &&
			                   strstr(err.text, "rank 1 is late"));
		expect_rank(s, gt_group_wait(s->g, GT_GROUP_ALL, &err) == GT_EIO);
		expect_rank(s, gt_barrier(s->g, &err));
	}
	rally(s);
}

static void test_other_waits(void **state)
{
	static const struct gt_shm_options options = { .timeout_s = 0.05 };
	static const struct gt_shm_options patient = { .timeout_s =
		                                           1 }; /* parts are made in time */

	(void)state;
	run_ranks(true, 2, &options, first_body, NULL);
	run_ranks(false, 2, &options, first_body, NULL);
	run_ranks(false, 2, &options, message_body, NULL);
	run_ranks(true, 4, &patient, part_body, NULL);
	run_ranks(false, 3, &patient, part_memory_body, NULL);
	run_ranks(true, 4, &patient, chain_body, NULL);
	run_ranks(true, 2, &options, message_size_body, NULL);
	run_ranks(false, 2, &options, message_size_body, NULL);
	run_ranks(false, 2, &options, background_body, NULL);
}

/* As by Ctrl-Z and fg: time in which nobody ran is nobody's delay. */
static void stopped_body(struct seat_of *s)
{
	int pid = getpid(), pids[RANKS];
	struct gt_collective c = { GT_ALL_GATHER, &pid, pids, 1, .dtype = GT_I32 };
	struct gt_err err = GT_ERR_INIT;

	expect_rank(s, !gt_group_run(s->g, &c, &err));
	if (s->rank == ODD_ONE && !err.code) {
		usleep(100000);
		kill(pids[0], SIGSTOP);
		kill(pids[1], SIGSTOP);
		usleep(1000000);
		kill(pids[0], SIGCONT);
		kill(pids[1], SIGCONT);
		usleep(100000);
	}
	if (gt_barrier(s->g, &err))
		fail_rank(s, "%s", err.text);
}

static void test_stopped_together(void **state)
{
	static const struct gt_shm_options options = { .timeout_s = 0.8 };

	(void)state;
	run_ranks(true, RANKS, &options, stopped_body, NULL);
}

/* ---- nothing is left ---- */

static int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Counts shared mappings: groups make no others, and no other code makes shared ones. */
static int count_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], modes[5];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%*s %4s", modes) == 1 && modes[3] == 's';
	if (f)
		fclose(f);
	return n;
}

/* Of this process, all in all. */
static size_t address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	if (!f || fscanf(f, "%zu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void use_body(struct seat_of *s)
{
	struct gt_group *sub = NULL;
	struct gt_err err = GT_ERR_INIT;
	struct gt_collective c = { .kind = GT_BARRIER };
	void *memory;

	expect_rank(s, !gt_group_alloc(s->g, 1 << 20, &memory, &err));
	expect_rank(s, !gt_group_split(&sub, s->g, 0, 0, &err));
	expect_rank(s, !gt_group_alloc(sub, 1 << 20, &memory, &err));
	expect_rank(s, !gt_group_start(sub, &c, NULL, &err));
	expect_rank(s, !gt_group_wait(sub, GT_GROUP_ALL, &err));
	gt_group_free(sub);
}

/* A process that makes groups and frees them, with memory that it has not released. */
static void leak_body(struct seat_of *s)
{
	struct gt_exchange exchange = { exchange_by_table, s };
	int descriptors = 0, mappings = 0;

	for (int i = 0; i < 3; i++) {
		struct seat_of inner = *s;
		struct gt_err err = GT_ERR_INIT;

		descriptors = count_descriptors();
		mappings = count_mappings();
		if (gt_shm_of_processes(&inner.g, s->rank, s->size, &exchange, s->options, &err))
			fail_rank(s, "%s", err.text);
		else if (!group_to_test(&inner))
			use_body(&inner);
		free_group(&inner);
		expect_rank(s, count_descriptors() == descriptors);
		expect_rank(s, count_mappings() == mappings);
	}
}

static void test_nothing_is_left(void **state)
{
	static const struct gt_shm_options options = { .timeout_s = 20 };
	int descriptors = count_descriptors(), mappings = count_mappings();
	size_t before;

	(void)state;
	if (tests_mpi())
		skip(); /* MPI keeps mappings of its own */
	run_ranks(true, 2, &options, leak_body, NULL);
	run_ranks(false, 2, &options, use_body, NULL); /* stacks of threads are kept, once there */
	before = address_space();
	for (int i = 0; i < 10; i++)
		run_ranks(false, 2, &options, use_body, NULL);
	assert_true(address_space() < before + (64 << 20)); /* leaked, it were 100 MiB */
	assert_int_equal(count_descriptors(), descriptors);
	assert_int_equal(count_mappings(), mappings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures_are_named),
		cmocka_unit_test(test_other_waits),
		cmocka_unit_test(test_stopped_together),
		cmocka_unit_test(test_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
