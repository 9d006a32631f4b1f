/* write.h - private: write and edit safetensors files. */
#ifndef GT_CKPT_SAFETENSORS_WRITE_H
#define GT_CKPT_SAFETENSORS_WRITE_H

#include <jansson.h>

#include "lib/base/file.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tree/flat.h"

/* The contents of one file that is to be written. */
struct gt_st_output {
	/* a dict of strings that is added to __metadata__; or NULL */
	const struct gt_tree *metadata;
	struct gt_flat_tensor **tensors; /* the functions below change their order */
	size_t count;
	/* tensors that are not stored, because tied[i]->kept is a stored tensor with the same
	 * memory, type, shape and strides under another name */
	struct gt_flat_tensor **tied;
	size_t tied_count;
	const struct gt_ckpt_write_options *options;
};

/* Write a tree as one safetensors file or as shards: the function `write` of the format table
 * (lib/ckpt/format.h). */
int gt_st_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

/* Write one file. It appears whole or not at all. */
int gt_st_write_file(const char *path, const struct gt_st_output *output, struct gt_err *err);

/*
 * Write one file like gt_st_write_file(), but leave it under its temporary name. *file is complete
 * afterwards. To give it its final name, the caller calls gt_atomic_commit() or
 * gt_atomic_commit_all() (lib/base/file.h).
 */
int gt_st_write_begin(struct gt_atomic_file *file, const char *path,
    const struct gt_st_output *output, struct gt_err *err);

/*
 * Write a checkpoint as shards: files with at most options->shard_bytes bytes of tensors each, or
 * with one larger tensor. The shards are split and named as Hugging Face does: for the PATH
 * "model.safetensors", the files are model-00001-of-00003.safetensors, ..., and the index
 * model.safetensors.index.json. When all files are complete, gt_atomic_commit_all() gives them
 * their final names, the index last. If all tensors fit into one shard and PATH does not end with
 * ".index.json", they are written to PATH, without an index. If one of the output files belongs to
 * a checkpoint in options->inputs, nothing is written, and the error is GT_EINVAL. Tensors are
 * assigned to shards in the order of the tree. Source: huggingface_hub,
 * src/huggingface_hub/serialization/_base.py, _torch.py, 0.25.
 */
int gt_st_write_shards(const char *path, const struct gt_st_output *output, struct gt_err *err);

/* Write the CRC-32 of a header (gt_st_header_crc()) as 8 digits to text[size], at the offset
 * `digits_at`. In the CRC-32, the digits themselves count as zeros. */
void gt_st_write_crc(char *text, size_t size, size_t digits_at);

/*
 * Implement `apply` of the format table (lib/ckpt/format.h) for one safetensors file. GT_EDIT_REMAP
 * changes nothing, because these files contain no device names.
 *
 * The edit writes a new header. An edit in place overwrites the old header with one write; spaces
 * pad the new header to the length of the old one. If the new header is longer than the old one,
 * the edit writes a copy of the file and renames it over the file. In a copy, spaces pad the
 * header so that the data move by a multiple of the block size of file systems. So a file system
 * can share the blocks of the data with the old file. A later edit can replace these spaces.
 *
 * If a write in place fails, it is undone. If the power fails during the write, the header may be a
 * mixture of old and new bytes, which cannot be repaired. A file that gtrain wrote has a CRC-32 of
 * its header. A mixed header does not agree with this CRC-32, so the file cannot be opened. In
 * other files, a mixed header may be invalid JSON. If old and new names have the same lengths, the
 * header may also be valid, and have both old and new names.
 */
int gt_st_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/*
 * Write an edited copy of one shard to `file`. The caller opens `file`, and commits or abandons it.
 */
int gt_st_edit_copy(struct gt_atomic_file *file, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_edit_result *result, struct gt_err *err);

/* Set *out to a JSON object with all members of a checkpoint's index, such as "metadata", except
 * weight_map. The caller releases *out with json_decref(), also after an error. */
int gt_shards_other_members(json_t **out, const struct gt_ckpt *ckpt, struct gt_err *err);

/*
 * Implement `apply` of the format table for shards of safetensors. Copy each shard with a new
 * header, and write a new index that keeps the other members of the old index. No file appears
 * before all files are complete. Errors: GT_ENOTSUP for an edit in place, because several files
 * cannot change in one step.
 */
int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
