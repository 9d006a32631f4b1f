/* test_comm_tcp.c - groups over TCP: the other groups' tests, strangers, long messages. */
#include "tests/unit/comm_fixture.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/comm/rendezvous/messages.h"
#include "lib/comm/tcp/state.h"

static const struct gt_shm_options options = { .timeout_s = 60 };

static void test_as_other_groups(void **state)
{
	(void)state;
	run_tests_on("tcp");
	run_tests_on("hosts");
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

/* All get the error of the rank that nobody let in, with the address that it tried. */
static void secret_body(struct seat_of *s)
{
	const struct start *start = s->arg;
	struct gt_err err = GT_ERR_INIT;
	char who[32];

	snprintf(who, sizeof(who), "rank %d on host ", *start->secret[1] == 'b' ? 1 : 2);
	expect_rank(s, open_tcp(s, &err) == GT_EIO && !s->messenger);
	if (strncmp(err.text, who, strlen(who)) || !strstr(err.text, "cannot connect to rank 0") ||
	    !strstr(err.text, ", at 127.0.0.1 port ") || !strstr(err.hint, "GTRAIN_IFNAME"))
		fail_rank(s, "'%s' (%s)", err.text, err.hint);
}

static void test_a_wrong_secret_is_not_let_in(void **state)
{
	struct start starts[] = { { { "a", "a", "b" }, .timeout_s = 4 },
		{ { "a", "b", "a" }, .timeout_s = 4 } };

	(void)state;
	for (int i = 0; i < 2; i++)
		run_ranks(false, 3, &options, secret_body, &starts[i]);
}

/* ---- frames that no rank sends ---- */

enum { LONG_BYTES = 64 << 20, ANY_TAG = 5, EVIL_ID = 77 };

/* The first number of the ids that rank 0 gives to its long messages is 1. */
static const struct evil {
	uint32_t kind, bytes, id;
	/* rank 0's own frame, which this one answers, is not sent yet */
	bool early;
} evils[] = { { 99, 0, 0, false }, { GT_TCP_WHOLE, GT_TCP_SHORT + 1, 0, false },
	{ GT_TCP_GRANT, 0, 1, false }, { GT_TCP_DATA, 9, 0, false }, { GT_TCP_GRANT, 0, 2, true },
	{ GT_TCP_DATA, LONG_BYTES, EVIL_ID, true } };

static struct gt_tcp_connection *connection_of(struct seat_of *s)
{
	return &((struct gt_tcp *)s->messenger)->connections[1 - s->rank];
}

static void send_head(struct seat_of *s, uint32_t kind, uint32_t bytes, uint32_t id)
{
	unsigned char head[GT_TCP_HEAD];

	gt_wire_put(head, kind);
	gt_wire_put(head + 4, ANY_TAG);
	gt_wire_put(head + 8, bytes);
	gt_wire_put(head + 12, id);
	expect_rank(s, !gt_wire_send(connection_of(s)->fd, head, sizeof(head), 0));
}

/* Rank 0 has a message to send that is too long for the socket's buffer, and then a frame behind
 * it. */
static void fill_socket(struct seat_of *s, struct gt_msg_request requests[2], void *p)
{
	const struct gt_messenger_ops *ops = s->messenger->ops;
	struct gt_tcp_connection *c = connection_of(s);
	const struct evil *evil = s->arg;

	ops->send(s->messenger, &requests[0], p, LONG_BYTES, 1, ANY_TAG);
	while (!c->wants_output)
		ops->progress(s->messenger, 0.1);
	if (evil->kind == GT_TCP_GRANT)
		ops->send(s->messenger, &requests[1], p, LONG_BYTES, 1, ANY_TAG);
	else
		ops->receive(s->messenger, &requests[1], p, LONG_BYTES, 1, ANY_TAG);
	while (evil->kind == GT_TCP_DATA && !c->granted.first)
		ops->progress(s->messenger, 0.1);
}

static void evil_body(struct seat_of *s)
{
	struct start start = { { "a", "a" }, .timeout_s = 60 };
	struct gt_msg_request requests[2] = { { 0 }, { 0 } };
	const struct evil *evil = s->arg;
	struct gt_err err = GT_ERR_INIT;
	double until = gt_clock_s() + 20;
	const char *how = NULL;
	char *p = s->rank ? NULL : calloc(1, LONG_BYTES);

	s->arg = &start;
	if (open_tcp(s, &err))
		fail_rank(s, "%s", err.text);
	s->arg = (void *)evil;
	if (evil->early && s->rank) {
		send_head(s, GT_TCP_GRANT, 0, 1);
		send_head(s, GT_TCP_ASK, LONG_BYTES, EVIL_ID);
	} else if (evil->early) {
		fill_socket(s, requests, p);
	}
	rally(s);
	if (s->rank)
		send_head(s, evil->kind, evil->bytes, evil->id);
	while (!s->rank && !how && gt_clock_s() < until) {
		s->messenger->ops->progress(s->messenger, 0.1);
		how = s->messenger->ops->lost(s->messenger, 1);
	}
	expect_rank(s, s->rank || (how && !strcmp(how, "sent bytes that are no message")));
	for (int i = 0; i < 2; i++)
		if (requests[i].handle)
			s->messenger->ops->forget(s->messenger, &requests[i]);
	rally(s);
	free(p);
}

static void test_frames_that_no_rank_sends_end_the_connection(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(evils) / sizeof(*evils); i++)
		run_ranks(false, 2, &options, evil_body, (void *)&evils[i]);
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

/* ---- sums by host ---- */

enum { MOST_ADDED = 2500003 };

static const struct added {
	int64_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
} added[] = { { 16384, GT_F32, GT_SUM }, { 70003, GT_F32, GT_AVG }, { 70002, GT_F64, GT_MAX },
	{ 70001, GT_I32, GT_AVG }, { MOST_ADDED, GT_F32, GT_SUM }, { 70001, GT_BF16, GT_SUM } };

/* Calls that are too short to be divided among the ranks of a host. */
static int add_in_short_calls(
    struct gt_group *g, struct gt_collective c, int64_t count, struct gt_err *err)
{
	const size_t size = gt_dtype_size(c.dtype);
	const char *in = c.in;
	char *out = c.out;

	for (int64_t at = 0; at < count; at += c.count) {
		c.count = count - at < 8000 ? count - at : 8000;
		c.in = in + (size_t)at * size;
		c.out = out + (size_t)at * size;
		if (gt_group_run(g, &c, err))
			return err->code;
	}
	return 0;
}

static void add(struct seat_of *s, struct gt_group *split, const struct added *row, void *shared)
{
	const size_t bytes = (size_t)row->count * gt_dtype_size(row->dtype);
	unsigned char *in = malloc(bytes), *one = malloc(bytes), *many = malloc(bytes);
	struct gt_collective c = { GT_ALL_REDUCE, in, one, row->count, row->dtype, row->reduction,
		.what = "a bucket" };
	struct gt_err err = GT_ERR_INIT;

	for (size_t i = 0; i < bytes; i++)
		in[i] = (unsigned char)((i * 2654435761u >> 7) + (size_t)s->rank * 61);
	for (size_t i = 1; i < bytes && row->dtype != GT_I32; i += 2)
		in[i] = 0x3f; /* no NaN */
	expect_rank(s, !add_in_short_calls(s->g, c, row->count, &err));
	c.out = many;
	expect_rank(s, !gt_group_run(s->g, &c, &err) && !memcmp(one, many, bytes));
	memcpy(shared, in, bytes);
	c.in = c.out = shared;
	expect_rank(s, !gt_group_run(split, &c, &err) && !memcmp(one, shared, bytes));
	if (err.code)
		fail_rank(s, "%s", err.text);
	free(in);
	free(one);
	free(many);
}

/* The same numbers in short calls, and in a long one, which each host adds up first: whole pieces,
 * parts of them, elements that are left over; in place, and not. */
static void by_host_body(struct seat_of *s)
{
	struct gt_group *split = NULL;
	struct gt_err err = GT_ERR_INIT;
	void *shared = NULL;

	expect_rank(s, !gt_group_alloc(s->g, MOST_ADDED * sizeof(float), &shared, &err));
	expect_rank(s, !gt_group_split(&split, s->g, 0, s->rank, &err));
	for (size_t k = 0; k < sizeof(added) / sizeof(*added) && split && shared; k++)
		add(s, split, &added[k], shared);
	gt_group_free(split);
}

static void test_sums_by_host_have_the_same_bits(void **state)
{
	(void)state;
	setenv("GTRAIN_TEST_GROUP", "hosts", 1);
	run_ranks(false, 4, &options, by_host_body, NULL);
	run_ranks(true, 8, &options, by_host_body, NULL);
	unsetenv("GTRAIN_TEST_GROUP");
}

/* Rank 3 dies before a large sum: all others end with the same line. */
static void killed_by_host_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT, again = GT_ERR_INIT;
	static float x[100000];

	expect_rank(s, !gt_all_reduce(s->g, x, 100000, GT_F32, GT_SUM, &err));
	if (s->rank == 3)
		raise(SIGKILL);
	expect_rank(s, gt_all_reduce(s->g, x, 100000, GT_F32, GT_SUM, &err) == GT_EIO);
	if (!strstr(err.text, "rank 3") || !strstr(err.text, "died before"))
		fail_rank(s, "'%s'", err.text);
	expect_rank(s, gt_barrier(s->g, &again) && !strcmp(err.text, again.text));
}

static void test_a_killed_rank_is_named_on_all_hosts(void **state)
{
	(void)state;
	setenv("GTRAIN_TEST_GROUP", "hosts", 1);
	run_ranks(true, 4, &options, killed_by_host_body, NULL);
	unsetenv("GTRAIN_TEST_GROUP");
}

/* ---- giving up ---- */

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
		cmocka_unit_test(test_frames_that_no_rank_sends_end_the_connection),
		cmocka_unit_test(test_long_messages_of_several_groups),
		cmocka_unit_test(test_giving_up),
		cmocka_unit_test(test_sums_by_host_have_the_same_bits),
		cmocka_unit_test(test_a_killed_rank_is_named_on_all_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
