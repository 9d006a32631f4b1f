/* write.h - inside ckpt: declarations shared by the writers of torch's two formats. */
#ifndef GT_CKPT_TORCH_WRITE_H
#define GT_CKPT_TORCH_WRITE_H

#include "lib/base/index.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/write.h"

/*
 * A storage of the output: part of a storage in memory or in another file, from the first to the
 * last element that a tensor of the tree uses. In torch a storage has one type, so memory that
 * tensors use as two types is written twice.
 */
struct gt_torch_source {
	struct gt_storage *storage; /* the first storage found with these bytes */
	enum gt_dtype dtype, as;    /* type of the elements; type in the output */
	int64_t first, count;       /* elements of the storage */
	int64_t stride;             /* 1 */
	size_t key;                 /* its name in the output */
	struct gt_tree_tensor all;  /* these elements as a tensor, for gt_copy_tensors() */
};

struct gt_torch_writer {
	const struct gt_ckpt_write_options *options;
	bool views;                 /* persistent ids have the sixth part that legacy files want */
	bool in_optimizer, at_step; /* current place of the walk */
	struct gt_torch_source **sources; /* by key */
	size_t count, capacity;
	struct gt_index by_data; /* the same */
	struct gt_storage empty;
	struct gt_arena arena;
};

/* Find the storages of a tree, which has to pass gt_tree_check(). `w` is zeroed but for options and
 * views; call gt_torch_writer_release() in every case. */
int gt_torch_writer_collect(struct gt_torch_writer *w, struct gt_tree *root, struct gt_err *err);
void gt_torch_writer_release(struct gt_torch_writer *w);

/* The pickle of the tree, yours to free(). */
int gt_torch_writer_pickle(struct gt_torch_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err);

/* The source of a tensor of the tree. */
const struct gt_torch_source *gt_torch_writer_source(
    struct gt_torch_writer *w, const struct gt_tree_tensor *t);

/*
 * Bytes of a source in the output, and the count its pickle gives: elements, or bytes where torch
 * has no storage class of this type.
 */
uint64_t gt_torch_source_bytes(const struct gt_torch_source *source);
uint64_t gt_torch_source_units(const struct gt_torch_source *source);

/* The place in the output for a source. */
struct gt_copy_place gt_torch_source_place(const struct gt_torch_source *source, uint64_t offset);

/* gt_torch_save() with options: `write` of the format's row. */
int gt_torch_write_zip(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
