/* rewrite.h - inside parallel: one rank in place of several, with the bits of all. */
#ifndef GT_PARALLEL_VIRTUAL_REWRITE_H
#define GT_PARALLEL_VIRTUAL_REWRITE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/*
 * Sums of floats depend on their order. So the sum that several ranks compute of a batch differs in
 * its last bits from the sum that one rank computes. Reproducible training divides a batch among a
 * fixed number of virtual ranks, which does not depend on the number of ranks. Each rank simulates
 * an equal number of virtual ranks. Each virtual rank has its own samples and random numbers.
 * Losses and gradients are summed in the order of an ordered group (comm/group.h): first over the
 * virtual ranks of a rank, then over ranks.
 *
 * Example: a step of 4 samples has 4 virtual ranks, whose gradients g0 to g3 are always summed as
 * (g0 + g1) + (g2 + g3):
 *
 *   1 rank    copies 0 to 3          (g0 + g1) + (g2 + g3)
 *   2 ranks   rank 0: copies 0, 1    a = g0 + g1
 *             rank 1: copies 2, 3    b = g2 + g3            all-reduce: a + b
 *   4 ranks   one copy each                                 all-reduce: (g0 + g1) + (g2 + g3)
 */

/* The number of samples of a step, for `ranks` ranks of the data axis with micro-batches of `batch`
 * samples each. */
int64_t gt_virtual_step_samples(const struct gt_parallel_options *options, int ranks, int batch);

/* The number of virtual ranks for steps of `samples` samples. */
int gt_virtual_ranks(int64_t samples);

/* Check that the options can be combined, and that the virtual ranks can be divided among `ranks`
 * ranks of the data axis. Errors: GT_EINVAL, with the reason. */
int gt_virtual_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * Rewrite a graph of one virtual rank, with its backward pass, into the graph of `copies` virtual
 * ranks, a power of two. The nodes are ordered by block, as in replicate.h: a block's nodes for
 * virtual rank 0 come before its nodes for virtual rank 1, and so on. Without blocks (count 0) each
 * node of the old graph is followed at once by its copies for the other virtual ranks. Graphs with
 * collectives over the data axis need this order.
 *
 * Each virtual rank has its own inputs, outputs and temporaries, named as in replicate.h. Nodes
 * that read only parameters, or the result of a collective, are not repeated. Gradients, and inputs
 * of an all_reduce over the data axis, are summed over virtual ranks as ((0 + 1) + (2 + 3)) + ...;
 * each sum is computed as soon as its two terms are known. An all_gather gets the vectors of all
 * virtual ranks in their order, so its node must have been built for all virtual ranks. Only
 * virtual rank 0 updates buffers.
 *
 * Errors: GT_EINVAL if the graph adds its gradients to earlier ones, or if blocks are given for a
 * graph with collectives over the data axis.
 */
int gt_virtual_rewrite(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* The same, but all nodes of one virtual rank come before those of the next. */
int gt_virtual_rewrite_in_turn(struct gt_graph *g, int copies, struct gt_err *err);

#endif
