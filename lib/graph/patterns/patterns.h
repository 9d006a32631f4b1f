/* patterns.h - faster ops in place of computations that an imported network writes out. */
#ifndef GT_GRAPH_PATTERNS_PATTERNS_H
#define GT_GRAPH_PATTERNS_PATTERNS_H

#include "lib/graph/graph.h"

/*
 * Find computations for which there is an op, such as a norm of many steps, in the forward graph of
 * a network, and put the op in their place. Results differ by rounding alone. *result is the value
 * that the network is for; it may be replaced by another one. Nodes that *result does not need, and
 * that write no buffer, are removed. g->recognized then lists the patterns that were found.
 *
 * Errors: GT_ENOMEM.
 */
int gt_patterns_apply(struct gt_graph *g, struct gt_value **result, struct gt_err *err);

#endif
