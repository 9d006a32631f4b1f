/* exp_logits.cuh - a product that writes exponentials of logits, so softmax needs no extra pass. */
#ifndef GT_KERNELS_CUDA_LOSS_EXP_LOGITS_CUH
#define GT_KERNELS_CUDA_LOSS_EXP_LOGITS_CUH

#include "kernels/cuda/loss/loss.cuh"

/* A chunk of rows of a model's head, in bfloat16: softmax and cross-entropy of z = x * w^T. The
 * product writes e = exp(z - shift), which becomes d; then dw = d^T * xs, and dx is d * w, scaled
 * by gt_exp_logits_scale(). exp_logits.cu has the formulas and an example. */
struct gt_exp_logits {
	int64_t rows, width, classes;
	int64_t stride;              /* elements between rows of e; a multiple of 8 */
	const gt_bf16 *x, *w;        /* rows are aligned to 16 bytes */
	gt_targets target;           /* targets of the head's rows */
	int64_t first;               /* the chunk's first row in the head */
	const float *weight, *dloss; /* device memory; their product scales the gradient */
	gt_bf16 *e;                  /* [rows, stride]; output: e, later d */
	gt_bf16 *xs;                 /* [rows, width]; output */
	double *of_row;              /* output: losses of the head's rows */
	float *workspace;            /* [gt_exp_logits_floats()] */
};

extern "C" {

/* Return the number of floats of the workspace. */
int64_t gt_exp_logits_floats(int64_t rows, int64_t classes);

/* Return whether the kernels support these sizes: rows of x and w have whole 16 bytes, and classes
 * are limited. */
bool gt_exp_logits_fit(int64_t width, int64_t classes);

/* kernels that the two functions below queue together */
enum { GT_EXP_LOGITS_KERNELS = 4 };

/* Compute d (in `e`), xs and of_row. Errors: GT_EDEVICE. */
int gt_exp_logits_queue(struct gt_stream *stream, const gt_exp_logits &a, struct gt_err *err);

/* Multiply each row of dx [rows, width] = d * w by its factor. */
int gt_exp_logits_scale(
    struct gt_stream *stream, const gt_exp_logits &a, gt_bf16 *dx, struct gt_err *err);

/* The bytes that the kernels read and write, but for x, w and e in the product itself. */
double gt_exp_logits_bytes_read(int64_t rows, int64_t width, int64_t classes);
double gt_exp_logits_bytes_written(int64_t rows, int64_t width, int64_t classes);
}

#endif
