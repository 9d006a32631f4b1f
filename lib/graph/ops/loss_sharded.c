/* loss_sharded.c - losses where each rank has the logits of some of the classes. */
#include "lib/graph/ops/loss_sharded.h"

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

/*
 * Ops that replace cross_entropy and classify_stats if logits are sharded over classes. Each rank
 * has logits F [..., V] for V classes: those from attrs.loss.first on. The number of all classes is
 * attrs.loss.whole. The ranks never exchange logits. Collectives between these nodes exchange only
 * a few numbers per row. The backward pass treats the outputs of these nodes as constants, except
 * the loss of cross_entropy_sharded.
 *
 *   lse_r = log_sum_exp(logits)               of this rank's classes
 *   max = maximum over ranks of lse_r
 *   s = sum over ranks of exp_difference(lse_r, max)
 *   lse = add_log(max, s)                     of all classes
 *   picked = sum over ranks of pick(logits, target)
 *   before = sum over ranks of count_before(logits, target, picked)
 *
 * log_sum_exp:     in logits     out lse F [rows]
 * exp_difference:  in a F [n], b F [n]     out F64 [n] = exp(a - b), in float64
 * add_log:         in a F [n], s F64 [n]     out F [n] = a + log(s), in float64
 * pick:            in logits, target I32 [...], class_weight F [whole] (optional)
 *                  out F [rows]: the logit of the target; 0 if the
 *                  target is negative or a class of another rank. Mixtures: w * logits[a] +
 *                  (1 - w) * logits[b], where a class that is negative or of another rank adds 0.
 *                  Class weights and smoothing, in the letters of cross_entropy (loss.c):
 *                  (1 - s) * sum over k of w_k * v[c_k] * logits[c_k] +
 *                  s * sum over k of w_k * (sum over this rank's c of v[c] * logits[c]) / whole.
 *                  A target >= attrs.loss.whole is an error.
 * count_before:    in logits, target, picked F [rows]     out F64 [rows]: the number of this rank's
 *                  logits that are ahead of the target's logit, as defined for classify_stats;
 *                  infinity for a row with a NaN, 0 for a row with a negative target
 * cross_entropy_sharded:   in logits, target, lse F [rows], picked F [rows], weight F [],
 *        class_weight F [whole] (optional)
 *   out  loss F [] = weight * (sum over all rows with target >= 0 of (lse - picked)). Mixtures: lse
 *        is multiplied by the sum of the weights of those classes that are not negative. Class
 *        weights and smoothing: by (1 - s) * sum over k of w_k * v[c_k] + s * sum over k of w_k.
 *        With attrs.loss.each, loss is F [rows]: the summands.
 *        cross_entropy_grad computes the gradient with respect to the logits. lse and picked
 *        depend on the logits, and this gradient includes both dependencies. The kernel of
 *        cross_entropy_sharded does not read the logits: only cross_entropy_grad needs them.
 * classify_stats_sharded:  in lse, picked, before, target
 *   out  F64 [4], as classify_stats
 * Source: Shoeybi et al., arXiv 1909.08053, section 3.
 */

/* ---- numbers per row ---- */

static int log_sum_exp_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0];

	if (gt_infer_float(logits, "the logits", -1, err))
		return err->code;
	gt_infer_shape(n->out[0], logits->dtype, 1, (int64_t[]){ gt_value_rows(logits) });
	return 0;
}

static double log_sum_exp_flops(const struct gt_node *n)
{
	return 3.0 * (double)gt_value_elements(n->in[0]);
}

const struct gt_op gt_op_log_sum_exp = {
	.name = "log_sum_exp",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = log_sum_exp_infer,
	.flops = log_sum_exp_flops,
	.constant = true,
	.autocast = GT_AUTOCAST_HIGH,
};

static int exp_difference_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *a = n->in[0];

	if (gt_infer_float(a, "the first input", 1, err) ||
	    gt_infer_same(a, n->in[1], "the second input", err))
		return err->code;
	gt_infer_shape(n->out[0], GT_F64, 1, a->shape);
	return 0;
}

