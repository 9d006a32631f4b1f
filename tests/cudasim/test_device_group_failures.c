/* test_device_group_failures.c - ways that ranks with simulated GPUs may take, and their errors. */
#include "tests/cudasim/gpu_ranks.h"

#include <unistd.h>

#include "kernels/cuda/nccl/api.h"
#include "lib/base/clock.h"

static const struct gt_shm_options soon = { .timeout_s = 0.3, .staging_bytes = 4096 };

/* ---- ways ---- */

static int sum_once(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	int rc = start_sum(r, x, ELEMENTS, "bucket 3", &ticket);

	return rc ? rc : gt_group_wait(r->group, ticket, &r->err);
}

/* The group that ranks get, or why they do not get the one that is wanted. */
static void the_way_is_chosen(void **state)
{
	static const struct {
		int ranks, gpus;
		struct gt_device_way_options options;
		const char *group; /* NULL: an error */
		const char *text;  /* part of it, or of the reason for a slower way */
	} cases[] = {
		{ 1, 1, { NULL, false }, "staged", NULL },
		{ 1, 1, { "nccl", false }, "staged", NULL },
		{ 2, 2, { NULL, false }, "nccl", NULL },
		{ 4, 4, { "nccl", false }, "nccl", NULL },
		{ 2, 2, { "staged", false }, "staged", NULL },
		{ 2, 2, { NULL, true }, "ring", NULL },
		{ 2, 1, { "ring", true }, "ring", NULL },
		{ 2, 2, { "nccl", true }, NULL, "the order in which 'nccl' adds up is not fixed" },
		{ 2, 2, { "pigeons", false }, NULL,
		    "backend pigeons is not for devices of 'cuda'" },
		{ 3, 2, { NULL, false }, "ring",
		    "ranks 0 and 2 share the GPU cuda:0 (0000:01:00.0), and NCCL takes one rank for "
		    "each GPU" },
		{ 3, 2, { "nccl", false }, NULL,
		    "ranks 0 and 2 share the GPU cuda:0 (0000:01:00.0), and NCCL takes one rank for "
		    "each GPU" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct site site = { &cases[i].options, cases[i].gpus, false };
		struct rank ranks[MOST];

		run_gpu_ranks(ranks, cases[i].ranks, &site, &patience, sum_once);
		for (int k = 0; k < cases[i].ranks; k++) {
			const struct gt_err *err =
			    cases[i].group ? &ranks[k].way.why : &ranks[k].err;

			if (!cases[i].group != !!ranks[k].rc)
				fail_msg("case %zu: '%s'", i, ranks[k].err.text);
			if (cases[i].text ? !strstr(err->text, cases[i].text) : err->code)
				fail_msg("case %zu: '%s'", i, err->text);
			if (cases[i].group &&
			    strcmp(cases[i].group,
			        ranks[k].way.own ? ranks[k].way.own->name : "staged") != 0)
				fail_msg("case %zu: another way", i);
		}
	}
}

/* NCCL takes ranks that share a GPU if a variable says so. */
static void nccl_takes_ranks_that_share_a_gpu(void **state)
{
	static const struct site sites[] = { { &over_nccl, 1, true }, { &over_nccl, 1, false } };
	static const struct {
		const char *several; /* NULL: not set */
		int code;
	} cases[] = { { "1", 0 }, { "0", GT_ENOTSUP }, { NULL, GT_ENOTSUP } };

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		struct rank ranks[2];

		if (cases[i / 2].several)
			setenv("NCCL_MULTI_RANK_GPU_ENABLE", cases[i / 2].several, 1);
		else
			unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
		run_gpu_ranks(ranks, 2, &sites[i % 2], &patience, sum_once);
		for (int r = 0; r < 2; r++)
			if (ranks[r].rc != cases[i / 2].code ||
			    (ranks[r].rc &&
			        !strstr(ranks[r].err.hint, "NCCL_MULTI_RANK_GPU_ENABLE=1")))
				fail_msg(
				    "case %zu: %d, '%s'", i / 2, ranks[r].rc, ranks[r].err.text);
	}
	unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

static void the_library_is_checked(void **state)
{
	static const struct {
		const char *library;
		int version;
		const char *text; /* NULL: it is fine */
	} cases[] = {
		{ "libnccl.so.2", 0, NULL },
		{ "libnccl.so.2", 21400, NULL },
		{ "libnccl.so.2", 21310, "libnccl.so.2 is of version 2.13.10, which is too old" },
		{ "libnccl.so.2", 2804, "libnccl.so.2 is of version 2.8.4, which is too old" },
		{ "libnccl.so.2", 30100, "libnccl.so.2 is of version 3.1.0, which is too new" },
		{ "libnowhere.so.2", 0, "collectives between GPUs need NCCL: libnowhere.so.2: " },
		{ "libc.so.6", 0, "libc.so.6 has no function 'ncclGetVersion'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_nccl_api api = { 0 };
		struct gt_err err = GT_ERR_INIT;
		int version = 0, rc;

		cudasim_nccl.version = cases[i].version;
		rc = gt_nccl_find(&api, &version, cases[i].library, &err);
		assert_int_equal(rc, cases[i].text ? GT_EDEVICE : 0);
		if (cases[i].text &&
		    (!strstr(err.text, cases[i].text) || !strstr(err.hint, "libnccl2")))
			fail_msg("case %zu: '%s', '%s'", i, err.text, err.hint);
		assert_true(!api.Recv == !!rc);
	}
	cudasim_nccl.version = 0;
}

/* A stream that waits for another rank holds up the streams that share its queue. */
static void ranks_on_one_gpu_need_enough_queues(void **state)
{
	static const struct gt_device_way_options by_host = { .name = GT_WAY_BY_HOST };
	static const struct site staged_on_one_gpu = { &by_host, 1, false };
	static const struct {
		const char *queues;
		const struct site *site;
		const char *text; /* NULL: it is fine */
	} cases[] = {
		{ "32", &ring_on_one_gpu, NULL },
		{ "8", &ring_on_one_gpu, "cuda:0: 18 streams of the ranks share 8 queues" },
		{ "many", &ring_on_one_gpu, "cuda:0: 18 streams of the ranks share 8 queues" },
		{ "1", &ring_on_one_gpu, "streams of the ranks share 1 queues" },
		{ "32", &staged_on_one_gpu, NULL },
		{ "25", &staged_on_one_gpu, "cuda:0: 26 streams of the ranks share 25 queues" },
		{ "1", &ring_of_gpus, NULL },
		{ "1", &nccl_of_threads, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rank ranks[4];

		setenv("CUDA_DEVICE_MAX_CONNECTIONS", cases[i].queues, 1);
		run_gpu_ranks(ranks, 4, cases[i].site, &patience, sum_once);
		for (int r = 0; r < 4; r++)
			if (ranks[r].rc != (cases[i].text ? GT_EDEVICE : 0) ||
			    !strstr(ranks[r].err.text, cases[i].text ? cases[i].text : ""))
				fail_msg("case %zu: rank %d: %d, '%s'", i, r, ranks[r].rc,
				    ranks[r].err.text);
	}
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
}

/* GPUs that do not reach each other's memory: NCCL itself moves data through the host. */
static void a_ring_needs_gpus_that_reach_each_other(void **state)
{
	static const struct {
		const char *peers;
		int gpus;
		bool processes;
		struct gt_device_way_options options;
		int code;
		const char *text;
	} cases[] = {
		{ "no", 2, false, { "ring", false }, GT_ENOTSUP,
		    "cuda:0 (0000:01:00.0) of rank 0 cannot access the memory of cuda:1 (0000:02:00.0) of "
		    "rank 1" },
		{ "full", 2, false, { "ring", false }, GT_ENOTSUP,
		    "cannot access the memory of cuda:1" },
		{ "no", 1, false, { "ring", false }, 0, "" },
		{ "no", 2, false, { NULL, true }, 0, "cannot access the memory of cuda:1" },
		/* the driver says that they do, but data arrive wrong */
		{ "wrong", 2, false, { "ring", false }, GT_ENOTSUP,
		    "data of cuda:1 (0000:02:00.0) of rank 1 arrive wrong on cuda:0 (0000:01:00.0) of "
		    "rank 0 (byte 2048 of 4096)" },
		{ "wrong", 2, true, { "ring", false }, GT_ENOTSUP,
		    "data of cuda:1 (0000:02:00.0) of rank 1 arrive wrong on cuda:0 (0000:01:00.0) of "
		    "rank 0" },
		{ "wrong", 1, false, { "ring", false }, 0, "" },
		{ "wrong", 2, false, { NULL, true }, 0, "arrive wrong" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct site site = { &cases[i].options, cases[i].gpus, cases[i].processes };
		struct rank ranks[2];
		const struct gt_err *err = cases[i].code ? &ranks[0].err : &ranks[0].way.why;

		setenv("CUDASIM_PEERS", cases[i].peers, 1);
		run_gpu_ranks(ranks, 2, &site, &patience, sum_once);
		unsetenv("CUDASIM_PEERS");
		if (ranks[0].rc != cases[i].code || ranks[1].rc != cases[i].code ||
		    !strstr(err->text, cases[i].text))
			fail_msg("case %zu: %d, '%s'", i, ranks[0].rc, err->text);
	}
}

/* ---- ranks that fail ---- */

/* The act of rank 1 in place of calling "bucket 3"; the others' error. */
struct failing {
	const char *name;
	int (*act)(struct rank *r);
	const struct gt_shm_options *options;
	struct cudasim_nccl planted;
	int code;
	const char *text, *text_of_rank_1; /* NULL: the same */
	const char *hint;
	bool by_nccl; /* and not by rings */
};

static const struct failing *failing;

/* Three sums, of which the second is "bucket 3"; the ranks have connected in the first. */
static int sum_thrice(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	struct gt_err again = GT_ERR_INIT;
	int rc = start_sum(r, x, ELEMENTS, "bucket 2", &ticket);
	double from;

	if (!rc)
		rc = gt_group_wait(r->group, ticket, &r->err);
	if (rc)
		return rc;
	pthread_barrier_wait(r->barrier);
	if (r->index == 1 && failing->act)
		return failing->act(r);
	from = gt_clock_s();
	rc = start_sum(r, x, ELEMENTS, "bucket 3", &ticket) ||
	     gt_group_wait(r->group, ticket, &r->err);
	if (gt_clock_s() - from > 20)
		return stop_with(r, "too late");
	/* Ever after, and from whatever waits for the GPU. */
	if (rc && (gt_device_sync(r->d, &again) != r->err.code ||
	              gt_group_wait(r->group, 0, &again) != r->err.code ||
	              strcmp(again.text, r->err.text) != 0))
		return stop_with(r, "no error when it was looked for once more");
	return rc ? r->err.code : start_sum(r, x, ELEMENTS, "bucket 4", &ticket);
}

static int come_late(struct rank *r)
{
	usleep(900000);
	(void)gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
	return stop_with(r, "late");
}

static int leave(struct rank *r)
{
	return stop_with(r, "left");
}

static int call_otherwise(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	const struct gt_collective c = { .kind = GT_BROADCAST,
		.in = x,
		.out = x,
		.count = ELEMENTS,
		.dtype = GT_F32,
		.what = "weights",
		.stream = r->d->compute };
	uint64_t ticket = 0;
	int rc = gt_group_start(r->group, &c, &ticket, &r->err);

	return rc ? rc : gt_group_wait(r->group, ticket, &r->err);
}

static int count_otherwise(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	int rc = start_sum(r, x, ELEMENTS - 1, "bucket 3", &ticket);

	return rc ? rc : gt_group_wait(r->group, ticket, &r->err);
}

/* Begins it, and then gives up. */
static int begin_and_leave(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	int rc = start_sum(r, x, ELEMENTS, "bucket 3", &ticket);

	if (!rc)
		usleep(100000);
	return rc ? rc : stop_with(r, "left");
}

static void failures_are_named(void **state)
{
	static const struct failing cases[] = {
		{ "late", come_late, &soon, { 0 }, GT_EIO,
		    "rank 1 is late for all-reduce 'bucket 3' (number ", "late", "timeout", false },
		{ "left", leave, &patience, { 0 }, GT_EIO,
		    "rank 1 left the group before all-reduce 'bucket 3' (number ", "left", "log",
		    false },
		{ "another count", count_otherwise, &patience, { 0 }, GT_EINVAL,
		    "all-reduce 'bucket 3' of 299 float32, sum", NULL, "same order", false },
		{ "another collective", call_otherwise, &patience, { 0 }, GT_EINVAL,
		    "broadcast 'weights' of 300 float32 from rank 0", NULL, "same order", false },
		{ "an error in the background", NULL, &patience, { .rank = 1, .fails = 2 },
		    GT_EDEVICE,
		    "rank 1: all-reduce 'bucket 3': remote process exited or there was a network "
		    "error: a planted error",
		    NULL, "NCCL_DEBUG", true },
		{ "no end", NULL, &soon, { .hangs = 2 }, GT_EIO,
		    "all-reduce 'bucket 3' has not ended, 0.3 s after all ranks had begun it", NULL,
		    "timeout", true },
		{ "begun and left", begin_and_leave, &patience, { .hangs = 2 }, GT_EIO,
		    "rank 1 left the group in all-reduce 'bucket 3' (number ", "left", "log",
		    true },
		{ "refused", NULL, &patience, { .rank = 1, .refuses = 2 }, GT_EDEVICE,
		    "rank 1: all-reduce 'bucket 3': invalid argument", NULL, "NCCL_DEBUG", true },
	};

	(void)state;
	for (size_t i = 0; i < SITES * sizeof(cases) / sizeof(*cases); i++) {
		const struct site *site = all_sites[i % SITES];
		struct rank ranks[3];

		failing = &cases[i / SITES];
		/* So short a timeout may be over before a process has started. */
		if (site->way == &by_ring ? failing->by_nccl
		                          : site->processes && failing->options == &soon)
			continue;
		cudasim_nccl = failing->planted;
		run_gpu_ranks(ranks, 3, site, failing->options, sum_thrice);
		for (int r = 0; r < 3; r++) {
			const char *text = r == 1 && failing->text_of_rank_1
			                       ? failing->text_of_rank_1
			                       : failing->text;

			if (!ranks[r].rc || !strstr(ranks[r].err.text, text))
				fail_msg("%s: rank %d: '%s'", failing->name, r, ranks[r].err.text);
			if (text == failing->text && (ranks[r].rc != failing->code ||
			                                 !strstr(ranks[r].err.hint, failing->hint)))
				fail_msg("%s: rank %d: %d, '%s'", failing->name, r, ranks[r].rc,
				    ranks[r].err.hint);
		}
		if (!site->processes)
			assert_int_equal(cudasim_nccl.aborted > 0, site->way == &over_nccl);
	}
	cudasim_nccl = (struct cudasim_nccl){ 0 };
}

/*
 * Each rank has two communicators, whose second sums never end; rank 1 may not call the third of
 * one of them. An abort waits until all of them are aborted.
 */
static int abort_two(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	struct gt_group *first = r->group, *second = NULL;
	int rc = gt_group_split(&second, first, 0, r->index, &r->err);
	double from = gt_clock_s();

	for (int i = 0; !rc && i < 5; i++) {
		r->group = i < 2 ? second : first;
		rc = start_sum(r, x, ELEMENTS, "bucket 3", NULL);
	}
	if (!rc)
		rc = gt_group_wait(first, GT_GROUP_ALL, &r->err);
	gt_group_free(first);
	gt_group_free(second);
	r->group = NULL;
	return gt_clock_s() - from > 10 ? stop_with(r, "too late") : rc;
}

static void communicators_are_aborted_side_by_side(void **state)
{
	struct rank ranks[2];

	(void)state;
	cudasim_nccl =
	    (struct cudasim_nccl){ .rank = 1, .hangs = 2, .refuses = 3, .abort_waits = 4 };
	run_gpu_ranks(ranks, 2, &nccl_of_threads, &patience, abort_two);
	for (int r = 0; r < 2; r++)
		if (ranks[r].rc != GT_EDEVICE ||
		    !strstr(ranks[r].err.text, "rank 1: all-reduce 'bucket 3': invalid argument"))
			fail_msg("rank %d: %d, '%s'", r, ranks[r].rc, ranks[r].err.text);
	cudasim_nccl = (struct cudasim_nccl){ 0 };
}

static void a_rank_that_does_not_connect_is_an_error(void **state)
{
	struct rank ranks[3];

	(void)state;
	cudasim_nccl = (struct cudasim_nccl){ .rank = 2, .never_joins = true };
	run_gpu_ranks(ranks, 3, &nccl_of_threads, &soon, sum_once);
	for (int r = 0; r < 3; r++)
		if (ranks[r].rc != GT_EIO ||
		    !strstr(ranks[r].err.text, "NCCL has not connected the ranks in 0.3 s"))
			fail_msg("rank %d: '%s'", r, ranks[r].err.text);
	cudasim_nccl = (struct cudasim_nccl){ 0 };
}

/* A message that nobody receives, longer than a ring holds; the sender waits for its end. */
enum { MESSAGE = 10 * ELEMENTS };

static int send_in_vain(struct rank *r)
{
	float *x = allocate(r, MESSAGE * sizeof(float));
	const struct gt_collective c = { .kind = GT_SEND,
		.in = x,
		.count = MESSAGE,
		.dtype = GT_F32,
		.peer = 1,
		.what = "activations",
		.stream = r->d->compute };
	int rc = 0;

	if (!r->index)
		rc = gt_group_run(r->group, &c, &r->err);
	if (!r->index && !rc)
		rc = gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
	pthread_barrier_wait(r->barrier);
	return rc;
}

static void a_message_that_nobody_takes_is_an_error(void **state)
{
	struct rank ranks[2];

	(void)state;
	for (int ring = 0; ring < 2; ring++) {
		run_gpu_ranks(
		    ranks, 2, ring ? &ring_of_gpus : &nccl_of_threads, &soon, send_in_vain);
		if (ranks[0].rc != GT_EIO ||
		    !strstr(ranks[0].err.text, "rank 1 is late for send 'activations' of rank 0"))
			fail_msg("'%s'", ranks[0].err.text);
	}
}

/* ---- a process that dies ---- */

static struct dying {
	int ranks;
	const char *told; /* by NCCL: CUDASIM_NCCL */
	bool begins;      /* the collective in which it dies */
	const char *text;
} dying;

static int die(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	double from;
	int rc = start_sum(r, x, ELEMENTS, "bucket 2", &ticket) ||
	         gt_group_wait(r->group, ticket, &r->err);

	if (rc)
		return r->err.code;
	pthread_barrier_wait(r->barrier);
	if (r->index == 1 && dying.begins)
		(void)start_sum(r, x, ELEMENTS, "bucket 3", &ticket);
	if (r->index == 1) {
		usleep(dying.begins ? 100000 : 0);
		raise(SIGKILL);
	}
	from = gt_clock_s();
	rc = start_sum(r, x, ELEMENTS, "bucket 3", &ticket) ||
	     gt_group_wait(r->group, ticket, &r->err);
	return gt_clock_s() - from > 20 ? stop_with(r, "too late") : rc ? r->err.code : 0;
}

/* By the others, whether NCCL notices it or not. */
static void a_killed_rank_is_named(void **state)
{
	static const struct dying cases[] = {
		{ 2, "yes", false, "rank 1 died before all-reduce 'bucket 3' (number " },
		{ 4, "silent", false, "rank 1 died before all-reduce 'bucket 3' (number " },
		{ 3, "yes", true, "rank 1 died in all-reduce 'bucket 3' (number " },
		{ 2, "silent", true, "rank 1 died in all-reduce 'bucket 3' (number " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rank ranks[MOST];

		dying = cases[i];
		setenv("CUDASIM_NCCL", dying.told, 1);
		cudasim_nccl = (struct cudasim_nccl){ .hangs = dying.begins ? 2 : 0 };
		run_gpu_ranks(ranks, dying.ranks, &nccl_of_processes, &patience, die);
		for (int r = 0; r < dying.ranks; r++)
			if (r != 1 &&
			    (ranks[r].rc != GT_EIO || !strstr(ranks[r].err.text, dying.text)))
				fail_msg("case %zu: rank %d: '%s'", i, r, ranks[r].err.text);
	}
	unsetenv("CUDASIM_NCCL");
	cudasim_nccl = (struct cudasim_nccl){ 0 };
}

/* ---- giving up ---- */

static void *stop_soon(void *group)
{
	usleep(100000);
	gt_group_stop(group);
	return NULL;
}

/* Rank 0 alone starts a sum, and gives it up. The call waits for the ranks of its process. */
static int give_up(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	double from = gt_clock_s();
	int rc = sum_once(r);
	pthread_t stopper;

	if (!rc && !r->index) {
		assert_int_equal(pthread_create(&stopper, NULL, stop_soon, r->group), 0);
		rc = start_sum(r, x, ELEMENTS, "bucket 3", &ticket);
		pthread_join(stopper, NULL);
		if (gt_group_wait(r->group, ticket, GT_ERR_IGNORED) != GT_EIO)
			rc = stop_with(r, "not stopped");
	}
	pthread_barrier_wait(r->barrier);
	if (gt_clock_s() - from > 20)
		rc = stop_with(r, "too late");
	return rc;
}

static void abandoned_calls_end(void **state)
{
	struct rank ranks[2];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		run_gpu_ranks(ranks, 2, all_sites[i], &patience, give_up);
		if (strcmp(ranks[0].err.text, "the group was stopped") != 0 || ranks[1].rc)
			fail_msg("'%s', '%s'", ranks[0].err.text, ranks[1].err.text);
	}
}

/* All calls before have ended without an error; every later call is an error. */
static int stop_when_done(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	int rc = start_sum(r, x, ELEMENTS, "bucket 3", &ticket);

	if (!rc)
		rc = gt_device_sync(r->d, &r->err);
	gt_group_await(r->group, ticket, r->d->compute, &r->err);
	if (!rc)
		rc = gt_device_sync(r->d, &r->err);
	gt_group_stop(r->group);
	if (!rc)
		rc = gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
	if (!rc && start_sum(r, x, ELEMENTS, "bucket 4", &ticket) != GT_EIO)
		rc = stop_with(r, "started");
	return rc;
}

static void a_group_that_is_done_stops_in_peace(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		cudasim_nccl.aborted = 0;
		run_well(all_sites[i % 3], 3, stop_when_done);
		assert_int_equal(cudasim_nccl.aborted, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_way_is_chosen),
		cmocka_unit_test(a_ring_needs_gpus_that_reach_each_other),
		cmocka_unit_test(ranks_on_one_gpu_need_enough_queues),
		cmocka_unit_test(nccl_takes_ranks_that_share_a_gpu),
		cmocka_unit_test(the_library_is_checked),
		cmocka_unit_test(failures_are_named),
		cmocka_unit_test(communicators_are_aborted_side_by_side),
		cmocka_unit_test(a_rank_that_does_not_connect_is_an_error),
		cmocka_unit_test(a_message_that_nobody_takes_is_an_error),
		cmocka_unit_test(a_killed_rank_is_named),
		cmocka_unit_test(abandoned_calls_end),
		cmocka_unit_test(a_group_that_is_done_stops_in_peace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
