/* test_comm_rendezvous.c - ranks that meet, as threads; and what comes in place of ranks. */
#include "lib/comm/rendezvous.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/clock.h"
#include "lib/comm/rendezvous_inside.h"

enum { MAX = 8 };

static void rest(double seconds)
{
	struct timespec ts = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

	nanosleep(&ts, NULL);
}

/* A socket that listens on a free loopback port. */
static int listener(int family, int *port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool is_six = family == AF_INET6;
	struct sockaddr *address = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t size = is_six ? sizeof(six) : sizeof(four);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, address, size) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, address, &size)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(is_six ? six.sin6_port : four.sin_port);
	return fd;
}

static int dial(int port)
{
	struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (!connect(fd, (struct sockaddr *)&four, sizeof(four)))
		return fd;
	close(fd);
	return -1;
}

/* One rank: what it is told, when it comes, what it does, how it ended. */
struct rank {
	struct gt_world world;
	const char *agreement;
	double timeout_s, comes_after_s;
	void (*then)(struct rank *self, struct gt_rendezvous *r);
	int rc;
	struct gt_err err;
	double took_s;
	pthread_t thread;
};

static void *live(void *context)
{
	struct rank *self = context;
	struct gt_rendezvous *r;
	double start;

	rest(self->comes_after_s);
	start = gt_clock_s();
	self->rc =
	    gt_rendezvous_meet(&r, &self->world, self->agreement, self->timeout_s, &self->err);
	if (!self->rc && self->then)
		self->then(self, r);
	self->took_s = gt_clock_s() - start;
	gt_rendezvous_leave(r);
	return NULL;
}

/* A job of `size` ranks on this host that all fit; rank 0 gets a socket of the test's. */
static void make_job(struct rank *rank, int size, int family)
{
	int port = 0, fd = listener(family, &port);

	assert_true(fd >= 0);
	for (int i = 0; i < size; i++) {
		rank[i] =
		    (struct rank){ .agreement = "version 1\nmodel mlp:4,2\n", .timeout_s = 20 };
		rank[i].world = (struct gt_world){ .source = GT_WORLD_GTRAIN,
			.rank = i,
			.size = size,
			.local_rank = i,
			.local_size = size,
			.port = port,
			.listen_fd = i ? 0 : fd };
		strcpy(rank[i].world.address, family == AF_INET6 ? "::1" : "127.0.0.1");
		strcpy(rank[i].world.secret, "sesame");
	}
}

static void start(struct rank *rank, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&rank[i].thread, NULL, live, &rank[i]), 0);
}

static void finish(struct rank *rank, int count)
{
	for (int i = 0; i < count; i++)
		pthread_join(rank[i].thread, NULL);
}

static void run(struct rank *rank, int count)
{
	start(rank, count);
	finish(rank, count);
}

static unsigned char pattern(int rank, size_t i, int round)
{
	return (unsigned char)(rank * 31 + (int)(i % 251) + round);
}

/* Some rounds of some sizes; any wrong byte makes the rank fail. */
static void exchange_some(struct rank *self, struct gt_rendezvous *r)
{
	static const size_t sizes[] = { 0, 1, 8, 4099, GT_RENDEZVOUS_MAX_BYTES };
	int count = self->world.size;
	unsigned char *mine = malloc(GT_RENDEZVOUS_MAX_BYTES);
	unsigned char *all = malloc((size_t)count * GT_RENDEZVOUS_MAX_BYTES);

	for (int round = 0; round < 10 && !self->rc; round++) {
		size_t bytes = sizes[round % 5];

		for (size_t i = 0; i < bytes; i++)
			mine[i] = pattern(self->world.rank, i, round);
		self->rc = gt_rendezvous_exchange(r, mine, bytes, all, &self->err);
		for (int from = 0; from < count && !self->rc; from++)
			for (size_t i = 0; i < bytes; i++)
				if (all[(size_t)from * bytes + i] != pattern(from, i, round))
					self->rc = gt_err_set(
					    &self->err, GT_EIO, "byte %zu of rank %d", i, from);
	}
	free(all);
	free(mine);
}