const struct gt_op gt_op_exp_difference = {
	.name = "exp_difference",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = exp_difference_infer,
	.constant = true,
};

static int add_log_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *a = n->in[0];

	if (gt_infer_float(a, "the first input", 1, err) ||
	    gt_infer_vector(n->in[1], "the second input", GT_F64, a->shape[0], err))
		return err->code;
	gt_infer_like(n->out[0], a);
	return 0;
}

const struct gt_op gt_op_add_log = {
	.name = "add_log",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = add_log_infer,
	.inplace = 1u << 0,
	.constant = true,
};

/* Check that the classes of the logits are a shard of all classes. */
static int shard_fits(const struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0];

	return gt_infer_shard(
	    n->attrs.loss.first, n->attrs.loss.whole, gt_value_last(logits), "classes", err);
}

static int pick_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0];

	if (gt_infer_loss_targets(logits, n->in[1], err) || shard_fits(n, err) ||
	    gt_infer_class_weight(n, 2, err))
		return err->code;
	gt_infer_shape(n->out[0], logits->dtype, 1, (int64_t[]){ gt_value_rows(logits) });
	return 0;
}

const struct gt_op gt_op_pick = {
	.name = "pick",
	.min_inputs = 2,
	.max_inputs = 3,
	.outputs = 1,
	.infer = pick_infer,
	.print = gt_print_loss,
	.constant = true,
	.autocast = GT_AUTOCAST_HIGH,
};

static int count_before_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0];
	int64_t rows = gt_value_rows(logits);

	if (gt_infer_targets(logits, n->in[1], err) || shard_fits(n, err))
		return err->code;
	gt_infer_shape(n->out[0], GT_F64, 1, &rows);
	return gt_infer_vector(n->in[2], "the targets' logits", logits->dtype, rows, err);
}

static double count_before_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

const struct gt_op gt_op_count_before = {
	.name = "count_before",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 1,
	.infer = count_before_infer,
	.print = gt_print_loss,
	.flops = count_before_flops,
	.constant = true,
	.autocast = GT_AUTOCAST_HIGH,
};

/* ---- sums over rows ---- */

static int cross_entropy_sharded_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0], *weight = n->in[4];
	int64_t rows = gt_value_rows(logits);

	if (gt_infer_loss_targets(logits, n->in[1], err) || shard_fits(n, err) ||
	    gt_infer_class_weight(n, 5, err) ||
	    gt_infer_vector(n->in[2], "lse", logits->dtype, rows, err) ||
	    gt_infer_vector(n->in[3], "the targets' logits", logits->dtype, rows, err))
		return err->code;
	if (weight->dtype != logits->dtype || weight->ndim != 0)
		return gt_err_set(err, GT_EINVAL, "the weight is not a scalar of the logits' type");
	gt_infer_loss(n, rows);
	return 0;
}

static void cross_entropy_sharded_grad(struct gt_graph *g, struct gt_node *n,
    struct gt_value *const *d_out, const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->in[2], n->in[4], n->in[5] };

	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_cross_entropy_grad, &n->attrs, 6, in);
}

static double rows_flops(const struct gt_node *n)
{
	return 2.0 * (double)gt_value_elements(n->in[2]);
}

const struct gt_op gt_op_cross_entropy_sharded = {
	.name = "cross_entropy_sharded",
	.min_inputs = 5,
	.max_inputs = 6,
	.outputs = 1,
	.infer = cross_entropy_sharded_infer,
	.grad = cross_entropy_sharded_grad,
	.print = gt_print_loss,
	.flops = rows_flops,
	.autocast = GT_AUTOCAST_HIGH,
};

static int classify_stats_sharded_infer(struct gt_node *n, struct gt_err *err)
{
	static const int64_t four = 4;
	const struct gt_value *lse = n->in[0], *target = n->in[3];
	int64_t rows = gt_value_elements(target);

	if (target->dtype != GT_I32)
		return gt_err_set(
		    err, GT_EINVAL, "targets are %s, not int32", gt_dtype_name(target->dtype));
	if (gt_infer_float(lse, "lse", 1, err) ||
	    gt_infer_vector(lse, "lse", lse->dtype, rows, err) ||
	    gt_infer_vector(n->in[1], "the targets' logits", lse->dtype, rows, err) ||
	    gt_infer_vector(n->in[2], "the count", GT_F64, rows, err))
		return err->code;
	gt_infer_shape(n->out[0], GT_F64, 1, &four);
	return 0;
}

