/* rewrite.h - private: virtual ranks, which give 1, 2, 4 and 8 ranks bit-identical results. */
#ifndef GT_PARALLEL_VIRTUAL_REWRITE_H
#define GT_PARALLEL_VIRTUAL_REWRITE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/*
 * The result of a sum of floats depends on the order of the additions. So gradients that several
 * ranks compute for a batch differ in their last bits from gradients that one rank computes.
 * Reproducible training divides a batch among virtual ranks. The number of virtual ranks does not
 * depend on the number of ranks. Each rank simulates an equal number of virtual ranks. Each virtual
 * rank has its own samples and random numbers. Losses and gradients are summed in a fixed order,
 * that of an ordered group (lib/comm/group.h): first over the virtual ranks of a rank, then over
 * the ranks.
 *
 * Example: a step of 4 samples has 4 virtual ranks. "copy i" is the part of a rank's graph for one
 * virtual rank. The gradients g0 to g3 are always summed as (g0 + g1) + (g2 + g3):
 *
 *   1 rank    copies 0 to 3          (g0 + g1) + (g2 + g3)
 *   2 ranks   rank 0: copies 0, 1    a = g0 + g1
 *             rank 1: copies 2, 3    b = g2 + g3            all-reduce: a + b
 *   4 ranks   one copy each                                 all-reduce: (g0 + g1) + (g2 + g3)
 */

/* Return the number of samples of a step, for `ranks` ranks of the data axis with micro-batches of
 * `batch` samples each. */
int64_t gt_virtual_step_samples(const struct gt_parallel_options *options, int ranks, int batch);

/* Return the number of virtual ranks of all ranks together, for steps of `samples` samples: the
 * largest power of two, at most GT_VIRTUAL_RANKS, that divides `samples`. */
int gt_virtual_ranks(int64_t samples);

/* Check that the options can be combined with reproducible training, and that `ranks` ranks of the
 * data axis can divide the virtual ranks evenly. `batch` is the number of samples in a rank's
 * micro-batch. Errors: GT_EINVAL, with the reason. */
int gt_virtual_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * Rewrite a graph of one virtual rank, with its backward pass, into the graph of `copies` virtual
 * ranks. `copies` must be a power of two. blocks[count] give the new order of the nodes. A block
 * is a range of nodes of the original graph, for one virtual rank (struct gt_replica_block). The
 * blocks follow each other in the new graph. blocks[i].copy is the index of the virtual rank. If
 * `count` is 0, the copies of each node for all virtual ranks are consecutive. Graphs with
 * collectives over the data axis need this order.
 *
 * Each virtual rank has separate inputs, outputs and temporaries. Virtual rank 0 keeps their names;
 * for virtual rank i > 0, the value NAME is called NAME.i. Nodes that read only parameters, or the
 * result of a collective, are not repeated. Gradients, and inputs of an all_reduce over the data
 * axis, are summed over the virtual ranks as ((0 + 1) + (2 + 3)) + ... Each sum is computed as soon
 * as its two terms are known. An all_gather over the data axis gathers the vectors of all virtual
 * ranks in the order of their indices. So the node's attribute `ranks` must be the number of
 * virtual ranks of all ranks together. Only virtual rank 0 updates the buffers of the model, such
 * as the running statistics of batch norm.
 *
 * Errors: GT_EINVAL if nodes add to the gradients in the store (gt_pass_options.accumulate), or if
 * blocks are given for a graph with collectives over the data axis.
 */
int gt_virtual_rewrite(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* Like gt_virtual_rewrite(), but all nodes of one virtual rank come before all nodes of the next
 * virtual rank. */
int gt_virtual_rewrite_in_turn(struct gt_graph *g, int copies, struct gt_err *err);

#endif
