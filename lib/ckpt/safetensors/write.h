/* write.h - inside ckpt: the files that safetensors output consists of. */
#ifndef GT_CKPT_SAFETENSORS_WRITE_H
#define GT_CKPT_SAFETENSORS_WRITE_H

#include <jansson.h>
#include <stdio.h>

#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tree/flat.h"

/* The contents of one file. */
struct gt_st_output {
	const struct gt_tree *metadata;  /* a dict of strings to keep, or NULL */
	struct gt_flat_tensor **tensors; /* will be sorted */
	size_t count;
	struct gt_flat_tensor **tied; /* other names of tensors: ->kept is in the file */
	size_t tied_count;
	bool no_sync;                        /* as in gt_ckpt_write_options, */
	struct gt_ckpt_write_losses *losses; /* likewise */
	char **index;                        /* likewise */
};

/* The row's `write` (format.h). */
int gt_st_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

/* One file, which appears whole or not at all. */
int gt_st_write_file(const char *path, const struct gt_st_output *output, struct gt_err *err);

/* The same but for the last step: *file is whole, to be committed. */
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
int gt_st_write_shards(const char *path, const struct gt_st_output *output,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

/* The path of the i-th of `count` shards, yours to free(). `stem` is "a/model" for
 * "a/model.safetensors" and for "a/model.safetensors.index.json". */
char *gt_st_shard_path(const char *stem, size_t i, size_t count, struct gt_err *err);

/* Files that belong together: shards, then their index. */
struct gt_st_files {
	char *stem; /* of their names */
	struct gt_atomic_file *files;
	size_t shard_count;
	json_t *weight_map; /* names of tensors to names of files */
	uint64_t total_bytes;
	bool no_sync;
};

/*
 * For `shard_count` shards beside `path`; of a file, count its tensors into the index; write the
 * index and rename all files into place. Always release: it removes files that are not in place.
 */
int gt_st_files_init(
    struct gt_st_files *s, const char *path, size_t shard_count, struct gt_err *err);
int gt_st_files_list(
    struct gt_st_files *s, const char *name, uint64_t size, const char *path, struct gt_err *err);
int gt_st_files_commit(struct gt_st_files *s, struct gt_err *err);
void gt_st_files_release(struct gt_st_files *s);

/* Put the header's own CRC-32 at `digits_at` in its text. */
void gt_st_seal(char *text, size_t size, size_t digits_at);

#endif
