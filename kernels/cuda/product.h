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
 * All tensors have one type, F32, F64, BF16 or F16, and are aligned to 32 bytes. With `wide`, y, c
 * and sums are float32 for all types of a and b. There may be gaps between rows of a, y and c; the
 * other tensors are contiguous. Sums are computed in float32 (float64 for F64) and rounded once.
 * With `tf32`, tensor cores multiply a and b of F32 after rounding them to 10 bits of mantissa.
 * Algorithms whose sums depend on the order in which blocks finish are not used. So the same
 * product on the same GPU always has the same bits with one algorithm; another algorithm may give
 * other bits.
 *
 * cuBLASLt's matrices are column-major. So gtrain asks it for y^T = op(b)^T op(a)^T, which is the
 * same memory.
 */
enum gt_product_end {
	GT_PRODUCT_PLAIN,
	GT_PRODUCT_GELU,      /* y = gelu(y), the tanh form */
	GT_PRODUCT_GELU_KEEP, /* aux = y, then y = gelu(y) */
	GT_PRODUCT_GELU_GRAD, /* y = y gelu'(aux) */
	GT_PRODUCT_SUMS_A,    /* with trans_a: sums[i] = the sum over k of a[k, i] */
	GT_PRODUCT_SUMS_B     /* without trans_b: sums[j] = the sum over k of b[k, j] */
};

struct gt_product_shape {
	enum gt_dtype dtype;
	bool trans_a, trans_b, bias;
	int64_t m, n, k; /* at least 1 */
	enum gt_product_end end;
	bool wide; /* for 16 bits: y, c and sums are float32 */
	bool tf32; /* for F32, on GPUs of compute capability 8.0 and above */
	/* elements from one row in memory to the next, of a and of y; 0: no gap */
	int64_t a_row, y_row;
	bool untimed; /* use the first proposed algorithm that works; do not time others */
	bool bare;    /* only algorithms that need no workspace */
};

/* The largest workspace of a product. */
enum { GT_PRODUCT_WORKSPACE = 32 << 20 };

struct gt_product;

/*
 * Prepare a product on the thread's current device. The algorithms that cuBLASLt proposes are timed
 * once per shape, on a stream and in memory that this call creates; the fastest is remembered
 * (choices.h). If there is no memory for that, the first proposed algorithm is used.
 * gt_product_workspace() is the memory that gt_product_run() needs.
 *
 * Errors: GT_EDEVICE; GT_ENOTSUP where the library has no algorithm for it.
 */
int gt_product_new(
    struct gt_product **out, const struct gt_product_shape *shape, struct gt_err *err);
void gt_product_free(struct gt_product *p);
size_t gt_product_workspace(const struct gt_product *p);

/* Set the memory of the bias or the sums, and of aux, before a run. */
int gt_product_set_bias(struct gt_product *p, const void *bias, struct gt_err *err);
int gt_product_set_aux(struct gt_product *p, const void *aux, struct gt_err *err);

/* Queue the product on a stream. The workspace has the alignment of device memory. */
int gt_product_run(const struct gt_product *p, struct gt_stream *stream, void *y, const void *a,
    const void *b, const void *c, double alpha, double beta, void *workspace, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
