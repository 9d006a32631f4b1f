/* test_mixup.c - mixtures of images: the distribution of weights, and batches of the loader. */
#include <math.h>

#include "lib/data/core/source.h"
#include "tests/unit/data_fixture.h"

enum { DRAWS = 20000, SEED = 17 };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void draw(double *x, double alpha)
{
	for (int i = 0; i < DRAWS; i++)
		x[i] = gt_mixup_weight(alpha, SEED, (uint64_t)i, 3);
	qsort(x, DRAWS, sizeof(*x), compare);
}

/* ---- weights ---- */

/* The mean of Beta(a, a) is 1/2, its variance 1 / (4 (2 a + 1)). */
static void test_mean_and_variance(void **state)
{
	static const double alphas[] = { 1e-300, 1e-12, 1e-3, 0.05, 0.2, 0.5, 0.999, 1, 1.5, 8,
		1000 };
	double *x = calloc(DRAWS, sizeof(*x));

	(void)state;
	print_message("seed %d\n", SEED);
	assert_non_null(x);
	for (size_t k = 0; k < sizeof(alphas) / sizeof(*alphas); k++) {
		double want = 1 / (4 * (2 * alphas[k] + 1)), mean = 0, variance = 0;

		draw(x, alphas[k]);
		for (int i = 0; i < DRAWS; i++)
			mean += x[i] / DRAWS;
		for (int i = 0; i < DRAWS; i++)
			variance += (x[i] - mean) * (x[i] - mean) / DRAWS;
		if (!(x[0] >= 0 && x[DRAWS - 1] <= 1))
			fail_msg("alpha %g: from %g to %g", alphas[k], x[0], x[DRAWS - 1]);
		/* 4 standard deviations of the mean; relative, those of the variance are sqrt(2 /
		 * draws) or less. */
		if (!(fabs(mean - 0.5) < 4 * sqrt(want / DRAWS)) ||
		    !(fabs(variance / want - 1) < 4 * sqrt(2.0 / DRAWS)))
			fail_msg("alpha %g: mean %g, variance %g, not %g", alphas[k], mean,
			    variance, want);
	}
	free(x);
}

/* Distribution functions that are elementary. */
static double below(double alpha, double x)
{
	if (alpha < 1)
		return 2 / 3.141592653589793 * asin(sqrt(x)); /* 1/2: the arcsine distribution */
	return alpha > 1 ? x * x * (3 - 2 * x) : x;           /* 2; 1: uniform */
}

/* Kolmogorov's bound for a probability of 0.001. */
static void test_distribution(void **state)
{
	static const double alphas[] = { 0.5, 1, 2 };
	double *x = calloc(DRAWS, sizeof(*x));

	(void)state;
	print_message("seed %d\n", SEED);
	assert_non_null(x);
	for (size_t k = 0; k < sizeof(alphas) / sizeof(*alphas); k++) {
		double far = 0;

		draw(x, alphas[k]);
		for (int i = 0; i < DRAWS; i++)
			far = fmax(far, fabs(below(alphas[k], x[i]) - (i + 0.5) / DRAWS));
		if (!(far < 1.95 / sqrt(DRAWS)))
			fail_msg("alpha %g: off by %g", alphas[k], far);
	}
	free(x);
}

static void test_draws_are_counted(void **state)
{
	double x = gt_mixup_weight(0.4, SEED, 5, 3);

	(void)state;
	assert_true(gt_mixup_weight(0.4, SEED, 5, 3) == x);
	assert_true(gt_mixup_weight(0.4, SEED + 1, 5, 3) != x);
	assert_true(gt_mixup_weight(0.4, SEED, 6, 3) != x);
	assert_true(gt_mixup_weight(0.4, SEED, 5, 4) != x);
}

static void test_rows(void **state)
{
	static const uint8_t pixels[] = { 0, 255, 100, 40, 8, 4 };
	static const int32_t classes[] = { 7, -100, 2 };
	static const float mixed[] = { 6, 66.75f, 25, 201.25f, 77, 31 };
	static const int32_t pairs[][2] = { { 7, 2 }, { -100, 7 }, { 2, -100 } };
	struct gt_mixed_target target[3];
	float out[6];

	(void)state;
	gt_mixup_rows(out, target, pixels, classes, 3, 2, 0.25f);
	assert_memory_equal(out, mixed, sizeof(mixed));
	for (int i = 0; i < 3; i++) {
		assert_memory_equal(target[i].classes, pairs[i], sizeof(pairs[i]));
		assert_true(target[i].weight == 0.25f);
	}
}

/* ---- batches ---- */

enum { SAMPLES = 43, SIZE = 3 * 5 * 2, CLASSES = 4 };
#define ALPHA 0.3

static struct gt_dataset *open_images(void)
{
	const struct gt_data_request request = { .seed = 3,
		.form = { .height = 3, .width = 5, .channels = 2, .classes = CLASSES } };

	return open_data("random", "", ",samples=43", &request);
}

static struct gt_loader_options make_options(int batch)
{
	struct gt_loader_options o = {
		.sampler = { .samples = SAMPLES,
		    .seed = 11,
		    .world = 1,
		    .batch = batch,
		    .shuffle = true,
		    .pad = true },
		.draw = { .train = true, .seed = SEED },
		.prefetch = 2,
		.epochs = 2,
	};

