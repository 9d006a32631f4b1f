/* rewrite.h - private: virtual ranks, which give 1, 2, 4 and 8 ranks bit-identical results. */
#ifndef GT_PARALLEL_VIRTUAL_REWRITE_H
#define GT_PARALLEL_VIRTUAL_REWRITE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/* In reproducible training, a rank simulates virtual ranks, whose number does not depend on the
 * ranks, and sums are in the same order for any number of ranks. rewrite.c has an example. */

/* Return the samples of a step, for `ranks` ranks of the data axis. */
int64_t gt_virtual_step_samples(const struct gt_parallel_options *options, int ranks, int batch);

/* Return the number of all virtual ranks: the largest power of two up to GT_VIRTUAL_RANKS that
 * divides `samples`. */
int gt_virtual_ranks(int64_t samples);

/* Check the options for reproducible training on `ranks` ranks of the data axis. Errors:
 * GT_EINVAL. */
int gt_virtual_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/* Rewrite a graph of one virtual rank, with its backward pass, for `copies` of them, a power of
 * two. blocks[count] is the order of nodes (replicate.h); without blocks, a node's copies follow
 * each other, as collectives over the data axis require. Errors: GT_EINVAL if nodes add to stored
 * gradients, or for blocks with such collectives. */
int gt_virtual_rewrite(struct gt_graph *g, int copies, const struct gt_replica_block *blocks,
    size_t count, struct gt_err *err);

/* The same, with all nodes of one virtual rank before the next one's. */
int gt_virtual_rewrite_in_turn(struct gt_graph *g, int copies, struct gt_err *err);

#endif
