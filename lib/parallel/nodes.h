/* nodes.h - inside parallel: what ops that move or wait, and compute nothing, share. */
#ifndef GT_PARALLEL_NODES_H
#define GT_PARALLEL_NODES_H

#include "lib/graph/op.h"

/* gt_op.infer of an op without outputs; it refuses nothing. */
int gt_nodes_infer_nothing(struct gt_node *node, struct gt_err *err);

/* gt_op.flops: 0. */
double gt_nodes_no_flops(const struct gt_node *node);

/* gt_op.print of an op of one bucket (attrs.bucket): " bucket=3". */
void gt_nodes_print_bucket(const struct gt_node *node, FILE *f);

#endif
