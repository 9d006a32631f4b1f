/* split.c - parts of parameters, cut out and put back. */
#include "lib/parallel/split.h"

#include <stdbool.h>
#include <string.h>

int64_t gt_split_first(const struct gt_split *s, int part, int parts)
{
	return s->units * part / parts;
}

static int64_t units_of(const struct gt_split *s, int part, int parts)
{
	return gt_split_first(s, part + 1, parts) - gt_split_first(s, part, parts);
}

static int64_t unit_length(const struct gt_split *s)
{
	return s->shape[s->dim] / (s->blocks * s->units);
}

int64_t gt_split_length(const struct gt_split *s, int part, int parts)
{
	return s->blocks * units_of(s, part, parts) * unit_length(s);
}

int64_t gt_split_count(const struct gt_split *s, int part, int parts)
{
	int64_t count = gt_split_length(s, part, parts);

	for (int i = 0; i < s->ndim; i++)
		count *= i == s->dim ? 1 : s->shape[i];
	return count;
}

/* Every block of the part is a row of bytes in the whole. */
static void move(
    const struct gt_split *s, int part, int parts, char *whole, char *own, bool put, size_t size)
{
	size_t unit = (size_t)unit_length(s) * size, row, pitch, first;
	int64_t rows = s->blocks;

	for (int i = s->dim + 1; i < s->ndim; i++)
		unit *= (size_t)s->shape[i];
	for (int i = 0; i < s->dim; i++)
		rows *= s->shape[i];
	row = (size_t)units_of(s, part, parts) * unit;
	pitch = (size_t)s->units * unit;
	first = (size_t)gt_split_first(s, part, parts) * unit;
	for (int64_t i = 0; i < rows; i++) {
		char *there = whole + (size_t)i * pitch + first, *here = own + (size_t)i * row;

		memcpy(put ? there : here, put ? here : there, row);
	}
}

void gt_split_take(
    const struct gt_split *s, int part, int parts, void *to, const void *whole, size_t size)
{
	move(s, part, parts, (char *)whole, to, false, size);
}

void gt_split_put(
    const struct gt_split *s, int part, int parts, void *whole, const void *from, size_t size)
{
	move(s, part, parts, whole, (char *)from, true, size);
}
