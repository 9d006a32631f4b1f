/* tensor.h - tensor parallelism: ranks hold shards of each layer and see the same samples. */
#ifndef GT_PARALLEL_TENSOR_TENSOR_H
#define GT_PARALLEL_TENSOR_TENSOR_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/* The pass of lib/graph/shard.h divides layers among ranks; tensor.c says which, and with what
 * collectives. gt_parallel_rewrite() returns GT_ENOTSUP if no layer can be sharded, and GT_EINVAL
 * for layers too small for the ranks. */

/* Return how a parameter is sharded, borrowed from p; NULL: it is not. */
const struct gt_sharding *gt_tp_sharding(const struct gt_parallel *p, const char *name);

/* join.c: gt_optim_ranks.join() and cut() for shards of this axis; `self` is the struct
 * gt_parallel. */
int gt_tp_join(void *self, const struct gt_slot *slot, float *x, float *spare, struct gt_err *err);
int gt_tp_cut(
    void *self, const struct gt_slot *slot, float *shard, const float *whole, struct gt_err *err);

/* Return the bytes of the whole tensors that an update joins on this rank, and their number. */
int64_t gt_tp_joined_bytes(const struct gt_parallel *p, int *count);

/* Return the bytes that sequence.c's nodes reduce or gather in a run of the graph. Each of n ranks
 * sends (n - 1) / n of them. */
int64_t gt_tp_row_bytes(const struct gt_graph *g);

#endif
