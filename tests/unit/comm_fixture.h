/* comm_fixture.h - ranks for tests: threads, or processes that a test forks. */
#ifndef TESTS_UNIT_COMM_FIXTURE_H
#define TESTS_UNIT_COMM_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants some of these first */
#include <cmocka.h>
#include <fcntl.h>

#include "lib/comm/hosts/hosts.h"
#include "lib/comm/mpi/mpi.h"
#include "lib/comm/ring/ring.h"
#include "lib/comm/shm/shm.h"
#include "lib/comm/tcp/tcp.h"

enum { MOST_RANKS = 8, MOST_EXCHANGED = GT_TCP_EXCHANGED };

/* Memory that the ranks and the test that started them share. */
struct table {
	pthread_barrier_t barrier;
	unsigned char exchanged[MOST_RANKS][MOST_EXCHANGED];
	char said[MOST_RANKS][1024]; /* the failure; "" for none */
	bool stays[MOST_RANKS];      /* stopped, which nobody will undo */
};

/* A rank's part of a test. It reports a failure by fail_rank(). */
struct seat_of {
	int rank, size;
	bool processes;
	struct gt_group *g;
	struct gt_messenger *messenger; /* of g, where it has one; owned */
	struct table *table;
	const struct gt_shm_options *options;
	void (*body)(struct seat_of *s);
	void *arg;
};

#define fail_rank(s, ...)                                                                          \
	do {                                                                                       \
		if (!(s)->table->said[(s)->rank][0])                                               \
			snprintf((s)->table->said[(s)->rank], sizeof((s)->table->said[0]),         \
			    __VA_ARGS__);                                                          \
	} while (0)

#define expect_rank(s, condition)                                                                  \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_rank(s, "line %d: %s", __LINE__, #condition);                         \
	} while (0)

static inline int exchange_by_table(
    void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct seat_of *s = self;

	if (bytes > MOST_EXCHANGED)
		return gt_err_set(err, GT_EINVAL, "%zu bytes are too many", bytes);
	memcpy(s->table->exchanged[s->rank], mine, bytes);
	pthread_barrier_wait(&s->table->barrier);
	for (int r = 0; r < s->size; r++)
		memcpy((char *)all + (size_t)r * bytes, s->table->exchanged[r], bytes);
	pthread_barrier_wait(&s->table->barrier);
	return 0;
}

/* Until all ranks are here, by other means than those that are tested. */
static inline void rally(struct seat_of *s)
{
	pthread_barrier_wait(&s->table->barrier);
}

/* In a process, until the test is over. */
static inline void stop_here(struct seat_of *s)
{
	s->table->stays[s->rank] = true;
	raise(SIGSTOP);
}

static inline struct table *new_table(int size)
{
	struct table *t =
	    mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;

	assert_ptr_not_equal(t, MAP_FAILED);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&t->barrier, &shared, (unsigned)size);
	pthread_barrierattr_destroy(&shared);
	return t;
}

/* For test_comm_ring.c and test_comm_tcp.c, which start the other tests of groups once more: the
 * groups of all tests are then of this kind, "ring", "tcp" or
 * "hosts". */
static inline bool tests_kind(const char *kind)
{
	const char *wanted = getenv("GTRAIN_TEST_GROUP");

	return wanted && !strcmp(wanted, kind);
}

static inline bool tests_messages(void)
{
	return tests_kind("tcp") || tests_kind("hosts");
}

/* In place of a group from shm.h. */
static inline int use_tcp(struct seat_of *s, struct gt_err *err)
{
	const struct gt_exchange exchange = { exchange_by_table, s };
	const struct gt_tcp_options tcp = { .timeout_s = 60, .secret = "sesame", .one_host = true };
	const struct gt_msg_options options = { s->options->timeout_s,
		s->options->staging_bytes / 3 };

	gt_group_free(s->g);
	s->g = NULL;
	if (gt_tcp_open(&s->messenger, s->rank, s->size, &exchange, &tcp, err) ||
	    gt_msg_group(&s->g, s->messenger, &options, err))
		return err->code;
	/* The first half of the ranks is on one host. */
	return tests_kind("hosts") ? gt_hosts_group(&s->g, 2 * s->rank < s->size ? "a" : "b", err)
	                           : 0;
}

/* Of a seat from shm.h, whose ranks all call this: the group that is tested. */
static inline int group_to_test(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	int rc = tests_kind("ring") ? gt_ring_of_shm(&s->g, &err)
	         : tests_messages() ? use_tcp(s, &err)
	                            : 0;

	if (rc)
		fail_rank(s, "%s", err.text);
	return rc;
}

static inline void free_group(struct seat_of *s)
{
	gt_group_free(s->g);
	gt_messenger_free(s->messenger);
	s->g = NULL;
	s->messenger = NULL;
}

static inline void run_tests_on(const char *kind)
{
	static const char *const programs[] = { "test_comm_shm", "test_comm_group",
		"test_comm_failures" };
	char folder[4096], command[2 * sizeof(folder)];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	assert_true(n > 0);
	folder[n] = '\0';
	*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		int status;

		snprintf(command, sizeof(command),
		    "GTRAIN_TEST_GROUP=%s CMOCKA_MESSAGE_OUTPUT=STDOUT '%s/%s' </dev/null 1>&2",
		    kind, folder, programs[i]);
		status = system(command);
		if (status)
			fail_msg("%s on %s: status %d", programs[i], kind, WEXITSTATUS(status));
	}
}

/* A rank that fails at once must not end the opening of another rank's group: all wait until the
 * last group is open. */
static inline void run_body(struct seat_of *s)
{
	int rc = group_to_test(s);

	rally(s);
	if (!rc)
		s->body(s);
}

