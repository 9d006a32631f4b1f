/* sizes.c - sizes that depend on the batch or on the tokens of a text, found by comparison. */
#include <stdio.h>
#include <string.h>

#include "lib/model/onnx/inside.h"

enum { MAX_POWER = 2 };

const struct gt_node *gt_onnx_twin(const struct gt_onnx_export *x, enum gt_onnx_variant which)
{
	return x->g[which] ? x->g[which]->nodes[x->at] : NULL;
}

struct gt_onnx_size gt_onnx_fixed(int64_t n)
{
	return (struct gt_onnx_size){ n, 0, 0 };
}

bool gt_onnx_is_fixed(struct gt_onnx_size s)
{
	return !s.batch && !s.time;
}

bool gt_onnx_same_size(struct gt_onnx_size a, struct gt_onnx_size b)
{
	return a.factor == b.factor && a.batch == b.batch && a.time == b.time;
}

struct gt_onnx_shape gt_onnx_fixed_shape(int ndim, const int64_t *sizes)
{
	struct gt_onnx_shape s = { .ndim = ndim };

	for (int i = 0; i < ndim; i++)
		s.dims[i] = gt_onnx_fixed(sizes[i]);
	return s;
}

void *gt_onnx_fail_varied(struct gt_onnx_export *x, bool time)
{
	if (!x->err.code)
		x->fixes_time = time;
	return gt_onnx_fail(x, "it was made for one %s, and would be wrong for another one",
	    time ? "number of tokens" : "size of the batch");
}

void *gt_onnx_fail_free(struct gt_onnx_export *x, const int64_t values[GT_ONNX_VARIANTS])
{
	return gt_onnx_fail_varied(
	    x, x->g[GT_ONNX_TIME] && values[GT_ONNX_TIME] != values[GT_ONNX_BASE]);
}

/* Return the power of the size `of` in a number, by which other / base is that of the sizes. */
static int find_power(int64_t base, int64_t other, int64_t base_size, int64_t other_size)
{
	for (int power = 0; power <= MAX_POWER; power++) {
		if (other == base)
			return power;
		if (base % base_size)
			return -1;
		/* Divide one power out of both. */
		base /= base_size;
		if (other % other_size)
			return -1;
		other /= other_size;
	}
	return -1;
}

struct gt_onnx_size gt_onnx_size_of(
    struct gt_onnx_export *x, const int64_t values[GT_ONNX_VARIANTS])
{
	int64_t base = values[GT_ONNX_BASE];
	struct gt_onnx_size s = { base, 0, 0 };

	s.batch = find_power(
	    base, values[GT_ONNX_BATCH], x->batch[GT_ONNX_BASE], x->batch[GT_ONNX_BATCH]);
	if (x->g[GT_ONNX_TIME])
		s.time = find_power(
		    base, values[GT_ONNX_TIME], x->time[GT_ONNX_BASE], x->time[GT_ONNX_TIME]);
	if (s.batch < 0 || s.time < 0) {
		gt_onnx_fail_free(x, values);
		return gt_onnx_fixed(base);
	}
	for (int i = 0; i < s.batch; i++)
		s.factor /= x->batch[GT_ONNX_BASE];
	for (int i = 0; i < s.time; i++)
		s.factor /= x->time[GT_ONNX_BASE];
	return s;
}

struct gt_onnx_shape gt_onnx_shape_of(struct gt_onnx_export *x, const struct gt_value *v)
{
	struct gt_onnx_shape s = { .ndim = v->ndim };

	for (int i = 0; i < v->ndim; i++) {
		int64_t values[GT_ONNX_VARIANTS] = { 0 };

		for (int k = 0; k < GT_ONNX_VARIANTS; k++)
			if (x->g[k])
				values[k] = x->g[k]->values[v->id]->shape[i];
		s.dims[i] = gt_onnx_size_of(x, values);
	}
	return s;
}

bool gt_onnx_index(struct gt_onnx_export *x, const int64_t values[GT_ONNX_VARIANTS],
    const int64_t ends[GT_ONNX_VARIANTS], int64_t *out)
{
	bool same = true, from_end = true;
	int64_t left = values[GT_ONNX_BASE] - ends[GT_ONNX_BASE];

	for (int k = 0; k < GT_ONNX_VARIANTS; k++) {
		if (!x->g[k])
			continue;
		same &= values[k] == values[GT_ONNX_BASE];
		from_end &= values[k] - ends[k] == left;
	}
	*out = same ? values[GT_ONNX_BASE] : left;
	return same || (from_end && left < 0);
}

