/* regression_loss.c - losses of numbers and labels, and the sums of evaluation. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int infer_numbers(
    const struct gt_value *y, const struct gt_value *target, struct gt_err *err)
{
	if (gt_infer_float(y, "the outputs", -1, err))
		return err->code;
	if (target->dtype != y->dtype || gt_value_elements(target) != gt_value_elements(y))
		return gt_err_set(err, GT_EINVAL, "targets %s %s for outputs %s",
		    gt_dtype_name(target->dtype), gt_shape_text(target).s, gt_shape_text(y).s);
	return 0;
}

static int regression_loss_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *y = n->in[0], *weight = n->in[2];

	if (infer_numbers(y, n->in[1], err) ||
	    gt_infer_vector(n->in[3], "the weight of labels", y->dtype, gt_value_last(y), err))
		return err->code;
	if (weight->dtype != y->dtype || weight->ndim != 0)
		return gt_err_set(
		    err, GT_EINVAL, "the weight is not a scalar of the outputs' type");
	gt_infer_shape(n->out[0], y->dtype, 0, NULL);
	return 0;
}

static void regression_loss_grad(struct gt_graph *g, struct gt_node *n,
    struct gt_value *const *d_out, const bool *wanted, struct gt_value **d_in)
{
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->in[2], n->in[3] };

	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_regression_loss_grad, &n->attrs, 5, in);
}

static void print_kind(const struct gt_node *n, FILE *f)
{
	static const char *const names[] = { [GT_REGRESSION_L1] = "l1",
		[GT_REGRESSION_HUBER] = "huber",
		[GT_REGRESSION_SMOOTH_L1] = "smooth-l1",
		[GT_REGRESSION_BCE] = "bce",
		[GT_REGRESSION_VALUE] = "value" };
	struct gt_regression loss = n->attrs.regression;

	if (loss.kind != GT_REGRESSION_MSE)
		fprintf(f, " %s", names[loss.kind]);
	if (loss.kind == GT_REGRESSION_HUBER || loss.kind == GT_REGRESSION_SMOOTH_L1)
		fprintf(f, " delta=%g", loss.delta);
}

static double regression_loss_flops(const struct gt_node *n)
{
	return 3.0 * (double)gt_value_elements(n->in[0]);
}

/*
 * regression_loss: loss = weight * sum of term(y, target, w) over all targets that are not NaN.
 *   in   y F [..., L];  target F, as many elements as y;  weight F []: 1 / (number of targets in
 *        the whole step that are not NaN);  label_weight F [L], optional: w for each label
 *   out  loss F []
 * attrs.regression chooses term() (lib/base/regression.h). NaN marks a missing target. The sum is
 * computed in float64. w is 1 without label_weight.
 * regression_loss_grad:  in dloss F [], y, target, weight, label_weight (optional)
 *   out  dy = dloss * weight * slope(y, target, w), 0 for missing targets; may overwrite y
 */
const struct gt_op gt_op_regression_loss = {
	.name = "regression_loss",
	.min_inputs = 3,
	.max_inputs = 4,
	.outputs = 1,
	.infer = regression_loss_infer,
	.grad = regression_loss_grad,
	.print = print_kind,
	.flops = regression_loss_flops,
	.autocast = GT_AUTOCAST_HIGH,
	.shard = &gt_shard_whole,
};

static union gt_attrs attrs_of(const struct gt_regression *loss)
{
	union gt_attrs attrs = { 0 };

	attrs.regression.kind = loss->kind;
	attrs.regression.delta = loss->delta;
	return attrs;
}

struct gt_value *gt_regression_loss(struct gt_graph *g, const struct gt_regression *loss,
    struct gt_value *y, struct gt_value *target, struct gt_value *weight,
    struct gt_value *label_weight)
{
	union gt_attrs attrs = attrs_of(loss);

	return gt_emit1(g, &gt_op_regression_loss, &attrs, 4,
	    (struct gt_value *[]){ y, target, weight, label_weight });
}

static int regression_loss_grad_infer(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[1]);
	return 0;
}

static double regression_loss_grad_flops(const struct gt_node *n)
{
	return 2.0 * (double)gt_value_elements(n->out[0]);
}

const struct gt_op gt_op_regression_loss_grad = {
	.name = "regression_loss_grad",
	.min_inputs = 4,
	.max_inputs = 5,
	.outputs = 1,
	.infer = regression_loss_grad_infer,
	.print = print_kind,
	.flops = regression_loss_grad_flops,
	.inplace = 1u << 1,
};

static int regress_stats_infer(struct gt_node *n, struct gt_err *err)
{
	static const int64_t count = GT_REGRESS_STATS;

	if (infer_numbers(n->in[0], n->in[1], err))
		return err->code;
	gt_infer_shape(n->out[0], GT_F64, 1, &count);
	return 0;
}

static double regress_stats_flops(const struct gt_node *n)
{
	return 8.0 * (double)gt_value_elements(n->in[0]);
}

/* regress_stats: sums over all targets that are not NaN.
 *   in   y F [...];  target F, as many elements as y
 *   out  F64 [GT_REGRESS_STATS]: sum of (y - target)^2, number of targets, sum of |y - target|, sum
 *        of target, sum of target^2, sum of term(y, target, 1) as in regression_loss
 *        For BCE: number of right labels, of targets, of labels that y > 0 predicts, of labels that
 *        hold, of those among them that are predicted, sum of term(y, target, 1)
 */
const struct gt_op gt_op_regress_stats = {
	.name = "regress_stats",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = regress_stats_infer,
	.print = print_kind,
	.flops = regress_stats_flops,
	.autocast = GT_AUTOCAST_HIGH,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_regress_stats(struct gt_graph *g, const struct gt_regression *loss,
    struct gt_value *y, struct gt_value *target)
{
	union gt_attrs attrs = attrs_of(loss);

	return gt_emit1(g, &gt_op_regress_stats, &attrs, 2, (struct gt_value *[]){ y, target });
}
