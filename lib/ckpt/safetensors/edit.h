/* edit.h - inside ckpt: edits of names where a format holds nothing but names. */
#ifndef GT_CKPT_SAFETENSORS_EDIT_H
#define GT_CKPT_SAFETENSORS_EDIT_H

#include "lib/base/file.h"
#include "lib/ckpt/edit/edit.h"

/*
 * Rows' `apply` (format.h). A remap has nothing to change: these files name no devices.
 *
 * A safetensors file gets a new header. In place, one write puts it over the old header, padded
 * with spaces to the old length. If the new names are too long for that, the edit makes a copy and
 * renames it over the file. A copy keeps each byte of data at the same offset within its block, so
 * that file systems can share the blocks; the spaces that this adds leave room for later edits.
 *
 * A write in place that fails is undone. A power cut during it may leave a mixture of both headers,
 * which cannot be repaired. In a file that gtrain wrote, the header's CRC-32 is then wrong and the
 * file does not open; in other files the header may be invalid JSON or, where the lengths of names
 * agree, have both old names and new.
 */
int gt_st_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/* The same for one shard: a copy in `file`, which the caller opens, and commits or abandons. */
int gt_st_edit_copy(struct gt_atomic_file *file, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_edit_result *result, struct gt_err *err);

/* Shards of safetensors: each is copied with a new header, beside the new index; all appear when
 * all are whole. Not in place (GT_ENOTSUP): several files cannot change in one step. */
int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