static void expect_all_well(const struct rank *rank, int count)
{
	for (int i = 0; i < count; i++)
		if (rank[i].rc)
			fail_msg("rank %d of %d: %s", i, count, rank[i].err.text);
}

/* With rank 0 first, in the middle and last. */
static void ranks_meet_in_any_order(void **state)
{
	struct rank rank[MAX];

	(void)state;
	for (int size = 1; size <= MAX; size++) {
		make_job(rank, size, AF_INET);
		if (size == 1)
			close(rank[0].world.listen_fd);
		for (int i = 0; i < size; i++) {
			rank[i].comes_after_s = 0.003 * ((5 * i + size) % size);
			rank[i].then = exchange_some;
		}
		run(rank, size);
		expect_all_well(rank, size);
	}
}

/* Nobody listens yet when the others come. */
static void rank_0_may_come_late(void **state)
{
	static const char *const addresses[] = { "127.0.0.1", "localhost",
		"not.this.host.invalid" };
	struct rank rank[3];

	(void)state;
	for (size_t k = 0; k < sizeof(addresses) / sizeof(*addresses); k++) {
		make_job(rank, 3, AF_INET);
		close(rank[0].world.listen_fd);
		rank[0].world.listen_fd = 0;
		rank[0].comes_after_s = 0.05;
		for (int i = 0; i < 3; i++) {
			strcpy(rank[i].world.address, addresses[k]);
			rank[i].then = exchange_some;
		}
		run(rank, 3);
		expect_all_well(rank, 3);
	}
}

static void version_6_of_ip_will_do(void **state)
{
	struct rank rank[3];
	int port, fd = listener(AF_INET6, &port);

	(void)state;
	if (fd < 0) {
		print_message("ipv6: this host has no ::1\n");
		skip();
	}
	close(fd);
	make_job(rank, 3, AF_INET6);
	for (int i = 0; i < 3; i++)
		rank[i].then = exchange_some;
	run(rank, 3);
	expect_all_well(rank, 3);
}

/* Several hosts in name; here they are one. */
static void hosts_need_a_secret(void **state)
{
	struct rank rank[2];

	(void)state;
	for (int with = 0; with < 2; with++) {
		make_job(rank, 2, AF_INET);
		for (int i = 0; i < 2; i++) {
			rank[i].world.local_rank = 0;
			rank[i].world.local_size = 1;
			if (!with)
				rank[i].world.secret[0] = '\0';
		}
		if (with) {
			run(rank, 2);
			expect_all_well(rank, 2);
			continue;
		}
		run(rank + 1, 1);
		close(rank[0].world.listen_fd);
		assert_int_equal(rank[1].rc, GT_EINVAL);
		assert_non_null(strstr(rank[1].err.text, "GTRAIN_SECRET is not set"));
	}
}

/* Of three ranks the third is started wrongly: what all hear at once. `later`: rank 0 goes on
 * waiting, so the others hear when the time is over. */
static const struct misfit {
	const char *what, *value, *text;
	bool later;
} misfits[] = {
	{ "secret", "sesamE", "rank 2 has a wrong secret", true },
	{ "secret", "", "rank 2 has a wrong secret", true },
	{ "restart", "1", "rank 2 is of restart 1, rank 0 of restart 0", true },
	{ "size", "4", "world size differs: 3 on rank 0, 4 on rank 2", false },
	{ "rank", "1", "rank 1 is there twice: 127.0.0.1:", false },
	{ "agreement", "version 1\nmodel gpt\n",
	    "model differs: 'mlp:4,2' on rank 0, 'gpt' on rank 2", false },
	{ "agreement", "version 2\nmodel mlp:4,2\n",
	    "version differs: '1' on rank 0, '2' on rank 2", false },
	{ "agreement", "model mlp:4,2", "version differs: '1' on rank 0, '' on rank 2", false },
	{ "agreement", "model mlp:4,2\nversion 1\nbatch 8",
	    "batch differs: '' on rank 0, '8' on rank 2", false },
	{ "agreement", "", "version differs", false },
};

