/* muon.h - the update of Muon (muon.cu), and its products of large matrices (muon_products.c). */
#ifndef GT_KERNELS_CUDA_OPTIM_MUON_H
#define GT_KERNELS_CUDA_OPTIM_MUON_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The function `muon` of struct gt_step_kernels. */
int gt_cuda_muon(struct gt_stream *stream, float *p, const float *g, float *buf, int64_t rows,
    int64_t cols, float *work, const struct gt_muon_cache *cache, const struct gt_update_options *o,
    const struct gt_step_scalars *s, struct gt_err *err);

/*
 * cuBLASLt computes the products of large matrices. struct gt_muon_cache is a list of the matrix
 * products of one Newton-Schulz iteration of Muon, for parameters of several shapes. An iteration
 * has three products.
 *
 * Prepare the products for parameters of the shape [rows, cols]: the member prepare_muon of struct
 * gt_step_kernels (lib/optim/step_kernels.h).
 *
 * cuBLASLt proposes algorithms that need no workspace of cuBLASLt. Each product uses the first one
 * of them that works. No algorithm is timed, because timing could choose different algorithms in
 * different runs or on different ranks. So all ranks and runs get the same bits.
 *
 * The function prepares nothing and returns 0 in three cases:
 *
 *   - The cache already has products of this shape.
 *   - The shape is too small.
 *   - Matrices of this shape would not be aligned to 32 bytes in the workspace of Muon's update
 *     (muon.cu).
 *
 * Errors: GT_ENOMEM, and the errors of gt_product_new() (product.h).
 */
int gt_muon_products_add(
    struct gt_muon_cache **cache, int64_t rows, int64_t cols, struct gt_err *err);
void gt_muon_products_free(struct gt_muon_cache *cache);

/* Return the products of this shape, borrowed, or NULL. NULL is fine. */
const struct gt_muon_cache *gt_muon_products_find(
    const struct gt_muon_cache *cache, int64_t rows, int64_t cols);

/* Queue the products of one Newton-Schulz iteration (muon.cu). The iteration computes the matrix
 * `next` from the matrix `x`; both are [rows, cols]. `gram` and `poly` are workspace: two square
 * matrices with min(rows, cols) rows each. Errors: GT_EDEVICE. */
int gt_muon_products_run(const struct gt_muon_cache *m, struct gt_stream *stream, float *next,
    const float *x, float *gram, float *poly, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
