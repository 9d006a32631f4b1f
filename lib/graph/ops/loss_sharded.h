/* loss_sharded.h - private: losses when ranks divide the classes, and checks of targets. */
#ifndef GT_GRAPH_OPS_LOSS_SHARDED_H
#define GT_GRAPH_OPS_LOSS_SHARDED_H

#include "lib/graph/shard.h"

/* The shard rules of the two ops, for ranks that each have the logits of some classes. */
extern const struct gt_shard_rule gt_cross_entropy_rule, gt_classify_stats_rule;

/* Check that `target` is int32 with one element per row of logits, else GT_EINVAL. In loss.c. */
int gt_infer_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);
/* Check the same, or that `target` has the form for mixtures (lib/base/mixed_target.h). */
int gt_infer_loss_targets(
    const struct gt_value *logits, const struct gt_value *target, struct gt_err *err);
/* Check that input i, if there is one, has a factor for each class of the logits in[0]. */
int gt_infer_class_weight(const struct gt_node *n, int i, struct gt_err *err);
/* Infer the shape of the loss in out[0], of the type of in[0]: [] or, with attrs.loss.each,
 * [rows]. */
void gt_infer_loss(struct gt_node *n, int64_t rows);
/* gt_op.print() for attrs.loss. */
void gt_print_loss(const struct gt_node *n, FILE *f);

#endif
