/* scatter.h - private: graph nodes by which rank 0 scatters samples and gathers results. */
#ifndef GT_PARALLEL_DATA_SCATTER_H
#define GT_PARALLEL_DATA_SCATTER_H

#include "lib/graph/graph.h"

/*
 * In this file, the number of a rank is its seat on the data axis (lib/parallel/axis.h). A row is
 * the data of one sample. gt_dp_part() (lib/parallel/data/dp.h) defines the rows that belong to
 * each rank. The graph of a rank without rows contains neither a scatter nor a gather. A token is a
 * scalar, F32 [], without meaning. It is the output of a node on a rank that gets no result. The
 * functions return the output of the node, or NULL with the graph's error set.
 *
 * scatter: rank 0 sends each rank its rows of x.
 *   in   rank 0: x [rows, ...]; other ranks: x is not read; it may be NULL
 *   out  y with the type and shape of `like`: the rows of this rank
 * scatter has no gradient.
 *
 * gather: each rank sends its rows to rank 0. On rank 0, `rows` is the number of all ranks' rows
 * together; on other ranks, it is 0.
 *   in   x [rows of this rank, ...]
 *   out  rank 0: y [rows, ...]; other ranks: a token with the value 0
 * The gradient of gather is a scatter.
 */
struct gt_value *gt_scatter(struct gt_graph *g, struct gt_value *x, const struct gt_value *like);
struct gt_value *gt_gather(struct gt_graph *g, struct gt_value *x, int64_t rows);

/* Emit the node broadcast_weights: when the plan runs for the first time in an optimizer step, rank
 * 0 sends its weights to all ranks. The node has no inputs and no outputs. */
void gt_broadcast_weights(struct gt_graph *g);

#endif
