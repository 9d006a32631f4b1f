/* ddp.h - data parallelism: ranks train on parts of a batch and add up their gradients. */
#ifndef GT_PARALLEL_DDP_H
#define GT_PARALLEL_DDP_H

#include "lib/parallel/parallel.h"

/*
 * Gradients lie in one flat buffer in the order in which the backward pass finishes them. A bucket
 * is a range of it, of about bucket_bytes, the first of a MiB at most so that it starts early. The
 * pass puts a node behind the last writer of each that starts its all-reduce in the background, and
 * one at the end that waits for all. The loss is weighted so that the sum over ranks is the
 * gradient of the mean over the global batch, however the batch is divided.
 * Source of the scheme: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", VLDB 2020.
 */

/* Ranges [first[i], first[i] + count[i]) in elements; for descriptions and tests. */
size_t gt_ddp_buckets(const struct gt_parallel *p, const int64_t **first, const int64_t **count);

#endif
