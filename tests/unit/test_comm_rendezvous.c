/* test_comm_rendezvous.c - ranks that meet, that do not fit, that leave, that are late. */
#include "lib/comm/rendezvous/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm/rendezvous/messages.h"
#include "tests/common/ranks.h"

enum { MAX = 8 };

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

/* With rank 0 first, in the middle and last. */
static void ranks_meet_in_any_order(void **state)
{
	struct rank rank[MAX];

	(void)state;
	for (int size = 1; size <= MAX; size++) {
		ranks_make(rank, size, AF_INET);
		if (size == 1)
			close(rank[0].world.listen_fd);
		for (int i = 0; i < size; i++) {
			rank[i].comes_after_s = 0.003 * ((5 * i + size) % size);
			rank[i].then = exchange_some;
		}
		ranks_run(rank, size);
		ranks_expect_well(rank, size);
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
		ranks_make(rank, 3, AF_INET);
		close(rank[0].world.listen_fd);
		rank[0].world.listen_fd = 0;
		rank[0].comes_after_s = 0.05;
		for (int i = 0; i < 3; i++) {
			strcpy(rank[i].world.address, addresses[k]);
			rank[i].then = exchange_some;
		}
		ranks_run(rank, 3);
		ranks_expect_well(rank, 3);
	}
}

static void version_6_of_ip_will_do(void **state)
{
	struct rank rank[3];
	int port, fd = ranks_listen(AF_INET6, &port);

	(void)state;
	if (fd < 0) {
		print_message("ipv6: this host has no ::1\n");
		skip();
	}
	close(fd);
	ranks_make(rank, 3, AF_INET6);
	for (int i = 0; i < 3; i++)
		rank[i].then = exchange_some;
	ranks_run(rank, 3);
	ranks_expect_well(rank, 3);
}

/* Several hosts in name; here they are one. */
static void hosts_need_a_secret(void **state)
{
	struct rank rank[2];

	(void)state;
	for (int with = 0; with < 2; with++) {
		ranks_make(rank, 2, AF_INET);
		for (int i = 0; i < 2; i++) {
			rank[i].world.local_rank = 0;
			rank[i].world.local_size = 1;
			if (!with)
				rank[i].world.secret[0] = '\0';
		}
		if (with) {
			ranks_run(rank, 2);
			ranks_expect_well(rank, 2);
			continue;
		}
		ranks_run(rank + 1, 1);
		close(rank[0].world.listen_fd);
		assert_int_equal(rank[1].rc, GT_EINVAL);
		assert_non_null(strstr(rank[1].err.text, "GTRAIN_SECRET is not set"));
	}
}

/*
 * The third of three ranks is started wrongly: the error that all get at once. `later`: rank 0 goes
 * on waiting, so the others hear when the time is over.
 */
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

		ranks_make(rank, 3, AF_INET);
		apply(m, &rank[2]);
		rank[2].comes_after_s = 0.1; /* later than rank 1 on a busy machine, too */
		for (int i = 0; i < 3 && m->later; i++)
			rank[i].timeout_s = 0.6;
		ranks_run(rank, 3);
		for (int i = 0; i < 3; i++) {
			if (rank[i].rc != GT_EINVAL || !strstr(rank[i].err.text, m->text))
				fail_msg("misfit %zu, rank %d: %d '%s'", k, i, rank[i].rc,
				    rank[i].err.text);
			if (rank[i].err.follows != (i == 1) || rank[i].took_s > 10)
				fail_msg("misfit %zu, rank %d: it follows, or is late", k, i);
		}
		if (!m->later)
			continue;
		assert_non_null(strstr(
		    rank[1].err.text, "rank 2 did not come within 0.6 s: refused 127.0.0.1:"));
		assert_true(*rank[1].err.hint && *rank[2].err.hint);
	}
}

