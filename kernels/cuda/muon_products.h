/* muon_products.h - matrix products of the optimizer Muon by cuBLASLt, for large matrices. */
#ifndef GT_KERNELS_CUDA_MUON_PRODUCTS_H
#define GT_KERNELS_CUDA_MUON_PRODUCTS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The three prepared products of one iteration, for parameters of one shape. */
struct gt_muon_products;

/*
 * Prepare the products for parameters [rows, cols]; they belong to the stream. This function is
 * prepare_muon of struct gt_range_kernels (lib/device/backend.h).
 *
 * The products need no workspace. They use the first algorithm that the library proposes and that
 * works, without timing. So all ranks and runs get the same bits.
 *
 * Nothing is prepared, and 0 is returned, if the shape is too small, or if its matrices would not
 * be aligned in the workspace of an update. Errors: GT_ENOMEM; the errors of gt_product_new().
 */
int gt_muon_products_add(struct gt_stream *stream, int64_t rows, int64_t cols, struct gt_err *err);

/* Free all products of the stream. */
void gt_muon_products_free(struct gt_stream *stream);

/* Return the products that the stream has for this shape, borrowed, or NULL. */
const struct gt_muon_products *gt_muon_products_find(
    const struct gt_stream *stream, int64_t rows, int64_t cols);

/* Queue the products of one Newton-Schulz iteration (muon.cu), which computes next[rows, cols] from
 * x[rows, cols]. gram and poly are workspace [side, side], where side = min(rows, cols). */
int gt_muon_products_run(const struct gt_muon_products *m, struct gt_stream *stream, float *next,
    const float *x, float *gram, float *poly, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
