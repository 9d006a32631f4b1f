/* loss.c - cross-entropy, and the counts of evaluation. */
#include "lib/base/mixed_target.h"
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/loss_sharded.h"
#include "lib/graph/ops/ops.h"

static int check_targets(
    const struct gt_value *logits, const struct gt_value *target, int words, struct gt_err *err)
{
	if (gt_infer_float(logits, "the logits", -1, err))
		return err->code;
	if (target->dtype != GT_I32 || gt_value_elements(target) != gt_value_rows(logits) * words)
		return gt_err_set(err, GT_EINVAL, "targets %s %s for logits %s",
		    gt_dtype_name(target->dtype), gt_shape_text(target).s, gt_shape_text(logits).s);
	return 0;
}

int gt_infer_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err)
{
	return check_targets(logits, target, 1, err);
}

bool gt_targets_are_mixed(const struct gt_value *logits, const struct gt_value *target)
{
	return gt_value_elements(target) == gt_value_rows(logits) * GT_MIXED_TARGET_WORDS;
}

int gt_infer_loss_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err)
{
	bool mixed = gt_targets_are_mixed(logits, target);

	return check_targets(logits, target, mixed ? GT_MIXED_TARGET_WORDS : 1, err);
}

int gt_infer_class_weight(const struct gt_node *n, int i, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0];
	int64_t whole = n->attrs.loss.whole;

	return gt_infer_vector(n->in[i], "the class weight", logits->dtype,
	    whole ? whole : gt_value_last(logits), err);
}

void gt_infer_loss(struct gt_node *n, int64_t rows)
{
	gt_infer_shape(n->out[0], n->in[0]->dtype, n->attrs.loss.each, &rows);
}

static int cross_entropy_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *logits = n->in[0], *weight = n->in[2];
	int64_t rows;

	if (gt_infer_loss_targets(logits, n->in[1], err) || gt_infer_class_weight(n, 3, err))
		return err->code;
	if (weight->dtype != logits->dtype || weight->ndim != 0)
		return gt_err_set(err, GT_EINVAL, "the weight is not a scalar of the logits' type");
	rows = gt_value_rows(logits);
	gt_infer_loss(n, rows);
	gt_infer_shape(n->out[1], logits->dtype, 1, &rows);
	return 0;
}

static void cross_entropy_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->out[1], n->in[2], n->in[3] };

	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_cross_entropy_grad, &n->attrs, 6, in);
}

void gt_print_loss(const struct gt_node *n, FILE *f)
{
	gt_infer_print_shard(n->attrs.loss.first, n->attrs.loss.whole, f);
	if (n->attrs.loss.smoothing != 0)
		fprintf(f, " smoothing=%g", n->attrs.loss.smoothing);
	if (n->attrs.loss.each)
		fputs(" each=1", f);
}

static double cross_entropy_flops(const struct gt_node *n)
{
	return 3.0 * (double)gt_value_elements(n->in[0]);
}

/*
 * cross_entropy: the loss is the sum over all rows r with target[r] >= 0 of
 *   weight * (lse[r] - logits[r, target[r]])
 *   in   logits F [..., V];  target I32 [...];  weight F []: 1 / (number of targets >= 0 in the
 *        whole step), so that the loss of the step is the sum over its micro-batches and ranks;
 *        class_weight F [V], optional: factors of the classes, whose mean is 1. `weight` is then
 *        1 / (sum of the factors of these targets).
 *   out  loss F [];  lse F [rows]: log-sum-exp of each row of logits
 *        With attrs.loss.each, loss is F [rows]: the summands. It is 0 for a row that is ignored.
 * Rows with a negative target (torch's ignore_index -100) are ignored. A target >= V is an error;
 * the error's text contains the target. The sum is computed in float64.
 * Mixtures: each row is a mixture of two samples (mixup), and target is
 * I32 [rows, GT_MIXED_TARGET_WORDS] (lib/base/mixed_target.h): for each row two classes a and b,
 * and a weight w. The summand of row r in the loss is
 *   weight * (w * (lse[r] - logits[r, a]) + (1 - w) * (lse[r] - logits[r, b]))
 * If a or b is negative, the part with this class is left out.
 * Class weights and smoothing: let s be attrs.loss.smoothing, v the class_weight, and w_k the
 * weights of the classes c_k >= 0 of row r: 1 for a target, w and 1 - w for a mixture. The summand
 * is
 *   weight * ((1 - s) * sum over k of w_k * v[c_k] * (lse[r] - logits[r, c_k]) +
 *             s * sum over k of w_k * (lse[r] - mean over all classes c of v[c] * logits[r, c]))
 * cross_entropy_grad:  in dloss F [], or F [rows] with attrs.loss.each, logits, target, lse,
 *        weight, class_weight (optional)
 *   out  dlogits, may overwrite logits
 *   dlogits = dloss * weight * (exp(logits - lse) - onehot(target)), 0 for rows that are ignored
 *   Mixtures: dlogits = dloss * weight * (w * (exp(logits - lse) - onehot(a)) +
 *        (1 - w) * (exp(logits - lse) - onehot(b))), without the part of a negative class
 *   Class weights and smoothing: dlogits is dloss times the derivative of the summand above.
 *   If attrs.loss.whole > 0, `logits` is a shard: it has the classes from attrs.loss.first on.
 *   attrs.loss.whole is then the number of all classes.
 */
