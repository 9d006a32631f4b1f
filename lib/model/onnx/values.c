/* values.c - names of values, and the nodes and constants of ONNX that make them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/onnx/inside.h"

/* ---- errors ---- */

void *gt_onnx_fail(struct gt_onnx_export *x, const char *format, ...)
{
	const struct gt_node *n = gt_onnx_twin(x, GT_ONNX_BASE);
	char text[200];
	va_list args;

	if (x->err.code)
		return NULL;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	gt_err_set(&x->err, GT_ENOTSUP, "%s%s%s: %s", n->scope ? n->scope : "",
	    n->scope && *n->scope ? ": " : "", n->op->name, text);
	return NULL;
}

/* ---- names ---- */

const char *gt_onnx_name(struct gt_onnx_export *x, const struct gt_value *v)
{
	if (x->err.code || !v)
		return NULL;
	if (!x->names[v->id])
		return gt_onnx_fail(x, "value %d has not been written", v->id);
	return x->names[v->id];
}

void gt_onnx_set(struct gt_onnx_export *x, const struct gt_value *v, const char *name)
{
	x->names[v->id] = name;
}

void gt_onnx_need(struct gt_onnx_export *x, const struct gt_value *v)
{
	if (v)
		x->needed[v->id] = true;
}

static const char *format_name(struct gt_onnx_export *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *format_name(struct gt_onnx_export *x, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return x->err.code ? NULL : gt_arena_strdup(&x->arena, text, &x->err);
}

/* A name that was kept. */
struct kept {
	const char *key; /* must be first for gt_index_by_name */
	const char *name;
};

const char *gt_onnx_kept(struct gt_onnx_export *x, const char *key)
{
	const struct kept *k = gt_index_find(&x->once, &key);

	return k ? k->name : NULL;
}

const char *gt_onnx_keep(struct gt_onnx_export *x, const char *key, const char *name)
{
	struct kept *k = name ? gt_arena_alloc(&x->arena, sizeof(*k), &x->err) : NULL;

	if (!k)
		return NULL;
	*k = (struct kept){ gt_arena_strdup(&x->arena, key, &x->err), name };
	return k->key && gt_index_add(&x->once, k, &x->err) ? name : NULL;
}

/* ---- nodes ---- */

void gt_onnx_call_many(struct gt_onnx_export *x, const char *op,
    const struct gt_onnx_attribute *attributes, int inputs, const char *const *in, int outputs,
    const char **out)
{
	const char *scope = gt_onnx_twin(x, GT_ONNX_BASE)->scope;
	bool complete = !x->err.code;

	scope = scope ? scope : "";
	for (int i = 0; i < inputs; i++)
		complete &= in[i] != NULL;
	for (int i = 0; i < outputs; i++)
		out[i] = complete ? format_name(x, "%.200s%s%s.%zu", scope, *scope ? "/" : "", op,
		                        x->made++)
		                  : NULL;
	if (complete && !x->err.code)
		gt_onnx_add_node(x->m,
		    &(struct gt_onnx_node){ scope, op, attributes, inputs, outputs, in, out });
}

const char *gt_onnx_call(struct gt_onnx_export *x, const char *op,
    const struct gt_onnx_attribute *attributes, int inputs, const char *const *in)
{
	const char *out;

	gt_onnx_call_many(x, op, attributes, inputs, in, 1, &out);
	return out;
}

const char *gt_onnx_unary(struct gt_onnx_export *x, const char *op, const char *a)
{
	return gt_onnx_call(x, op, NULL, 1, &a);
}

const char *gt_onnx_binary(struct gt_onnx_export *x, const char *op, const char *a, const char *b)
{
	return gt_onnx_call(x, op, NULL, 2, (const char *[]){ a, b });
}

/* ---- constants ---- */

/* Return a constant of numbers, named by its elements. Equal ones are one. */
static const char *keep_ints(struct gt_onnx_export *x, int ndim, int count, const int64_t *values)
{
	const int64_t shape = count;
	char name[24 * GT_ONNX_DIMS + 8] = "ints";
	const char *kept;
	size_t used = strlen(name);

	for (int i = 0; i < count && used < sizeof(name) - 24; i++)
		used += (size_t)snprintf(name + used, sizeof(name) - used, "%c%" PRId64,
		    i      ? ','
		    : ndim ? ':'
		           : '=',
		    values[i]);
	kept = gt_onnx_kept(x, name);
	if (kept || x->err.code)
		return kept;
	gt_onnx_add_constant(x->m, name, GT_I64, ndim, &shape, values);
	return gt_onnx_keep(x, name, format_name(x, "%s", name));
}

const char *gt_onnx_ints(struct gt_onnx_export *x, int count, const int64_t *values)
{
	return keep_ints(x, 1, count, values);
}

const char *gt_onnx_int(struct gt_onnx_export *x, int64_t value)
{
	return keep_ints(x, 0, 1, &value);
}

const char *gt_onnx_number(struct gt_onnx_export *x, enum gt_dtype dtype, double value)
{
	const float single = (float)value;
	bool is_single = dtype == GT_F32;
	const char *kept;
	char name[64];

	snprintf(name, sizeof(name), "%s=%.*g", gt_dtype_name(dtype), is_single ? 9 : 17, value);
	kept = gt_onnx_kept(x, name);
	if (kept || x->err.code)
		return kept;
	if (!is_single && dtype != GT_F64)
		return gt_onnx_fail(x, "a number of type %s", gt_dtype_name(dtype));
	gt_onnx_add_constant(
	    x->m, name, dtype, 0, NULL, is_single ? (const void *)&single : (const void *)&value);
	return gt_onnx_keep(x, name, format_name(x, "%s", name));
}

const char *gt_onnx_floats(struct gt_onnx_export *x, int count, const float *values)
{
	const char *name = format_name(x, "floats.%zu", x->made++);

	if (name)
		gt_onnx_add_constant(x->m, name, GT_F32, 1, (const int64_t[]){ count }, values);
	return name;
}

/* ---- constants of the graph ---- */

static bool rows_are_equal(const char *elements, int64_t rows, size_t row_bytes)
{
	for (int64_t i = 1; i < rows; i++)
		if (memcmp(elements, elements + (size_t)i * row_bytes, row_bytes) != 0)
			return false;
	return true;
}

static int64_t whole_number(const struct gt_node *n, int64_t i)
{
	const void *elements = n->attrs.constant.elements;

	return n->out[0]->dtype == GT_I64 ? ((const int64_t *)elements)[i]
	                                  : ((const int32_t *)elements)[i];
}

/* Set *step to the number by which each row exceeds the one before it. Return whether that is the
 * same number for all elements. Such rows are indices of the samples, or of their tokens in all of
 * them: sample * tokens + token. */
static bool find_step(const struct gt_node *n, int64_t *step)
{
	const struct gt_value *v = n->out[0];
	int64_t count = gt_value_elements(v), row = count / v->shape[0], found;

	if ((v->dtype != GT_I32 && v->dtype != GT_I64) || count <= row)
		return false;
	for (int64_t i = row; i < count; i++) {
		/* The constants of a file may be any numbers. */
		if (__builtin_sub_overflow(whole_number(n, i), whole_number(n, i - row), &found) ||
		    (i > row && found != *step))
			return false;
		*step = found;
	}
	return true;
}

/* Set *out to the step of rows that differ. */
static bool find_size_of_step(struct gt_onnx_export *x, struct gt_onnx_size *out)
{
	int64_t steps[GT_ONNX_VARIANTS] = { 0 };

	for (int k = 0; k < GT_ONNX_VARIANTS; k++) {
		const struct gt_node *twin = gt_onnx_twin(x, (enum gt_onnx_variant)k);

		if (twin && !find_step(twin, &steps[k]))
			return false;
	}
	*out = gt_onnx_size_of(x, steps);
	return !x->err.code;
}

/* Add 0, step, 2 step, ... to the rows of samples. */
static const char *add_steps(struct gt_onnx_export *x, const char *row,
    const struct gt_onnx_shape *shape, struct gt_onnx_size step, enum gt_dtype dtype)
{
	const struct gt_onnx_shape line = { .ndim = 1, .dims = { shape->dims[0] } };
	struct gt_onnx_shape column = line;
	const char *steps = gt_onnx_range(x, shape->dims[0]);

	for (column.ndim = 1; column.ndim < shape->ndim; column.ndim++)
		column.dims[column.ndim] = gt_onnx_fixed(1);
	steps = gt_onnx_binary(x, "Mul", steps, gt_onnx_size(x, step));
	steps = gt_onnx_reshape(x, gt_onnx_cast(x, steps, dtype), &line, &column);
	return gt_onnx_binary(x, "Add", row, steps);
}

/* Return whether the first `count` elements of `part` are those of `whole` with the same indices,
 * as those of a table of positions or of a causal mask are for fewer tokens. */
static bool is_start(const struct gt_node *part, const struct gt_node *whole, int64_t count)
{
	const struct gt_value *p = part->out[0], *w = whole->out[0];
	const char *elements = part->attrs.constant.elements, *all = whole->attrs.constant.elements;
	int64_t index[GT_MAX_DIMS] = { 0 };
	size_t size = gt_dtype_size(p->dtype);

	for (int64_t i = 0; i < count; i++) {
		int64_t at = 0;

		for (int d = 0; d < p->ndim; d++)
			at = at * w->shape[d] + index[d];
		if (memcmp(elements + (size_t)i * size, all + (size_t)at * size, size) != 0)
			return false;
		for (int d = p->ndim - 1; d >= 0 && ++index[d] == p->shape[d]; d--)
			index[d] = 0;
	}
	return true;
}

/* Return the first indices of a constant along the dimensions that are the tokens. */
static const char *take_start(
    struct gt_onnx_export *x, const char *name, const struct gt_onnx_shape *shape)
{
	for (int i = 0; i < shape->ndim; i++) {
		const int64_t zero = 0, axis = i;

		if (shape->dims[i].time)
			name = gt_onnx_call(x, "Slice", NULL, 4,
			    (const char *[]){ name, gt_onnx_ints(x, 1, &zero),
			        gt_onnx_size(x, shape->dims[i]), gt_onnx_ints(x, 1, &axis) });
	}
	return name;
}

/* Rows of samples are equal, so one is written and repeated; or they are indices, which grow by the
 * same step from row to row. A constant that has fewer elements for fewer tokens is cut at its
 * end. */
const char *gt_onnx_constant(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_value *v = n->out[0];
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, v);
	const struct gt_node *batch = gt_onnx_twin(x, GT_ONNX_BATCH);
	const struct gt_node *time = gt_onnx_twin(x, GT_ONNX_TIME);
	const char *elements = n->attrs.constant.elements, *name;
	size_t bytes = gt_value_bytes(v);
	int64_t sizes[GT_MAX_DIMS], rows = 1;
	struct gt_onnx_size step;
	bool equal;

	for (int i = 0; i < v->ndim; i++) {
		const struct gt_onnx_size s = shape.dims[i];

		if (!gt_onnx_is_fixed(s) &&
		    (s.factor > 1 || s.batch + s.time > 1 || (s.batch && i)))
			return gt_onnx_fail_varied(x, s.time);
		rows = s.batch ? v->shape[0] : rows;
		sizes[i] = s.batch ? 1 : v->shape[i];
	}
	if (x->err.code) /* the constants of other graphs may be smaller */
		return NULL;
	bytes /= (size_t)rows;
	equal = rows_are_equal(elements, rows, bytes);
	if ((!equal && !find_size_of_step(x, &step)) ||
	    memcmp(elements, batch->attrs.constant.elements, bytes) != 0)
		return gt_onnx_fail_varied(x, false);
	if (time && !is_start(time, n, gt_value_elements(time->out[0]) / (equal ? 1 : v->shape[0])))
		return gt_onnx_fail_varied(x, true);
	name = format_name(x, "constant.%zu", x->made++);
	if (!name)
		return NULL;
	gt_onnx_add_constant(x->m, name, v->dtype, v->ndim, sizes, elements);
	name = take_start(x, name, &shape);
	if (!equal)
		return add_steps(x, name, &shape, step, v->dtype);
	return rows > 1 ? gt_onnx_expand(x, name, &shape) : name;
}

