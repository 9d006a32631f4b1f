/* product.h - products of row-major matrices by cuBLASLt. */
#ifndef GT_KERNELS_CUDA_PRODUCT_H
#define GT_KERNELS_CUDA_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * y [m, n] = alpha op(a) op(b) + bias + beta c, then the epilogue `end`
 *
 *   a      [m, k], or [k, m] with trans_a
 *   b      [k, n], or [n, k] with trans_b
 *   bias   [n], added to every row, with `bias`
 *   c      [m, n], may be y; not read where beta is 0
 *   aux    [m, n], written by GT_PRODUCT_GELU_KEEP, read by GT_PRODUCT_GELU_GRAD
 *   sums   [m] or [n], written by GT_PRODUCT_SUMS_A and GT_PRODUCT_SUMS_B in the place of a bias
 *
 * All are of one type, F32, F64, BF16 or F16, and aligned to 32 bytes. With `wide`, y, c and sums
 * are in float32, whatever a and b are in. Rows of `a` and of y (and c) may be apart; all else is
 * contiguous. Sums are in float32, in float64 for F64, and rounded once; with `tf32`, a and b of
 * F32 are rounded to 10 bits of mantissa before they are multiplied, in tensor cores. No algorithm
 * is used whose sums depend on the order in which blocks finish, so the same product on the same
 * GPU has the same bits each time; another algorithm may have others.
 *
 * cuBLASLt's matrices are column-major: it is told that y^T = op(b)^T op(a)^T, of the same memory.
 */
enum gt_product_end {
	GT_PRODUCT_PLAIN,
	GT_PRODUCT_GELU,      /* y = gelu(y), the tanh form */
	GT_PRODUCT_GELU_KEEP, /* aux = y, then that */
	GT_PRODUCT_GELU_GRAD, /* y = y gelu'(aux) */
	GT_PRODUCT_SUMS_A,    /* with trans_a: sums = those of a over k */
	GT_PRODUCT_SUMS_B     /* without trans_b: those of b */
};

struct gt_product_shape {
	enum gt_dtype dtype;
	bool trans_a, trans_b, bias;
	int64_t m, n, k; /* at least 1 */
	enum gt_product_end end;
	bool wide;            /* for 16 bits: y, c and sums are float32 */
	bool tf32;            /* for F32, on GPUs of compute capability 8.0 and above */
	int64_t a_row, y_row; /* elements from row to row of a, as it lies, and of y; 0: no gap */
	bool untimed; /* the first algorithm that the library proposes and runs, not the fastest */
	bool bare;    /* only algorithms that need no workspace */
};

/* The most workspace that a product asks for. */
enum { GT_PRODUCT_WORKSPACE = 32 << 20 };

struct gt_product;

/*
 * Prepare a product on the thread's current device. The candidates that the library proposes are
 * timed once for each shape, on a stream and in memory of this call's own; the fastest is
 * remembered (choices.h). Where there is no memory for that, the library's first is taken.
 * gt_product_workspace() is the memory that gt_product_run() needs.
 *
 * Errors: GT_EDEVICE; GT_ENOTSUP where the library has no algorithm for it.
 */
int gt_product_new(
    struct gt_product **out, const struct gt_product_shape *shape, struct gt_err *err);
void gt_product_free(struct gt_product *p);
size_t gt_product_workspace(const struct gt_product *p);

/* Set the bias, or the sums; and aux: before a run. */
int gt_product_set_bias(struct gt_product *p, const void *bias, struct gt_err *err);
int gt_product_set_aux(struct gt_product *p, const void *aux, struct gt_err *err);

/* Queue it. The workspace is aligned as device memory. */
int gt_product_run(const struct gt_product *p, struct gt_stream *stream, void *y, const void *a,
    const void *b, const void *c, double alpha, double beta, void *workspace, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
