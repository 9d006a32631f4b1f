/* test_compress.c - gradients that are sent rounded: each bit of the sum, and how far it is off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/model_ranks.h"

enum { MOST = 4 };

struct format {
	enum gt_compress compress;
	int digits, least; /* significant bits; exponent of the smallest normal number */
};

static const struct format fp16 = { GT_COMPRESS_FP16, 11, -14 };
static const struct format bf16 = { GT_COMPRESS_BF16, 8, -126 };

static float scale;        /* of the loss */
static float *alone[MOST]; /* each rank's gradients before they are added up */

/* Once without communication, once with it. */
static int twice(struct model_rank *r)
{
	float **mine = &alone[r->group->rank];
	int rc;

	r->goes_on = true;
	rc = model_rank_step(r, scale);
	*mine = malloc(gt_store_flat_bytes(r->store));
	if (!rc && *mine)
		memcpy(*mine, r->store->gradients->memory, gt_store_flat_bytes(r->store));
	r->goes_on = false;
	return rc ? rc : model_rank_step(r, scale);
}

static void run(struct model_rank *ranks, int count, enum gt_compress compress)
{
	const struct model_rank like = { .spec = "lenet",
		.options = { .kind = GT_PARALLEL_DDP,
		    .bucket_bytes = 1 << 14,
		    .compress = compress },
		.samples = 12 };

	model_ranks_run(ranks, count, &like, twice);
	model_ranks_expect_well(ranks, count);
}

static void finish(struct model_rank *ranks, int count)
{
	for (int r = 0; r < count; r++)
		free(alone[r]);
	model_ranks_close(ranks, count);
}

/* The distance of neighbours of the format around x. */
static double step_at(const struct format *f, double x)
{
	int exponent;

	frexp(x, &exponent);
	return ldexp(1, (exponent - 1 < f->least ? f->least : exponent - 1) - (f->digits - 1));
}

static double rounded(const struct format *f, double x)
{
	double step = step_at(f, x);

	return x == 0 ? x : rint(x / step) * step;
}

static void compare(const struct format *f, int count)
{
	struct model_rank ranks[MOST];
	double far = 0, largest = 0;

	scale = 1;
	run(ranks, count, f->compress);
	for (int64_t k = 0; k < ranks[0].store->flat_count; k++) {
		double got = ((float *)ranks[0].store->gradients->memory)[k], exact = 0, bound = 0;
		float sum = 0;

		for (int r = 0; r < count; r++) {
			sum += (float)rounded(f, alone[r][k]);
			exact += (double)alone[r][k];
			bound += step_at(f, alone[r][k]) / 2;
		}
		if (got != rounded(f, sum))
			fail_msg(
			    "element %lld: %.9g, not %.9g", (long long)k, got, rounded(f, sum));
		bound += step_at(f, sum) / 2 + 1e-6 * fabs(exact);
		assert_true(fabs(got - exact) <= bound);
		far = fmax(far, fabs(got - exact));
		largest = fmax(largest, fabs(exact));
	}
	/* Of the largest gradient, the error is some halves of the last place; and there is one. */
	assert_true(far <= (count + 1) * ldexp(largest, -f->digits));
	assert_true(far > ldexp(largest, -f->digits - 4));
	for (int r = 1; r < count; r++)
		assert_memory_equal(ranks[0].store->gradients->memory,
		    ranks[r].store->gradients->memory, gt_store_flat_bytes(ranks[0].store));
	finish(ranks, count);
}

static void each_rank_is_rounded_once_and_the_sum_once(void **state)
{
	(void)state;
	for (int count = 2; count <= MOST; count++) {
		compare(&fp16, count);
		compare(&bf16, count);
	}
}

static bool has_infinite(const struct model_rank *r)
{
	for (int64_t k = 0; k < r->store->flat_count; k++)
		if (isinf(((float *)r->store->gradients->memory)[k]))
			return true;
	return false;
}

/* So that the norm of the gradients tells. */
static void numbers_beyond_fp16_become_infinite(void **state)
{
	struct model_rank ranks[2];

	(void)state;
	scale = 1e7f;
	run(ranks, 2, GT_COMPRESS_FP16);
	assert_true(has_infinite(&ranks[0]) && has_infinite(&ranks[1]));
	finish(ranks, 2);
	run(ranks, 2, GT_COMPRESS_BF16);
	assert_false(has_infinite(&ranks[0]) || has_infinite(&ranks[1]));
	finish(ranks, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rank_is_rounded_once_and_the_sum_once),
		cmocka_unit_test(numbers_beyond_fp16_become_infinite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
