/* matmul.c - matrix products and biases. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* A second factor in blocks has the rows of its transpose. */
static int packed_matmul_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *a = n->in[0], *b = n->in[1];
	struct gt_value *y = n->out[0];

	if (gt_infer_float(a, "the left side", -1, err))
		return err->code;
	if (a->dtype != GT_F32 || n->attrs.matmul.trans_a || !n->attrs.matmul.trans_b ||
	    !gt_infer_is_packed(b, n->attrs.matmul.block, gt_value_last(a)))
		return gt_err_set(err, GT_EINVAL, "%s and %s in blocks of %s do not multiply",
		    gt_shape_text(a).s, gt_shape_text(b).s, gt_block_names[n->attrs.matmul.block]);
	gt_infer_like(y, a);
	y->shape[y->ndim - 1] = b->shape[0];
	return gt_infer_vector(n->in[2], "the bias", GT_F32, b->shape[0], err);
}

static int matmul_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *a = n->in[0], *b = n->in[1];
	bool ta = n->attrs.matmul.trans_a, tb = n->attrs.matmul.trans_b;
	struct gt_value *y = n->out[0];
	int64_t k_a, k_b, columns;

	if (n->attrs.matmul.block)
		return packed_matmul_infer(n, err);
	if (gt_infer_float(a, "the left side", -1, err) ||
	    gt_infer_float(b, "the right side", -1, err))
		return err->code;
	if (ta && tb)
		return gt_err_set(err, GT_EINVAL, "both sides transposed");
	k_a = ta ? gt_value_rows(a) : gt_value_last(a);
	k_b = tb ? gt_value_last(b) : gt_value_rows(b);
	columns = tb ? gt_value_rows(b) : gt_value_last(b);
	if (k_a != k_b || a->dtype != b->dtype)
		return gt_err_set(err, GT_EINVAL, "%s%s and %s%s do not multiply",
		    gt_shape_text(a).s, ta ? " transposed" : "", gt_shape_text(b).s,
		    tb ? " transposed" : "");
	gt_infer_like(y, a);
	if (ta) {
		y->ndim = 2;
		y->shape[0] = gt_value_last(a);
	}
	y->shape[y->ndim - 1] = columns;
	return gt_infer_vector(n->in[2], "the bias", a->dtype, columns, err);
}

static double matmul_flops(const struct gt_node *n)
{
	const struct gt_value *a = n->in[0];
	int64_t k = n->attrs.matmul.trans_a ? gt_value_rows(a) : gt_value_last(a);

	return 2.0 * (double)gt_value_elements(n->out[0]) * (double)k;
}

/* Give a gradient the shape of its input. The number of elements is the same, but leading
 * dimensions may differ. */
static struct gt_value *shaped_like(
    struct gt_graph *g, struct gt_value *v, const struct gt_value *like)
{
	struct gt_err ignored;

	if (!v || !gt_infer_same(like, v, "", &ignored))
		return v;
	return gt_reshape(g, v, like->ndim, like->shape);
}

/* Reshape dy to rows, because bias_grad treats four dimensions as an image. */
static struct gt_value *as_rows(struct gt_graph *g, struct gt_value *dy)
{
	if (dy->ndim < 4)
		return dy;
	return gt_reshape(g, dy, 2, (int64_t[]){ gt_value_rows(dy), gt_value_last(dy) });
}

static void matmul_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *a = n->in[0], *b = n->in[1], *dy = d_out[0];
	bool ta = n->attrs.matmul.trans_a, tb = n->attrs.matmul.trans_b;

	if (wanted[0])
		d_in[0] = ta ? gt_matmul(g, b, dy, NULL, false, true)
		             : gt_matmul(g, dy, b, NULL, false, !tb);
	if (wanted[1])
		d_in[1] = ta   ? gt_matmul(g, a, dy, NULL, false, false)
		          : tb ? gt_matmul(g, dy, a, NULL, true, false)
		               : gt_matmul(g, a, dy, NULL, true, false);
	d_in[0] = shaped_like(g, d_in[0], a);
	d_in[1] = shaped_like(g, d_in[1], b);
	if (wanted[2])
		d_in[2] = gt_bias_grad(g, as_rows(g, dy));
}

static void matmul_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, "%s%s%s", n->attrs.matmul.trans_a ? " trans_a" : "",
	    n->attrs.matmul.trans_b ? " trans_b" : "", n->attrs.matmul.tf32 ? " tf32" : "");
	if (n->attrs.matmul.block)
		fprintf(f, " %s", gt_block_names[n->attrs.matmul.block]);
}

/* ---- the rule by which ranks share products ---- */

static bool is_layer(const struct gt_node *n)
{
	return n->op == &gt_op_matmul && gt_value_is_weight(n->in[1]) && !n->attrs.matmul.trans_a;
}

