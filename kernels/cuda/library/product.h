/* product.h - products of row-major matrices by cuBLASLt. */
#ifndef GT_KERNELS_CUDA_LIBRARY_PRODUCT_H
#define GT_KERNELS_CUDA_LIBRARY_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A product: y [m, n] = alpha * op(a) * op(b) + bias + beta * c, then the epilogue; op() transposes
 * if trans_a or trans_b is set.
 *
 *   a      [m, k], or [k, m] if trans_a is set
 *   b      [k, n], or [n, k] if trans_b is set
 *   bias   [n], added to every row if `bias` is set
 *   c      [m, n]; may be the memory of y; not read if beta is 0
 *   aux    [m, n], written by GT_PRODUCT_GELU_KEEP, read by GT_PRODUCT_GELU_GRAD
 *   sums   [m] for GT_PRODUCT_SUMS_A, [n] for GT_PRODUCT_SUMS_B; not with a bias
 *
 * All tensors have one type (F32, F64, BF16, F16) and are aligned to 32 bytes, or in a batch of
 * products to the largest power of two below that divides the bytes of a matrix. Only a, y and c
 * may have gaps between rows. The same product has the same bits each time on the same GPU.
 */
enum gt_product_end {
	GT_PRODUCT_PLAIN,
	GT_PRODUCT_GELU,      /* y = gelu(y), the tanh form */
	GT_PRODUCT_GELU_KEEP, /* aux = y, then y = gelu(y) */
	GT_PRODUCT_GELU_GRAD, /* y = y * gelu'(aux) */
	GT_PRODUCT_SUMS_A,    /* sums[i] = sum over k of a[k, i]; trans_a must be set */
	GT_PRODUCT_SUMS_B     /* sums[j] = sum over k of b[k, j]; trans_b must not be set */
};

struct gt_product_shape {
	enum gt_dtype dtype;
	bool trans_a, trans_b, bias;
	int64_t m, n, k;         /* at least 1 */
	enum gt_product_end end; /* the epilogue */
	bool wide;               /* 16-bit types: y, c and sums are float32 */
	bool tf32;               /* F32: use TF32; needs compute capability 8.0 or above */
	/* elements from one row to the next: a_stride of a, y_stride of y and c; 0: no gaps */
	int64_t a_stride, y_stride;
	/* Products of the same sizes that run at once, without bias, epilogue and gaps: their
	 * number (0 or 1: a single one), and elements from the matrix of a product to that of the
	 * next. c is y. A step of 0, of a or b: all products share the matrix. */
	int64_t batch, a_step, b_step, y_step;
	bool untimed;      /* use the first proposed algorithm that works, without timing */
	bool no_workspace; /* use only algorithms that need no workspace */
};

/* the largest workspace, in bytes */
enum { GT_PRODUCT_WORKSPACE = 32 << 20 };

/* the smallest m * n * k of a product that is divided into two (product.c) */
enum { GT_PRODUCT_DIVIDED = 1 << 28 };

struct gt_product;

/* Prepare a product on the current device; the first use of a shape times algorithms. The caller
 * frees *out. Errors: also GT_ENOTSUP. */
int gt_product_new(
    struct gt_product **out, const struct gt_product_shape *shape, struct gt_err *err);
void gt_product_free(struct gt_product *p);

/* Return the bytes of workspace for gt_product_run(). */
size_t gt_product_workspace(const struct gt_product *p);

/* Add the launches of `runs` runs to a call, and the extra bytes of a divided product. */
void gt_product_add_cost(const struct gt_product *p, int64_t runs, struct gt_call *call);

/* Set the device address of bias or sums, or of aux. Required before gt_product_run() if the shape
 * has them. */
int gt_product_set_bias(struct gt_product *p, const void *bias, struct gt_err *err);
int gt_product_set_aux(struct gt_product *p, const void *aux, struct gt_err *err);

/* Queue the product. c may be NULL if beta is 0, and workspace if none is needed; it is aligned to
 * GT_DEVICE_ALIGN. */
int gt_product_run(const struct gt_product *p, struct gt_stream *stream, void *y, const void *a,
    const void *b, const void *c, double alpha, double beta, void *workspace, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
