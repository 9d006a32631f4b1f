/* norm.c - layer_norm, by itself and behind a sum, rms_norm, and the gradients. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/kept.h"
#include "kernels/cpu/parallel.h"

enum { NORM_TILE = 256 };

#define REAL_BITS 32
#include "kernels/cpu/norm.inc"
#define REAL_BITS 64
#include "kernels/cpu/norm.inc"

/* One slot per chunk of rows: a row of dweight, a row of dbias. */
static int layer_norm_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	int64_t chunks = gt_ceil_div(gt_tensor_rows(&call->in[1]), GT_CHUNK_ROWS);

	(void)err;
	call->workspace_bytes =
	    (size_t)(2 * chunks * gt_tensor_last(&call->in[1])) * gt_dtype_size(call->in[1].dtype);
	return 0;
}

/* One slot per chunk of rows: a row of dweight. */
static int rms_norm_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	int64_t chunks = gt_ceil_div(gt_tensor_rows(&call->in[1]), GT_CHUNK_ROWS);

	(void)err;
	call->workspace_bytes =
	    (size_t)(chunks * gt_tensor_last(&call->in[1])) * gt_dtype_size(call->in[1].dtype);
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_norm_kernels)[] = {
	GT_ROWS(layer_norm, .accepts = gt_cpu_accepts_one_type),
	GT_ROWS(layer_norm_grad, .prepare = layer_norm_grad_prepare),
	GT_ROWS(rms_norm),
	GT_ROWS(rms_norm_grad, .prepare = rms_norm_grad_prepare),
	GT_ROWS(add_layer_norm),
	GT_ROWS(add_layer_norm_grad, .prepare = layer_norm_grad_prepare),
	{ .op = NULL },
};
