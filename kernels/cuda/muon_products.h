/* muon_products.h - the products of Muon by cuBLASLt, for matrices that are large enough. */
#ifndef GT_KERNELS_CUDA_MUON_PRODUCTS_H
#define GT_KERNELS_CUDA_MUON_PRODUCTS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gt_muon_products;

/* gt_range_kernels.prepare_muon: the stream owns the products. They need no workspace, and their
 * algorithms are the library's first, so that all ranks and runs get the same bits. A shape gets
 * none if it is too small, or if its matrices would not be aligned in the workspace of an update.
 */
int gt_muon_products_add(struct gt_stream *stream, int64_t rows, int64_t cols, struct gt_err *err);
void gt_muon_products_free(struct gt_stream *stream);

/* The products for this shape; NULL if it has none. */
const struct gt_muon_products *gt_muon_products_find(
    const struct gt_stream *stream, int64_t rows, int64_t cols);

/* Queue one iteration (muon.cu): next from x, both [rows, cols]; gram and poly are [side, side]. */
int gt_muon_products_run(const struct gt_muon_products *m, struct gt_stream *stream, float *next,
    const float *x, float *gram, float *poly, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
