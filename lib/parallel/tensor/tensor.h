/* tensor.h - tensor parallelism: ranks hold shards of each layer and see the same samples. */
#ifndef GT_PARALLEL_TENSOR_TENSOR_H
#define GT_PARALLEL_TENSOR_TENSOR_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/*
 * A pass over forward graphs: lib/graph/shard.h has it, with an example, and each op's row has its
 * own rule. This module adds the nodes by which the ranks communicate (collectives.h): copy_to (f
 * of Megatron-LM) before a layer whose weight is sharded by columns, all_reduce (g) behind one
 * whose weight is sharded by rows. Between the two nothing is exchanged. Heads of attention go with
 * the columns of their queries, keys and values. The table of an embedding is sharded by rows;
 * where it is the head, too, each rank has the logits of its shard of the vocabulary, and the
 * cross-entropy is made of numbers per row (ops.h, loss_sharded.c). All ranks compute everything
 * else (norms, residuals, a product without a partner) on the same numbers with the same results;
 * dropout draws as on one rank. Shards need not be equal: 3 ranks can share 4 heads.
 * Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053.
 *
 * Errors: GT_ENOTSUP for graphs with ops that have no rule (convolutions), GT_EINVAL where a layer
 *         has fewer heads, columns or rows than there are ranks.
 */

/* How a parameter is sharded; NULL: all ranks hold all of it. */
const struct gt_sharding *gt_tp_sharding(const struct gt_parallel *p, const char *name);

#endif