static inline void *run_thread(void *arg)
{
	struct seat_of *s = arg;

	run_body(s);
	free_group(s);
	return NULL;
}

static inline void run_threads(struct seat_of *seats, int size)
{
	struct gt_group *groups[MOST_RANKS];
	struct gt_err err = GT_ERR_INIT;
	pthread_t threads[MOST_RANKS];

	if (gt_shm_of_threads(groups, size, seats[0].options, &err))
		fail_msg("%s", err.text);
	for (int r = 0; r < size; r++) {
		seats[r].g = groups[r];
		assert_int_equal(pthread_create(&threads[r], NULL, run_thread, &seats[r]), 0);
	}
	for (int r = 0; r < size; r++)
		pthread_join(threads[r], NULL);
}

static inline void run_process(struct seat_of *s)
{
	struct gt_exchange exchange = { exchange_by_table, s };
	struct gt_err err = GT_ERR_INIT;

	if (gt_shm_of_processes(&s->g, s->rank, s->size, &exchange, s->options, &err))
		fail_rank(s, "%s", err.text);
	else
		run_body(s);
	free_group(s);
}

static inline void run_processes(struct seat_of *seats, int size)
{
	struct table *t = seats[0].table;
	pid_t pids[MOST_RANKS];
	int status;

	for (int r = 0; r < size; r++) {
		pids[r] = fork();
		assert_true(pids[r] >= 0);
		if (!pids[r]) {
			run_process(&seats[r]);
			_exit(0);
		}
	}
	for (int r = 0; r < size; r++) {
		do
			waitpid(pids[r], &status, WUNTRACED);
		while (WIFSTOPPED(status) && !t->stays[r]);
		if (!t->said[r][0] && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			snprintf(
			    t->said[r], sizeof(t->said[r]), "died of signal %d", WTERMSIG(status));
	}
	for (int r = 0; r < size; r++)
		if (t->stays[r]) {
			kill(pids[r], SIGKILL);
			waitpid(pids[r], &status, 0);
		}
}

/*
 * On MPI, by test_comm_mpi.c: mpirun starts the whole test program several times, and all of them
 * come to the same tests. Those of so many ranks are done by groups on MPI, whatever they ask for;
 * the others are left out, as are tests that end processes: those that ask for processes. The table
 * is in a file that GTRAIN_TEST_TABLE names.
 */
struct on_mpi {
	struct gt_messenger *mpi;
	struct table *table;
	int rank, size;
};

static inline bool tests_mpi(void)
{
	return getenv("GTRAIN_TEST_TABLE") != NULL;
}

static inline struct on_mpi *on_mpi(void)
{
	static struct on_mpi self;

	return &self;
}

static inline void finish_mpi(void)
{
	const struct gt_msg_options options = { .timeout_s = 60 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_group *g;

	if (gt_msg_group(&g, on_mpi()->mpi, &options, &err) ||
	    gt_messenger_finish(on_mpi()->mpi, g, &err)) {
		fprintf(stderr, "%s\n", err.text);
		_exit(1);
	}
	gt_group_free(g);
	gt_messenger_free(on_mpi()->mpi);
}

static inline void begin_mpi(void)
{
	struct on_mpi *m = on_mpi();
	struct gt_err err = GT_ERR_INIT;
	int fd;

	if (m->mpi)
		return;
	fd = open(getenv("GTRAIN_TEST_TABLE"), O_RDWR | O_CLOEXEC);
	m->table = mmap(NULL, sizeof(*m->table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(m->table, MAP_FAILED);
	close(fd);
	if (gt_mpi_open(&m->mpi, &err))
		fail_msg("%s", err.text);
	m->rank = m->mpi->rank;
	m->size = m->mpi->size;
	atexit(finish_mpi);
}

static inline void run_on_mpi(
    int size, const struct gt_shm_options *options, void (*body)(struct seat_of *s), void *arg)
{
	struct on_mpi *m = on_mpi();
	struct gt_msg_options o = { options->timeout_s, options->staging_bytes / 3 };
	struct seat_of s = { m->rank, size, true, NULL, NULL, m->table, options, body, arg };
	struct gt_err err = GT_ERR_INIT;
	char said[1024] = "";

	if (m->size != size)
		return;
	m->table->said[s.rank][0] = '\0';
	if (gt_msg_group(&s.g, m->mpi, &o, &err))
		fail_rank(&s, "%s", err.text);
	else
		body(&s);
	gt_group_free(s.g);
	rally(&s);
	for (int r = size - 1; r >= 0; r--)
		if (m->table->said[r][0])
			snprintf(said, sizeof(said), "rank %d of %d on MPI: %.900s", r, size,
			    m->table->said[r]);
	rally(&s);
	if (said[0])
		fail_msg("%s", said);
}

/* Let `size` ranks do `body`; fail if one of them says that something is wrong. */
static inline void run_ranks(bool processes, int size, const struct gt_shm_options *options,
    void (*body)(struct seat_of *s), void *arg)
{
	struct table *t;
	struct seat_of seats[MOST_RANKS];
	char said[sizeof(t->said[0])] = "";
	int who = 0;

	if (tests_mpi()) {
		begin_mpi();
		if (!processes)
			run_on_mpi(size, options, body, arg);
		return;
	}
	t = new_table(size);
	for (int r = 0; r < size; r++)
		seats[r] =
		    (struct seat_of){ r, size, processes, NULL, NULL, t, options, body, arg };
	(processes ? run_processes : run_threads)(seats, size);
	for (int r = size - 1; r >= 0; r--)
		if (t->said[r][0]) {
			memcpy(said, t->said[r], sizeof(said));
			who = r;
		}
	munmap(t, sizeof(*t));
	if (said[0])
		fail_msg(
		    "rank %d of %d %s: %s", who, size, processes ? "processes" : "threads", said);
}

#endif
