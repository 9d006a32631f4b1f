/* batch_norm.c - batch_norm, its gradient, its evaluation and its folding into a convolution. */
#include "kernels/cpu/kept.h"

#define REAL_BITS 32
#include "kernels/cpu/batch_norm.inc"
#define REAL_BITS 64
#include "kernels/cpu/batch_norm.inc"

/* Four wide rows of means and coefficients, then per chunk two wide rows of sums. */
static void want_workspace(struct gt_call *call, const struct gt_tensor *x, bool sums)
{
	struct gt_chunking s = gt_chunking_of_channels(x);

	call->workspace_bytes =
	    (size_t)((4 + (sums ? 2 * s.chunks : 0)) * s.wide) * gt_dtype_size(x->dtype);
}

static int batch_norm_prepare(struct gt_call *call, struct gt_err *err)
{
	if (gt_chunking_of_channels(&call->in[0]).rows < 2) {
		gt_err_set(err, GT_EINVAL, "1 value per channel has no variance");
		return gt_err_hint(err, "use a larger batch or larger images");
	}
	want_workspace(call, &call->in[0], true);
	return 0;
}

static int batch_norm_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	want_workspace(call, &call->in[1], true);
	return 0;
}

static int batch_norm_eval_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	want_workspace(call, &call->in[0], false);
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_batch_norm_kernels)[] = {
	GT_ROWS(batch_norm, .accepts = gt_accept_channels_last, .prepare = batch_norm_prepare),
	GT_ROWS(batch_norm_grad, .accepts = gt_accept_channels_last,
	    .prepare = batch_norm_grad_prepare),
	GT_ROWS(batch_norm_eval, .accepts = gt_accept_channels_last,
	    .prepare = batch_norm_eval_prepare),
	GT_ROWS(batch_norm_fold),
	{ .op = NULL },
};
