/* test_ckpt_copy_tensors.c - tensors to a file: strides, casts, byte order, sums, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* Enough for several pieces of every kind of work; and the file whose mapping is the source. */
enum { ELEMENTS = 3 << 20, BYTES = ELEMENTS * 4, LEAD = 100 };

struct fixture {
	int source, out;
	struct gt_mapping map;
	struct gt_storage storage; /* f32: element i is i % 8191 - 4000 */
	struct gt_err err;
};

static float value(int64_t i)
{
	return (float)(i % 8191 - 4000);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	float *values = malloc(BYTES);

	if (!f || !values)
		return -1;
	for (int64_t i = 0; i < ELEMENTS; i++)
		values[i] = value(i);
	f->source = memfd_create("source", 0);
	f->out = memfd_create("out", 0);
	if (pwrite(f->source, values, BYTES, LEAD) != BYTES)
		return -1;
	f->map =
	    (struct gt_mapping){ mmap(NULL, LEAD + BYTES, PROT_READ, MAP_PRIVATE, f->source, 0),
		    LEAD + BYTES, f->source, 0 };
	f->storage.bytes = f->map.data + LEAD;
	f->storage.size_bytes = BYTES;
	f->storage.map = &f->map;
	f->storage.file_offset = LEAD;
	f->storage.has_crc = true;
	f->storage.crc = gt_crc32(0, values, BYTES);
	f->storage.key = f->storage.name = "s";
	free(values);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	munmap((void *)f->map.data, f->map.size);
	close(f->source);
	close(f->out);
	free(f);
	return 0;
}

