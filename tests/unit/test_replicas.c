/* test_replicas.c - ranks that drift apart are found; whose running statistics count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <string.h>

#include "tests/common/model_ranks.h"

enum { MOST = 4 };

/* ---- checksums ---- */

/*
 * The damage: one bit of an element of a tensor, on some ranks; a bit that an average does not
 * round away.
 */
static struct {
	unsigned ranks; /* a bit each */
	const char *tensor;
} fault;

static void flip(struct model_rank *r)
{
	const struct gt_slot *slot = gt_store_find(r->store, fault.tensor);

	assert_non_null(slot);
	((unsigned char *)gt_store_data(r->store, slot))[(slot->held - 1) * 4 + 1] ^= 1;
}

/* Three steps; the fault comes in the second one, and comparisons after the first and third. */
static int three_steps(struct model_rank *r)
{
	int rc = 0;

	for (int64_t step = 1; !rc && step <= 3; step++) {
		rc = model_rank_step(r, 1);
		if (!rc)
			rc = model_rank_update(r, 0.01);
		if (step == 2 && fault.ranks >> r->group->rank & 1)
			flip(r);
		if (!rc)
			rc = gt_parallel_check_replicas(r->parallel, step, &r->err);
		if (rc && step < 3)
			gt_err_set(&r->err, GT_EINVAL, "too early");
	}
	return rc;
}

static void expect(const char *spec, bool sync_bn, int count, const char *want)
{
	const struct model_rank like = { .spec = spec,
		.options = { .kind = GT_PARALLEL_DDP,
		    .bucket_bytes = 1 << 18,
		    .sync_bn = sync_bn,
		    .check_every = 3 },
		.samples = 2 * count };
	struct model_rank ranks[MOST];

	model_ranks_run(ranks, count, &like, three_steps);
	for (int i = 0; i < count; i++) {
		assert_string_equal(ranks[i].err.text, want);
		assert_int_equal(ranks[i].err.code, *want ? GT_EDEVICE : 0);
	}
	model_ranks_close(ranks, count);
}

static void equal_ranks_are_left_alone(void **state)
{
	(void)state;
	fault.ranks = 0;
	for (int count = 1; count <= MOST; count++)
		expect("lenet", false, count, "");
	/* running statistics are each rank's own here */
	expect("resnet20", false, 2, "");
	expect("resnet20", true, 2, "");
}

static void a_rank_that_differs_is_named(void **state)
{
	(void)state;
	fault.tensor = "conv2.weight";
	fault.ranks = 1u << 2;
	expect("lenet", false, 4,
	    "after step 3, rank 2 has other weights than rank 0, first in 'conv2.weight'");
	fault.ranks = 1u << 0;
	expect("lenet", false, 3,
	    "after step 3, rank 0 has other weights than rank 1, first in 'conv2.weight'");
	fault.ranks = 1u << 0;
	expect("lenet", false, 2,
	    "after step 3, rank 1 has other weights than rank 0, first in 'conv2.weight'");
	fault.ranks = 1u << 1 | 1u << 2;
	expect("lenet", false, 4,
	    "after step 3, ranks 1, 2 have other weights than rank 0, first in 'conv2.weight'");
}

static void running_statistics_are_compared_where_they_agree(void **state)
{
	(void)state;
	fault.tensor = "layer2.0.bn1.running_var";
	fault.ranks = 1u << 1;
	expect("resnet20", true, 3,
	    "after step 3, rank 1 has other weights than rank 0, first in "
	    "'layer2.0.bn1.running_var'");
	expect("resnet20", false, 3, "");
}

/* Of 4 ranks, two by two. */
static void expect_grid(int stages, int tensor, int differs, const char *weight, const char *want)
{
	const struct model_rank like = { .spec = "mlp:20,32,32,10",
		.options = { .kind = GT_PARALLEL_DDP,
		    .bucket_bytes = 1 << 18,
		    .stages = stages,
		    .tensor = tensor,
		    .check_every = 3 },
		.samples = 12,
		.accumulate = stages > 1 };
	struct model_rank ranks[MOST];
	int told = 0;

	fault.tensor = weight;
	fault.ranks = 1u << differs;
	model_ranks_run(ranks, MOST, &like, three_steps);
	for (int i = 0; i < MOST; i++) {
		if (ranks[i].err.code) {
			assert_string_equal(ranks[i].err.text, want);
			told++;
		}
	}
	assert_int_equal(told, 2); /* those that should have the same */
	model_ranks_close(ranks, MOST);
}

static void numbers_are_those_of_all_ranks(void **state)
{
	(void)state;
	expect_grid(2, 0, 3, "4.weight",
	    "after step 3, rank 3 has other weights than rank 2, first in '4.weight'");
	expect_grid(0, 2, 3, "0.weight",
	    "after step 3, rank 3 has other weights than rank 1, first in '0.weight'");
	expect_grid(0, 2, 2, "0.weight",
	    "after step 3, rank 2 has other weights than rank 0, first in '0.weight'");
}

/* ---- buffers ---- */

static int step_and_share(struct model_rank *r)
{
	int rc = model_rank_step(r, 1);

	return rc ? rc : gt_parallel_share_buffers(r->parallel, &r->err);
}

static void share(struct model_rank *ranks, bool own_buffers)
{
	const struct model_rank like = { .spec = "resnet20",
		.options = { .kind = GT_PARALLEL_DDP,
		    .bucket_bytes = 1 << 18,
		    .own_buffers = own_buffers },
		.samples = 4 };

	model_ranks_run(ranks, 2, &like, step_and_share);
	model_ranks_expect_well(ranks, 2);
}

static void all_take_the_buffers_of_rank_0(void **state)
{
	struct model_rank shared[2], own[2];
	size_t bytes;

	(void)state;
	share(shared, false);
	share(own, true);
	bytes = own[0].store->buffers->elements;
	assert_memory_not_equal(
	    own[0].store->buffers->memory, own[1].store->buffers->memory, bytes);
	assert_memory_equal(shared[0].store->buffers->memory, own[0].store->buffers->memory, bytes);
	assert_memory_equal(shared[1].store->buffers->memory, own[0].store->buffers->memory, bytes);
	model_ranks_close(shared, 2);
	model_ranks_close(own, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_ranks_are_left_alone),
		cmocka_unit_test(a_rank_that_differs_is_named),
		cmocka_unit_test(numbers_are_those_of_all_ranks),
		cmocka_unit_test(running_statistics_are_compared_where_they_agree),
		cmocka_unit_test(all_take_the_buffers_of_rank_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
