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
 * Write one file under its temporary name. The caller calls gt_atomic_commit() or
 * gt_atomic_commit_all().
 */
int gt_st_write_begin(struct gt_atomic_file *file, const char *path,
    const struct gt_st_output *output, struct gt_err *err);

/*
 * Write a checkpoint as shards and an index, or as one file if all tensors fit. No file appears
 * before all are complete. GT_EINVAL: an output is a file of an input.
 */
int gt_st_write_shards(const char *path, const struct gt_st_output *output, struct gt_err *err);

/* Write the CRC-32 of a header (gt_st_header_crc()) as 8 digits to text[size], at the offset
 * `digits_at`. In the CRC-32, the digits themselves count as zeros. */
void gt_st_write_crc(char *text, size_t size, size_t digits_at);

/* Apply an edit to one safetensors file: the function `apply` of the format. */
int gt_st_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

/*
 * Write an edited copy of one shard to `file`. The caller opens `file`, and commits or abandons it.
 * `progress` may be NULL.
 */
int gt_st_edit_copy(struct gt_atomic_file *file, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_progress *progress, struct gt_edit_result *result,
    struct gt_err *err);

/* Set *out to a JSON object with all members of a checkpoint's index, such as "metadata", except
 * weight_map. The caller releases *out with json_decref(), also after an error. */
int gt_shards_other_members(json_t **out, const struct gt_ckpt *ckpt, struct gt_err *err);

/* Apply an edit to shards: the function `apply` of the format. GT_ENOTSUP: an edit in place. */
int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
