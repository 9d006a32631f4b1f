/* tar_fixture.h - tar archives in memory, and the samples that come out of them. */
#ifndef GT_TESTS_TAR_FIXTURE_H
#define GT_TESTS_TAR_FIXTURE_H

#include "tests/unit/data_fixture.h"

UNUSED static const struct gt_draw eval_draw;

struct archive {
	uint8_t bytes[1 << 17];
	size_t size;
};

UNUSED static void add_header(struct archive *a, const char *name, char type, size_t size)
{
	uint8_t *h = a->bytes + a->size;
	unsigned sum = 0;

	assert_true(a->size + 512 + size + 2048 < sizeof(a->bytes));
	memset(h, 0, 512);
	memcpy(h, name, strnlen(name, 100));
	snprintf((char *)h + 124, 12, "%011o", (unsigned)size);
	memset(h + 148, ' ', 8);
	h[156] = (uint8_t)type;
	memcpy(h + 257, "ustar\00000", 8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
	a->size += 512;
}

UNUSED static void add_entry(
    struct archive *a, const char *name, char type, const void *p, size_t size)
{
	add_header(a, name, type, size);
	memset(a->bytes + a->size, 0, (size + 511) / 512 * 512);
	memcpy(a->bytes + a->size, p, size);
	a->size += (size + 511) / 512 * 512;
}

UNUSED static void add_png(struct archive *a, const char *name, int seed)
{
	static uint8_t png[1 << 12];

	add_entry(a, name, '0', png, make_png(png, sizeof(png), 6, 5, seed));
}

UNUSED static void add_end(struct archive *a)
{
	memset(a->bytes + a->size, 0, 1024);
	a->size += 1024;
}

/* Sample i must be the picture `seed` of 6 x 5 pixels and of that class. */
UNUSED static void check_sample(struct gt_dataset *data, int64_t i, int seed, int class)
{
	uint8_t input[6 * 5 * 3];
	int32_t target;

	assert_int_equal(gt_dataset_info(data)->input_bytes, sizeof(input));
	assert_int_equal(gt_dataset_read(data, i, &eval_draw, input, &target, NULL), 0);
	assert_int_equal(target, class);
	for (int k = 0; k < (int)sizeof(input); k++)
		assert_int_equal(input[k], pixel(seed, k));
}

#endif
