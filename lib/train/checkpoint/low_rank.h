/* low_rank.h - private: approximate a matrix by the product of two thin ones. */
#ifndef GT_TRAIN_CHECKPOINT_LOW_RANK_H
#define GT_TRAIN_CHECKPOINT_LOW_RANK_H

#include <stdint.h>

#include "lib/base/err.h"

/*
 * Compute left and right such that their product is close to the matrix that is closest to `matrix`
 * among those of this rank: the sum of its `rank` largest singular values s with their vectors,
 * u s v^T. Column k of left is u_k sqrt(s_k), row k of right is v_k^T sqrt(s_k).
 *
 *   matrix  [rows, columns], finite
 *   left    [rows, rank]
 *   right   [rank, columns]
 *
 * *kept is the square of the product's Frobenius norm; that of the matrix is the sum of squares.
 * A matrix of lower rank is reproduced, but for rounding, and the rest of left and right is zero.
 * The result does not depend on the number of threads.
 *
 * Cost:   2 (rank + 10) rows columns per product, of which there are 4 to 32.
 * Memory: 16 (rank + 10) rows + 24 (rank + 10) columns bytes.
 * Errors: GT_ENOMEM.
 * Source: Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53(2),
 *         2011 (subspace iteration). The singular values of the small matrix are found by
 *         Hestenes's one-sided Jacobi method.
 */
int gt_low_rank(float *left, float *right, double *kept, const float *matrix, int64_t rows,
    int64_t columns, int64_t rank, struct gt_err *err);

#endif