/* The bytes expected in a place, by the definition of strides; its sum has to be theirs. */
static void check_place(struct fixture *f, const struct gt_copy_place *place)
{
	const struct gt_tree_tensor *t = place->tensor;
	unsigned char *got = malloc(place->size_bytes + 1);
	int64_t count = gt_ckpt_tensor_count(t);
	size_t wrong = 0;

	assert_non_null(got);
	assert_int_equal(pread(f->out, got, place->size_bytes, (off_t)place->offset),
	    (ssize_t)place->size_bytes);
	for (int64_t i = 0; i < count; i++) {
		int64_t at = t->offset, rest = i;
		float want, is;

		for (int d = t->ndim - 1; d >= 0; d--) {
			at += rest % t->shape[d] * t->stride[d];
			rest /= t->shape[d];
		}
		want = value(at);
		if (place->as == GT_F32) {
			memcpy(&is, got + i * 4, 4);
		} else { /* f64 holds them exactly */
			double d;

			memcpy(&d, got + i * 8, 8);
			is = (float)d;
		}
		wrong += is != want;
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(place->crc, gt_crc32(0, got, place->size_bytes));
	free(got);
}

/* Shapes over the storage: each row is one place, once as f32 and once as f64. */
static const struct {
	int ndim;
	int64_t shape[4], stride[4], offset;
} views[] = {
	{ 1, { ELEMENTS }, { 1 }, 0 },                     /* the whole */
	{ 1, { ELEMENTS - 3 }, { 1 }, 3 },                 /* a part */
	{ 2, { 1024, 3072 }, { 1, 1024 }, 0 },             /* transposed, large */
	{ 2, { 1024, 1500 }, { 3072, 2 }, 1 },             /* every second */
	{ 3, { 7, 300, 11 }, { 5, 3000, 70 }, 9 },         /* small, no order */
	{ 4, { 3, 1, 500, 700 }, { 700, 1, 2100, 1 }, 0 }, /* rows of an image */
	{ 2, { 3, 2000 }, { 0, 1 }, 5 },                   /* expanded */
	{ 2, { 8, 9 }, { 9, 1 }, 2 },                      /* little */
	{ 0, { 0 }, { 0 }, 17 },                           /* a scalar */
	{ 2, { 0, 4 }, { 4, 1 }, 0 },                      /* nothing */
};

static void test_views(void **state)
{
	struct fixture *f = *state;
	struct gt_tree_tensor tensors[COUNT(views)];
	struct gt_copy_place places[2 * COUNT(views)];
	uint64_t at = 1; /* no alignment is asked for */

	for (size_t i = 0; i < COUNT(places); i++) {
		size_t v = i / 2;
		enum gt_dtype as = i % 2 ? GT_F64 : GT_F32;

		tensors[v] = (struct gt_tree_tensor){ .dtype = GT_F32,
			.ndim = views[v].ndim,
			.shape = views[v].shape,
			.stride = views[v].stride,
			.offset = views[v].offset,
			.storage = &f->storage };
		places[i] = (struct gt_copy_place){ .offset = at,
			.size_bytes =
			    (uint64_t)gt_ckpt_tensor_count(&tensors[v]) * gt_dtype_size(as),
			.tensor = &tensors[v],
			.as = as };
		at += places[i].size_bytes + 5;
	}
	assert_int_equal(gt_copy_tensors(f->out, places, COUNT(places), NULL, &f->err), 0);
	assert_true(f->storage.checked);
	for (size_t i = 0; i < COUNT(places); i++)
		check_place(f, &places[i]);
}

/* The first bytes of a storage, in the other order; and the same from memory alone. */
static void test_swapped(void **state)
{
	struct fixture *f = *state;
	struct gt_copy_place places[] = {
		{ .offset = 0, .size_bytes = 4000, .storage = &f->storage, .as = GT_F32 },
		{ .offset = 4000, .size_bytes = 4000, .storage = &f->storage, .as = GT_F32 },
	};
	float got[2000];

	f->storage.swapped = true;
	places[1].storage =
	    &(struct gt_storage){ .bytes = f->storage.bytes, .size_bytes = 4000, .swapped = true };
	assert_int_equal(gt_copy_tensors(f->out, places, 2, NULL, &f->err), 0);
	assert_int_equal(pread(f->out, got, sizeof(got), 0), sizeof(got));
	gt_ckpt_tensor_swap(GT_F32, got, 2000);
	for (int i = 0; i < 2000; i++)
		assert_true(got[i] == value(i % 1000));
	assert_int_equal(places[0].crc, places[1].crc);
}

/* A wrong byte anywhere, whether the storage is read as a whole, in part, or strided. */
static void test_damage(void **state)
{
	struct fixture *f = *state;

	for (size_t v = 0; v < 4; v++) {
		struct gt_tree_tensor t = { .dtype = GT_F32,
			.ndim = views[v].ndim,
			.shape = views[v].shape,
			.stride = views[v].stride,
			.offset = views[v].offset,
			.storage = &f->storage };
		struct gt_copy_place place = gt_copy_sum(&t, v % 2 ? GT_F64 : GT_F32);

		f->storage.checked = false;
		f->storage.crc ^= 1;
		assert_int_equal(gt_copy_tensors(-1, &place, 1, NULL, &f->err), GT_EFORMAT);
		assert_non_null(strstr(f->err.text, "'s' is damaged"));
		f->storage.crc ^= 1;
		assert_int_equal(gt_copy_tensors(-1, &place, 1, NULL, &f->err), 0);
	}
}

static void test_refusals(void **state)
{
	struct fixture *f = *state;
	struct gt_tree_tensor t = { .dtype = GT_F32,
		.ndim = 1,
		.shape = views[0].shape,
		.stride = views[0].stride,
		.storage = &f->storage };
	struct gt_copy_place place = { .size_bytes = BYTES, .tensor = &t, .as = GT_I32 };
	int full = open("/dev/full", O_WRONLY);

	assert_int_equal(gt_copy_tensors(f->out, &place, 1, NULL, &f->err), GT_ENOTSUP);
	place.as = GT_F32;
	assert_int_equal(gt_copy_tensors(full, &place, 1, NULL, &f->err), GT_EIO);
	assert_non_null(strstr(f->err.text, "No space left"));
	assert_int_equal(gt_copy_tensors(-1, NULL, 0, NULL, &f->err), 0);
	close(full);
}

/* The bytes of the fixture's storage, as a function reads them. */
static int read_values(
    void *self, uint64_t offset, void *out, size_t size_bytes, struct gt_err *err)
{
	const struct fixture *f = self;

	if (offset + size_bytes > BYTES)
		return gt_err_set(err, GT_EINVAL, "past the end");
	memcpy(out, f->map.data + LEAD + offset, size_bytes);
	return 0;
}

static int read_nothing(
    void *self, uint64_t offset, void *out, size_t size_bytes, struct gt_err *err)
{
	(void)self;
	(void)offset;
	(void)out;
	(void)size_bytes;
	return gt_err_set(err, GT_EDEVICE, "no answer");
}

/* As they are, and cast; an error of the function is that of the copy. */
static void test_function(void **state)
{
	struct fixture *f = *state;
	struct gt_storage storage = {
		.size_bytes = BYTES, .read = read_values, .self = f, .key = "", .name = ""
	};
	int64_t shape[] = { ELEMENTS }, stride[] = { 1 };
	struct gt_tree_tensor t = {
		.dtype = GT_F32, .ndim = 1, .shape = shape, .stride = stride, .storage = &storage
	};
	struct gt_copy_place place = { .size_bytes = BYTES, .tensor = &t, .as = GT_F32 };
	double *doubles = malloc(2 * BYTES);
	float *floats = malloc(BYTES);

	assert_true(doubles && floats);
	assert_int_equal(gt_copy_tensors(f->out, &place, 1, NULL, &f->err), 0);
	assert_int_equal(pread(f->out, floats, BYTES, 0), BYTES);
	assert_memory_equal(floats, f->map.data + LEAD, BYTES);
	assert_int_equal(place.crc, gt_crc32(0, floats, BYTES));
	assert_int_equal(gt_ckpt_tensor_read(&t, GT_F64, doubles, &f->err), 0);
	for (int64_t i = 0; i < ELEMENTS; i++)
		assert_true(doubles[i] == (double)value(i));
	storage.read = read_nothing;
	assert_int_equal(gt_copy_tensors(f->out, &place, 1, NULL, &f->err), GT_EDEVICE);
	free(doubles);
	free(floats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_views, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_swapped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_function, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
