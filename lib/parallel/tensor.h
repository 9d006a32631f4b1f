/* tensor.h - tensor parallelism: ranks hold parts of each layer and compute on the same samples. */
#ifndef GT_PARALLEL_TENSOR_H
#define GT_PARALLEL_TENSOR_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/*
 * A pass over forward graphs. Two products of matrices with what goes element by element between
 * them become one layer in parts: the first weight is cut by columns, the second by rows, so that
 * between a fan_out before the first and a fan_in behind the second (fan.h) nothing is exchanged.
 * Heads of attention go with the columns of their queries, keys and values. The table of an
 * embedding is cut by rows; where it is the head, too, each rank has the logits of its part of the
 * vocabulary, and the cross-entropy is that of split_loss.h. Everything else (norms, residuals, a
 * product without a partner) is computed by all ranks, on the same numbers with the same results;
 * dropout draws what one rank would. Parts need not be equal: 3 ranks share 4 heads.
 * Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053.
 *
 * Errors: GT_ENOTSUP for graphs with other ops (convolutions), GT_EINVAL where there is less to be
 *         shared (heads, columns) than ranks.
 */
int gt_tensor_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* How a parameter is sharded; NULL: all ranks hold all of it. */
const struct gt_sharding *gt_tensor_sharding(const struct gt_parallel *p, const char *name);

/* gt_parallel_collect() and gt_parallel_deal() of a slot that is sharded; `held` and `to` are where
 * this rank's shard lies. */
int gt_tensor_collect(struct gt_parallel *p, const struct gt_sharding *sharding,
    const struct gt_slot *slot, const void *held, void *whole, struct gt_err *err);
int gt_tensor_deal(struct gt_parallel *p, const struct gt_sharding *sharding,
    const struct gt_slot *slot, void *to, const void *whole, struct gt_err *err);

/* gt_optim_update() with the norm over all shards. A collective call. */
int gt_tensor_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

/* Bytes that a rank sends on the tensor axis in a run of a graph. */
int64_t gt_tensor_sent(const struct gt_parallel *p, const struct gt_graph *g);

#endif
