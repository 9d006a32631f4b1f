/* ddp.h - data parallelism: ranks train on parts of a batch and add up their gradients. */
#ifndef GT_PARALLEL_DDP_H
#define GT_PARALLEL_DDP_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/graph/graph.h"
#include "lib/graph/plan.h"
#include "lib/graph/store.h"

/*
 * This module holds what makes one plan per rank into one training run: passes that put collectives
 * into a graph, and the kernels of these nodes. It owns no training loop.
 *
 * Gradients lie in one flat buffer in the order in which the backward pass finishes them. A bucket
 * is a range of it; the pass puts a node behind the last writer of each that starts its all-reduce
 * in the background, and one at the end that waits for all. The loss is weighted so that the sum
 * over ranks is the gradient of the mean over the global batch, however the batch is divided.
 * Source of the scheme: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", VLDB 2020.
 */

struct gt_ddp;

/*
 * Cut a store's gradients into buckets of about bucket_bytes, the first of a MiB at most, that it
 * starts early; take memory that the group reaches for them and lend it to the store, which has
 * none yet. A collective call. Store and group outlive it but for memory: free the store first.
 */
int gt_ddp_new(struct gt_ddp **out, struct gt_store *store, struct gt_group *group,
    int64_t bucket_bytes, struct gt_err *err);
void gt_ddp_free(struct gt_ddp *ddp);

/* The pass, last of all: the graph's gradients are all there. */
int gt_ddp_insert(const struct gt_ddp *ddp, struct gt_graph *g, struct gt_err *err);

/* The kernels of the nodes that it inserts, for gt_plan_new(). */
const struct gt_plan_extra *gt_ddp_kernels(struct gt_ddp *ddp);

/* Whether runs from now on communicate, as they do at first: of several micro-batches that make a
 * step, only the last one does. */
void gt_ddp_communicate(struct gt_ddp *ddp, bool on);

/* Parameters and buffers of rank 0 to all ranks. A collective call. */
int gt_ddp_broadcast(struct gt_ddp *ddp, struct gt_err *err);

/* Ranges [first[i], first[i] + count[i]) in elements; for descriptions and tests. */
size_t gt_ddp_buckets(const struct gt_ddp *ddp, const int64_t **first, const int64_t **count);

#endif
