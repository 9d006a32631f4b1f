/* adapter_merge.h - add an adapter to the weights of its layers. */
#ifndef GT_TRAIN_CHECKPOINT_ADAPTER_MERGE_H
#define GT_TRAIN_CHECKPOINT_ADAPTER_MERGE_H

#include "lib/ckpt/ckpt.h"

/*
 * Set *out to a copy of a state_dict, in `arena`, in which the weights of the adapter's layers are
 *
 *   W + scale * B A        or, if the adapter says that weights are [in, out] (fan_in_fan_out),
 *   W + scale * (B A)^T
 *
 * as PEFT's merge_and_unload() computes it: the sum of products is float32, and is rounded to the
 * type of W before it is added. Tensors are computed when they are written, so `base` has to stay
 * open. `path` names it in messages. Errors: those of gt_adapter_open(); GT_EFORMAT if a layer is
 * missing in either, or has another shape, and for numbers of the adapter that are not finite.
 * Writing fails if a sum is too large for the type of W.
 */
int gt_adapter_merge(struct gt_tree **out, const struct gt_tree *base, const char *path,
    const char *folder, struct gt_arena *arena, struct gt_err *err);

#endif
