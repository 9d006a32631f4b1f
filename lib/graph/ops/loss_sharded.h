/* loss_sharded.h - private: losses when ranks divide the classes, and checks of targets. */
#ifndef GT_GRAPH_OPS_LOSS_SHARDED_H
#define GT_GRAPH_OPS_LOSS_SHARDED_H

#include "lib/graph/shard.h"

/* The shard rules (gt_op.shard, lib/graph/shard.h) of cross_entropy and classify_stats. With tensor
 * parallelism, each rank has the logits of some of the classes. */
extern const struct gt_shard_rule gt_cross_entropy_rule, gt_classify_stats_rule;

/* Check that `target` is int32 with one element for each row of the logits. Errors: GT_EINVAL.
 * Defined in loss.c. */
int gt_infer_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);
/* Check that `target` has the form that gt_infer_targets() accepts, or the form for mixtures of two
 * samples: GT_MIXED_TARGET_WORDS int32 for each row (lib/base/mixed_target.h). Errors:
 * GT_EINVAL. */
int gt_infer_loss_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);

#endif
