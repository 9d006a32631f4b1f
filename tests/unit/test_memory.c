/* test_memory.c - offsets for random lifetimes: nothing alive overlaps, little is wasted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/base/philox.h"
#include "lib/device/backend.h"
#include "lib/graph/memory.h"

enum { BLOCKS = 120, STEPS = 60, ROUNDS = 200 };

static uint64_t draw(uint64_t seed, int round, int i, uint64_t below)
{
	return gt_philox_below(gt_philox_u64(seed, (uint64_t)i, 0, (uint32_t)round), below);
}

static bool alive_together(const struct gt_lifetime *a, const struct gt_lifetime *b)
{
	return a->first <= b->last && b->first <= a->last;
}

static void expect_apart(const struct gt_lifetime *blocks, size_t n, size_t total)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(blocks[i].offset % GT_DEVICE_ALIGN, 0);
		assert_true(blocks[i].offset + blocks[i].bytes <= total);
		for (size_t j = 0; j < i; j++)
			if (alive_together(&blocks[i], &blocks[j]) &&
			    blocks[i].offset < blocks[j].offset + blocks[j].bytes &&
			    blocks[j].offset < blocks[i].offset + blocks[i].bytes)
				fail_msg("blocks %zu and %zu overlap", i, j);
	}
}

/* The most bytes alive in any step: no plan needs less. */
static size_t lower_bound(const struct gt_lifetime *blocks, size_t n, int steps)
{
	size_t max = 0;

	for (int s = 0; s < steps; s++) {
		size_t bytes = 0;

		for (size_t i = 0; i < n; i++)
			if (blocks[i].first <= s && s <= blocks[i].last)
				bytes += (blocks[i].bytes + GT_DEVICE_ALIGN - 1) / GT_DEVICE_ALIGN *
				         GT_DEVICE_ALIGN;
		max = bytes > max ? bytes : max;
	}
	return max;
}

/* Short-lived temporaries and, as in training, values that wait for the backward pass. */
static void random_lifetimes(struct gt_lifetime *blocks, uint64_t seed, int round)
{
	for (int i = 0; i < BLOCKS; i++) {
		int first = (int)draw(seed, round, 4 * i, STEPS), last = first + 1;

		if (first < STEPS / 2 && draw(seed, round, 4 * i + 1, 3) == 0)
			last = STEPS - 1 - first;
		last += (int)draw(seed, round, 4 * i + 2, 3);
		blocks[i] = (struct gt_lifetime){ .bytes = 1 + draw(seed, round, 4 * i + 3, 100000),
			.first = first,
			.last = last < STEPS ? last : STEPS - 1 };
	}
}

static void test_random(void **state)
{
	const uint64_t seed = 20240607;
	double waste = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct gt_lifetime blocks[BLOCKS];
		size_t total, least;

		random_lifetimes(blocks, seed, round);
		least = lower_bound(blocks, BLOCKS, STEPS);
		assert_int_equal(gt_memory_plan(blocks, BLOCKS, &total, NULL), 0);
		expect_apart(blocks, BLOCKS, total);
		assert_true(total >= least);
		if ((double)total > 1.3 * (double)least)
			fail_msg("seed %llu, round %d: %zu bytes where %zu could do",
			    (unsigned long long)seed, round, total, least);
		waste += (double)total / (double)least / ROUNDS;
	}
	print_message("# seed %llu: %.3f times the lower bound on average\n",
	    (unsigned long long)seed, waste);
	assert_true(waste < 1.1);
}

static void test_small(void **state)
{
	/* Two that meet in step 1 and one that comes after the first. */
	struct gt_lifetime blocks[] = { { 400, 0, 1, 0 }, { 256, 1, 2, 0 }, { 300, 2, 3, 0 } };
	size_t total;

	(void)state;
	assert_int_equal(gt_memory_plan(blocks, 3, &total, NULL), 0);
	assert_int_equal(total, 768);
	assert_int_equal(blocks[0].offset, 0);
	assert_int_equal(blocks[1].offset, 512);
	assert_int_equal(blocks[2].offset, 0);
	assert_int_equal(gt_memory_plan(blocks, 0, &total, NULL), 0);
	assert_int_equal(total, 0);
}

static void test_example_in_header(void **state)
{
	struct gt_lifetime blocks[] = { { 512, 0, 1, 0 }, { 256, 1, 2, 0 }, { 512, 2, 3, 0 },
		{ 256, 3, 4, 0 } };
	const size_t offsets[] = { 0, 512, 0, 512 };
	size_t total;

	(void)state;
	assert_int_equal(gt_memory_plan(blocks, 4, &total, NULL), 0);
	assert_int_equal(total, 768);
	for (int i = 0; i < 4; i++)
		assert_int_equal(blocks[i].offset, offsets[i]);
}

static int larger_first(const void *x, const void *y)
{
	const struct gt_lifetime *a = *(struct gt_lifetime *const *)x;
	const struct gt_lifetime *b = *(struct gt_lifetime *const *)y;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a < b ? -1 : 1);
}

/* The lowest offset at which b fits beside the blocks before it: 0, or the end of one of them. */
static size_t plain_offset(
    struct gt_lifetime *const *before, size_t count, const struct gt_lifetime *b)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i <= count; i++) {
		size_t at = i < count ? before[i]->offset + before[i]->bytes : 0;
		bool free = at < best && (i == count || alive_together(before[i], b));

		for (size_t j = 0; free && j < count; j++)
			free = !alive_together(before[j], b) ||
			       before[j]->offset + before[j]->bytes <= at ||
			       before[j]->offset >= at + b->bytes;
		if (free)
			best = at;
	}
	return best;
}

/* Many more blocks than the plan keeps side by side; most have one of a few sizes, as in layers. */
static void test_many_blocks(void **state)
{
	enum { MANY = 1100, LONG = 400 };
	static struct gt_lifetime blocks[MANY], plain[MANY], *order[MANY];
	size_t total, most = 0;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		int first = (int)draw(7, 0, 3 * i, LONG), kept = (int)draw(7, 0, 3 * i + 1, 8);

		plain[i] = blocks[i] = (struct gt_lifetime){
			.bytes = GT_DEVICE_ALIGN * (1 + draw(7, 0, 3 * i + 2, kept % 2 ? 4 : 500)),
			.first = first,
			.last = kept ? first + kept : LONG
		};
		order[i] = &plain[i];
	}
	qsort(order, MANY, sizeof(*order), larger_first);
	for (size_t i = 0; i < MANY; i++) {
		order[i]->offset = plain_offset(order, i, order[i]);
		if (order[i]->offset + order[i]->bytes > most)
			most = order[i]->offset + order[i]->bytes;
	}
	assert_int_equal(gt_memory_plan(blocks, MANY, &total, NULL), 0);
	assert_int_equal(total, most);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(blocks[i].offset, plain[i].offset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_example_in_header),
		cmocka_unit_test(test_many_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
