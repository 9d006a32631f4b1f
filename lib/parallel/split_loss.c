/* split_loss.c - cross-entropy and its statistics over classes that ranks share. */
#include "lib/parallel/split_loss.h"

#include <math.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/parallel/modes.h"

enum { STATS = 4 }; /* as classify_stats has them */

/* ---- ops ---- */

static void print_part(const struct gt_node *n, FILE *f)
{
	gt_infer_print_shard(n->attrs.loss.first, n->attrs.loss.whole, f);
	fprintf(f, " axis=%s", gt_axis_name((enum gt_axis)n->attrs.loss.axis));
}

static int lse_infer(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static const struct gt_op op_lse_over = {
	.name = "lse_over",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = lse_infer,
	.print = print_part,
	.constant = true,
};

static int cross_entropy_infer(struct gt_node *n, struct gt_err *err)
{
	gt_infer_shape(n->out[0], n->in[0]->dtype, 0, NULL);
	return gt_infer_vector(n->in[2], "lse", n->in[0]->dtype, gt_value_rows(n->in[0]), err);
}

static void cross_entropy_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	union gt_attrs attrs = { 0 };
	struct gt_value *in[] = { d_out[0], n->in[0], n->in[1], n->in[2], n->in[3] };

	attrs.loss.first = n->attrs.loss.first;
	attrs.loss.whole = n->attrs.loss.whole;
	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_cross_entropy_grad, &attrs, 5, in);
}

static const struct gt_op op_cross_entropy_over = {
	.name = "cross_entropy_over",
	.min_inputs = 4,
	.max_inputs = 4,
	.outputs = 1,
	.infer = cross_entropy_infer,
	.grad = cross_entropy_grad,
	.print = print_part,
};

static int stats_infer(struct gt_node *n, struct gt_err *err)
{
	static const int64_t count = STATS;

	gt_infer_shape(n->out[0], GT_F64, 1, &count);
	return gt_infer_vector(n->in[2], "lse", n->in[0]->dtype, gt_value_rows(n->in[0]), err);
}

static double stats_flops(const struct gt_node *n)
{
	return 2.0 * (double)gt_value_elements(n->in[0]);
}

static const struct gt_op op_classify_stats_over = {
	.name = "classify_stats_over",
	.min_inputs = 3,
	.max_inputs = 3,
	.outputs = 1,
	.infer = stats_infer,
	.flops = stats_flops,
	.print = print_part,
};

static union gt_attrs part_of(int64_t first, int64_t whole, enum gt_axis axis)
{
	union gt_attrs attrs = { 0 };

	attrs.loss.first = first;
	attrs.loss.whole = whole;
	attrs.loss.axis = (int)axis;
	return attrs;
}

struct gt_value *gt_lse_over(struct gt_graph *g, struct gt_value *lse, enum gt_axis axis)
{
	union gt_attrs attrs = part_of(0, 0, axis);

	return gt_emit1(g, &op_lse_over, &attrs, 1, &lse);
}

struct gt_value *gt_cross_entropy_over(struct gt_graph *g, struct gt_value *logits,
    struct gt_value *target, struct gt_value *lse, struct gt_value *weight, int64_t first,
    int64_t whole, enum gt_axis axis)
{
	union gt_attrs attrs = part_of(first, whole, axis);

	return gt_emit1(g, &op_cross_entropy_over, &attrs, 4,
	    (struct gt_value *[]){ logits, target, lse, weight });
}

struct gt_value *gt_classify_stats_over(struct gt_graph *g, struct gt_value *logits,
    struct gt_value *target, struct gt_value *lse, int64_t first, int64_t whole, enum gt_axis axis)
{
	union gt_attrs attrs = part_of(first, whole, axis);

	return gt_emit1(
	    g, &op_classify_stats_over, &attrs, 3, (struct gt_value *[]){ logits, target, lse });
}

/* ---- kernels ---- */

static int reduce(const struct gt_call *call, void *rows, int64_t count, enum gt_dtype dtype,
    enum gt_reduction reduction, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;

	return gt_all_reduce(p->axes[call->attrs.loss.axis], rows, count, dtype, reduction, err);
}

static int prepare_rows(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]);

	(void)err;
	if (call->in[0].ndim == 1) /* of lse_over: the rows themselves */
		rows = gt_tensor_elements(&call->in[0]);
	call->workspace_bytes = (size_t)rows * (sizeof(double) + sizeof(float));
	return 0;
}

