/* loss_sharded.h - inside graph: shape rules that losses share. */
#ifndef GT_GRAPH_OPS_LOSS_SHARDED_H
#define GT_GRAPH_OPS_LOSS_SHARDED_H

#include "lib/graph/op.h"

/* Targets are int32, one for each row of the logits; from loss.c. */
int gt_infer_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);

#endif
