/* loss_sharded.h - inside graph: rules to shard losses over classes. */
#ifndef GT_GRAPH_OPS_LOSS_SHARDED_H
#define GT_GRAPH_OPS_LOSS_SHARDED_H

#include "lib/graph/shard.h"

/* The rules of cross_entropy and of classify_stats. */
extern const struct gt_shard_rule gt_cross_entropy_rule, gt_classify_stats_rule;

/* Targets are int32, one for each row of the logits; or also those of mixtures. From loss.c. */
int gt_infer_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);
int gt_infer_loss_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);

#endif
