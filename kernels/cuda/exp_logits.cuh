/* exp_logits.cuh - the softmax of a head, computed by the product that computes its logits. */
#ifndef GT_KERNELS_CUDA_EXP_LOGITS_CUH
#define GT_KERNELS_CUDA_EXP_LOGITS_CUH

#include "kernels/cuda/loss.cuh"

/*
 * A chunk of a head in bfloat16, x [rows, width] and w [classes, width], with targets t. Its
 * gradient by the logits z = x w^T is scale (p - 1 at the target), where p = exp(z) / sum(exp(z)).
 * The product of a library can only write z; a softmax then has to read all of z and write p. Here
 * the product itself writes e = exp(z - shift). The shift of a row is the row's logit at its
 * target, which is computed before the product. The factor of a row is scale / sum, where sum is
 * the row's sum of e. It is known only after the product, so the smaller matrices are multiplied by
 * it:
 *
 *   d = e, but at the target -(sum of the row's other e)      so factor d = scale (p - 1 at t)
 *   xs = factor x         dw = d^T xs         dx = factor (d w)
 *
 * So the matrix of [rows, classes] is written once, and read by the two products for dw and dx.
 * bfloat16 has the exponents of float32, so it can hold large and small values of e. If the largest
 * logit of a row is far above the logit at the target, the row's sum can exceed 1e20 (a loss of
 * 46). A kernel then computes this row again, with the largest logit as its shift. The kernel reads
 * all of w for one row, so a step with many such rows is slow.
 *
 * If the L2 cache of the GPU is smaller than a chunk of x, the product reads parts of x from memory
 * several times. The bytes that a plan reports count x once.
 *
 * Example, one row, three classes, target 0, scale 1, logits 0, 1, 2:
 *   shift 0   e = 1, 2.72, 7.39   sum of the others 10.11   loss = log(11.11) = 2.41
 *   d = -10.11, 2.72, 7.39        factor 1 / 11.11          factor d = -0.91, 0.24, 0.67
 *
 * If the target of a row is ignored, its e and its factor are 0. If the target is not a class, they
 * are NaN.
 */
struct gt_exp_logits {
	int64_t rows, width, classes;
	int64_t stride;       /* elements from one row of e to the next; a multiple of 16 bytes */
	const gt_bf16 *x, *w; /* rows aligned to 16 bytes */
	gt_targets target;    /* targets of all rows of the head */
	int64_t first;        /* first row of this chunk in the head */
	const float *weight, *dloss; /* scale is their product */
	gt_bf16 *e;
	gt_bf16 *xs;    /* [rows, width] */
	double *of_row; /* terms of the loss, for all rows of the head */
	float *memory;  /* gt_exp_logits_floats() */
};

extern "C" {

/* The number of floats of `memory`, which the kernels use for intermediate results. */
int64_t gt_exp_logits_floats(int64_t rows, int64_t classes);

/* Whether the kernels support these sizes: they read rows in packs of 16 bytes. */
bool gt_exp_logits_fit(int64_t width, int64_t classes);

/* The number of kernels that the two functions below queue. */
enum { GT_EXP_LOGITS_LAUNCHES = 4 };

/* Queue the kernels that write e as d, xs and of_row. */
int gt_exp_logits_queue(struct gt_stream *stream, const gt_exp_logits &a, struct gt_err *err);

/* Call this when dx holds the product d w: it multiplies each row of dx by its factor. */
int gt_exp_logits_scale(
    struct gt_stream *stream, const gt_exp_logits &a, gt_bf16 *dx, struct gt_err *err);

/* Bytes that these kernels read, and bytes that they write, in addition to x, w and e of the
 * product. */
double gt_exp_logits_bytes_read(int64_t rows, int64_t width, int64_t classes);
double gt_exp_logits_bytes_written(int64_t rows, int64_t width, int64_t classes);
}

#endif