/* Return the weight's dimension that becomes the columns of y. */
static int out_dim(const struct gt_node *n)
{
	return n->attrs.matmul.trans_b ? 0 : n->in[1]->ndim - 1;
}

static int in_dim(const struct gt_node *n)
{
	return n->attrs.matmul.trans_b ? n->in[1]->ndim - 1 : 0;
}

/* Return how the columns of y can be sharded: in the way that all ops up to the next product
 * accept. That product is sharded by rows. If there is none, y stays whole (0 units). */
static struct gt_column_shards shards_between(
    const struct gt_shard_pass *s, const struct gt_node *n)
{
	struct gt_column_shards shards = { 1, gt_value_last(n->out[0]) };
	const struct gt_node *next = gt_shard_only_reader(s, n->out[0]);

	while (next && next->op->shard && next->op->shard->takes) {
		shards = next->op->shard->takes(s, next, shards);
		next = gt_shard_only_reader(s, next->out[0]);
	}
	if (!next || !is_layer(next) || !gt_shard_only_reader(s, next->in[1]))
		return (struct gt_column_shards){ 0 };
	return shards;
}

bool gt_shard_has_pair(const struct gt_shard_pass *s)
{
	for (size_t i = 0; i < s->g->node_count; i++) {
		const struct gt_node *n = s->g->nodes[i];

		if (is_layer(n) && gt_shard_only_reader(s, n->in[1]) && shards_between(s, n).units)
			return true;
	}
	return false;
}

/* x has this rank's columns: each rank has a summand of y. The bias is added once. */
static int shard_rows(struct gt_shard_pass *s, struct gt_node *n, int64_t units)
{
	struct gt_column_shards shards = { 1, units };
	struct gt_value *bias = n->in[2], *y;
	int rc = gt_shard_parameter(s, n->in[1], in_dim(n), shards);

	n->in[2] = NULL;
	if (!rc)
		rc = gt_shard_infer(s, n);
	if (rc)
		return rc;
	gt_shard_place_after(s);
	y = gt_shard_sum(s, n->out[0]);
	if (bias)
		y = gt_shard_place(s, gt_bias_add(s->g, y, bias));
	gt_shard_replace(s, n->out[0], y);
	return 0;
}

static int shard_columns(struct gt_shard_pass *s, struct gt_node *n, struct gt_column_shards shards)
{
	int rc = gt_shard_parameter(s, n->in[1], out_dim(n), shards);

	if (!rc)
		rc = gt_shard_parameter(s, n->in[2], 0, shards);
	if (rc)
		return rc;
	n->in[0] = gt_shard_copy(s, n->in[0]);
	gt_shard_set(s, n->out[0], shards);
	return n->in[0] ? gt_shard_infer(s, n) : 0;
}

/* Gather the columns of y, which every rank needs: a rank has zeros in place of the columns of the
 * others, and the values are added up. */
static void gather_columns(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards = gt_shard_columns(s, n->out[0]);
	int64_t before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };
	int last = n->out[0]->ndim - 1;
	int64_t count = gt_shard_units(s, shards, &before[last]);

	after[last] = shards.units - before[last] - count;
	gt_shard_place_after(s);
	gt_shard_replace(s, n->out[0],
	    gt_shard_sum(s, gt_shard_place(s, gt_pad(s->g, n->out[0], before, after))));
}

/* Return whether a loss alone reads the product, as logits of tokens, perhaps behind ops that cap
 * each of them. */
static bool is_for_loss(const struct gt_shard_pass *s, const struct gt_node *n)
{
	const struct gt_value *logits = n->out[0];
	const struct gt_node *next = gt_shard_only_reader(s, logits);

	while (logits->role == GT_TEMPORARY && next && next->op == &gt_op_map &&
	       next->attrs.map.program->inputs == 1 && !next->attrs.map.ndim) {
		logits = next->out[0];
		next = gt_shard_only_reader(s, logits);
	}
	return logits->role == GT_TEMPORARY && next &&
	       (next->op == &gt_op_cross_entropy || next->op == &gt_op_classify_stats);
}

/* Shard a product with an embedding's table, or with a head's own table: each rank computes the
 * logits of some tokens. A loss is computed from these; other readers need all of them. */
static int shard_head(struct gt_shard_pass *s, struct gt_node *n)
{
	bool whole = !is_for_loss(s, n);
	int rc;

	n->in[0] = gt_shard_copy(s, n->in[0]);
	gt_shard_set(s, n->out[0], gt_shard_columns(s, n->in[1]));
	rc = n->in[0] ? gt_shard_infer(s, n) : 0;
	if (!rc && n->in[0] && whole)
		gather_columns(s, n);
	return rc;
}