const struct gt_op gt_op_cross_entropy = {
	.name = "cross_entropy",
	.min_inputs = 3,
	.max_inputs = 4,
	.outputs = 2,
	.infer = cross_entropy_infer,
	.grad = cross_entropy_grad,
	.print = gt_print_loss,
	.flops = cross_entropy_flops,
	.shard = &gt_cross_entropy_rule,
	.autocast = GT_AUTOCAST_HIGH,
};

struct gt_value *gt_cross_entropy(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target, struct gt_value *weight)
{
	return gt_cross_entropy_smoothed(g, logits, target, weight, NULL, 0);
}

struct gt_value *gt_cross_entropy_smoothed(struct gt_graph *g, struct gt_value *logits,
    struct gt_value *target, struct gt_value *weight, struct gt_value *class_weight,
    double smoothing)
{
	union gt_attrs attrs = { 0 };

	attrs.loss.smoothing = smoothing;
	return gt_emit1(g, &gt_op_cross_entropy, &attrs, 4,
	    (struct gt_value *[]){ logits, target, weight, class_weight });
}

struct gt_value *gt_cross_entropy_each(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target)
{
	struct gt_value *one = gt_fill(g, logits ? logits->dtype : GT_F32, 0, NULL, 1);
	union gt_attrs attrs = { 0 };

	attrs.loss.each = true;
	return gt_emit1(
	    g, &gt_op_cross_entropy, &attrs, 3, (struct gt_value *[]){ logits, target, one });
}

static int cross_entropy_grad_infer(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[1]);
	return 0;
}

static double cross_entropy_grad_flops(const struct gt_node *n)
{
	return 3.0 * (double)gt_value_elements(n->out[0]);
}

const struct gt_op gt_op_cross_entropy_grad = {
	.name = "cross_entropy_grad",
	.min_inputs = 5,
	.max_inputs = 6,
	.outputs = 1,
	.infer = cross_entropy_grad_infer,
	.print = gt_print_loss,
	.flops = cross_entropy_grad_flops,
	.inplace = 1u << 1,
};

static int classify_stats_infer(struct gt_node *n, struct gt_err *err)
{
	static const int64_t four = 4;

	if (gt_infer_targets(n->in[0], n->in[1], err))
		return err->code;
	gt_infer_shape(n->out[0], GT_F64, 1, &four);
	return 0;
}

static double classify_stats_flops(const struct gt_node *n)
{
	return 4.0 * (double)gt_value_elements(n->in[0]);
}

/* classify_stats: sums over rows with target >= 0.
 *   in   logits F [..., V];  target I32 [...]
 *   out  F64 [4]: cross-entropy, number of rows, top-1 hits, top-5 hits
 * A logit is ahead of the target's logit if it is greater, or if it is equal and has a lower index.
 * A row is a top-k hit if fewer than k logits are ahead of the target's logit. A row with a NaN is
 * never a hit. */
const struct gt_op gt_op_classify_stats = {
	.name = "classify_stats",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = classify_stats_infer,
	.flops = classify_stats_flops,
	.shard = &gt_classify_stats_rule,
	.autocast = GT_AUTOCAST_HIGH,
};

struct gt_value *gt_classify_stats(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target)
{
	return gt_emit1(g, &gt_op_classify_stats, NULL, 2, (struct gt_value *[]){ logits, target });
}
