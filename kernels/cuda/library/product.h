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
 * A product computes
 *
 *   y [m, n] = alpha * op(a) * op(b) + bias + beta * c
 *
 * and then the epilogue, an operation on y before y is stored (enum gt_product_end). op(a) is the
 * transpose of a if trans_a is set, otherwise a itself. op(b) depends on trans_b in the same way.
 * The options below are members of struct gt_product_shape.
 *
 *   a      [m, k], or [k, m] if trans_a is set
 *   b      [k, n], or [n, k] if trans_b is set
 *   bias   [n], added to every row if `bias` is set
 *   c      [m, n]; may be the same memory as y; not read if beta is 0
 *   aux    [m, n], written by GT_PRODUCT_GELU_KEEP, read by GT_PRODUCT_GELU_GRAD
 *   sums   [m], written by GT_PRODUCT_SUMS_A, or [n], written by GT_PRODUCT_SUMS_B; a product with
 *          sums cannot have a bias
 *
 * All tensors have the same type (F32, F64, BF16 or F16) and are aligned to 32 bytes. If `wide` is
 * set and this type has 16 bits, y, c and sums are float32. There may be gaps between the rows of
 * a, y and c; the other tensors are contiguous. Each element of y and of sums is a sum that is
 * computed in float32 (float64 for F64) and rounded once. There are two exceptions: if k is
 * divided, an element is rounded twice; and cuBLASLt's kernels for ragged rows may round an element
 * more than once. Both are described below. If `tf32` is set, a and b of F32 are rounded to 10 bits
 * of mantissa and multiplied by tensor cores.
 *
 * An algorithm of cuBLASLt is not used if its sums depend on the order in which thread blocks
 * finish. So one algorithm always gives the same bits for the same product on the same GPU. Another
 * algorithm may give other bits.
 *
 * cuBLASLt's matrices are column-major, so for cuBLASLt the memory of y holds y^T. Therefore gtrain
 * asks cuBLASLt for y^T = op(b)^T * op(a)^T.
 *
 * The fast kernels of cuBLASLt read and write 16 bytes at a time. They need rows of a, b and y that
 * begin and end at multiples of 16 bytes. A row length (n for y, k or m for a) is called ragged if
 * it is not a multiple of 16 bytes. Rows can begin at such multiples and still have a ragged
 * length, for example rows of 50257 logits with a stride of 50264. For such rows, cuBLASLt uses
 * kernels that access one element at a time. In bfloat16 on an H200, these kernels computed such
 * logits at 95 TFLOP/s; the fast kernels compute products of other sizes at 700 TFLOP/s. So gtrain
 * divides such a product into two products of cuBLASLt: the main part takes the largest multiple of
 * 32 bytes from the ragged size, and the rest takes the remaining elements, at most 15. In the
 * table, n0, m0 and k0 are the sizes of the main part.
 *
 *   ragged   requires                       main part           rest
 *   n        trans_b, y_stride              columns below n0    columns from n0 on
 *   m        trans_a, a_stride              rows below m0       rows from m0 on
 *   k        a_stride, nothing transposed   terms below k0      terms from k0 on
 *
 * If k is divided, the rest is computed first, with the caller's beta. The main part is then added
 * to y. So the rest, a small summand, is rounded twice: once to the type of y, together with
 * beta * c, and once in the sum. If n or m is divided, each element of y is rounded only once.
 *
 * Products are not divided in these cases:
 *
 *   - The type is F64, or F32 without tf32. It is not known whether ragged sizes of these types are
 *     slow.
 *   - The product has a bias or an epilogue.
 *   - Rows of a, b or y do not begin at multiples of 16 bytes, as in a contiguous tensor with
 *     ragged rows. The main part would be as slow as the whole product.
 *   - Rows of both a and y have a ragged length, or the ragged length is below 32 bytes.
 *   - m * n * k is less than GT_PRODUCT_DIVIDED. At the speeds above, the fast kernels then save
 *     less than 5 us, about the time that the second kernel takes.
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
	/* The distance from one row to the next in memory, in elements: a_stride is that of a, and
	 * y_stride is that of y and c. 0 means that there is no gap between rows. */
	int64_t a_stride, y_stride;
	bool untimed;      /* use the first proposed algorithm that works, without timing */
	bool no_workspace; /* use only algorithms that need no workspace */
};

/* Largest workspace of a product, in bytes. */
enum { GT_PRODUCT_WORKSPACE = 32 << 20 };

/* Smallest m * n * k of a product that may be divided. */
enum { GT_PRODUCT_DIVIDED = 1 << 28 };

struct gt_product;

/*
 * Prepare a product on the calling thread's current device. The caller frees *out with
 * gt_product_free().
 *
 * When a shape is used for the first time, this function times the algorithms that cuBLASLt
 * proposes, on its own stream and in its own device memory. The fastest algorithm is remembered
 * (choices.h). If there is not enough memory for timing, the first proposed algorithm is used. The
 * two parts of a divided product are timed and remembered one by one, as shapes of their own.
 *
 * Errors: GT_ENOMEM; GT_EDEVICE; GT_ENOTSUP if cuBLASLt has no algorithm for the product.
 */
int gt_product_new(
    struct gt_product **out, const struct gt_product_shape *shape, struct gt_err *err);
void gt_product_free(struct gt_product *p);

/* Return the bytes of workspace that gt_product_run() needs. */
size_t gt_product_workspace(const struct gt_product *p);

/* Add the cost of `runs` runs to a call. call->launches grows by 2 for each run if p is divided,
 * otherwise by 1. more_bytes_read and more_bytes_written grow by the bytes that a divided product
 * moves in addition to a whole product: it reads a twice if n is divided, and b twice if m is
 * divided. If k is divided, it writes y twice and reads y once more. */
void gt_product_add_cost(const struct gt_product *p, int64_t runs, struct gt_call *call);

/* Store a device address for later runs: gt_product_set_bias() stores the address of the bias or of
 * sums, and gt_product_set_aux() stores the address of aux. If the product has a bias, sums or aux,
 * call the function for it before gt_product_run(). Errors: GT_EDEVICE. */
int gt_product_set_bias(struct gt_product *p, const void *bias, struct gt_err *err);
int gt_product_set_aux(struct gt_product *p, const void *aux, struct gt_err *err);

/* Queue the product on a stream. c may be NULL if beta is 0. The workspace must have the alignment
 * of device memory (GT_DEVICE_ALIGN); it may be NULL if no workspace is needed. Errors: GT_EDEVICE.
 */
int gt_product_run(const struct gt_product *p, struct gt_stream *stream, void *y, const void *a,
    const void *b, const void *c, double alpha, double beta, void *workspace, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