/* Return whether the weight is sharded because it is in an earlier graph of the model. */
static bool is_sharded_before(const struct gt_shard_pass *s, const struct gt_value *weight)
{
	return s->stays_whole && !s->stays_whole(s->self, weight->name);
}

/* Shard a product without a partner: each rank computes some columns of y, and all ranks gather
 * them. If there are more ranks than columns, each rank takes some columns of x instead, and has a
 * summand of y. */
static int shard_alone(struct gt_shard_pass *s, struct gt_node *n)
{
	int last = n->in[0]->ndim - 1;
	struct gt_column_shards in = { 1, gt_value_last(n->in[0]) };
	struct gt_column_shards out = { 1, gt_value_last(n->out[0]) };
	int64_t first, count;
	int rc;

	if (out.units >= s->ranks) {
		rc = shard_columns(s, n, out);
		if (!rc)
			gather_columns(s, n);
		return rc;
	}
	if (in.units < s->ranks)
		return 0;
	count = gt_shard_units(s, in, &first);
	n->in[0] = gt_shard_copy(s, n->in[0]);
	n->in[0] = gt_shard_place(s, gt_slice_dim(s->g, n->in[0], last, first, first + count, 1));
	return n->in[0] ? shard_rows(s, n, in.units) : 0;
}

/* ---- weights of which several ranks use the same unit ---- */

/* Find the unit of the columns of y that this rank needs, if its reader takes a single one. */
static bool find_unit(
    const struct gt_shard_pass *s, const struct gt_node *n, int64_t *units, int64_t *unit)
{
	const struct gt_node *next = gt_shard_only_reader(s, n->out[0]);

	for (int k = 0; next && next->op->shard && next->op->shard->takes_unit && k < next->inputs;
	     k++)
		if (next->in[k] == n->out[0])
			return gt_shard_only_reader(s, n->in[1]) &&
			       next->op->shard->takes_unit(s, next, k, units, unit);
	return false;
}

/* Return a unit of a parameter along `dim`. The gradients of all ranks are added up. */
static struct gt_value *take_unit(
    struct gt_shard_pass *s, struct gt_value *v, int dim, int64_t units, int64_t unit)
{
	int64_t length;

	if (!v)
		return NULL;
	length = v->shape[dim] / units;
	v = gt_shard_copy(s, v);
	return units == 1 ? v
	                  : gt_shard_place(s,
	                        gt_slice_dim(s->g, v, dim, unit * length, (unit + 1) * length, 1));
}

/*
 * Compute one unit of the columns of y. The weight stays whole on all ranks. Example: 4 ranks share
 * 4 heads, which share 2 heads of keys of 3 columns. Rank 2 computes the keys of the second one:
 *
 *   one rank                        rank 2
 *   k = matmul(x, W [6,8])          k [2,3] = matmul(copy(x), slice(copy(W), rows 3 to 5))
 *
 * The gradient of W is the sum over all ranks, where a rank has zeros in the rows of other units.
 */
static int shard_unit(struct gt_shard_pass *s, struct gt_node *n, int64_t units, int64_t unit)
{
	struct gt_column_shards like =
	    gt_shard_columns(s, gt_shard_only_reader(s, n->out[0])->in[0]);

	n->in[0] = gt_shard_copy(s, n->in[0]);
	n->in[1] = take_unit(s, n->in[1], out_dim(n), units, unit);
	n->in[2] = take_unit(s, n->in[2], 0, units, unit);
	gt_shard_set(s, n->out[0], like);
	return n->in[0] && n->in[1] ? gt_shard_infer(s, n) : 0;
}

/* Return whether the product computes logits of tokens: in a graph with a loss, or of the next
 * token of a text, by the weight that is such a head in the training graph. */
static bool makes_logits(const struct gt_shard_pass *s, const struct gt_node *n)
{
	if (!is_layer(n) || n->in[2] || out_dim(n) != 0 || gt_value_last(n->out[0]) < s->ranks)
		return false;
	return (n->in[0]->ndim == 3 && is_for_loss(s, n)) || is_sharded_before(s, n->in[1]);
}

/* Two products in a row become one layer: the first weight is sharded by the columns of y, the
 * second one by its rows. A product without a partner stays whole, unless it makes the logits of
 * tokens. So does one whose weight has other readers, but for an embedding's table. */
static int matmul_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards;
	int64_t units, unit;
	int rc;

	if (!is_layer(n))
		return gt_shard_whole.rewrite(s, n);
	if (gt_shard_is_sharded(s, n->in[0]))
		return shard_rows(s, n, gt_shard_columns(s, n->in[0]).units);
	if (find_unit(s, n, &units, &unit))
		return shard_unit(s, n, units, unit);
	if (gt_shard_is_sharded(s, n->in[1]))
		return shard_head(s, n);
	if ((s->stays_whole && s->stays_whole(s->self, n->in[1]->name)) ||
	    !gt_shard_only_reader(s, n->in[1]))
		return 0;
	shards = shards_between(s, n);
	if (shards.units)
		return shard_columns(s, n, shards);
	if (!makes_logits(s, n))
		return s->alone || is_sharded_before(s, n->in[1]) ? shard_alone(s, n) : 0;
	rc = gt_shard_parameter(
	    s, n->in[1], 0, (struct gt_column_shards){ 1, gt_value_last(n->out[0]) });
	return rc ? rc : shard_head(s, n);
}

