/* write.h - inside ckpt: safetensors written, and edited. */
#ifndef GT_CKPT_SAFETENSORS_WRITE_H
#define GT_CKPT_SAFETENSORS_WRITE_H

#include "lib/base/file.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tree/flat.h"

/* The contents of one file. */
struct gt_st_output {
	const struct gt_tree *metadata;  /* a dict of strings to keep, or NULL */
	struct gt_flat_tensor **tensors; /* will be sorted */
	size_t count;
	struct gt_flat_tensor **tied; /* other names of tensors: ->kept is in the file */
	size_t tied_count;
	const struct gt_ckpt_write_options *options;
};

/* `write` of the format's row (format.h). */
int gt_st_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

/* Write one file, which appears whole or not at all. */
int gt_st_write_file(const char *path, const struct gt_st_output *output, struct gt_err *err);

/* The same without the last step: *file is complete, and the caller commits it. */
int gt_st_write_begin(struct gt_atomic_file *file, const char *path,
    const struct gt_st_output *output, struct gt_err *err);

/*
 * Files of at most shard_bytes of tensors each (or one tensor), as Hugging Face splits and names
 * them: PATH "model.safetensors" gives model-00001-of-00003.safetensors, ..., and
 * model.safetensors.index.json, the index that makes them one checkpoint. All appear when all are
 * whole, the index last, by gt_atomic_commit_all(). A tree that fits one file is written as PATH,
 * unless PATH is an index. No file is written if one of them is an input's. Tensors go into shards
 * in the order of the tree.
 * Source: huggingface_hub, src/huggingface_hub/serialization/_base.py, _torch.py, 0.25.
 */
int gt_st_write_shards(const char *path, const struct gt_st_output *output, struct gt_err *err);

/* Write the CRC-32 of the header into its text at `digits_at`. */
void gt_st_seal(char *text, size_t size, size_t digits_at);

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