/* One left over from another job comes first, with the right rank: the other is still let in. */
static void a_leftover_ends_no_job(void **state)
{
	struct rank rank[3];

	(void)state;
	ranks_make(rank, 2, AF_INET);
	rank[2] = rank[1];
	strcpy(rank[2].world.secret, "of another job");
	rank[1].comes_after_s = 0.05;
	ranks_run(rank, 3);
	ranks_expect_well(rank, 2);
	assert_int_equal(rank[2].rc, GT_EINVAL);
}

static void missing_ranks_are_named(void **state)
{
	struct rank rank[4], present[2];

	(void)state;
	ranks_make(rank, 4, AF_INET);
	present[0] = rank[0];
	present[1] = rank[2];
	present[0].timeout_s = present[1].timeout_s = 0.1;
	ranks_run(present, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(present[i].rc, GT_EIO);
		assert_string_equal(present[i].err.text, "ranks 1 and 3 did not come within 0.1 s");
	}
}

/* All wait for rank 3, and rank 1 gives up before the others do. */
static void a_rank_that_leaves_early_is_named(void **state)
{
	struct rank rank[4];

	(void)state;
	ranks_make(rank, 4, AF_INET);
	rank[1].timeout_s = 0.1;
	ranks_run(rank, 3);
	assert_string_equal(rank[1].err.text, "rank 0 is there, but not all ranks within 0.1 s");
	for (int i = 0; i < 3; i++)
		assert_true(rank[i].rc == GT_EIO && rank[i].err.follows == (i != 1));
	for (int i = 0; i < 3; i += 2)
		assert_string_equal(rank[i].err.text, "rank 1 is gone before all ranks were there");
}

static void nobody_answers(void **state)
{
	struct rank rank[2];

	(void)state;
	ranks_make(rank, 2, AF_INET);
	close(rank[0].world.listen_fd);
	rank[1].timeout_s = 0.1;
	ranks_run(rank + 1, 1);
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

static void impossible_worlds_fail(void **state)
{
	struct rank rank[2];
	char *long_one = malloc(GT_RENDEZVOUS_MAX_AGREEMENT + 1);
	int pair[2];

	(void)state;
	ranks_make(rank, 2, AF_INET);
	close(rank[0].world.listen_fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	rank[0].world.listen_fd = pair[0];
	ranks_run(rank, 1);
	assert_int_equal(rank[0].rc, GT_EINVAL);
	assert_non_null(strstr(rank[0].err.text, "not a socket that listens"));
	close(pair[1]);
	memset(long_one, 'a', GT_RENDEZVOUS_MAX_AGREEMENT);
	long_one[GT_RENDEZVOUS_MAX_AGREEMENT] = '\0';
	rank[1].agreement = long_one;
	ranks_run(rank + 1, 1);
	assert_int_equal(rank[1].rc, GT_EINVAL);
	free(long_one);
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
		ranks_rest(4 * self->timeout_s);
	else
		self->rc =
		    gt_rendezvous_exchange(r, "0123456789abcdef", bad ? 12 : 16, all, &self->err);
	if (self->rc && gt_rendezvous_exchange(r, NULL, 0, NULL, GT_ERR_IGNORED) != self->rc)
		self->err.text[0] = '\0'; /* once failed, failed for good */
}

static void run_misdeed(struct rank *rank, double timeout_s)
{
	ranks_make(rank, 4, AF_INET);
	for (int i = 0; i < 4; i++) {
		rank[i].timeout_s = timeout_s;
		rank[i].then = misbehave;
	}
	ranks_run(rank, 4);
}

static void ranks_that_leave_are_named(void **state)
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
			assert_true(rank[i].err.follows && rank[i].took_s < 10);
		}
	}
}

static void late_ranks_are_named(void **state)
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
		cmocka_unit_test(a_rank_that_leaves_early_is_named),
		cmocka_unit_test(nobody_answers),
		cmocka_unit_test(rank_lists_read_well),
		cmocka_unit_test(impossible_worlds_fail),
		cmocka_unit_test(ranks_that_leave_are_named),
		cmocka_unit_test(late_ranks_are_named),
		cmocka_unit_test(sizes_have_to_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