/* ---- sizes as values ---- */

/* Return dimension `axis` of the input, [1]. */
static const char *input_size(struct gt_onnx_export *x, int64_t axis)
{
	const char *key = axis ? "size of time" : "size of batch", *kept = gt_onnx_kept(x, key);
	const char *input = gt_onnx_name(x, x->input);

	if (kept)
		return kept;
	return gt_onnx_keep(x, key,
	    gt_onnx_call(x, "Shape",
	        (struct gt_onnx_attribute[]){
	            GT_ONNX_ATTR_INT("start", axis), GT_ONNX_ATTR_INT("end", axis + 1), { 0 } },
	        1, &input));
}

const char *gt_onnx_size(struct gt_onnx_export *x, struct gt_onnx_size s)
{
	const char *product = NULL, *kept;
	char key[80];

	if (gt_onnx_is_fixed(s))
		return gt_onnx_ints(x, 1, &s.factor);
	snprintf(key, sizeof(key), "size %lld * batch^%d * time^%d", (long long)s.factor, s.batch,
	    s.time);
	kept = gt_onnx_kept(x, key);
	if (kept)
		return kept;
	for (int i = 0; i < s.batch + s.time; i++) {
		const char *size = input_size(x, i >= s.batch);

		product = product ? gt_onnx_binary(x, "Mul", product, size) : size;
	}
	if (s.factor != 1)
		product = gt_onnx_binary(x, "Mul", product, gt_onnx_ints(x, 1, &s.factor));
	return gt_onnx_keep(x, key, product);
}

const char *gt_onnx_range(struct gt_onnx_export *x, struct gt_onnx_size size)
{
	const char *end = gt_onnx_is_fixed(size) ? gt_onnx_int(x, size.factor)
	                                         : gt_onnx_squeeze(x, gt_onnx_size(x, size), 0);

	return gt_onnx_call(
	    x, "Range", NULL, 3, (const char *[]){ gt_onnx_int(x, 0), end, gt_onnx_int(x, 1) });
}

const char *gt_onnx_sizes(struct gt_onnx_export *x, const struct gt_onnx_shape *shape)
{
	int64_t values[GT_ONNX_DIMS];
	const char *parts[GT_ONNX_DIMS];
	bool fixed = true;

	for (int i = 0; i < shape->ndim; i++) {
		values[i] = shape->dims[i].factor;
		fixed &= gt_onnx_is_fixed(shape->dims[i]);
	}
	if (fixed)
		return gt_onnx_ints(x, shape->ndim, values);
	for (int i = 0; i < shape->ndim; i++)
		parts[i] = gt_onnx_size(x, shape->dims[i]);
	return gt_onnx_concat(x, shape->ndim, parts, 0);
}

/* Write a shape as the operator Reshape takes it: 0 for a size that stays, -1 for one that follows
 * from all others. Return false if two sizes are not known. */
static bool make_target(
    int64_t *target, const struct gt_onnx_shape *from, const struct gt_onnx_shape *to)
{
	int unknown = 0;

	for (int i = 0; i < to->ndim; i++) {
		target[i] = to->dims[i].factor;
		if (gt_onnx_is_fixed(to->dims[i]))
			continue;
		if (i < from->ndim && gt_onnx_same_size(from->dims[i], to->dims[i])) {
			target[i] = 0;
		} else {
			target[i] = -1;
			unknown++;
		}
	}
	return unknown <= 1;
}

const char *gt_onnx_reshape(struct gt_onnx_export *x, const char *a,
    const struct gt_onnx_shape *from, const struct gt_onnx_shape *to)
{
	int64_t target[GT_ONNX_DIMS];
	bool same = from->ndim == to->ndim;

	for (int i = 0; same && i < to->ndim; i++)
		same = gt_onnx_same_size(from->dims[i], to->dims[i]);
	if (same)
		return a;
	if (make_target(target, from, to))
		return gt_onnx_binary(x, "Reshape", a, gt_onnx_ints(x, to->ndim, target));
	return gt_onnx_binary(x, "Reshape", a, gt_onnx_sizes(x, to));
}

const char *gt_onnx_expand(
    struct gt_onnx_export *x, const char *a, const struct gt_onnx_shape *shape)
{
	return gt_onnx_binary(x, "Expand", a, gt_onnx_sizes(x, shape));
}