static int run_lse(struct gt_call *call, struct gt_err *err)
{
	const float *part = call->in[0].data;
	float *lse = call->out[0].data;
	double *sum = call->workspace;
	int64_t rows = gt_tensor_elements(&call->in[0]);
	int rc;

	memcpy(lse, part, (size_t)rows * sizeof(*lse));
	rc = reduce(call, lse, rows, GT_F32, GT_MAX, err);
	if (rc)
		return rc;
	for (int64_t r = 0; r < rows; r++)
		sum[r] = exp((double)part[r] - (double)lse[r]);
	rc = reduce(call, sum, rows, GT_F64, GT_SUM, err);
	for (int64_t r = 0; !rc && r < rows; r++)
		lse[r] = (float)((double)lse[r] + log(sum[r]));
	return rc;
}

/* The targets' logits on all ranks: each is one rank's, and zero on the others. */
static int pick(struct gt_call *call, float *picked, struct gt_err *err)
{
	const float *logits = call->in[0].data;
	const int32_t *target = call->in[1].data;
	int64_t rows = gt_tensor_rows(&call->in[0]), n = gt_tensor_last(&call->in[0]);
	int64_t first = call->attrs.loss.first;

	for (int64_t r = 0; r < rows; r++) {
		int64_t t = target[r] - first;

		picked[r] = target[r] >= 0 && t >= 0 && t < n ? logits[r * n + t] : 0;
	}
	return reduce(call, picked, rows, GT_F32, GT_SUM, err);
}

static int run_cross_entropy(struct gt_call *call, struct gt_err *err)
{
	const int32_t *target = call->in[1].data;
	const float *lse = call->in[2].data, *weight = call->in[3].data;
	int64_t rows = gt_tensor_rows(&call->in[0]);
	float *picked = call->workspace, *loss = call->out[0].data;
	double sum = 0;
	int rc = pick(call, picked, err);

	if (rc)
		return rc;
	for (int64_t r = 0; r < rows; r++)
		sum += target[r] < 0 ? 0 : (double)lse[r] - (double)picked[r];
	*loss = (float)((double)*weight * sum);
	return 0;
}

/* How many of x[n] come before element t of the whole, of value v, where x begins at 0; infinitely
 * many with a NaN. */
static double count_before(const float *x, int64_t n, int64_t t, float v)
{
	int64_t ties = t < 0 ? 0 : t < n ? t : n, before = 0;
	int nan = 0;

	for (int64_t i = 0; i < ties; i++) {
		before += x[i] >= v;
		nan |= x[i] != x[i];
	}
	for (int64_t i = ties; i < n; i++) {
		before += x[i] > v;
		nan |= x[i] != x[i];
	}
	return nan ? INFINITY : (double)before;
}

static int run_stats(struct gt_call *call, struct gt_err *err)
{
	const float *logits = call->in[0].data, *lse = call->in[2].data;
	const int32_t *target = call->in[1].data;
	int64_t rows = gt_tensor_rows(&call->in[0]), n = gt_tensor_last(&call->in[0]);
	double *before = call->workspace, *out = call->out[0].data;
	float *picked = (float *)(before + rows);
	int rc = pick(call, picked, err);

	if (rc)
		return rc;
	for (int64_t r = 0; r < rows; r++)
		before[r] = target[r] < 0 ? 0
		                          : count_before(logits + r * n, n,
		                                target[r] - call->attrs.loss.first, picked[r]);
	rc = reduce(call, before, rows, GT_F64, GT_SUM, err);
	memset(out, 0, STATS * sizeof(*out));
	for (int64_t r = 0; !rc && r < rows; r++) {
		if (target[r] < 0)
			continue;
		out[0] += (double)lse[r] - (double)picked[r];
		out[1] += 1;
		out[2] += before[r] < 1;
		out[3] += before[r] < 5;
	}
	return rc;
}

const struct gt_kernel gt_split_loss_kernels[] = {
	{ .op = "lse_over", .dtype = GT_F32, .prepare = prepare_rows, .run = run_lse },
	{ .op = "cross_entropy_over",
	    .dtype = GT_F32,
	    .prepare = prepare_rows,
	    .run = run_cross_entropy },
	{ .op = "classify_stats_over", .dtype = GT_F32, .prepare = prepare_rows, .run = run_stats },
	{ .op = NULL },
};
