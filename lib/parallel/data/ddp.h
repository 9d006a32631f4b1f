/* ddp.h - data parallelism: ranks train on parts of a batch and add up their gradients. */
#ifndef GT_PARALLEL_DATA_DDP_H
#define GT_PARALLEL_DATA_DDP_H

#include "lib/parallel/parallel.h"

/*
 * Gradients lie in one flat buffer in the order in which the backward pass finishes them. A bucket
 * is a range of it, of about bucket_bytes, the first of a MiB at most so that it starts early. The
 * pass puts a node behind the last writer of each that starts its all-reduce in the background, and
 * one at the end that waits for all. The loss is weighted so that the sum over ranks is the
 * gradient of the mean over the global batch, however the batch is divided.
 * Source of the scheme: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", VLDB 2020.
 *
 * With compression a bucket is rounded to half precision or bfloat16, summed over ranks in float32,
 * rounded once more, and converted back: per element an error of at most half a unit in the last
 * place of each rank's gradient and of the sum. PyTorch's fp16_compress_hook and bf16_compress_hook
 * divide by the number of ranks after the first rounding, since their gradients are of each rank's
 * mean. In gtrain the weight of the loss has divided the gradients before. So the result is the
 * same sum with one rounding less, and it overflows only if the mean does. An element that
 * overflows becomes infinite, and so does the norm of the gradients, by which the training loop
 * detects it. Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.
 */

/* Ranges [first[i], first[i] + count[i]) in elements; for descriptions and tests. */
size_t gt_ddp_buckets(const struct gt_parallel *p, const int64_t **first, const int64_t **count);

#endif
