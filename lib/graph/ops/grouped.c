/* grouped.c - products of groups of rows, each by a matrix of its own. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int check_ends(const struct gt_value *ends, struct gt_err *err)
{
	if (ends->dtype == GT_I32 && ends->ndim == 1)
		return 0;
	return gt_err_set(err, GT_EINVAL, "the ends of groups are %s %s, not int32 [E]",
	    gt_dtype_name(ends->dtype), gt_shape_text(ends).s);
}

static int grouped_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0], *w = n->in[1], *ends = n->in[2];
	int across = n->attrs.matmul.trans_b;

	if (gt_infer_float(x, "the rows", 2, err) || gt_infer_float(w, "the matrices", 3, err) ||
	    check_ends(ends, err))
		return err->code;
	if (x->dtype != w->dtype || x->shape[1] != w->shape[1 + across] ||
	    ends->shape[0] != w->shape[0])
		return gt_err_set(err, GT_EINVAL, "%s and %s%s do not multiply in %lld groups",
		    gt_shape_text(x).s, gt_shape_text(w).s, across ? " transposed" : "",
		    (long long)ends->shape[0]);
	gt_infer_shape(n->out[0], x->dtype, 2, (int64_t[]){ x->shape[0], w->shape[2 - across] });
	return 0;
}

static void grouped_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	bool across = n->attrs.matmul.trans_b;
	struct gt_value *x = n->in[0], *ends = n->in[2];
	struct gt_value *in[] = { across ? d_out[0] : x, across ? x : d_out[0], ends };

	if (wanted[0])
		d_in[0] = gt_grouped_matmul(g, d_out[0], n->in[1], ends, !across);
	if (wanted[1])
		d_in[1] = gt_emit1(g, &gt_op_grouped_matmul_grad, NULL, 3, in);
}

/* Each row is in one group. */
static double grouped_flops(const struct gt_node *n)
{
	return 2.0 * (double)gt_value_elements(n->in[0]) * (double)gt_value_last(n->out[0]);
}

static void grouped_print(const struct gt_node *n, FILE *f)
{
	gt_op_matmul.print(n, f);
}

/* ---- the rule by which ranks share the products of a layer ---- */

static bool is_shared(const struct gt_shard_pass *s, const struct gt_node *n)
{
	return n->op == &gt_op_grouped_matmul && gt_value_is_weight(n->in[1]) &&
	       gt_shard_only_reader(s, n->in[1]);
}

/* Return how the columns of y can be sharded: in the way that all ops up to the next product of
 * groups accept. That one is sharded by rows. If there is none, y stays whole (0 units). */
static struct gt_column_shards shards_to_partner(
    const struct gt_shard_pass *s, const struct gt_node *n)
{
	struct gt_column_shards shards = { 1, gt_value_last(n->out[0]) };
	const struct gt_node *next = gt_shard_only_reader(s, n->out[0]);

	while (next && next->op->shard && next->op->shard->takes) {
		shards = next->op->shard->takes(s, next, shards);
		next = gt_shard_only_reader(s, next->out[0]);
	}
	return next && is_shared(s, next) ? shards : (struct gt_column_shards){ 0 };
}

/* x has this rank's columns: each rank has a summand of y. */
static int share_rows(struct gt_shard_pass *s, struct gt_node *n)
{
	const struct gt_column_shards shards = gt_shard_columns(s, n->in[0]);
	int rc = gt_shard_parameter(s, n->in[1], n->attrs.matmul.trans_b ? 2 : 1, shards);

	if (!rc)
		rc = gt_shard_infer(s, n);
	if (rc)
		return rc;
	gt_shard_place_after(s);
	gt_shard_replace(s, n->out[0], gt_shard_sum(s, n->out[0]));
	return 0;
}

/* Each rank has some columns of the first product's matrices, and the rows of the second one's that
 * belong to them, as in two products in a row (matmul.c). */
static int grouped_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards;
	int rc;

	if (gt_shard_is_sharded(s, n->in[0]) && is_shared(s, n))
		return share_rows(s, n);
	if (!is_shared(s, n) || (s->stays_whole && s->stays_whole(s->self, n->in[1]->name)))
		return gt_shard_whole.rewrite(s, n);
	shards = shards_to_partner(s, n);
	if (!shards.units)
		return gt_shard_whole.rewrite(s, n);
	rc = gt_shard_parameter(s, n->in[1], n->attrs.matmul.trans_b ? 1 : 2, shards);
	if (rc)
		return rc;
	n->in[0] = gt_shard_copy(s, n->in[0]);
	gt_shard_set(s, n->out[0], shards);
	return n->in[0] ? gt_shard_infer(s, n) : 0;
}

static const struct gt_shard_rule grouped_rule = { .rewrite = grouped_shard };

/*
 * grouped_matmul: rows of x are multiplied by the matrix of their group, which has the rows from
 * the end of the group before it to its own. Ends that descend, or beyond the last row, are an
 * error of the run. Rows that are in no group are 0.
 *   in   x F [S, K];  w F [E, K, N], or [E, N, K] with trans_b;  ends I32 [E]
 *   out  y F [S, N]
 *   y[s] = x[s] * op(w[e])     for ends[e - 1] <= s < ends[e]
 * grouped_matmul_grad: the products of two groups of rows.
 *   in   a F [S, K];  b F [S, N];  ends I32 [E]     out  y F [E, K, N]
 *   y[e] = the sum of a[s]^T * b[s] over ends[e - 1] <= s < ends[e]
 */
const struct gt_op gt_op_grouped_matmul = {
	.name = "grouped_matmul",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 1,
	.infer = grouped_infer,
	.grad = grouped_grad,
	.print = grouped_print,
	.flops = grouped_flops,
	.product = true,
	.shard = &grouped_rule,
	.autocast = GT_AUTOCAST_WIDEST,
};

static int grouped_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *a = n->in[0], *b = n->in[1], *ends = n->in[2];

	if (gt_infer_float(a, "the rows", 2, err) || gt_infer_float(b, "the gradient", 2, err) ||
	    check_ends(ends, err))
		return err->code;
	if (a->dtype != b->dtype || a->shape[0] != b->shape[0])
		return gt_err_set(err, GT_EINVAL, "%s and %s have no groups of the same rows",
		    gt_shape_text(a).s, gt_shape_text(b).s);
	gt_infer_shape(
	    n->out[0], a->dtype, 3, (int64_t[]){ ends->shape[0], a->shape[1], b->shape[1] });
	return 0;
}

static double grouped_grad_flops(const struct gt_node *n)
{
	return 2.0 * (double)gt_value_elements(n->in[0]) * (double)gt_value_last(n->in[1]);
}

const struct gt_op gt_op_grouped_matmul_grad = {
	.name = "grouped_matmul_grad",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 1,
	.infer = grouped_grad_infer,
	.flops = grouped_grad_flops,
	.product = true,
	.autocast = GT_AUTOCAST_KEEP,
};

struct gt_value *gt_grouped_matmul(
    struct gt_graph *g, struct gt_value *x, struct gt_value *w, struct gt_value *ends, bool trans_b)
{
	union gt_attrs attrs = { 0 };

	attrs.matmul.trans_b = trans_b;
	return gt_emit1(g, &gt_op_grouped_matmul, &attrs, 3, (struct gt_value *[]){ x, w, ends });
}
