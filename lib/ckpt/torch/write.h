/* write.h - private: declarations for the writers of PyTorch's zip and legacy formats. */
#ifndef GT_CKPT_TORCH_WRITE_H
#define GT_CKPT_TORCH_WRITE_H

#include "lib/base/index.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/write.h"

/* A storage of the output: the part of a storage of the tree that tensors use as one type. */
struct gt_torch_source {
	/* the storage that contains the bytes; if several storages share them, the first one */
	struct gt_storage *storage;
	/* dtype: type of the elements in the tree; as: type of the elements in the output */
	enum gt_dtype dtype, as;
	/* the part of `storage` that is written: index of the first element, number of elements;
	 * all.shape points to `count` */
	int64_t first, count;
	int64_t stride;            /* always 1; all.stride points to it */
	size_t key;                /* a number: the name of the written storage in the output */
	struct gt_tree_tensor all; /* the same elements as a tensor, for gt_copy_tensors() */
};

/* The state of a writer while it writes a tree. */
struct gt_torch_writer {
	const struct gt_ckpt_write_options *options;
	/* write `view`, the sixth item of each persistent id, for the legacy format */
	bool views;
	/* the walk of the tree is inside the state of an optimizer; inside an item "step" */
	bool in_optimizer, at_step;
	struct gt_torch_source **sources; /* sources[key] */
	size_t count, capacity;
	struct gt_index by_data; /* index of `sources` by the address and the type of the data */
	struct gt_storage empty; /* the storage of all tensors without elements */
	struct gt_arena arena;
};

/*
 * Check a tree and find its storages. The caller sets `options` and `views`, and releases `w` in
 * every case.
 */
int gt_torch_writer_collect(struct gt_torch_writer *w, struct gt_tree *root, struct gt_err *err);
void gt_torch_writer_release(struct gt_torch_writer *w);

/* Write the pickle of the tree to memory. The caller frees *bytes. */
int gt_torch_writer_pickle(struct gt_torch_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err);

/* Return the source that contains the elements of a tensor of the tree. */
const struct gt_torch_source *gt_torch_writer_source(
    struct gt_torch_writer *w, const struct gt_tree_tensor *t);

/*
 * Return the size of a source in bytes; and its `numel`: elements, or bytes if torch has no class
 * for the type.
 */
uint64_t gt_torch_source_bytes(const struct gt_torch_source *source);
uint64_t gt_torch_source_units(const struct gt_torch_source *source);

/* Return a place that copies this source to the byte `offset` of the output. */
struct gt_copy_place gt_torch_source_place(const struct gt_torch_source *source, uint64_t offset);

/*
 * Write a tree as an archive of torch.save() that begins at offset `at` of the file `fd`, a
 * multiple of GT_ZIP_ALIGN. Set *end to the offset of its end.
 */
int gt_torch_write_archive(int fd, uint64_t at, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, uint64_t *end, struct gt_err *err);

/* Write a tree as a torch zip: the function `write` of the format. */
int gt_torch_write_zip(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
