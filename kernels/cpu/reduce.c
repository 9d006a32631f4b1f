/* reduce.c - bias_grad: sums over everything but the channel. */
#define REAL_BITS 32
#include "kernels/cpu/reduce.inc"
#define REAL_BITS 64
#include "kernels/cpu/reduce.inc"

static int bias_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	struct gt_chunking s = gt_chunking_of_channels(&call->in[0]);

	(void)err;
	call->workspace_bytes = (size_t)(s.chunks * s.wide) * gt_dtype_size(call->in[0].dtype);
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_reduce_kernels)[] = {
	GT_ROWS(bias_grad, .accepts = gt_accept_channels_last, .prepare = bias_grad_prepare),
	{ .op = NULL },
};
