/* safetensors_edit.h - inside ckpt: edits of names where a format holds nothing but names. */
#ifndef GT_CKPT_SAFETENSORS_EDIT_H
#define GT_CKPT_SAFETENSORS_EDIT_H

#include "lib/ckpt/edit.h"

/*
 * Rows' `apply` (format.h). A remap has nothing to change: these files name no devices.
 *
 * A safetensors file gets a new header. In place, it is written over the old one, in one write,
 * filled up with spaces to the old length; where names have become too long for that, a copy is
 * made and renamed over. Copies keep the data where they were in their blocks, so that a file
 * system which can share blocks does; what spaces that takes is room for later edits.
 */
int gt_st_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/* Shards of safetensors: each is copied with a new header, beside the new index, which is written
 * last. Not in place (GT_ENOTSUP): several files cannot change in one step. */
int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/* An archive of arrays is written anew; in place, by a copy that is renamed over. */
int gt_npz_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
