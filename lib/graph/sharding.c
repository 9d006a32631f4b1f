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

int64_t gt_sharding_elements(const struct gt_sharding *s, int shard, int count)
{
	int64_t elements = gt_sharding_length(s, shard, count);

	for (int i = 0; i < s->ndim; i++)
		elements *= i == s->dim ? 1 : s->shape[i];
	return elements;
}

/* Every block of the shard is a row of bytes in the whole parameter. */
static void move(const struct gt_sharding *s, int shard, int count, char *whole, char *own,
    bool put, size_t size)
{
	size_t unit = (size_t)unit_length(s) * size, row, pitch, first;
	int64_t rows = s->blocks;

	for (int i = s->dim + 1; i < s->ndim; i++)
		unit *= (size_t)s->shape[i];
	for (int i = 0; i < s->dim; i++)
		rows *= s->shape[i];
	row = (size_t)units_of(s, shard, count) * unit;
	pitch = (size_t)s->units * unit;
	first = (size_t)gt_sharding_first(s, shard, count) * unit;
	for (int64_t i = 0; i < rows; i++) {
		char *there = whole + (size_t)i * pitch + first, *here = own + (size_t)i * row;

		memcpy(put ? there : here, put ? here : there, row);
	}
}

void gt_sharding_take(
    const struct gt_sharding *s, int shard, int count, void *to, const void *whole, size_t size)
{
	move(s, shard, count, (char *)whole, to, false, size);
}

void gt_sharding_put(
    const struct gt_sharding *s, int shard, int count, void *whole, const void *from, size_t size)
{
	move(s, shard, count, whole, (char *)from, true, size);
}
