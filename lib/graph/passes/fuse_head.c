/* fuse_head.c - a model's head and its loss become one node, which needs no tensor of logits. */
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/*
 * After the backward pass, a head consists of these nodes. In mixed precision it has the casts in
 * brackets, too:
 *
 *   logits = matmul(x, w) trans_b                        dx = matmul(d, w)
 *   [cast]                                               dw = matmul(d, x) trans_a
 *   loss, lse = cross_entropy(logits, target, weight)    [cast of dw]
 *   d = cross_entropy_grad(dloss, logits, target, lse, weight)
 *   [cast]
 *
 * In evaluation, a head is the first line, [cast], and classify_stats(logits, target). One node
 * replaces them at the place of the loss, where dloss (1, or the scale of the step) is known. The
 * pass changes nothing if another node reads a value in between, for example if ranks share the
 * classes or gather the logits, or if targets are mixtures.
 */
struct head {
	struct gt_node *product, *wide, *loss_node;           /* the forward part; casts or NULL */
	struct gt_node *grad, *low, *by_x, *by_w, *by_w_wide; /* the backward part, or all NULL */
};

static bool applies_head_fusion(const struct gt_pass_options *options)
{
	return options->kernels && options->logits_bytes > 0;
}

/* Return the node of `op` that reads v as its input k, or NULL. */
static struct gt_node *reader(
    const struct gt_graph *g, const struct gt_value *v, const struct gt_op *op, int k)
{
	for (size_t i = 0; i < g->node_count; i++)
		if (g->nodes[i]->op == op && g->nodes[i]->in[k] == v)
			return g->nodes[i];
	return NULL;
}

/* Return the node matmul(d, other), with d transposed or not, or NULL. */
static struct gt_node *product_with(
    const struct gt_graph *g, const struct gt_value *d, const struct gt_value *other, bool trans)
{
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];

		if (n->op == &gt_op_matmul && n->in[0] == d && n->in[1] == other && !n->in[2] &&
		    n->attrs.matmul.trans_a == trans && !n->attrs.matmul.trans_b)
			return n;
	}
	return NULL;
}

/* Find the nodes that compute the logits of a loss or of statistics. */
static bool find_forward(struct head *h, struct gt_node *loss_node, const int *uses)
{
	const struct gt_value *logits = loss_node->in[0];
	struct gt_node *n = logits->producer;

	*h = (struct head){ .loss_node = loss_node };
	if (logits->role != GT_TEMPORARY)
		return false;
	if (n && n->op == &gt_op_cast) {
		h->wide = n;
		logits = n->in[0];
		n = logits->producer;
		if (logits->role != GT_TEMPORARY || uses[logits->id] != 1)
			return false;
	}
	h->product = n;
	return n && n->op == &gt_op_matmul && n->attrs.matmul.trans_b && !n->in[2] &&
	       n->in[1]->ndim == 2 && loss_node->in[0]->dtype == gt_dtype_wide(logits->dtype);
}

/* Return the gradient of the logits, after its cast back to the type of the logits, or NULL. */
static struct gt_value *find_grad(
    const struct gt_graph *g, struct head *h, const struct gt_node *loss, const int *uses)
{
	enum gt_dtype type = h->product->out[0]->dtype;
	struct gt_node *n = reader(g, loss->in[0], &gt_op_cross_entropy_grad, 1);

	if (!n || n->in[2] != loss->in[1] || n->in[3] != loss->out[1] || n->in[4] != loss->in[2] ||
	    n->attrs.loss.whole)
		return NULL;
	h->grad = n;
	if (n->out[0]->dtype == type)
		return n->out[0];
	h->low = gt_sole_cast(g, n->out[0], type, uses);
	return h->low ? h->low->out[0] : NULL;
}

/* Find the gradients of x and w. No other node may read the gradient of the logits. The gradient of
 * w leaves the fused node in the wide type. */
static bool find_backward(const struct gt_graph *g, struct head *h, const int *uses)
{
	const struct gt_value *x = h->product->in[0], *w = h->product->in[1];
	const struct gt_value *dloss, *d = find_grad(g, h, h->loss_node, uses);
	enum gt_dtype wide = gt_dtype_wide(x->dtype);

	if (!d || d->role != GT_TEMPORARY || uses[d->id] != 2)
		return false;
	h->by_x = product_with(g, d, w, false);
	h->by_w = product_with(g, d, x, true);
	if (!h->by_x || !h->by_w)
		return false;
	if (h->by_w->out[0]->dtype != wide) {
		h->by_w_wide = gt_sole_cast(g, h->by_w->out[0], wide, uses);
		if (!h->by_w_wide)
			return false;
	}
	dloss = h->grad->in[0];
	return !dloss->producer || dloss->producer->op == &gt_op_fill;
}

