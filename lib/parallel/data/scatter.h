/* scatter.h - private: graph nodes by which rank 0 scatters samples and gathers results. */
#ifndef GT_PARALLEL_DATA_SCATTER_H
#define GT_PARALLEL_DATA_SCATTER_H

#include "lib/graph/graph.h"

/* scatter: rank 0 sends each rank its rows of x, the shape of which is that of `like`. gather: rank
 * 0 gets the `rows` of all ranks, and other ranks, with `rows` 0, a scalar without meaning.
 * gt_dp_part() defines the rows of a rank. Both return NULL with the graph's error set. */
struct gt_value *gt_scatter(struct gt_graph *g, struct gt_value *x, const struct gt_value *like);
struct gt_value *gt_gather(struct gt_graph *g, struct gt_value *x, int64_t rows);

/* Emit a node that sends rank 0's weights to all ranks in the first run of a step. */
void gt_broadcast_weights(struct gt_graph *g);

#endif
