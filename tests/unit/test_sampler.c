/* test_sampler.c - a sampler for several ranks draws the samples of theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include "lib/data/core/data.h"

enum { MOST = 64 };

/* Batch after batch, rank after rank in each. */
static void check(int64_t samples, int world, int virtual_ranks, int each, bool drop_last)
{
	struct gt_sampler s = { .samples = samples,
		.seed = 5,
		.world = world,
		.shuffle = true,
		.drop_last = drop_last,
		.pad = true };
	int64_t order[MOST], all[MOST], one[MOST], batches;

	gt_sampler_permutation(&s, 2, order);
	s.batch = each;
	batches = gt_sampler_batches(&s);
	for (int first = 0; first < world; first += virtual_ranks) {
		struct gt_sampler host = s;

		host.rank = first;
		host.virtual_ranks = virtual_ranks;
		host.batch = each * virtual_ranks;
		assert_int_equal(gt_sampler_batches(&host), batches);
		assert_int_equal(
		    gt_sampler_rank_samples(&host), virtual_ranks * gt_sampler_rank_samples(&s));
		for (int64_t step = 0; step < batches; step++) {
			int count = gt_sampler_batch(&host, order, step, all), at = 0;

			for (s.rank = first; s.rank < first + virtual_ranks; s.rank++) {
				int n = gt_sampler_batch(&s, order, step, one);

				assert_memory_equal(all + at, one, (size_t)n * sizeof(*one));
				at += n;
			}
			assert_int_equal(count, at);
		}
		assert_int_equal(gt_sampler_batch(&host, order, batches, all), 0);
		s.rank = 0;
	}
}

static void samplers_of_virtual_ranks(void **state)
{
	(void)state;
	for (int64_t samples = 8; samples <= 53; samples += 5)
		for (int world = 1; world <= 8; world *= 2)
			for (int virtual_ranks = 1; virtual_ranks <= world; virtual_ranks *= 2)
				for (int each = 1; each <= 7; each += 3)
					for (int drop = 0; drop < 2; drop++)
						check(samples, world, virtual_ranks, each, drop);
}

/* With drop_last an epoch is as many steps for every way to make up one of 8 samples. */
static void whole_steps(void **state)
{
	(void)state;
	for (int64_t samples = 8; samples <= 53; samples++)
		for (int world = 1; world <= 8; world *= 2)
			for (int batch = 1; batch * world <= 8; batch *= 2) {
				struct gt_sampler s = { .samples = samples,
					.world = world,
					.batch = batch,
					.per_step = 8 / world / batch,
					.drop_last = true };
				int64_t batches = gt_sampler_batches(&s);
				int64_t order[MOST], index[8];

				gt_sampler_permutation(&s, 0, order);
				assert_int_equal(batches % s.per_step, 0);
				assert_int_equal(batches / s.per_step, samples / 8);
				assert_int_equal(
				    gt_sampler_batch(&s, order, batches - 1, index), batch);
				assert_int_equal(gt_sampler_batch(&s, order, batches, index), 0);
				s.drop_last = false;
				s.pad = true;
				assert_int_equal(gt_sampler_batches(&s),
				    (samples + batch * world - 1) / (batch * world));
			}
}

/* Rank r has batches r, r + world, ...: those of one rank. */
static void whole_batches(void **state)
{
	(void)state;
	for (int64_t samples = 0; samples <= 53; samples++)
		for (int world = 1; world <= 8; world++)
			for (int batch = 1; batch <= 8; batch++) {
				struct gt_sampler one = { .samples = samples,
					.world = 1,
					.batch = batch,
					.by_batch = true };
				int64_t order[MOST], all = gt_sampler_batches(&one), found = 0;

				gt_sampler_permutation(&one, 0, order);
				assert_int_equal(all, (samples + batch - 1) / batch);
				for (int rank = 0; rank < world; rank++) {
					struct gt_sampler s = one;
					int64_t n = 0, mine[8], wanted[8], batches;

					s.rank = rank;
					s.world = world;
					batches = gt_sampler_batches(&s);
					for (int64_t b = 0; b < batches; b++) {
						int count = gt_sampler_batch(&s, order, b, mine);

						assert_int_equal(
						    count, gt_sampler_batch(&one, order,
						               b * world + rank, wanted));
						assert_memory_equal(
						    mine, wanted, (size_t)count * sizeof(*mine));
						n += count;
					}
					assert_int_equal(n, gt_sampler_rank_samples(&s));
					found += n;
				}
				assert_int_equal(found, samples);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(samplers_of_virtual_ranks),
		cmocka_unit_test(whole_steps), cmocka_unit_test(whole_batches) };

	return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
