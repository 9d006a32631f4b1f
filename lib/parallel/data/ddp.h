/* ddp.h - data parallelism: ranks train on parts of a batch and add up their gradients. */
#ifndef GT_PARALLEL_DATA_DDP_H
#define GT_PARALLEL_DATA_DDP_H

#include "lib/parallel/parallel.h"

/* Buckets, ranges of the flat buffer of gradients, are all-reduced in the background of the
 * backward pass, rounded to 16 bits if gt_parallel_options.compress says so. ddp.c describes
 * this. */

/* For tests: set *first and *count to borrowed arrays with the ranges of buckets, in elements, and
 * return the number of buckets. */
size_t gt_ddp_buckets(const struct gt_parallel *p, const int64_t **first, const int64_t **count);

#endif