static const struct gt_shard_rule matmul_rule = { .rewrite = matmul_shard,
	.takes_rows = makes_logits };

/*
 * matmul: the matrix product y = op(a) * op(b) + bias.
 *   in   a F [..., K], or [..., M] with trans_a; treated as two-dimensional
 *        b F [K, N], or [N, K] with trans_b; leading dimensions are treated as one
 *        bias F [N], optional
 *   out  y F [..., N]; with trans_a [M, N]
 * op(a) is a, or its transpose with trans_a; likewise op(b) with trans_b. trans_a and trans_b
 * cannot be combined. torch.nn.Linear is matmul of (x, weight, bias) with trans_b. Hugging Face's
 * Conv1D is matmul of (x, weight, bias) without trans_b. If attrs.matmul.relaxed is set, the kernel
 * may add the terms of a sum in another order. Only passes of forward-only graphs set this
 * attribute. If attrs.matmul.block is set, F is F32, and b is U8 [N, bytes of a row]: the rows of
 * [N, K] in these blocks (lib/base/blocks.h), with trans_b. The kernel may round a to multiples of
 * 1 / 32767 of the largest of each 32 numbers.
 *
 * Products, convolutions, attention, the gradients of these ops, and linear_cross_entropy have an
 * attribute tf32, which the pass tf32 sets. If the attribute is set, the kernel may round float32
 * factors to 10 bits of mantissa.
 */
const struct gt_op gt_op_matmul = {
	.name = "matmul",
	.min_inputs = 2,
	.max_inputs = 3,
	.outputs = 1,
	.infer = matmul_infer,
	.print = matmul_print,
	.grad = matmul_grad,
	.flops = matmul_flops,
	.product = true,
	.shard = &matmul_rule,
	.autocast = GT_AUTOCAST_LOW,
};

struct gt_value *gt_matmul(struct gt_graph *g, struct gt_value *a, struct gt_value *b,
    struct gt_value *bias, bool trans_a, bool trans_b)
{
	union gt_attrs attrs = { 0 };

	attrs.matmul.trans_a = trans_a;
	attrs.matmul.trans_b = trans_b;
	return gt_emit1(g, &gt_op_matmul, &attrs, 3, (struct gt_value *[]){ a, b, bias });
}

/* ---- biases ---- */

static int bias_add_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];

	if (gt_infer_float(x, "the input", -1, err))
		return err->code;
	gt_infer_like(n->out[0], x);
	return gt_infer_vector(n->in[1], "the bias", x->dtype, gt_value_last(x), err);
}

static void bias_add_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)n;
	if (wanted[0])
		d_in[0] = d_out[0];
	if (wanted[1])
		d_in[1] = gt_bias_grad(g, as_rows(g, d_out[0]));
}

/* bias_add: y = x + bias; may overwrite x.     in   x F [..., N];  bias F [N]     out  y like x */
const struct gt_op gt_op_bias_add = {
	.name = "bias_add",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = bias_add_infer,
	.grad = bias_add_grad,
	.inplace = 1u << 0,
	.row_inputs = 1,
};

struct gt_value *gt_bias_add(struct gt_graph *g, struct gt_value *x, struct gt_value *bias)
{
	return gt_emit1(g, &gt_op_bias_add, NULL, 2, (struct gt_value *[]){ x, bias });
}

static int bias_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0];
	int64_t channels = dy->ndim == 4 ? dy->shape[1] : gt_value_last(dy);

	if (gt_infer_float(dy, "the gradient", -1, err))
		return err->code;
	gt_infer_shape(n->out[0], dy->dtype, 1, &channels);
	return 0;
}

static double bias_grad_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

/* bias_grad: for each channel, the sum of dy over all other dimensions. The dimension of channels
 * is dimension 1 for an image with four dimensions, otherwise the last dimension.
 *   in   dy F [..., N] or [B, N, H, W]     out  F [N] */
const struct gt_op gt_op_bias_grad = {
	.name = "bias_grad",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = bias_grad_infer,
	.flops = bias_grad_flops,
	.image_in = 1u << 0,
};

struct gt_value *gt_bias_grad(struct gt_graph *g, struct gt_value *dy)
{
	return gt_emit1(g, &gt_op_bias_grad, NULL, 1, &dy);
}
