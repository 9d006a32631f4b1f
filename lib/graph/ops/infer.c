/* infer.c - the steps that shape rules share. */
#include "lib/graph/ops/infer.h"

#include <stdio.h>

struct gt_shape_text gt_shape_text(const struct gt_value *v)
{
	struct gt_shape_text t;
	size_t used = (size_t)snprintf(t.s, sizeof(t.s), "[");

	for (int i = 0; i < v->ndim && used < sizeof(t.s); i++)
		used += (size_t)snprintf(t.s + used, sizeof(t.s) - used, "%s%lld", i ? ", " : "",
		    (long long)v->shape[i]);
	if (used < sizeof(t.s))
		snprintf(t.s + used, sizeof(t.s) - used, "]");
	return t;
}

void gt_infer_shape(struct gt_value *out, enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	out->dtype = dtype;
	out->ndim = ndim;
	for (int i = 0; i < ndim; i++)
		out->shape[i] = shape[i];
}

void gt_infer_like(struct gt_value *out, const struct gt_value *v)
{
	gt_infer_shape(out, v->dtype, v->ndim, v->shape);
}

int64_t gt_value_last(const struct gt_value *v)
{
	return v->ndim ? v->shape[v->ndim - 1] : 1;
}

int64_t gt_value_rows(const struct gt_value *v)
{
	return gt_value_elements(v) / gt_value_last(v);
}

int gt_infer_float(const struct gt_value *v, const char *what, int ndim, struct gt_err *err)
{
	if (!gt_dtype_is_real(v->dtype))
		return gt_err_set(
		    err, GT_EINVAL, "%s is %s, not floating point", what, gt_dtype_name(v->dtype));
	if (ndim < 0 ? v->ndim < 1 : v->ndim != ndim)
		return gt_err_set(err, GT_EINVAL, "%s has shape %s, %d dimensions wanted", what,
		    gt_shape_text(v).s, ndim < 0 ? 1 : ndim);
	return 0;
}

bool gt_infer_is_packed(const struct gt_value *v, enum gt_block block, int64_t columns)
{
	return v->dtype == GT_U8 && v->ndim == 2 && columns % gt_block_types[block].elements == 0 &&
	       v->shape[1] == (int64_t)gt_block_row_bytes(block, columns);
}

int gt_infer_vector(
    const struct gt_value *v, const char *what, enum gt_dtype dtype, int64_t n, struct gt_err *err)
{
	if (v && (v->dtype != dtype || v->ndim != 1 || v->shape[0] != n))
		return gt_err_set(err, GT_EINVAL, "%s is %s %s, %s [%lld] wanted", what,
		    gt_dtype_name(v->dtype), gt_shape_text(v).s, gt_dtype_name(dtype),
		    (long long)n);
	return 0;
}

int gt_infer_past(const struct gt_value *v, struct gt_err *err)
{
	if (v && (v->dtype != GT_I32 || v->ndim))
		return gt_err_set(err, GT_EINVAL,
		    "the count of earlier tokens is %s %s, not int32 []", gt_dtype_name(v->dtype),
		    gt_shape_text(v).s);
	return 0;
}

int gt_infer_positions(const struct gt_value *v, const struct gt_value *x, struct gt_err *err)
{
	if (v && (v->dtype != GT_I32 || v->ndim != 2 || v->shape[0] != x->shape[0] ||
	             v->shape[1] != x->shape[1]))
		return gt_err_set(err, GT_EINVAL, "positions %s %s are not int32 for tokens %s",
		    gt_dtype_name(v->dtype), gt_shape_text(v).s, gt_shape_text(x).s);
	return 0;
}

int gt_infer_same(
    const struct gt_value *a, const struct gt_value *b, const char *what, struct gt_err *err)
{
	bool same = a->dtype == b->dtype && a->ndim == b->ndim;

	for (int i = 0; same && i < a->ndim; i++)
		same = a->shape[i] == b->shape[i];
	if (!same)
		return gt_err_set(err, GT_EINVAL, "%s is %s %s, %s %s wanted", what,
		    gt_dtype_name(b->dtype), gt_shape_text(b).s, gt_dtype_name(a->dtype),
		    gt_shape_text(a).s);
	return 0;
}

struct gt_value *gt_emit1(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in)
{
	struct gt_node *n = gt_emit(g, op, attrs, inputs, in);

	return n ? n->out[0] : NULL;
}

int gt_infer_window(const struct gt_window *w, struct gt_err *err)
{
	const int max = 1 << 20; /* kernels add up places as int */

	for (int i = 0; i < 2; i++) {
		int k = w->kernel[i], stride = w->stride[i], pad = w->pad[i], d = w->dilation[i];

		if (k < 1 || stride < 1 || pad < 0 || d < 1 || k > max || stride > max ||
		    pad > max || d > max)
			return gt_err_set(err, GT_EINVAL,
			    "window %d, stride %d, padding %d, dilation %d", k, stride, pad, d);
	}
	return 0;
}

int64_t gt_window_count(const struct gt_window *w, int dim, int64_t in)
{
	int64_t span = (int64_t)w->dilation[dim] * (w->kernel[dim] - 1) + 1;
	int64_t left = in + 2 * (int64_t)w->pad[dim] - span;

	return left < 0 ? 0 : left / w->stride[dim] + 1;
}

void gt_infer_print_pair(const char *name, const int *pair, FILE *f)
{
	fprintf(f, pair[0] == pair[1] ? " %s=%d" : " %s=%dx%d", name, pair[0], pair[1]);
}

void gt_infer_print_window(const struct gt_window *w, FILE *f)
{
	gt_infer_print_pair("stride", w->stride, f);
	gt_infer_print_pair("pad", w->pad, f);
	if (w->dilation[0] != 1 || w->dilation[1] != 1)
		gt_infer_print_pair("dilation", w->dilation, f);
}

int gt_infer_shard(
    int64_t first, int64_t whole, int64_t count, const char *what, struct gt_err *err)
{
	if (whole ? first >= 0 && count <= whole && first <= whole - count : first == 0)
		return 0;
	return gt_err_set(err, GT_EINVAL, "%lld %s from %lld on are no shard of %lld",
	    (long long)count, what, (long long)first, (long long)whole);
}

void gt_infer_print_shard(int64_t first, int64_t whole, FILE *f)
{
	if (whole)
		fprintf(f, " from %lld of %lld", (long long)first, (long long)whole);
}
