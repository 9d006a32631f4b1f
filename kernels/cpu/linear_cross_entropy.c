/* linear_cross_entropy.c - a head and its loss: products, softmax and gradients by chunks. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl_api.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/parallel.h"

/*
 * All chunks of rows use one buffer: first for logits, then for their gradients, made while the row
 * is still in the cache. Sums over all rows are those of loss.c in the same order. So the loss does
 * not depend on the chunks, except that a product of fewer rows may differ in its last bits.
 */
struct head {
	int64_t rows, width, classes, chunk;
	bool loss, trains; /* there is a loss, or else statistics; with gradients */
	/* bytes of a chunk of logits [chunk, classes], which `of_row` follows in memory */
	size_t logits_bytes;
	void *logits;
	double *of_row; /* [rows], or [rows, GT_STATS] where there is no loss */
};

static struct head head_of(const struct gt_call *call)
{
	const struct gt_tensor *x = &call->in[0], *w = &call->in[1];
	struct head h = { .rows = gt_tensor_rows(x),
		.width = gt_tensor_last(x),
		.classes = gt_tensor_rows(w),
		.loss = gt_optional_input(call, 3),
		.trains = gt_optional_input(call, 4) };

	h.chunk = gt_min(h.rows, call->attrs.head.rows);
	h.logits_bytes = (size_t)(h.chunk * h.classes) * gt_dtype_size(x->dtype);
	h.logits_bytes = (h.logits_bytes + 63) / 64 * 64;
	if (call->workspace) {
		h.logits = call->workspace;
		h.of_row = (double *)((char *)h.logits + h.logits_bytes);
	}
	return h;
}

/* Multiply for a chunk: make its logits, or its part of the gradients by x and w. */
static int make_logits(
    struct gt_call *call, const struct head *h, int64_t from, int64_t rows, struct gt_err *err)
{
	enum gt_dtype f = call->in[0].dtype;
	const struct gt_cpu_product p = { f, false, true, false, rows, h->classes, h->width, 0, 0 };
	size_t at = (size_t)(from * h->width) * gt_dtype_size(f);

	return gt_cpu_multiply(
	    &p, h->logits, (char *)call->in[0].data + at, call->in[1].data, call, err);
}

static int add_gradients(
    struct gt_call *call, const struct head *h, int64_t from, int64_t rows, struct gt_err *err)
{
	enum gt_dtype f = call->in[0].dtype;
	const struct gt_cpu_product by_x = { f, false, false, false, rows, h->width, h->classes, 0,
		0 };
	const struct gt_cpu_product by_w = { f, true, false, from > 0, h->classes, h->width, rows,
		0, 0 };
	size_t at = (size_t)(from * h->width) * gt_dtype_size(f);

	if (gt_cpu_multiply(
	        &by_x, (char *)call->out[2].data + at, h->logits, call->in[1].data, call, err))
		return err->code;
	return gt_cpu_multiply(
	    &by_w, call->out[3].data, h->logits, (char *)call->in[0].data + at, call, err);
}

#define REAL_BITS 32
#include "kernels/cpu/linear_cross_entropy.inc"
#define REAL_BITS 64
#include "kernels/cpu/linear_cross_entropy.inc"

static int prepare_head_workspace(struct gt_call *call, struct gt_err *err)
{
	struct head h = head_of(call);

	call->workspace_bytes =
	    h.logits_bytes + (size_t)(h.rows * (h.loss ? 1 : GT_STATS)) * sizeof(double);
	return call->in[0].dtype == GT_F32 ? gt_dnnl_api_load(err) : 0;
}

const struct gt_kernel GT_ISA(gt_cpu_linear_cross_entropy_kernels)[] = {
	GT_ROWS(linear_cross_entropy, .prepare = prepare_head_workspace),
	{ .op = NULL },
};