static void apply(const struct misfit *m, struct rank *rank)
{
	int number = atoi(m->value);

	if (!strcmp(m->what, "secret"))
		strcpy(rank->world.secret, m->value);
	else if (!strcmp(m->what, "restart"))
		rank->world.restart = number;
	else if (!strcmp(m->what, "size"))
		rank->world.size = rank->world.local_size = number;
	else if (!strcmp(m->what, "rank"))
		rank->world.rank = rank->world.local_rank = number;
	else
		rank->agreement = m->value;
}

static void misfits_are_refused_by_name(void **state)
{
	struct rank rank[3];

	(void)state;
	for (size_t k = 0; k < sizeof(misfits) / sizeof(*misfits); k++) {
		const struct misfit *m = &misfits[k];

		make_job(rank, 3, AF_INET);
		apply(m, &rank[2]);
		rank[2].comes_after_s = 0.02;
		for (int i = 0; i < 3 && m->later; i++)
			rank[i].timeout_s = 0.15;
		run(rank, 3);
		for (int i = 0; i < 3; i++) {
			if (rank[i].rc != GT_EINVAL || !strstr(rank[i].err.text, m->text))
				fail_msg("misfit %zu, rank %d: %d '%s'", k, i, rank[i].rc,
				    rank[i].err.text);
			assert_true(rank[i].took_s < 10);
		}
		if (m->later)
			assert_non_null(
			    strstr(rank[1].err.text, "rank 2 did not come within 0.15 s"));
	}
}

/* One left over from another job comes first, with the right rank: the right one is still let in. */
static void a_leftover_ends_no_job(void **state)
{
	struct rank rank[3];

	(void)state;
	make_job(rank, 2, AF_INET);
	rank[2] = rank[1];
	strcpy(rank[2].world.secret, "of another job");
	rank[1].comes_after_s = 0.05;
	run(rank, 3);
	expect_all_well(rank, 2);
	assert_int_equal(rank[2].rc, GT_EINVAL);
}

static void missing_ranks_are_named(void **state)
{
	struct rank rank[4], present[2];

	(void)state;
	make_job(rank, 4, AF_INET);
	present[0] = rank[0];
	present[1] = rank[2];
	present[0].timeout_s = present[1].timeout_s = 0.1;
	run(present, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(present[i].rc, GT_EIO);
		assert_string_equal(present[i].err.text, "ranks 1 and 3 did not come within 0.1 s");
	}
}

static void nobody_answers(void **state)
{
	struct rank rank[2];

	(void)state;
	make_job(rank, 2, AF_INET);
	close(rank[0].world.listen_fd);
	rank[1].timeout_s = 0.1;
	run(rank + 1, 1);
	assert_int_equal(rank[1].rc, GT_EIO);
	assert_non_null(
	    strstr(rank[1].err.text, "no rank 0 within 0.1 s: cannot connect to rank 0 at"));
	assert_non_null(strstr(rank[1].err.text, "Connection refused"));
	assert_true(rank[1].took_s < 5);
}

