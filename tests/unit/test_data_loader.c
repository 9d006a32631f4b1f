/* test_data_loader.c - batches come in order, for any workers and any first batch. */
#include <malloc.h>
#include <stdatomic.h>

#include "tests/unit/data_fixture.h"

/* Sanitizers bring their own malloc(); otherwise this one counts. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef COUNTS_ALLOCATIONS
#define COUNTS_ALLOCATIONS 1
#endif

static atomic_long allocations;

#if COUNTS_ALLOCATIONS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}
#endif

enum { SAMPLES = 103, FEATURES = 4 };

static struct gt_dataset *open_random(void)
{
	const struct gt_data_request request = { .seed = 3 };

	return open_data("random", "4/3", ",samples=103", &request);
}

static struct gt_loader_options make_options(int workers, int batch)
{
	return (struct gt_loader_options){
		.sampler = { .samples = SAMPLES,
		    .seed = 11,
		    .world = 1,
		    .batch = batch,
		    .shuffle = true,
		    .pad = true },
		.draw = { .train = true, .seed = 11 },
		.workers = workers,
		.prefetch = 3,
		.epochs = 5,
	};
}

/* The batch that the loader must give, straight from sampler and data set. */
static int expect_batch(struct gt_dataset *data, const struct gt_sampler *s, int64_t epoch,
    int64_t step, float *input, int32_t *target)
{
	const struct gt_draw draw = { .train = true, .seed = 11, .epoch = (uint32_t)epoch };
	int64_t order[SAMPLES], index[SAMPLES];
	int count;

	gt_sampler_permutation(s, (uint32_t)epoch, order);
	count = gt_sampler_batch(s, order, step, index);
	for (int i = 0; i < count; i++)
		assert_int_equal(gt_dataset_read(data, index[i], &draw,
		                     input + (size_t)i * FEATURES, target + i, NULL),
		    0);
	return count;
}

static void check_run(struct gt_dataset *data, const struct gt_loader_options *options)
{
	const struct gt_sampler *s = &options->sampler;
	int64_t batches = gt_sampler_batches(s);
	float input[SAMPLES * FEATURES];
	int32_t target[SAMPLES];
	const struct gt_batch *b;
	struct gt_loader *loader;
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(gt_loader_open(&loader, data, options, &err), 0);
	for (int64_t n = options->first_epoch * batches + options->first_step;
	     n < options->epochs * batches; n++) {
		int count = expect_batch(data, s, n / batches, n % batches, input, target);

		assert_int_equal(gt_loader_next(loader, &b, &err), 1);
		assert_int_equal(b->epoch, n / batches);
		assert_int_equal(b->step, n % batches);
		assert_int_equal(b->count, count);
		assert_int_equal((uintptr_t)b->input % 64, 0);
		assert_int_equal((uintptr_t)b->target % 64, 0);
		assert_memory_equal(b->input, input, (size_t)count * FEATURES * sizeof(float));
		assert_memory_equal(b->target, target, (size_t)count * sizeof(int32_t));
	}
	assert_int_equal(gt_loader_next(loader, &b, &err), 0);
	assert_null(b);
	assert_int_equal(gt_loader_next(loader, &b, &err), 0);
	gt_loader_close(loader);
}

static void test_order_for_any_number_of_workers(void **state)
{
	static const int workers[] = { 0, 1, 2, 4 }, batches[] = { 1, 8, 50, 103 };
	struct gt_dataset *data = open_random();

	(void)state;
	for (int w = 0; w < 4; w++)
		for (int b = 0; b < 4; b++)
			for (int prefetch = 1; prefetch <= 9; prefetch += 4) {
				struct gt_loader_options o = make_options(workers[w], batches[b]);

				o.prefetch = prefetch;
				check_run(data, &o);
			}
	gt_dataset_close(data);
}

static void test_beginning_in_the_middle(void **state)
{
	static const struct {
		int64_t epoch, step;
	} starts[] = { { 0, 5 }, { 1, 0 }, { 2, 12 }, { 3, 13 }, { 4, 12 }, { 5, 0 }, { 7, 1 } };
	struct gt_dataset *data = open_random();

	(void)state;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		for (int workers = 0; workers <= 2; workers += 2) {
			struct gt_loader_options o = make_options(workers, 8);

			o.first_epoch = starts[i].epoch;
			o.first_step = starts[i].step;
			check_run(data, &o);
		}
	gt_dataset_close(data);
}

static void test_ranks_and_tails(void **state)
{
	struct gt_dataset *data = open_random();

	(void)state;
	for (int world = 1; world <= 8; world++)
		for (int rank = 0; rank < world; rank++)
			for (int way = 0; way < 3; way++) {
				struct gt_loader_options o = make_options(2, 6);

				o.sampler.world = world;
				o.sampler.rank = rank;
				o.sampler.pad = way == 0;
				o.sampler.drop_last = way == 2;
				o.epochs = 2;
				check_run(data, &o);
			}
	gt_dataset_close(data);
}

static void test_more_ranks_than_samples(void **state)
{
	const struct gt_data_request request = { .seed = 3 };
	struct gt_dataset *data = open_data("random", "4/3", ",samples=2", &request);
	struct gt_loader_options o = make_options(1, 6);
	struct gt_loader *loader;
	const struct gt_batch *b;

	(void)state;
	o.sampler.samples = 2;
	o.sampler.world = 3;
	o.sampler.rank = 2;
	o.sampler.pad = false;
	assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
	assert_int_equal(gt_loader_next(loader, &b, NULL), 0);
	gt_loader_close(loader);
	gt_dataset_close(data);
}

