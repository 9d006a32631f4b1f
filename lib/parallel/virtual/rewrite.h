/* rewrite.h - inside parallel: one rank in place of several, with the bits of all. */
#ifndef GT_PARALLEL_VIRTUAL_REWRITE_H
#define GT_PARALLEL_VIRTUAL_REWRITE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/*
 * Sums of floats depend on their order, so ranks that share a batch differ in the last bits from
 * one that has it whole. Reproducible training has the same number of virtual ranks for any number
 * of ranks: each rank stands for as many of them, one after the other, with samples and random
 * numbers of their own. Losses and gradients are summed up as the ranks of an ordered group sum up
 * (comm/group.h), first over the virtual ranks of a rank, then over ranks.
 *
 * Example: a step of 4 samples has 4 virtual ranks, whose gradients g0 to g3 are always summed as
 * (g0 + g1) + (g2 + g3):
 *
 *   1 rank    copies 0 to 3          (g0 + g1) + (g2 + g3)
 *   2 ranks   rank 0: copies 0, 1    a = g0 + g1
 *             rank 1: copies 2, 3    b = g2 + g3            all-reduce: a + b
 *   4 ranks   one copy each                                 all-reduce: (g0 + g1) + (g2 + g3)
 */

/* The samples of a step of so many ranks of the data axis, with micro-batches of `batch` each. */
int64_t gt_virtual_step_samples(const struct gt_parallel_options *options, int ranks, int batch);

/* The number of virtual ranks for steps of so many samples. */
int gt_virtual_ranks(int64_t samples);

/* Whether the options go together, and so many ranks of the data axis can host the virtual ones;
 * GT_EINVAL tells why not. */
int gt_virtual_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * A graph with its backward pass, of one virtual rank: make it that of `copies`, a power of two.
 * The list becomes the blocks in the order given, as in replicate.h, each node of copy 0 before
 * that of copy 1 and so on; with no blocks (count 0) it is one node after the other for all copies.
 * Collectives over the data axis need the latter.
 *
 * Inputs, outputs and temporaries are each copy's own, named as in replicate.h. Nodes that read
 * nothing but parameters, or the result of a collective, are made once. Gradients are summed over
 * copies as ((0 + 1) + (2 + 3)) + ..., each sum as soon as its two terms are there, and so are
 * inputs of an all_reduce over the data axis; an all_gather gets the vectors of all copies in their
 * order, so its node must have been made for all virtual ranks. Buffers are updated by copy 0
 * alone.
 *
 * Errors: GT_EINVAL for a graph whose gradients add up to what is there, and for blocks where there
 * are collectives over the data axis.
 */
int gt_virtual_rewrite(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* The same with one copy after the other: the first is done before the next begins. */
int gt_virtual_rewrite_in_turn(struct gt_graph *g, int copies, struct gt_err *err);

#endif