	assert_int_equal(gt_augment_parse(&o.draw.augment, "flip,mixup:alpha=0.3", NULL), 0);
	return o;
}

/* A batch against samples that are read one by one, as one rank mixes them. */
static void check_batch(struct gt_dataset *data, const struct gt_loader_options *o,
    const struct gt_batch *b, int64_t step)
{
	int64_t order[SAMPLES], index[SAMPLES];
	struct gt_draw plain = o->draw;
	const struct gt_mixed_target *target = (const struct gt_mixed_target *)b->target;
	float weight = (float)gt_mixup_weight(
	    ALPHA, SEED, (uint64_t)(step * o->sampler.world + o->sampler.rank), b->epoch);

	plain.epoch = b->epoch;
	gt_sampler_permutation(&o->sampler, b->epoch, order);
	assert_int_equal(b->count, gt_sampler_batch(&o->sampler, order, step, index));
	for (int i = 0; i < b->count; i++) {
		int64_t other = index[(i + b->count - 1) % b->count];
		const float *mixed = (const float *)b->input + i * SIZE;
		uint8_t x[SIZE], y[SIZE];
		int32_t classes[2];

		assert_int_equal(gt_dataset_read(data, index[i], &plain, x, &classes[0], NULL), 0);
		assert_int_equal(gt_dataset_read(data, other, &plain, y, &classes[1], NULL), 0);
		for (int k = 0; k < SIZE; k++)
			assert_true(mixed[k] == weight * (float)x[k] + (1 - weight) * (float)y[k]);
		assert_memory_equal(target[i].classes, classes, sizeof(classes));
		assert_true(target[i].weight == weight);
	}
}

/* The last batch of 7 has one sample, that of 8 has 3. */
static void test_batches_of_any_workers(void **state)
{
	static const int batches[] = { 1, 7, 8, 43 };
	struct gt_dataset *data = open_images();

	(void)state;
	for (int k = 0; k < 4 * 3 * 2; k++) {
		struct gt_loader_options o = make_options(batches[k % 4]);
		const struct gt_batch *b;
		struct gt_loader *loader;
		int64_t count = 0;

		o.workers = k / 4 % 3;
		o.sampler.world = 1 + 2 * (k / 12);
		o.sampler.rank = k / 12;
		assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
		for (; gt_loader_next(loader, &b, NULL) > 0; count++)
			check_batch(data, &o, b, count % gt_sampler_batches(&o.sampler));
		assert_int_equal(count, 2 * gt_sampler_batches(&o.sampler));
		gt_loader_close(loader);
	}
	gt_dataset_close(data);
}

static void check_same(const struct gt_batch *part, const struct gt_batch *all, int first)
{
	assert_memory_equal(part->input, (const float *)all->input + first * SIZE,
	    (size_t)part->count * SIZE * sizeof(float));
	assert_memory_equal(part->target, all->target + first * GT_MIXED_TARGET_WORDS,
	    (size_t)part->count * sizeof(struct gt_mixed_target));
}

/* A rank that stands for 4 mixes as each of them does; so do 2 that stand for 2 each. */
static void test_virtual_ranks(void **state)
{
	struct gt_dataset *data = open_images();

	(void)state;
	for (int each = 1; each <= 2; each++) {
		struct gt_loader_options all = make_options(12);
		struct gt_loader *whole, *loader[4];
		const struct gt_batch *b, *part;

		all.sampler.world = all.sampler.virtual_ranks = 4;
		assert_int_equal(gt_loader_open(&whole, data, &all, NULL), 0);
		for (int r = 0; r < 4 / each; r++) {
			struct gt_loader_options one = make_options(3 * each);

			one.sampler.world = 4;
			one.sampler.rank = r * each;
			one.sampler.virtual_ranks = each;
			assert_int_equal(gt_loader_open(&loader[r], data, &one, NULL), 0);
		}
		while (gt_loader_next(whole, &b, NULL) > 0)
			for (int r = 0; r < 4 / each; r++) {
				assert_int_equal(gt_loader_next(loader[r], &part, NULL), 1);
				assert_int_equal(part->count * 4, b->count * each);
				check_same(part, b, r * part->count);
			}
		gt_loader_close(whole);
		for (int r = 0; r < 4 / each; r++)
			gt_loader_close(loader[r]);
	}
	gt_dataset_close(data);
}

/* Evaluation reads bytes, whatever the list says. */
static void test_evaluation(void **state)
{
	struct gt_dataset *data = open_images();
	struct gt_loader_options o = make_options(SAMPLES);
	const struct gt_batch *b;
	struct gt_loader *loader;

	(void)state;
	o.draw.train = o.sampler.shuffle = false;
	assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
	assert_int_equal(gt_loader_next(loader, &b, NULL), 1);
	for (int i = 0; i < SAMPLES; i++) {
		uint8_t x[SIZE];
		int32_t class;

		assert_int_equal(gt_dataset_read(data, i, &o.draw, x, &class, NULL), 0);
		assert_memory_equal((const uint8_t *)b->input + i * SIZE, x, SIZE);
		assert_int_equal(b->target[i], class);
	}
	gt_loader_close(loader);
	gt_dataset_close(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean_and_variance),
		cmocka_unit_test(test_distribution),
		cmocka_unit_test(test_draws_are_counted),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_batches_of_any_workers),
		cmocka_unit_test(test_virtual_ranks),
		cmocka_unit_test(test_evaluation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