const struct gt_op gt_op_classify_stats_sharded = {
	.name = "classify_stats_sharded",
	.min_inputs = 4,
	.max_inputs = 4,
	.outputs = 1,
	.infer = classify_stats_sharded_infer,
	.flops = rows_flops,
};

/* ---- rules ---- */

/* Return the attributes that say which of all classes the logits of node n have. */
static union gt_attrs classes_of(const struct gt_shard_pass *s, const struct gt_node *n)
{
	struct gt_column_shards shards = gt_shard_columns(s, n->in[0]);
	union gt_attrs attrs = { 0 };

	attrs.loss.whole = shards.units;
	gt_shard_units(s, shards, &attrs.loss.first);
	return attrs;
}

static struct gt_value *emit(struct gt_shard_pass *s, const struct gt_op *op,
    const union gt_attrs *attrs, int inputs, struct gt_value *const *in)
{
	return gt_shard_place(s, gt_emit1(s->g, op, attrs, inputs, in));
}

/* Emit the log-sum-exp over all classes. */
static struct gt_value *emit_lse(struct gt_shard_pass *s, struct gt_value *logits)
{
	struct gt_value *own = emit(s, &gt_op_log_sum_exp, NULL, 1, &logits);
	struct gt_value *max = gt_shard_max(s, own), *sum;

	sum = emit(s, &gt_op_exp_difference, NULL, 2, (struct gt_value *[]){ own, max });
	sum = gt_shard_sum(s, sum);
	return emit(s, &gt_op_add_log, NULL, 2, (struct gt_value *[]){ max, sum });
}

static struct gt_value *emit_pick(struct gt_shard_pass *s, const struct gt_node *n,
    const union gt_attrs *attrs, struct gt_value *class_weight)
{
	return gt_shard_sum(s, emit(s, &gt_op_pick, attrs, 3,
	                           (struct gt_value *[]){ n->in[0], n->in[1], class_weight }));
}

static int cross_entropy_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	union gt_attrs attrs = classes_of(s, n);
	struct gt_value *lse, *picked, *loss;

	if (!gt_shard_is_sharded(s, n->in[0]))
		return gt_shard_whole.rewrite(s, n);
	attrs.loss.smoothing = n->attrs.loss.smoothing;
	attrs.loss.each = n->attrs.loss.each;
	lse = emit_lse(s, n->in[0]);
	picked = emit_pick(s, n, &attrs, n->in[3]);
	loss = emit(s, &gt_op_cross_entropy_sharded, &attrs, 6,
	    (struct gt_value *[]){ n->in[0], n->in[1], lse, picked, n->in[2], n->in[3] });
	gt_shard_replace(s, n->out[0], loss);
	gt_shard_replace(s, n->out[1], lse);
	gt_shard_remove(s);
	return 0;
}

const struct gt_shard_rule gt_cross_entropy_rule = { .rewrite = cross_entropy_shard };

static int classify_stats_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	union gt_attrs attrs = classes_of(s, n);
	struct gt_value *lse, *picked, *before, *stats;

	if (!gt_shard_is_sharded(s, n->in[0]))
		return gt_shard_whole.rewrite(s, n);
	lse = emit_lse(s, n->in[0]);
	picked = emit_pick(s, n, &attrs, NULL);
	before = gt_shard_sum(s, emit(s, &gt_op_count_before, &attrs, 3,
	                             (struct gt_value *[]){ n->in[0], n->in[1], picked }));
	stats = emit(s, &gt_op_classify_stats_sharded, NULL, 4,
	    (struct gt_value *[]){ lse, picked, before, n->in[1] });
	gt_shard_replace(s, n->out[0], stats);
	gt_shard_remove(s);
	return 0;
}

const struct gt_shard_rule gt_classify_stats_rule = { .rewrite = classify_stats_shard };
