/* edit.h - inside ckpt: edits of names where a format holds nothing but names. */
#ifndef GT_CKPT_SAFETENSORS_EDIT_H
#define GT_CKPT_SAFETENSORS_EDIT_H

#include "lib/base/file.h"
#include "lib/ckpt/edit/edit.h"

/*
 * Rows' `apply` (format.h). A remap has nothing to change: these files name no devices.
 *
 * A safetensors file gets a new header. In place, it is written over the old one, in one write,
 * filled up with spaces to the old length; where names have become too long for that, a copy is
 * made and renamed over. Copies keep the data where they were in their blocks, so that a file
 * system which can share blocks does; what spaces that takes is room for later edits.
 *
 * A write in place that fails is undone. One that the system does not live to finish, as in a power
 * cut, may leave a header of both, which can't be mended. Of a file that gtrain wrote, the header's
 * CRC-32 then is wrong, and it is not opened; others may be garbled JSON or, where the lengths of
 * names agree, have both old names and new.
 */
int gt_st_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/* One shard's part of that: a copy in `file`, open by the caller, who commits or abandons it. */
int gt_st_edit_copy(struct gt_atomic_file *file, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_edit_result *result, struct gt_err *err);

/* Shards of safetensors: each is copied with a new header, beside the new index; all appear when
 * all are whole. Not in place (GT_ENOTSUP): several files cannot change in one step. */
int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/* An archive of arrays is written anew; in place, by a copy that is renamed over. */
int gt_npz_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
