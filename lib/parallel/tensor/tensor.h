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

/* Return the bytes that sequence.c's nodes reduce or gather in a run of the graph. Each of n ranks
 * sends (n - 1) / n of them. */
int64_t gt_tp_row_bytes(const struct gt_graph *g);

#endif
