/* exp_logits.cuh - the softmax of a head, made by the product of its logits. */
#ifndef GT_KERNELS_CUDA_EXP_LOGITS_CUH
#define GT_KERNELS_CUDA_EXP_LOGITS_CUH

#include "kernels/cuda/loss.cuh"

/*
 * A chunk of a head in bfloat16, x [rows, width] and w [classes, width], with targets t. Its
 * gradient by the logits z = x w^T is scale (p - 1 at the target), where p = exp(z) / sum(exp(z)).
 * A library's product can only write z; then a softmax has to read all of it and write p. Here the
 * product itself writes e = exp(z - shift), where shift is each row's logit at its target, known
 * before; and the factor of a row, scale / sum, which is known after, goes to the smaller matrices:
 *
 *   d = e, but minus the sum of the others at the target      so factor d = scale (p - 1 at t)
 *   xs = factor x         dw = d^T xs         dx = factor (d w)
 *
 * So the logits' matrix is written once, and read by the two products for dw and dx. bfloat16 has
 * the exponents of float32: it holds e whether numbers are large or small. If the largest logit of
 * a row is so far above the one at the target that its sum passes 1e20, which is a loss of 46, a
 * kernel computes the row again with the largest as its shift. It reads all of w for one row, so
 * a step with many such rows is slow.
 *
 * On GPUs whose L2 cache does not hold a chunk of x, the product reads x from memory again for some
 * of the columns; the figures of a plan count it once.
 *
 * Example, one row, three classes, target 0, scale 1, logits 0, 1, 2:
 *   shift 0   e = 1, 2.72, 7.39   sum of the others 10.11   loss = log(11.11) = 2.41
 *   d = -10.11, 2.72, 7.39        factor 1 / 11.11          factor d = -0.91, 0.24, 0.67
 *
 * A row whose target is ignored has e = 0 and factor 0; one with a target that is no class, NaN.
 */
struct gt_exp_logits {
	int64_t rows, width, classes;
	int64_t stride;              /* elements from row to row of e, in whole packs of 16 bytes */
	const gt_bf16 *x, *w;        /* rows aligned to 16 bytes */
	gt_targets target;           /* of all rows of the head, of which this chunk has those */
	int64_t first;               /* from here on */
	const float *weight, *dloss; /* scale is their product */
	gt_bf16 *e;
	gt_bf16 *xs;    /* [rows, width] */
	double *of_row; /* of all rows: their terms of the loss */
	float *memory;  /* gt_exp_logits_floats() */
};

/* Numbers for the kernels' own use. */
int64_t gt_exp_logits_floats(int64_t rows, int64_t classes);

/* Whether the kernels can do it: they read rows 16 bytes at a time. */
bool gt_exp_logits_fit(int64_t width, int64_t classes);

/* Kernels that the two functions below queue. */
enum { GT_EXP_LOGITS_LAUNCHES = 4 };

/* Queue the kernels that write e as d, xs and of_row. */
int gt_exp_logits_queue(struct gt_stream *stream, const gt_exp_logits &a, struct gt_err *err);

/* Then, of the product d w in dx: multiply each row by its factor. */
int gt_exp_logits_scale(
    struct gt_stream *stream, const gt_exp_logits &a, gt_bf16 *dx, struct gt_err *err);

/* Bytes that these kernels read, and write, besides the product's x, w and e. */
double gt_exp_logits_bytes_read(int64_t rows, int64_t width, int64_t classes);
double gt_exp_logits_bytes_written(int64_t rows, int64_t width, int64_t classes);

#endif