/* A batch becomes ready without being asked for; at the end, and without workers, nobody waits. */
static void test_readiness(void **state)
{
	(void)state;
	for (int workers = 0; workers < 3; workers++) {
		struct gt_loader_options o = make_options(workers, SAMPLES);
		struct gt_dataset *data = open_random();
		const struct gt_batch *b;
		struct gt_loader *loader;

		o.epochs = 2;
		assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
		for (int i = 0; i < 2; i++) {
			while (!gt_loader_ready(loader)) {
				assert_true(workers > 0);
				usleep(1000);
			}
			assert_int_equal(gt_loader_next(loader, &b, NULL), 1);
		}
		assert_true(gt_loader_ready(loader));
		assert_int_equal(gt_loader_next(loader, &b, NULL), 0);
		gt_loader_close(loader);
		gt_dataset_close(data);
	}
}

static void test_closing_at_any_time(void **state)
{
	struct gt_dataset *data = open_random();

	(void)state;
	for (int taken = 0; taken < 24; taken++) {
		struct gt_loader_options o = make_options(4, 5);
		const struct gt_batch *b;
		struct gt_loader *loader;

		o.epochs = 0; /* never ends */
		assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
		for (int i = 0; i < taken; i++)
			assert_int_equal(gt_loader_next(loader, &b, NULL), 1);
		gt_loader_close(loader);
	}
	gt_loader_close(NULL);
	gt_dataset_close(data);
}

/* An image that is damaged after the data set was opened: size= leaves it unread until then. */
static void check_damage(struct gt_dataset *data, int workers)
{
	struct gt_loader_options o = make_options(workers, 2);
	const struct gt_batch *b;
	struct gt_loader *loader;

	o.sampler.samples = 6;
	o.sampler.shuffle = false;
	assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
	assert_int_equal(gt_loader_next(loader, &b, NULL), 1);
	for (int again = 0; again < 2; again++) {
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(gt_loader_next(loader, &b, &err), GT_EFORMAT);
		assert_null(b);
		assert_non_null(strstr(err.text, "3.png': corrupt PNG"));
	}
	gt_loader_close(loader);
}

static void test_errors_come_in_order(void **state)
{
	const struct gt_data_request request = { .strict = true };
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (int i = 0; i < 6; i++) {
		char name[32];

		snprintf(name, sizeof(name), "a/%d.png", i);
		put_png(&f, name, 5, 5, i);
	}
	cut_file(&f, "a/3.png", 30);
	/* 4096 x 4096 x 3 x 6 bytes are too many to be decoded when opened. */
	data = open_data("images", f.folder, ",size=4096", &request);
	for (int workers = 0; workers <= 2; workers += 2)
		check_damage(data, workers);
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_next_allocates_nothing(void **state)
{
	struct gt_dataset *data = open_random();

	(void)state;
	if (!COUNTS_ALLOCATIONS) {
		gt_dataset_close(data);
		print_message("skipped: a sanitizer has its own malloc()\n");
		skip();
	}
	for (int workers = 0; workers <= 2; workers++) {
		struct gt_loader_options o = make_options(workers, 8);
		const struct gt_batch *b;
		struct gt_loader *loader;
		long before;

		assert_int_equal(gt_loader_open(&loader, data, &o, NULL), 0);
		assert_true(allocations > 0);
		assert_int_equal(gt_loader_next(loader, &b, NULL), 1);
		before = allocations;
		while (gt_loader_next(loader, &b, NULL) > 0)
			;
		assert_int_equal(allocations, before);
		gt_loader_close(loader);
	}
	gt_dataset_close(data);
}

static void test_wrong_options(void **state)
{
	struct gt_dataset *data = open_random();
	struct gt_loader_options good = make_options(0, 8), o;
	struct gt_err err = GT_ERR_INIT;
	struct gt_loader *loader;

	(void)state;
#define REFUSE(change, part)                                                                       \
	do {                                                                                       \
		o = good;                                                                          \
		change;                                                                            \
		assert_int_equal(gt_loader_open(&loader, data, &o, &err), GT_EINVAL);              \
		assert_null(loader);                                                               \
		assert_non_null(strstr(err.text, part));                                           \
	} while (0)
	REFUSE(o.sampler.samples = 104, "104 samples of 103");
	REFUSE(o.sampler.samples = 0, "0 samples of 103");
	REFUSE(o.sampler.rank = 1, "rank 1 of 1");
	REFUSE(o.sampler.batch = 0, "batches of 0");
	REFUSE(o.workers = -1, "-1 workers: must be 0 to 256");
	REFUSE(o.prefetch = 0, "prefetch of 0 batches: must be 1");
	REFUSE(o.draw.augment.chosen[GT_AUGMENT_FLIP] = true, "only images can be augmented");
	REFUSE(o.first_epoch = INT64_MAX, "loader: epoch 9223372036854775807");
	REFUSE(
	    (o.sampler.drop_last = true, o.sampler.batch = 104), "103 samples make no full batch");
#undef REFUSE
	gt_dataset_close(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_for_any_number_of_workers),
		cmocka_unit_test(test_beginning_in_the_middle),
		cmocka_unit_test(test_ranks_and_tails),
		cmocka_unit_test(test_more_ranks_than_samples),
		cmocka_unit_test(test_readiness),
		cmocka_unit_test(test_closing_at_any_time),
		cmocka_unit_test(test_errors_come_in_order),
		cmocka_unit_test(test_next_allocates_nothing),
		cmocka_unit_test(test_wrong_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
