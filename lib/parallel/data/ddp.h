/* ddp.h - data parallelism: ranks train on parts of a batch and add up their gradients. */
#ifndef GT_PARALLEL_DATA_DDP_H
#define GT_PARALLEL_DATA_DDP_H

#include "lib/parallel/parallel.h"

/*
 * All gradients are in one flat buffer, in the order in which the backward pass finishes them. A
 * bucket is a range of this buffer of about bucket_bytes bytes. The first bucket takes no more
 * parameters when it has reached 1 MiB, so that its all-reduce starts early. For each bucket, one
 * node is inserted into the graph, after the last node that writes the bucket. This node starts the
 * all-reduce of the bucket in the background. One more node, at the end of the graph, waits for all
 * buckets. The loss of each rank is weighted by 1 / (number of targets in the global batch). So the
 * sum of the gradients over the ranks is the gradient of the mean over the global batch, for any
 * division of the batch among ranks. Source of the scheme: Li et al., "PyTorch Distributed:
 * Experiences on Accelerating Data Parallel Training", VLDB 2020.
 *
 * If compression is on (gt_parallel_options.compress), a bucket is rounded to float16 or bfloat16,
 * and summed over ranks in float32. The sum is rounded once more, and converted back to float32. So
 * there are two roundings, one of each rank's gradient, and one of the sum. The error of each
 * rounding is at most half a unit in the last place. PyTorch's fp16_compress_hook and
 * bf16_compress_hook divide by the number of ranks after the first rounding, because in PyTorch the
 * loss of a rank is the mean over the samples of this rank. The result of this division is rounded,
 * too. gtrain needs no such division, because the weighted loss already gives gradients whose sum
 * over the ranks is the mean. So gtrain has one rounding less, and the sum overflows only if the
 * mean overflows. An element that overflows becomes infinite. Then the norm of the gradients is
 * infinite too, and the training loop detects this. Source:
 * torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.
 */

/* Set *first and *count to the buckets: bucket i is the range [first[i], first[i] + count[i]), in
 * elements. Return the number of buckets. The arrays are borrowed. This function is for
 * descriptions and tests. */
size_t gt_ddp_buckets(const struct gt_parallel *p, const int64_t **first, const int64_t **count);

#endif
