/* test_data_get.c - data sets fetched from a server that behaves well, badly, and worse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/get_fixture.h"

static const struct gt_set_file files[2] = { { .name = "a.bin",
    .size_bytes = SIZE,
    .sha256 = body_sum,
    .addresses = { "http://publisher.invalid/a.bin" } } };
static const struct gt_set set = { .name = "set", .files = files };

static bool is_right(const struct place *p)
{
	struct gt_mapping map;
	bool right;

	if (size_of(p, "a.bin") != SIZE || gt_map(&map, in(&p->f, "set/a.bin"), GT_ERR_IGNORED))
		return false;
	right = !memcmp(map.data, body, SIZE);
	gt_unmap(&map);
	return right;
}

static void each_way_of_a_server_ends_in_the_file_or_in_a_reason(void **state)
{
	static const struct {
		const char *way;
		int requests;
		const char *reason; /* NULL: the file comes */
		long part;          /* bytes that stay for the next call */
	} cases[] = {
		{ "whole", 1, NULL, -1 },
		{ "plain", 1, NULL, -1 },
		{ "hop", 2, NULL, -1 },
		{ "cut", 2, NULL, -1 },
		{ "busy", 2, NULL, -1 },
		{ "always_cut", 2, "the connection ended too early", 20 },
		{ "wrong", 1, "is not the file that is published: another SHA-256", -1 },
		{ "shorter", 1, "the file there has 100 bytes, not 300000", -1 },
		{ "empty", 1, "the file there has 0 bytes, not 300000", -1 },
		{ "longer", 1, "the file there has more than 300000 bytes, not 300000", -1 },
		{ "missing", 1, "HTTP status 404", -1 },
		{ "broken", 2, "HTTP status 500", -1 },
		{ "to_file", 1, "neither http:// nor https://", -1 },
		{ "circle", 9, "it leads in circles", -1 },
		{ "long_header", 1, "the answer has a header that is too long", -1 },
		{ "garbage", 1, "cannot fetch 'a.bin' from 127.0.0.1:", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct place p;
		int rc;

		open_place(&p, cases[i].way);
		rc = gt_get_set(&p.get, &set, &err);
		if (!cases[i].reason && (rc || !is_right(&p)))
			fail_msg("%s: %s", cases[i].way, err.text);
		if (cases[i].reason && !strstr(err.text, cases[i].reason))
			fail_msg(
			    "%s: '%s' is not in '%s'", cases[i].way, cases[i].reason, err.text);
		if (cases[i].reason && !strstr(err.hint, "http://publisher.invalid/a.bin"))
			fail_msg("%s: the hint is '%s'", cases[i].way, err.hint);
		if (size_of(&p, "a.bin") != (cases[i].reason ? -1 : SIZE) ||
		    size_of(&p, "a.bin.part") != cases[i].part)
			fail_msg("%s: a.bin has %ld bytes, a.bin.part %ld", cases[i].way,
			    size_of(&p, "a.bin"), size_of(&p, "a.bin.part"));
		if (http_server.requests != cases[i].requests)
			fail_msg("%s: %d requests", cases[i].way, http_server.requests);
		assert_int_equal(p.get.fetched, !cases[i].reason);
		close_place(&p);
	}
}

