/* test_group_errors.c - errors that ranks with simulated GPUs tell each other. */
#include "kernels/cuda/group/ranks.h"
#include "tests/cudasim/gpu_ranks.h"
#include "tests/cudasim/planted.h"

static int gathers;

/* A world in which another rank has no memory for the bytes that it would read of all ranks. */
static int run_with_failed_rank(
    struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	(void)g;
	(void)err;
	if (c->kind == GT_ALL_REDUCE)
		*(int64_t *)c->out = 1;
	gathers += c->kind == GT_ALL_GATHER;
	return 0;
}

/* All ranks fail with it, and none waits for it in the collective that it has no memory for. */
static void a_rank_without_memory_tells_the_others(void **state)
{
	const struct gt_group_ops ops = { .name = "short", .run = run_with_failed_rank };
	struct gt_group world = { .ops = &ops, .size = 2 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	void *all;

	(void)state;
	assert_int_equal(gt_device_open(&d, &gt_cuda_backend, 0, &err), 0);
	assert_int_equal(gt_cuda_backend.groups[0]->check(&world, d, &err), GT_ENOMEM);
	assert_string_equal(err.text, "another rank has no memory to connect the GPUs");
	assert_int_equal(gathers, 0);
	assert_true(err.follows);
	/* A rank that has no memory itself keeps its error. */
	assert_int_equal(gt_cuda_gather_new(&world, NULL, SIZE_MAX, &all, &err), GT_ENOMEM);
	assert_true(strstr(err.text, "out of memory") && !err.follows && !all);
	gt_device_close(d);
}

/* The ranks with an index in it have an error of their own. */
static unsigned failed_set;

static int agree(struct rank *r)
{
	struct gt_err own = GT_ERR_INIT;

	if (failed_set >> r->index & 1)
		gt_err_set(&own, GT_EDEVICE, "fault of rank %d", r->index);
	return gt_cuda_agree(r->host, &own, &r->err);
}

static void ranks_agree_on_one_error(void **state)
{
	static const struct {
		unsigned set;
		const char *text[3];
	} cases[] = {
		{ 1, { "fault of rank 0", "rank 0: fault of rank 0", "rank 0: fault of rank 0" } },
		{ 2, { "rank 1: fault of rank 1", "fault of rank 1", "rank 1: fault of rank 1" } },
		{ 6, { "rank 1: fault of rank 1", "fault of rank 1", "rank 1: fault of rank 1" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rank ranks[3];

		failed_set = cases[i].set;
		run_gpu_ranks(ranks, 3, &ring_of_gpus, &patience, agree);
		for (int r = 0; r < 3; r++)
			if (ranks[r].rc != GT_EDEVICE ||
			    strcmp(ranks[r].err.text, cases[i].text[r]) != 0 ||
			    ranks[r].err.follows != (*cases[i].text[r] == 'r'))
				fail_msg("case %zu: rank %d: '%s'", i, r, ranks[r].err.text);
	}
}

/* A kernel of rank 1 faults; the sum behind it has no result on any rank. */
static int sum_after_a_fault(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	int rc;

	if (r->index == 1)
		planted_launch(PLANTED_OWN_MASK, x, r->d->compute->queue);
	rc = start_sum(r, x, ELEMENTS, "bucket 1", &ticket) ||
	     gt_group_wait(r->group, ticket, &r->err);
	pthread_barrier_wait(r->barrier);
	if (r->index == 1)
		cudasim_forget(r->d->index);
	pthread_barrier_wait(r->barrier);
	return rc ? r->err.code : stop_with(r, "a sum on a GPU that has failed");
}

static void a_failed_gpu_fails_the_group(void **state)
{
	static const struct site *const sites[] = { &nccl_of_threads, &ring_of_gpus };
	struct rank ranks[3];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		run_gpu_ranks(ranks, 3, sites[i], &patience, sum_after_a_fault);
		for (int r = 0; r < 3; r++)
			if (ranks[r].rc != GT_EDEVICE || !strstr(ranks[r].err.text, "cuda:1: "))
				fail_msg("rank %d: %d, '%s'", r, ranks[r].rc, ranks[r].err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_without_memory_tells_the_others),
		cmocka_unit_test(ranks_agree_on_one_error),
		cmocka_unit_test(a_failed_gpu_fails_the_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
