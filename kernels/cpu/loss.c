/* loss.c - cross_entropy, its gradient, classify_stats, and these on shards of the classes. */
#include "kernels/cpu/loss.h"
#include "kernels/cpu/parallel.h"

/* Classes that the `n` of these logits are a shard of. */
static int64_t whole_of(const struct gt_call *call, int64_t n)
{
	return call->attrs.loss.whole ? call->attrs.loss.whole : n;
}

#define REAL_BITS 32
#include "kernels/cpu/loss.inc"
#define REAL_BITS 64
#include "kernels/cpu/loss.inc"

static int cross_entropy_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	call->workspace_bytes = (size_t)gt_tensor_rows(&call->in[0]) * sizeof(double);
	return 0;
}

static int classify_stats_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	call->workspace_bytes = (size_t)gt_tensor_rows(&call->in[0]) * GT_STATS * sizeof(double);
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_loss_kernels)[] = {
	GT_ROWS(cross_entropy, .prepare = cross_entropy_prepare),
	GT_ROWS(cross_entropy_grad),
	GT_ROWS(classify_stats, .prepare = classify_stats_prepare),
	GT_ROWS(log_sum_exp),
	GT_ROWS(exp_difference),
	GT_ROWS(add_log),
	GT_ROWS(pick),
	GT_ROWS(count_before),
	GT_ROWS(cross_entropy_sharded),
	GT_ROWS(classify_stats_sharded),
	{ .op = NULL },
};
