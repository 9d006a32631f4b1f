/* lockstep.h - inside parallel: one rank in place of several, with the bits of all. */
#ifndef GT_PARALLEL_LOCKSTEP_H
#define GT_PARALLEL_LOCKSTEP_H

#include "lib/parallel/parallel.h"

/*
 * Sums of floats depend on their order, so ranks that share a batch differ in the last bits from
 * one that has it whole. Reproducible training has as many virtual ranks whatever there is of real
 * ones: each of these hosts as many, one after the other, with samples and random numbers of their
 * own. What they make is summed up as ranks sum up (comm/group.h), first that of the hosted ones,
 * then over ranks.
 */

/* The number of virtual ranks for a batch of so many samples in all. */
int gt_lockstep_ranks(int64_t batch);

/* Whether the options go together, and so many ranks can host them; GT_EINVAL tells why not. */
int gt_lockstep_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * A graph with its backward pass, of one virtual rank: make it that of `copies`, a power of two,
 * node by node.
 *
 * Inputs, outputs and temporaries are each copy's own, named as in replicate.h. What reads
 * parameters alone, and what reads the result of a collective alone, is made once. Gradients are
 * the copies' in ((0 + 1) + (2 + 3)) + ...; what goes into an all_reduce likewise; an all_gather
 * gets the vectors of all copies in their order, so its node must have been made for all virtual
 * ranks. Buffers are updated by copy 0 alone.
 *
 * Errors: GT_EINVAL for a graph whose gradients add up to what is there.
 */
int gt_lockstep(struct gt_graph *g, int copies, struct gt_err *err);

#endif