static void rank_lists_read_well(void **state)
{
	static const struct {
		const char *set, *text;
	} cases[] = { { "x", "rank 0" }, { ".x.x", "ranks 1 and 3" },
		{ ".xxx", "ranks 1, 2 and 3" }, { "xxxxxx", "ranks 0, 1, 2, 3, 4 and 5" },
		{ ".xxxxxxx", "ranks 1, 2, 3, 4 and 3 more" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool set[8] = { false };
		char out[GT_RANKS_TEXT];
		int n = (int)strlen(cases[i].set);

		for (int k = 0; k < n; k++)
			set[k] = cases[i].set[k] == 'x';
		assert_string_equal(gt_ranks_text(out, set, n), cases[i].text);
	}
}

static void what_cannot_work_is_refused(void **state)
{
	struct rank rank[2];
	char *long_one = malloc(GT_RENDEZVOUS_MAX_AGREEMENT + 1);
	int pair[2];

	(void)state;
	make_job(rank, 2, AF_INET);
	close(rank[0].world.listen_fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	rank[0].world.listen_fd = pair[0];
	run(rank, 1);
	assert_int_equal(rank[0].rc, GT_EINVAL);
	assert_non_null(strstr(rank[0].err.text, "not a socket that listens"));
	close(pair[1]);
	memset(long_one, 'a', GT_RENDEZVOUS_MAX_AGREEMENT);
	long_one[GT_RENDEZVOUS_MAX_AGREEMENT] = '\0';
	rank[1].agreement = long_one;
	run(rank + 1, 1);
	assert_int_equal(rank[1].rc, GT_EINVAL);
	free(long_one);
}

/* Another program has the port: it says hello as such programs do. */
static void other_programs_are_recognised(void **state)
{
	static const char *const answers[] = { "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
		"HTTP/1.1 400 Bad Request\r\n\r\n" };
	struct rank rank[2];

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		int fd;

		make_job(rank, 2, AF_INET);
		start(rank + 1, 1);
		fd = accept(rank[0].world.listen_fd, NULL, NULL);
		assert_true(fd >= 0);
		assert_true(send(fd, answers[k], strlen(answers[k]), 0) > 0);
		finish(rank + 1, 1);
		assert_int_equal(rank[1].rc, GT_EFORMAT);
		assert_non_null(strstr(rank[1].err.text, "is not rank 0 of a gtrain job"));
		close(fd);
		close(rank[0].world.listen_fd);
	}
}

/* Who listens without knowing the secret cannot admit anybody. */
static void impostors_are_found_out(void **state)
{
	unsigned char hello[WIRE_HELLO], nonce[WIRE_NONCE] = { 7 }, head[WIRE_HEAD], body[1024];
	unsigned char hash[GT_SHA256_SIZE] = { 0 };
	struct rank rank[2];
	double deadline = gt_clock_s() + 10;
	int fd;

	(void)state;
	make_job(rank, 2, AF_INET);
	start(rank + 1, 1);
	fd = accept(rank[0].world.listen_fd, NULL, NULL);
	assert_int_equal(gt_wire_receive(fd, hello, sizeof(hello), deadline), 0);
	assert_int_equal(gt_wire_send_message(fd, WIRE_CHALLENGE, nonce, sizeof(nonce)), 0);
	assert_int_equal(gt_wire_receive(fd, head, sizeof(head), deadline), 0);
	assert_int_equal(gt_wire_receive(fd, body, gt_wire_get(head + 4), deadline), 0);
	memcpy(hash, body, sizeof(hash)); /* what the guest itself has said */
	assert_int_equal(gt_wire_send_message(fd, WIRE_ADMITTED, hash, sizeof(hash)), 0);
	finish(rank + 1, 1);
	assert_int_equal(rank[1].rc, GT_EINVAL);
	assert_non_null(strstr(rank[1].err.text, "does not know the job's secret"));
	close(fd);
	close(rank[0].world.listen_fd);
}

/* A rank of another version is told so, and ends no job. */
static void other_versions_are_told(void **state)
{
	unsigned char hello[WIRE_HELLO], head[WIRE_HEAD], body[WIRE_MAX_ERROR];
	struct gt_hello other = { 9, 2, 1, 0, { 1 } };
	struct gt_err err = GT_ERR_INIT;
	struct rank rank[2];
	uint32_t size;
	int fd;

	(void)state;
	make_job(rank, 2, AF_INET);
	rank[0].timeout_s = 0.2;
	start(rank, 1);
	fd = dial(rank[0].world.port);
	gt_hello_write(hello, &other);
	assert_int_equal(gt_wire_send(fd, hello, sizeof(hello), gt_clock_s() + 10), 0);
	assert_int_equal(gt_wire_receive(fd, head, sizeof(head), gt_clock_s() + 10), 0);
	size = gt_wire_get(head + 4);
	assert_int_equal(gt_wire_get(head), WIRE_ERROR);
	assert_in_range(size, 5, sizeof(body));
	assert_int_equal(gt_wire_receive(fd, body, size, gt_clock_s() + 10), 0);
	gt_wire_read_error(&err, body, size);
	assert_string_equal(err.text, "rank 1 speaks version 9 of the protocol, rank 0 version 1");
	finish(rank, 1);
	assert_int_equal(rank[0].rc, GT_EINVAL);
	assert_non_null(strstr(rank[0].err.text, "speaks version 9"));
	close(fd);
}

/* splitmix64, for what need not be good but the same again. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A hello and a proof with some bytes altered and the end cut off, or nothing of the kind. */
static size_t garbage(unsigned char *out, size_t room, uint64_t *seed)
{
	struct gt_hello hello = { WIRE_VERSION, 3, (uint32_t)(draw(seed) % 4), 0, { 0 } };
	size_t size = WIRE_HELLO + WIRE_HEAD + draw(seed) % (room - WIRE_HELLO - WIRE_HEAD);

	for (size_t i = 0; i < size; i++)
		out[i] = (unsigned char)draw(seed);
	if (draw(seed) % 8) {
		gt_hello_write(out, &hello);
		gt_wire_put(out + WIRE_HELLO, WIRE_PROOF);
		if (draw(seed) % 4)
			gt_wire_put(out + WIRE_HELLO + 4, (uint32_t)(draw(seed) % 20000));
	}
	for (uint64_t n = draw(seed) % 3; n; n--)
		out[draw(seed) % size] ^= (unsigned char)(1 << draw(seed) % 8);
	return draw(seed) % 2 ? size : draw(seed) % size;
}

/* More silent ones than there is room for, and many that say anything, before the ranks and
 * between them: the ranks meet all the same. */
static void strangers_are_in_nobodys_way(void **state)
{
	uint64_t seed = (uint64_t)time(NULL), first = seed;
	unsigned char bytes[1200];
	struct rank rank[3];
	int fd[300];

	(void)state;
	make_job(rank, 3, AF_INET);
	start(rank, 1);
	for (int i = 0; i < 300; i++) {
		size_t size = garbage(bytes, sizeof(bytes), &seed);

		fd[i] = dial(rank[0].world.port);
		assert_true(fd[i] >= 0 || i > 200); /* once all ranks are there, nobody listens */
		if (i % 3)
			(void)send(fd[i], bytes, size, MSG_NOSIGNAL);
		if (i % 7 == 0)
			shutdown(fd[i], SHUT_WR);
		if (i == 200)
			start(rank + 1, 2);
	}
	finish(rank, 3);
	for (int i = 0; i < 300; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	for (int i = 0; i < 3; i++)
		if (rank[i].rc || rank[i].took_s > 10)
			fail_msg("seed %llu, rank %d: %.1f s, '%s'", (unsigned long long)first, i,
			    rank[i].took_s, rank[i].err.text);
}

/* And a rank believes nothing that it is answered: it fails, and soon. */
static void ranks_survive_any_answer(void **state)
{
	uint64_t seed = (uint64_t)time(NULL) + 1, first = seed;

	(void)state;
	for (int i = 0; i < 40; i++) {
		unsigned char bytes[700];
		size_t size = 1 + draw(&seed) % sizeof(bytes);
		struct rank rank[2];
		int fd;

		make_job(rank, 2, AF_INET);
		rank[1].timeout_s = 0.02;
		start(rank + 1, 1);
		fd = accept(rank[0].world.listen_fd, NULL, NULL);
		for (size_t k = 0; k < size; k++)
			bytes[k] = (unsigned char)draw(&seed);
		if (size >= WIRE_HEAD && draw(&seed) % 4) {
			gt_wire_put(bytes, 1 + (uint32_t)(draw(&seed) % 6));
			gt_wire_put(
			    bytes + 4, (uint32_t)(draw(&seed) % 3 ? 32 : draw(&seed) % 600));
		}
		(void)send(fd, bytes, size, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		close(rank[0].world.listen_fd);
		finish(rank + 1, 1);
		close(fd);
		if (!rank[1].rc || rank[1].took_s > 5)
			fail_msg(
			    "seed %llu, answer %d: %d", (unsigned long long)first, i, rank[1].rc);
	}
}

/* Rank 2 misbehaves in the second exchange. */
static enum { LEAVES, SLEEPS, OTHER_SIZE } misdeed;

static void misbehave(struct rank *self, struct gt_rendezvous *r)
{
	char all[4 * 16];
	int bad = self->world.rank == self->world.port % 4; /* any, rank 0 too */

	self->rc = gt_rendezvous_exchange(r, "0123456789abcdef", 16, all, &self->err);
	if (self->rc || (bad && misdeed == LEAVES))
		return;
	if (bad && misdeed == SLEEPS)
		rest(4 * self->timeout_s);
	else
		self->rc =
		    gt_rendezvous_exchange(r, "0123456789abcdef", bad ? 12 : 16, all, &self->err);
	if (self->rc && gt_rendezvous_exchange(r, NULL, 0, NULL, GT_ERR_IGNORED) != self->rc)
		self->err.text[0] = '\0'; /* once failed, failed for good */
}

static void run_misdeed(struct rank *rank, double timeout_s)
{
	make_job(rank, 4, AF_INET);
	for (int i = 0; i < 4; i++) {
		rank[i].timeout_s = timeout_s;
		rank[i].then = misbehave;
	}
	run(rank, 4);
}

static void who_leaves_is_named(void **state)
{
	struct rank rank[4];
	char text[32];

	(void)state;
	misdeed = LEAVES;
	for (int round = 0; round < 8; round++) {
		int bad;

		run_misdeed(rank, 20);
		bad = rank[0].world.port % 4;
		snprintf(text, sizeof(text), "rank %d is gone", bad);
		for (int i = 0; i < 4; i++) {
			if (i == bad)
				continue;
			if (rank[i].rc != GT_EIO || strcmp(rank[i].err.text, text) != 0)
				fail_msg("rank %d: '%s', not '%s'", i, rank[i].err.text, text);
			assert_true(rank[i].took_s < 10);
		}
	}
}

static void who_is_late_is_named(void **state)
{
	struct rank rank[4];
	char text[80];
	int bad;

	(void)state;
	misdeed = SLEEPS;
	run_misdeed(rank, 0.1);
	bad = rank[0].world.port % 4;
	snprintf(text, sizeof(text), "rank %d did not %s", bad,
	    bad ? "come to an exchange within 0.1 s" : "answer in an exchange within 0.2 s");
	for (int i = 0; i < 4; i++)
		if (i != bad && (rank[i].rc != GT_EIO || strcmp(rank[i].err.text, text) != 0))
			fail_msg("rank %d: '%s', not '%s'", i, rank[i].err.text, text);
}

static void sizes_have_to_agree(void **state)
{
	struct rank rank[4];

	(void)state;
	misdeed = OTHER_SIZE;
	run_misdeed(rank, 20);
	for (int i = 0; i < 4; i++)
		if (rank[i].rc != GT_EINVAL ||
		    !strstr(rank[i].err.text, "came to an exchange with"))
			fail_msg("rank %d: '%s'", i, rank[i].err.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_meet_in_any_order),
		cmocka_unit_test(rank_0_may_come_late),
		cmocka_unit_test(version_6_of_ip_will_do),
		cmocka_unit_test(hosts_need_a_secret),
		cmocka_unit_test(misfits_are_refused_by_name),
		cmocka_unit_test(a_leftover_ends_no_job),
		cmocka_unit_test(missing_ranks_are_named),
		cmocka_unit_test(nobody_answers),
		cmocka_unit_test(rank_lists_read_well),
		cmocka_unit_test(what_cannot_work_is_refused),
		cmocka_unit_test(other_programs_are_recognised),
		cmocka_unit_test(impostors_are_found_out),
		cmocka_unit_test(other_versions_are_told),
		cmocka_unit_test(strangers_are_in_nobodys_way),
		cmocka_unit_test(ranks_survive_any_answer),
		cmocka_unit_test(who_leaves_is_named),
		cmocka_unit_test(who_is_late_is_named),
		cmocka_unit_test(sizes_have_to_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
