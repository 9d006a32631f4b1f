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

static void move(const struct gt_slice *s, char *whole, char *own, bool put, size_t size)
{
	size_t row = (size_t)s->length * size;

	for (int64_t i = 0; i < s->rows; i++) {
		char *there = whole + (size_t)(s->first + i * s->stride) * size;
		char *here = own + (size_t)i * row;

		memcpy(put ? there : here, put ? here : there, row);
	}
}

void gt_slice_pack(const struct gt_slice *s, void *to, const void *whole, size_t size)
{
	move(s, (char *)whole, to, false, size);
}

void gt_slice_unpack(const struct gt_slice *s, void *whole, const void *from, size_t size)
{
	move(s, whole, (char *)from, true, size);
}
