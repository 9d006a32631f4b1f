/* tensor.h - tensor parallelism: ranks hold shards of each layer and see the same samples. */
#ifndef GT_PARALLEL_TENSOR_TENSOR_H
#define GT_PARALLEL_TENSOR_TENSOR_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/*
 * A graph pass (a function that rewrites a graph) changes the forward graph. lib/graph/shard.h
 * describes this pass with an example. gt_op.shard is the rule that the pass applies to an op. This
 * module provides the nodes by which the ranks communicate (lib/parallel/collectives.h). A node
 * copy_to (f in the Megatron-LM paper) comes before a layer with a weight that is sharded by
 * columns. A node all_reduce (g in the paper) comes after a layer with a weight that is sharded by
 * rows. Between the two nodes the ranks exchange nothing.
 *
 *   - Attention: each rank holds the columns of some heads of the queries, keys and values, and
 *     computes these heads.
 *   - Embedding: the table is sharded by rows. If the table is also the output layer, each rank
 *     computes the logits of its shard of the vocabulary. For the cross-entropy the ranks only
 *     exchange a few numbers per row (lib/graph/ops/ops.h, part "loss_sharded.c").
 *   - A matrix product with a weight sharded by columns, and the next product, with a weight
 *     sharded by rows, form a pair. All ranks compute everything outside these pairs (norms,
 *     residuals, products that are not in a pair) on the same values, with the same results.
 *     Dropout draws the same numbers as on one rank.
 *
 * Shards need not be equal: 3 ranks can share 4 heads.
 * Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053.
 *
 * Errors of gt_parallel_rewrite(): GT_ENOTSUP if the graph has ops without a rule (convolutions),
 * GT_EINVAL if a layer has fewer heads, columns or rows than there are ranks.
 */

/* Return how the parameter `name` is sharded, borrowed from p; NULL if every rank holds the whole
 * parameter. */
const struct gt_sharding *gt_tp_sharding(const struct gt_parallel *p, const char *name);

/* Sequence parallelism: return the bytes of all values that the nodes reduce_rows, gather_rows and
 * join_rows (sequence.c) reduce or gather in one run of the graph. Each of n ranks sends
 * (n - 1) / n of these bytes. */
int64_t gt_tp_row_bytes(const struct gt_graph *g);

#endif