/* Find the head of `loss_node`: the loss or the statistics of logits that no other node reads. */
static bool find_head(
    const struct gt_graph *g, struct head *h, struct gt_node *loss_node, const int *uses)
{
	int readers;

	if (loss_node->op != &gt_op_cross_entropy && loss_node->op != &gt_op_classify_stats)
		return false;
	if (gt_targets_are_mixed(loss_node->in[0], loss_node->in[1]) || loss_node->in[3] ||
	    loss_node->attrs.loss.smoothing != 0 || loss_node->attrs.loss.each ||
	    !find_forward(h, loss_node, uses))
		return false;
	readers = uses[loss_node->in[0]->id];
	if (loss_node->op == &gt_op_classify_stats)
		return readers == 1;
	if (readers == 1)
		return !uses[loss_node->out[1]->id];
	return readers == 2 && uses[loss_node->out[1]->id] == 1 && find_backward(g, h, uses);
}

/* ---- chunks ---- */

/* Return the rows of logits per chunk; 0: do not fuse, as all logits take little memory and their
 * rows are aligned as the backend wants. Chunks have about the same size; large ones are whole
 * tiles of products. */
static int64_t chunk_rows(const struct gt_pass_options *o, const struct gt_value *logits)
{
	enum { TILE = 128 };
	int64_t rows = gt_value_rows(logits), size = (int64_t)gt_dtype_size(logits->dtype);
	int64_t row_bytes = gt_value_last(logits) * size, max, chunk;
	bool apart = o->logits_align && row_bytes % (int64_t)o->logits_align;

	if (rows * row_bytes <= (int64_t)o->logits_bytes)
		return apart ? gt_round_up(rows, GT_HEAD_ROWS) : 0;
	max = (int64_t)o->logits_bytes / row_bytes / GT_HEAD_ROWS * GT_HEAD_ROWS;
	if (max < GT_HEAD_ROWS)
		return GT_HEAD_ROWS;
	chunk = (rows + max - 1) / max;
	chunk = (rows + chunk - 1) / chunk;
	if (chunk >= TILE && gt_round_up(chunk, TILE) <= max)
		return gt_round_up(chunk, TILE);
	return gt_round_up(chunk, GT_HEAD_ROWS);
}

/* ---- the node ---- */

/* Return the node that computes dloss after the loss, or NULL. */
static struct gt_node *maker_behind(const struct gt_graph *g, const struct head *h)
{
	struct gt_node *n = h->grad ? h->grad->in[0]->producer : NULL;

	return n && gt_node_index(g, n) > gt_node_index(g, h->loss_node) ? n : NULL;
}

/* Move n from the end of the list to the place of the loss, and remove the nodes of the head. The
 * node that computes dloss moves there, too. */
static void replace(struct gt_graph *g, const struct head *h, struct gt_node *n)
{
	struct gt_node *before = maker_behind(g, h);
	const struct gt_node *gone[] = { h->product, h->wide, h->grad, h->low, h->by_x, h->by_w,
		h->by_w_wide, before, n };
	size_t at;

	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		gt_drop_node(g, gone[i]);
	at = gt_node_index(g, h->loss_node);
	gt_remove_node(g, at);
	if (before) {
		gt_append_node(g, before);
		gt_place_last(g, at++);
	}
	gt_append_node(g, n);
	gt_place_last(g, at);
	if (h->loss_node->op == &gt_op_cross_entropy)
		gt_make_output(n, 0, h->loss_node->out[0]);
	else
		gt_make_output(n, 1, h->loss_node->out[0]);
	if (h->grad) {
		gt_make_output(n, 2, h->by_x->out[0]);
		gt_make_output(n, 3, h->by_w_wide ? h->by_w_wide->out[0] : h->by_w->out[0]);
	}
}

static int fuse(struct gt_graph *g, const struct head *h, int64_t rows)
{
	bool loss = h->loss_node->op == &gt_op_cross_entropy;
	struct gt_value *in[] = { h->product->in[0], h->product->in[1], h->loss_node->in[1],
		loss ? h->loss_node->in[2] : NULL, h->grad ? h->grad->in[0] : NULL };
	union gt_attrs attrs = { 0 };
	struct gt_node *n;

	attrs.head.rows = rows;
	g->scope = h->product->scope;
	n = gt_emit(g, &gt_op_linear_cross_entropy, &attrs, 5, in);
	if (!n)
		return g->err.code;
	replace(g, h, n);
	return g->err.code;
}

static int run_head_fusion(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	int *uses = gt_count_uses(g, err);
	int rc = 0;

	if (!uses)
		return GT_ENOMEM;
	for (size_t i = g->node_count; !rc && i-- > 0;) {
		struct head h;
		int64_t rows;

		if (i >= g->node_count || !find_head(g, &h, g->nodes[i], uses))
			continue;
		if (!gt_has_kernel(
		        options->kernels, &gt_op_linear_cross_entropy, h.product->out[0]->dtype))
			continue;
		rows = chunk_rows(options, h.product->out[0]);
		if (rows)
			rc = fuse(g, &h, rows);
	}
	free(uses);
	return rc ? gt_graph_status(g, err) : 0;
}

const struct gt_pass gt_pass_fuse_head = {
	.name = "fuse-head",
	.purpose = "make logits, loss and gradients chunk by chunk, without a tensor of logits",
	.applies = applies_head_fusion,
	.run = run_head_fusion,
};
