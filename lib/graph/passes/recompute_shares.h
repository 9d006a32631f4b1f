/* recompute_shares.h - private: blocks for recomputation where modules of a model are none. */
#ifndef GT_GRAPH_PASSES_RECOMPUTE_SHARES_H
#define GT_GRAPH_PASSES_RECOMPUTE_SHARES_H

#include "lib/graph/graph.h"

/* Divide the nodes before `middle`, the forward part, into consecutive blocks that need little
 * memory: set block_of[middle], and return the number of blocks. candidate[values] tells the values
 * that the backward part reads and a copy could compute again. Errors: GT_ENOMEM. */
int gt_recompute_shares(const struct gt_graph *g, size_t middle, const bool *candidate,
    int *block_of, struct gt_err *err);

#endif
