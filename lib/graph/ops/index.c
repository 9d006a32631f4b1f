/* index.c - elements of rows by indices: the largest ones, gather and scatter. */
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* Give `out` the shape of x with `last` elements in its last dimension. */
static void infer_rows(
    struct gt_value *out, enum gt_dtype dtype, const struct gt_value *x, int64_t last)
{
	int64_t shape[GT_MAX_DIMS];

	memcpy(shape, x->shape, sizeof(shape));
	shape[x->ndim - 1] = last;
	gt_infer_shape(out, dtype, x->ndim, shape);
}

/* Check that `ids` has indices for each row of x. */
static int check_indices(const struct gt_value *x, const struct gt_value *ids, struct gt_err *err)
{
	if (gt_infer_float(x, "the input", -1, err))
		return err->code;
	if (ids->dtype == GT_I32 && ids->ndim == x->ndim &&
	    !memcmp(ids->shape, x->shape, (size_t)(x->ndim - 1) * sizeof(*x->shape)))
		return 0;
	return gt_err_set(err, GT_EINVAL, "indices %s %s for the rows of %s, not int32",
	    gt_dtype_name(ids->dtype), gt_shape_text(ids).s, gt_shape_text(x).s);
}

/* ---- topk ---- */

static int topk_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	int64_t size = n->attrs.index.size;

	if (gt_infer_float(x, "the input", -1, err))
		return err->code;
	if (size < 1 || size > gt_value_last(x) || gt_value_last(x) > INT32_MAX)
		return gt_err_set(err, GT_EINVAL, "%lld elements of each row of %s",
		    (long long)size, gt_shape_text(x).s);
	infer_rows(n->out[0], x->dtype, x, size);
	infer_rows(n->out[1], GT_I32, x, size);
	return 0;
}

/* The elements of a row differ in their indices. */
static void topk_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0] && d_out[0])
		d_in[0] = gt_index_scatter(g, d_out[0], n->out[1], gt_value_last(n->in[0]), true);
}

/* A comparison counts as one operation; a row of C takes about C log2(C) of them. */
static double topk_flops(const struct gt_node *n)
{
	double flops = (double)gt_value_elements(n->in[0]);

	for (int64_t size = n->attrs.index.size; size > 1; size /= 2)
		flops += (double)gt_value_elements(n->in[0]);
	return flops;
}

static void topk_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " %lld%s", (long long)n->attrs.index.size,
	    n->attrs.index.smallest ? " smallest" : "");
}

/*
 * topk: the attrs.index.size largest elements of each row, the largest first, and their indices; of
 * equal elements, the one with the smaller index comes first. With attrs.index.smallest, the
 * smallest elements, the smallest first. A NaN is larger than any number. With as many elements as
 * a row has, this sorts.
 *   in   x F [..., C]     out  y F [..., K], ids I32 [..., K]
 *   y[r, j] = x[r, ids[r, j]]
 */
const struct gt_op gt_op_topk = {
	.name = "topk",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 2,
	.infer = topk_infer,
	.grad = topk_grad,
	.print = topk_print,
	.flops = topk_flops,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_WIDEST,
};

/* ---- index_gather and index_scatter ---- */

static int gather_infer(struct gt_node *n, struct gt_err *err)
{
	if (check_indices(n->in[0], n->in[1], err))
		return err->code;
	infer_rows(n->out[0], n->in[0]->dtype, n->in[0], gt_value_last(n->in[1]));
	return 0;
}

static void gather_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_index_scatter(g, d_out[0], n->in[1], gt_value_last(n->in[0]), false);
}

/* Elements are copied. */
static double gather_flops(const struct gt_node *n)
{
	(void)n;
	return 0;
}

/*
 * index_gather: elements of each row by their indices; an index outside of the row is an error of
 * the run. It is the gradient of index_scatter, and that is its gradient.
 *   in   x F [..., C], ids I32 [..., K]     out  y F [..., K]
 *   y[r, j] = x[r, ids[r, j]]
 * index_scatter: rows of attrs.index.size elements, each the sum of the elements with its index,
 * added in their order; 0 if there is none. attrs.index.distinct promises that no row has an index
 * twice.
 *   in   x F [..., K], ids I32 [..., K]     out  y F [..., C]
 *   y[r, i] = sum of x[r, j] over all j with ids[r, j] = i
 */
const struct gt_op gt_op_index_gather = {
	.name = "index_gather",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = gather_infer,
	.grad = gather_grad,
	.flops = gather_flops,
	.lookups = 1u << 0,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_KEEP,
};

static int scatter_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *ids = n->in[1];
	int64_t size = n->attrs.index.size;

	if (check_indices(x, ids, err))
		return err->code;
	if (gt_value_last(ids) != gt_value_last(x) || size < 1 || size > INT32_MAX)
		return gt_err_set(err, GT_EINVAL, "indices %s for %s in rows of %lld",
		    gt_shape_text(ids).s, gt_shape_text(x).s, (long long)size);
	infer_rows(n->out[0], x->dtype, x, size);
	return 0;
}

static void scatter_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_index_gather(g, d_out[0], n->in[1]);
}

static double scatter_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

static void scatter_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " %lld%s", (long long)n->attrs.index.size,
	    n->attrs.index.distinct ? " distinct" : "");
}

const struct gt_op gt_op_index_scatter = {
	.name = "index_scatter",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = scatter_infer,
	.grad = scatter_grad,
	.print = scatter_print,
	.flops = scatter_flops,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_topk(
    struct gt_graph *g, struct gt_value *x, int64_t size, bool smallest, struct gt_value **ids)
{
	union gt_attrs attrs = { 0 };
	struct gt_node *n;

	attrs.index.size = size;
	attrs.index.smallest = smallest;
	n = x ? gt_emit(g, &gt_op_topk, &attrs, 1, &x) : NULL;
	*ids = n ? n->out[1] : NULL;
	return n ? n->out[0] : NULL;
}

struct gt_value *gt_index_gather(struct gt_graph *g, struct gt_value *x, struct gt_value *ids)
{
	return gt_emit1(g, &gt_op_index_gather, NULL, 2, (struct gt_value *[]){ x, ids });
}

struct gt_value *gt_index_scatter(
    struct gt_graph *g, struct gt_value *x, struct gt_value *ids, int64_t size, bool distinct)
{
	union gt_attrs attrs = { 0 };

	attrs.index.size = size;
	attrs.index.distinct = distinct;
	return gt_emit1(g, &gt_op_index_scatter, &attrs, 2, (struct gt_value *[]){ x, ids });
}
