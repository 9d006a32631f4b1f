/* sharding.c - shards of parameters, copied out of them and into them. */
#include "lib/graph/sharding.h"

#include <stdbool.h>
#include <string.h>

int64_t gt_sharding_first(const struct gt_sharding *s, int shard, int count)
{
	return s->units * shard / count;
}

static int64_t units_of(const struct gt_sharding *s, int shard, int count)
{
	return gt_sharding_first(s, shard + 1, count) - gt_sharding_first(s, shard, count);
}

static int64_t unit_length(const struct gt_sharding *s)
{
	return s->shape[s->dim] / (s->blocks * s->units);
}

int64_t gt_sharding_length(const struct gt_sharding *s, int shard, int count)
{
	return s->blocks * units_of(s, shard, count) * unit_length(s);
}

/* Every block of the shard is a row. */
struct gt_slice gt_sharding_slice(const struct gt_sharding *s, int shard, int count)
{
	struct gt_slice slice = { .rows = s->blocks };
	int64_t unit = unit_length(s);

	for (int i = s->dim + 1; i < s->ndim; i++)
		unit *= s->shape[i];
	for (int i = 0; i < s->dim; i++)
		slice.rows *= s->shape[i];
	slice.first = gt_sharding_first(s, shard, count) * unit;
	slice.length = units_of(s, shard, count) * unit;
	slice.stride = s->units * unit;
	return slice;
}

/* ---- slices ---- */

int64_t gt_slice_elements(const struct gt_slice *s)
{
	return s->rows * s->length;
}

int64_t gt_slice_below(const struct gt_slice *s, int64_t index)
{
	int64_t row, in_row;

	if (index <= s->first || !gt_slice_elements(s))
		return 0;
	row = (index - s->first) / s->stride;
	in_row = (index - s->first) % s->stride;
	if (row >= s->rows)
		return gt_slice_elements(s);
	return row * s->length + (in_row < s->length ? in_row : s->length);
}

void gt_slice_pack(const struct gt_slice *s, void *to, const void *whole, size_t size)
{
	size_t row = (size_t)s->length * size;

	for (int64_t i = 0; i < s->rows; i++)
		memcpy((char *)to + (size_t)i * row,
		    (const char *)whole + (size_t)(s->first + i * s->stride) * size, row);
}

void gt_slice_unpack(const struct gt_slice *s, void *window, int64_t first, int64_t count,
    const void *from, size_t size)
{
	int64_t k = gt_slice_below(s, first), end = gt_slice_below(s, first + count);
	const char *next = from;

	while (k < end) {
		int64_t left = s->length - k % s->length, n = left < end - k ? left : end - k;
		int64_t index = s->first + k / s->length * s->stride + k % s->length;

		memcpy((char *)window + (size_t)(index - first) * size, next, (size_t)n * size);
		next += (size_t)n * size;
		k += n;
	}
}
