/* write.h - inside ckpt: declarations that the writers of torch's two formats share. */
#ifndef GT_CKPT_TORCH_WRITE_H
#define GT_CKPT_TORCH_WRITE_H

#include "lib/base/index.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/write.h"

/*
 * A storage that is written: a range of a storage in memory or in another file, from the first to
 * the last element that a tensor of the tree uses. In torch, a storage has one type. So if tensors
 * use the same memory as two types, it is written twice.
 */
struct gt_torch_source {
	/* the storage that contains the bytes; the first one, if several have the same bytes */
	struct gt_storage *storage;
	enum gt_dtype dtype, as;   /* type of the elements in the tree; type in the output */
	int64_t first, count;      /* first element and number of elements in the storage */
	int64_t stride;            /* always 1: the stride of `all` */
	size_t key;                /* number that is its name in the output */
	struct gt_tree_tensor all; /* the same elements as a tensor, for gt_copy_tensors() */
};

/* The state of writing a tree. */
struct gt_torch_writer {
	const struct gt_ckpt_write_options *options;
	bool views; /* persistent ids get the sixth item `view`, which the legacy format needs */
	/* while the tree is walked: inside the state of an optimizer; inside its `step` */
	bool in_optimizer, at_step;
	struct gt_torch_source **sources; /* sources[key] */
	size_t count, capacity;
	struct gt_index by_data; /* index of `sources` by address of the data and type */
	struct gt_storage empty; /* the storage of all tensors without elements */
	struct gt_arena arena;
};

/*
 * Check a tree with gt_tree_check() and find its storages. The caller sets `options` and `views` of
 * `w` and zeroes the other fields. Call gt_torch_writer_release() in every case.
 */
int gt_torch_writer_collect(struct gt_torch_writer *w, struct gt_tree *root, struct gt_err *err);
void gt_torch_writer_release(struct gt_torch_writer *w);

/* Write the pickle of the tree to memory. *bytes is yours to free(); *size is its length. */
int gt_torch_writer_pickle(struct gt_torch_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err);

/* Return the source that contains the elements of a tensor of the tree. */
const struct gt_torch_source *gt_torch_writer_source(
    struct gt_torch_writer *w, const struct gt_tree_tensor *t);

/*
 * gt_torch_source_bytes() returns the size of a source in the output, in bytes.
 * gt_torch_source_units() returns its `numel` in the pickle: the number of elements, or of bytes if
 * torch has no storage class for the type.
 */
uint64_t gt_torch_source_bytes(const struct gt_torch_source *source);
uint64_t gt_torch_source_units(const struct gt_torch_source *source);

/* Return the place of a source in the output, which begins at `offset`, for gt_copy_tensors(). */
struct gt_copy_place gt_torch_source_place(const struct gt_torch_source *source, uint64_t offset);

/* Implement `write` of the format table (format.h): gt_torch_save() with options. */
int gt_torch_write_zip(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
