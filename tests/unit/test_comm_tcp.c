/* test_comm_tcp.c - groups over TCP: the other groups' tests, strangers, long messages. */
#include "tests/unit/comm_fixture.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "lib/base/clock.h"

static const struct gt_shm_options options = { .timeout_s = 60 };

static void test_as_other_groups(void **state)
{
	(void)state;
	run_tests_on("tcp");
}

/* ---- a rank's own group ---- */

struct start {
	const char *secret[MOST_RANKS];
	bool strangers; /* other processes connect to every rank first */
	bool checked;   /* the exchange has been used once */
	double timeout_s;
};

enum { LONGEST_PORTS = 64 };

/* The ports at which this process listens. */
static int find_ports(struct sockaddr_in *out)
{
	int count = 0;

	for (int fd = 0; fd < 256 && count < LONGEST_PORTS; fd++) {
		int listens = 0;
		socklen_t size = sizeof(listens);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
			continue;
		size = sizeof(out[count]);
		if (!getsockname(fd, (struct sockaddr *)&out[count], &size))
			count++;
	}
	return count;
}

/* Silence, less than a hello, and garbage of many sizes. */
static void visit_as_strangers(struct seat_of *s)
{
	struct sockaddr_in ports[LONGEST_PORTS];
	int count = find_ports(ports);
	unsigned char garbage[4096];

	expect_rank(s, count >= s->size - 1);
	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (unsigned char)(i * i + 7);
	for (int i = 0; i < 300; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&ports[i % count], sizeof(ports[0])))
			fail_rank(s, "no connection");
		(void)!send(fd, garbage, (size_t)(i * 37 % 4097), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (i % 3)
			close(fd);
	}
}

static int exchange_with_strangers(
    void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct seat_of *s = self;
	struct start *start = s->arg;

	/* All listen when the first exchange ends. */
	if (exchange_by_table(s, mine, bytes, all, err))
		return err->code;
	if (start->strangers && s->rank == s->size - 1 && !start->checked) {
		start->checked = true;
		visit_as_strangers(s);
	}
	return 0;
}

static int open_tcp(struct seat_of *s, struct gt_err *err)
{
	struct start *start = s->arg;
	const struct gt_exchange exchange = { exchange_with_strangers, s };
	const struct gt_tcp_options tcp = {
		.timeout_s = start->timeout_s, .secret = start->secret[s->rank], .one_host = true
	};

	return gt_tcp_open(&s->messenger, s->rank, s->size, &exchange, &tcp, err);
}

static void strangers_body(struct seat_of *s)
{
	const struct gt_msg_options group = { .timeout_s = 60 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_group *g = NULL;
	double x = s->rank;

	if (open_tcp(s, &err) || gt_msg_group(&g, s->messenger, &group, &err) ||
	    gt_all_reduce(g, &x, 1, GT_F64, GT_SUM, &err))
		fail_rank(s, "%s", err.text);
	expect_rank(s, x == s->size * (s->size - 1) / 2);
	gt_group_free(g);
}

static void test_strangers_do_no_harm(void **state)
{
	struct start start = { { "a", "a", "a", "a" }, .strangers = true, .timeout_s = 60 };

	(void)state;
	run_ranks(false, 4, &options, strangers_body, &start);
}

/* All get the error of the rank that nobody let in. */
static void secret_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;

	expect_rank(s, open_tcp(s, &err) == GT_EIO && !s->messenger);
	if (!strstr(err.text, "rank 2 on host ") || !strstr(err.text, "cannot connect to rank 0") ||
	    !strstr(err.hint, "GTRAIN_IFNAME"))
		fail_rank(s, "'%s' (%s)", err.text, err.hint);
}

static void test_a_wrong_secret_is_not_let_in(void **state)
{
	struct start start = { { "a", "a", "b" }, .timeout_s = 4 };

	(void)state;
	run_ranks(false, 3, &options, secret_body, &start);
}

/* ---- long messages ---- */

/* Several groups at once, in threads of their own, all with messages that have to be asked for; and
 * one that is sent before its receiver comes. */
static void long_body(struct seat_of *s)
{
	enum { COUNT = 300001, GROUPS = 3 };
	struct gt_group *part[GROUPS] = { NULL };
	float *x[GROUPS] = { NULL };
	uint64_t ticket[GROUPS];
	struct gt_err err = GT_ERR_INIT;

	for (int k = 0; k < GROUPS; k++) {
		struct gt_collective c = { GT_ALL_REDUCE, .count = COUNT, .dtype = GT_F32 };

		expect_rank(s, !gt_group_split(&part[k], s->g, 0, s->rank, &err));
		c.in = c.out = x[k] = calloc(COUNT, sizeof(float));
		for (int i = 0; x[k] && i < COUNT; i++)
			x[k][i] = (float)(s->rank + k + i % 5);
		if (part[k])
			expect_rank(s, !gt_group_start(part[k], &c, &ticket[k], &err));
	}
	for (int k = GROUPS - 1; k >= 0; k--) {
		if (part[k] && gt_group_wait(part[k], ticket[k], &err))
			fail_rank(s, "%s", err.text);
		for (int i = 0; x[k] && i < COUNT; i++)
			expect_rank(s, x[k][i] == (float)(s->size * (k + i % 5) +
			                                  s->size * (s->size - 1) / 2));
	}
	for (int k = 0; k < GROUPS; k++) {
		free(x[k]);
		gt_group_free(part[k]);
	}
}

static void test_long_messages_of_several_groups(void **state)
{
	(void)state;
	setenv("GTRAIN_TEST_GROUP", "tcp", 1);
	for (int size = 2; size <= 4; size++)
		run_ranks(size == 3, size, &options, long_body, NULL);
	unsetenv("GTRAIN_TEST_GROUP");
}

/* A rank that gives up in the middle of a long message leaves its buffer to the caller at once. */
static void give_up_body(struct seat_of *s)
{
	const size_t bytes = (size_t)64 << 20;
	unsigned char *x = calloc(1, bytes);
	struct gt_collective c = { GT_SEND, x, x, (int64_t)bytes, GT_U8, .peer = 1 - s->rank };
	struct gt_err err = GT_ERR_INIT;
	double from = gt_clock_s();

	if (s->rank == 0) {
		expect_rank(s, gt_group_run(s->g, &c, &err) == GT_EIO);
		expect_rank(s, strstr(err.text, "rank 1 is late"));
		expect_rank(s, gt_clock_s() - from < 20);
	}
	free(x);
	rally(s);
	expect_rank(s, gt_barrier(s->g, &err) == GT_EIO);
	rally(s);
}

static void test_giving_up(void **state)
{
	static const struct gt_shm_options soon = { .timeout_s = 0.2 };

	(void)state;
	setenv("GTRAIN_TEST_GROUP", "tcp", 1);
	run_ranks(false, 2, &soon, give_up_body, NULL);
	unsetenv("GTRAIN_TEST_GROUP");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_other_groups),
		cmocka_unit_test(test_strangers_do_no_harm),
		cmocka_unit_test(test_a_wrong_secret_is_not_let_in),
		cmocka_unit_test(test_long_messages_of_several_groups),
		cmocka_unit_test(test_giving_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
