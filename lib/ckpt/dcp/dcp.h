/* dcp.h - private: PyTorch's distributed checkpoints (DCP): their metadata, as structs. */
#ifndef GT_CKPT_DCP_DCP_H
#define GT_CKPT_DCP_DCP_H

#include "lib/ckpt/dcp_set.h"
#include "lib/ckpt/format.h"

/*
 * A distributed checkpoint is a folder with the file .metadata and the files of the ranks,
 * __RANK_NUMBER.distcp. dcp/metadata.c describes them.
 */

/* A range of a file that holds one archive of torch.save(). */
struct gt_dcp_item {
	const char *file; /* name in the folder of .metadata */
	uint64_t at, bytes;
};

/* A box of a tensor (struct gt_box), and the place of its elements. */
struct gt_dcp_chunk {
	const int64_t *offset, *size; /* [ndim] */
	struct gt_dcp_item item;
};

/* A key of the flat dict that the ranks have saved. */
struct gt_dcp_entry {
	const char *name; /* "model.layer.weight" */
	/* the keys of the containers that it lies in, and its own: a tuple of strings and integers;
	 * NULL: `name` is the key */
	const struct gt_tree *path;
	bool is_tensor;
	struct gt_dcp_item value; /* unless it is a tensor */
	/* only of a tensor */
	enum gt_dtype dtype;
	const struct gt_raw_type *raw;
	int ndim;
	const int64_t *shape;
	struct gt_dcp_chunk *chunks;
	size_t chunk_count;
};

struct gt_dcp_metadata {
	struct gt_dcp_entry *entries; /* in the order of the file */
	size_t count;
};

/* Return whether a path has the name of a rank's file, which is read by way of its folder alone;
 * and set the error for it: GT_ENOTSUP. */
bool gt_dcp_is_rank_file(const char *path);
int gt_dcp_fail_rank_file(struct gt_err *err);

/* Return whether a file begins like a .metadata file. */
bool gt_dcp_is_metadata(const struct gt_mapping *map);

/*
 * Read a .metadata file, into the arena. No code of the pickle is run. GT_EFORMAT: it is damaged,
 * or names a global that is none of its own; GT_ENOTSUP: a tensor is stored in a way that gtrain
 * does not read.
 */
int gt_dcp_read_metadata(struct gt_dcp_metadata *out, const struct gt_mapping *map,
    struct gt_arena *arena, struct gt_err *err);

/* Build the nested tree of the entries' values, values[i] for entry i. */
int gt_dcp_nest(struct gt_tree **out, const struct gt_dcp_metadata *metadata,
    struct gt_tree *const *values, struct gt_arena *arena, struct gt_err *err);

/* Write a tree as a folder: the function `write` of the format. */
int gt_dcp_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
