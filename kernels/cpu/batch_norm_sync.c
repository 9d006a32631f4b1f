/* batch_norm_sync.c - batch_norm and its gradient cut where ranks exchange sums. */
#include "kernels/cpu/kept.h"

#define REAL_BITS 32
#include "kernels/cpu/batch_norm_sync.inc"
#define REAL_BITS 64
#include "kernels/cpu/batch_norm_sync.inc"

/* `rows` wide rows of means and coefficients, and per chunk two of sums. */
static void want_wide_rows(struct gt_call *call, const struct gt_tensor *x, int64_t rows, bool sums)
{
	struct gt_chunking s = gt_chunking_of_channels(x);

	call->workspace_bytes =
	    (size_t)((rows + (sums ? 2 * s.chunks : 0)) * s.wide) * gt_dtype_size(x->dtype);
}

static int moments_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	want_wide_rows(call, &call->in[0], 0, true);
	return 0;
}

static int apply_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	want_wide_rows(call, &call->in[0], 3, false);
	return 0;
}

static int grad_sums_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	want_wide_rows(call, &call->in[1], 1, true);
	return 0;
}

static int grad_apply_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	want_wide_rows(call, &call->in[1], 4, false);
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_batch_norm_sync_kernels)[] = {
	GT_ROWS(batch_norm_moments, .accepts = gt_accept_channels_last, .prepare = moments_prepare),
	GT_ROWS(batch_norm_combine),
	GT_ROWS(batch_norm_apply, .accepts = gt_accept_channels_last, .prepare = apply_prepare),
	GT_ROWS(
	    batch_norm_grad_sums, .accepts = gt_accept_channels_last, .prepare = grad_sums_prepare),
	GT_ROWS(batch_norm_grad_apply, .accepts = gt_accept_channels_last,
	    .prepare = grad_apply_prepare),
	{ .op = NULL },
};