/* ---- frequent operators ---- */

const char *gt_onnx_transpose(
    struct gt_onnx_export *x, const char *a, int ndim, const int64_t *order)
{
	bool same = true;

	for (int i = 0; i < ndim; i++)
		same &= order[i] == i;
	if (same)
		return a;
	return gt_onnx_call(x, "Transpose",
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_INTS("perm", ndim, order), { 0 } }, 1, &a);
}

const char *gt_onnx_cast(struct gt_onnx_export *x, const char *a, enum gt_dtype to)
{
	return gt_onnx_call(x, "Cast",
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_INT("to", gt_onnx_data_type(to)), { 0 } }, 1,
	    &a);
}

const char *gt_onnx_concat(
    struct gt_onnx_export *x, int count, const char *const *parts, int64_t axis)
{
	if (count == 1)
		return parts[0];
	return gt_onnx_call(x, "Concat",
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_INT("axis", axis), { 0 } }, count, parts);
}

void gt_onnx_split(struct gt_onnx_export *x, const char *a, int64_t axis, int count,
    const int64_t *sizes, const char **out)
{
	const struct gt_onnx_attribute attributes[] = { GT_ONNX_ATTR_INT("axis", axis), { 0 } };

	gt_onnx_call_many(x, "Split", attributes, 2,
	    (const char *[]){ a, gt_onnx_ints(x, count, sizes) }, count, out);
}

const char *gt_onnx_slice(
    struct gt_onnx_export *x, const char *a, int64_t axis, int64_t start, int64_t end, int64_t step)
{
	return gt_onnx_call(x, "Slice", NULL, 5,
	    (const char *[]){ a, gt_onnx_ints(x, 1, &start), gt_onnx_ints(x, 1, &end),
	        gt_onnx_ints(x, 1, &axis), gt_onnx_ints(x, 1, &step) });
}

const char *gt_onnx_unsqueeze(struct gt_onnx_export *x, const char *a, int64_t axis)
{
	return gt_onnx_binary(x, "Unsqueeze", a, gt_onnx_ints(x, 1, &axis));
}

const char *gt_onnx_squeeze(struct gt_onnx_export *x, const char *a, int64_t axis)
{
	return gt_onnx_binary(x, "Squeeze", a, gt_onnx_ints(x, 1, &axis));
}