static void a_part_is_gone_on_from_wherever_it_is_from(void **state)
{
	static const unsigned char zeros[SIZE + 1];
	const struct {
		const char *way;
		const void *part;
		size_t size;
		long first;   /* where the last request begins */
		int requests; /* and how many there are */
	} cases[] = {
		{ "whole", body, HALF, HALF, 1 },
		{ "plain", body, HALF, HALF, 1 }, /* all of it comes anyway */
		{ "whole", body, SIZE, -1, 0 },   /* only the name was missing */
		{ "whole", zeros, HALF, 0, 2 },   /* another file's: the sum shows it */
		{ "whole", zeros, SIZE, 0, 1 },
		{ "whole", zeros, SIZE + 1, 0, 1 },
		{ "whole", body, 0, 0, 1 },
		{ "no_part", body, HALF, 0, 2 },
		{ "shifted", body, HALF, 0, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct place p;

		open_place(&p, cases[i].way);
		http_server.first = -1;
		plant(&p, "a.bin.part", cases[i].part, cases[i].size);
		if (gt_get_set(&p.get, &set, &err) || !is_right(&p))
			fail_msg("case %zu: %s", i, err.text);
		if (http_server.first != cases[i].first ||
		    http_server.requests != cases[i].requests)
			fail_msg("case %zu: %d requests, the last from byte %ld", i,
			    http_server.requests, (long)http_server.first);
		assert_int_equal(size_of(&p, "a.bin.part"), -1);
		close_place(&p);
	}
}

/* A wrong file is fetched once more where its beginning may be another file's, and that is all. */
static void a_wrong_file_is_fetched_twice_at_most(void **state)
{
	static const struct {
		const char *way;
		size_t part;
		int requests;
	} cases[] = { { "wrong", HALF, 2 }, { "wrong_cut", 0, 4 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct place p;

		open_place(&p, cases[i].way);
		p.get.retries = 10;
		plant(&p, "a.bin.part", body, cases[i].part);
		assert_int_equal(gt_get_set(&p.get, &set, &err), GT_EFORMAT);
		assert_int_equal(http_server.requests, cases[i].requests);
		assert_int_equal(size_of(&p, "a.bin.part"), -1);
		assert_non_null(strstr(err.text, "another SHA-256"));
		close_place(&p);
	}
}

static void an_address_that_is_not_of_the_web_is_refused(void **state)
{
	struct gt_set_file own[2] = { files[0] };
	const struct gt_set of_own = { .name = "set", .files = own };
	char address[128];
	struct gt_err err = GT_ERR_INIT;
	struct place p;

	(void)state;
	open_place(&p, "");
	p.get.mirror = NULL;
	snprintf(address, sizeof(address), "file://%s", in(&p.f, "source"));
	own[0].addresses[0] = address;
	plant(&p, "../source", body, SIZE);
	assert_int_equal(gt_get_set(&p.get, &of_own, &err), GT_EIO);
	assert_non_null(strstr(err.text, "neither http:// nor https://"));
	close_place(&p);
}

static void present_files_are_checked_and_kept(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct place p;

	(void)state;
	open_place(&p, "whole");
	plant(&p, "a.bin", body, SIZE);
	assert_int_equal(gt_get_set(&p.get, &set, &err), 0);
	assert_int_equal(http_server.requests, 0);
	assert_null(p.get.curl); /* libcurl was not needed */
	plant(&p, "a.bin", "mine", 4);
	assert_int_equal(gt_get_set(&p.get, &set, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "set/a.bin' is not the file that is published: 4 bytes"));
	assert_int_equal(size_of(&p, "a.bin"), 4);
	p.get.force = true;
	assert_int_equal(gt_get_set(&p.get, &set, &err), 0);
	assert_true(is_right(&p));
	assert_int_equal(http_server.requests, 1);
	close_place(&p);
}

static void addresses_are_tried_in_their_order(void **state)
{
	static const char *const order[] = { "missing", "wrong", "cut" };
	struct gt_set_file own[2] = { files[0] };
	const struct gt_set of_own = { .name = "set", .files = own };
	char addresses[GT_SET_ADDRESSES][128];
	struct gt_err err = GT_ERR_INIT;
	struct place p;

	(void)state;
	open_place(&p, "");
	p.get.mirror = NULL;
	for (int i = 0; i < GT_SET_ADDRESSES; i++) {
		snprintf(addresses[i], sizeof(addresses[i]), "http://127.0.0.1:%d/%s/a",
		    http_server.port, order[i]);
		own[0].addresses[i] = addresses[i];
	}
	assert_int_equal(gt_get_set(&p.get, &of_own, &err), 0);
	assert_true(is_right(&p));
	assert_int_equal(http_server.requests, 4);
	fflush(p.told);
	assert_non_null(strstr(p.text, "HTTP status 404; trying another address"));
	assert_non_null(strstr(p.text, "another SHA-256; trying another address"));
	assert_non_null(strstr(p.text, "ended too early; trying again in 0.01 s"));
	close_place(&p);
}

static void fetch_in_three_processes(struct place *p)
{
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			struct gt_err err = GT_ERR_INIT;
			int rc = gt_get_set(&p->get, &set, &err);

			_exit(rc || !is_right(p));
		}
	for (int i = 0, status; i < 3; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(size_of(p, "a.bin.part"), -1);
}

static void processes_wait_for_each_other(void **state)
{
	struct place p;

	(void)state;
	open_place(&p, "slow");
	fetch_in_three_processes(&p);
	assert_int_equal(http_server.requests, 1);
	p.get.force = true;
	fetch_in_three_processes(&p);
	assert_int_equal(http_server.requests, 4);
	close_place(&p);
}

static void a_file_that_cannot_grow_is_told_at_once(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct rlimit before, limit;
	struct place p;

	(void)state;
	open_place(&p, "whole");
	getrlimit(RLIMIT_FSIZE, &before);
	limit = (struct rlimit){ HALF, before.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_int_equal(gt_get_set(&p.get, &set, &err), GT_EIO);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_non_null(strstr(err.text, "set/a.bin.part': File too large"));
	assert_int_equal(http_server.requests, 1);
	assert_int_equal(size_of(&p, "a.bin.part"), HALF);
	assert_int_equal(gt_get_set(&p.get, &set, &err), 0);
	assert_int_equal(http_server.first, HALF);
	assert_true(is_right(&p));
	close_place(&p);
}

static void a_link_in_place_of_the_part_is_not_followed(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct place p;

	(void)state;
	open_place(&p, "whole");
	plant(&p, "victim", "precious", 8);
	assert_int_equal(symlink("victim", in(&p.f, "set/a.bin.part")), 0);
	assert_int_equal(gt_get_set(&p.get, &set, &err), GT_EIO);
	assert_int_equal(size_of(&p, "victim"), 8);
	close_place(&p);
}

/* A label of more than 63 letters: no name, whether there are servers of names or not. */
#define LONG "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void a_host_is_named_without_its_password(void **state)
{
	static const struct {
		const char *mirror, *error;
	} cases[] = {
		{ "http://me:secret@127.0.0.1:1/x", "from 127.0.0.1:1: " },
		{ "http://" LONG ".invalid", LONG ".invalid: the name of the host is not known" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct place p;

		open_place(&p, "");
		p.get.mirror = cases[i].mirror;
		assert_int_equal(gt_get_set(&p.get, &set, &err), GT_EIO);
		if (!strstr(err.text, cases[i].error) || strstr(err.text, "secret"))
			fail_msg("%s", err.text);
		close_place(&p);
	}
}

#define FETCH(name) cmocka_unit_test_setup(name, needs_curl)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FETCH(each_way_of_a_server_ends_in_the_file_or_in_a_reason),
		FETCH(a_part_is_gone_on_from_wherever_it_is_from),
		FETCH(a_wrong_file_is_fetched_twice_at_most),
		FETCH(an_address_that_is_not_of_the_web_is_refused),
		FETCH(present_files_are_checked_and_kept),
		FETCH(addresses_are_tried_in_their_order),
		FETCH(processes_wait_for_each_other),
		FETCH(a_file_that_cannot_grow_is_told_at_once),
		FETCH(a_link_in_place_of_the_part_is_not_followed),
		FETCH(a_host_is_named_without_its_password),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
