/* exp_logits.cuh - a product that writes exponentials of logits, so softmax needs no extra pass. */
#ifndef GT_KERNELS_CUDA_LOSS_EXP_LOGITS_CUH
#define GT_KERNELS_CUDA_LOSS_EXP_LOGITS_CUH

#include "kernels/cuda/loss/loss.cuh"

/*
 * The head of a model is the product that computes logits z = x * w^T, followed by softmax and
 * cross-entropy. The rows of the head are processed in chunks. The functions below process one
 * chunk in bfloat16: x [rows, width], w [classes, width] and one target per row.
 *
 * Let p = exp(z) / sum(exp(z)) be the softmax of a row. The gradient of the loss with respect to z
 * is scale * p, and scale * (p - 1) at the target; `scale` is an input. If a library computed the
 * product, a separate kernel for softmax would have to read all of z and write p. In this file, the
 * product itself writes e = exp(z - shift):
 *
 *   shift    of a row: its logit at its target, which is computed before the product
 *   sum      of a row: the sum of its elements of e
 *   factor   of a row: scale / sum
 *
 * The factor is known only after the product. So the large matrix e is not multiplied by it, but
 * smaller matrices are:
 *
 *   d = e, except at the target: there d = -(sum of the row's other elements of e)
 *   xs = factor * x         dw = d^T * xs       dx = factor * (d * w)
 *
 * Then factor * d is the gradient with respect to z. The large matrix d [rows, classes] is written
 * once and read twice, by the products for dw and dx.
 *
 * bfloat16 has the exponents of float32, so it can hold large and small values of e. If a logit of
 * a row is far above the logit at the target, the sum of the row can exceed 1e20 (a loss of 46). If
 * it does, another kernel computes the row again, with the largest logit as its shift. For each
 * such row this kernel reads all of w, so a step with many such rows is slow.
 *
 * If the L2 cache of the GPU is smaller than x, the product reads parts of x from memory several
 * times. The number of bytes that `gtrain train --dry-run --verbose` prints is then too small,
 * because it counts x as read once.
 *
 * Example with one row, three classes, target 0, scale 1 and logits 0, 1, 2:
 *   shift 0   e = 1, 2.72, 7.39   2.72 + 7.39 = 10.11    loss = log(11.11) = 2.41
 *   d = -10.11, 2.72, 7.39        factor 1 / 11.11       factor * d = -0.91, 0.24, 0.67
 *
 * If the target of a row is ignored (negative), e and factor of the row are 0. If the target is not
 * a class (too large), they are NaN.
 */
struct gt_exp_logits {
	int64_t rows, width, classes;
	int64_t stride;              /* elements from one row of e to the next; a multiple of 8 */
	const gt_bf16 *x, *w;        /* rows aligned to 16 bytes */
	gt_targets target;           /* targets of all rows of the head, not only of this chunk */
	int64_t first;               /* index, in the head, of the first row of this chunk */
	const float *weight, *dloss; /* both in device memory; their product is `scale` */
	gt_bf16 *e;                  /* output [rows, stride]: e, later replaced by d */
	gt_bf16 *xs;                 /* output [rows, width] */
	double *of_row;              /* output: the loss of each row, indexed by rows of the head */
	float *workspace;            /* [gt_exp_logits_floats()] */
};

extern "C" {

/* Return the number of floats in gt_exp_logits.workspace. The kernels store intermediate results
 * there. */
int64_t gt_exp_logits_floats(int64_t rows, int64_t classes);

/* Return whether the kernels support these sizes. The size of a row of x and w must be a multiple
 * of 16 bytes, because the kernels read 16 bytes at a time. The number of classes is limited, too.
 */
bool gt_exp_logits_fit(int64_t width, int64_t classes);

/* Number of kernels that gt_exp_logits_queue() and gt_exp_logits_scale() queue together. */
enum { GT_EXP_LOGITS_KERNELS = 4 };

/* Queue the kernels that compute d (in `e`), xs and of_row. Errors: GT_EDEVICE. */
int gt_exp_logits_queue(struct gt_stream *stream, const gt_exp_logits &a, struct gt_err *err);

/* Queue a kernel that multiplies each row of dx [rows, width] by its factor. Call this after the
 * product dx = d * w is queued. Errors: GT_EDEVICE. */
int gt_exp_logits_scale(
    struct gt_stream *stream, const gt_exp_logits &a, gt_bf16 *dx, struct gt_err *err);

/* Return the number of bytes that the kernels of this header read, and the number that they write.
 * The bytes of x, w and e in the product itself are not counted. */
double gt_exp_logits_bytes_read(int64_t rows, int64_t width, int64_t classes);
double gt_exp_logits_bytes_written(int64_t rows, int64_t width, int64_t classes);
}

#endif
