/* dcp_set.h - write a distributed checkpoint of PyTorch (DCP), of which each rank writes a file. */
#ifndef GT_CKPT_DCP_SET_H
#define GT_CKPT_DCP_SET_H

#include "lib/base/folder.h"
#include "lib/ckpt/ckpt.h"

/* The file that makes a folder a distributed checkpoint. It names the files of the ranks. */
#define GT_DCP_METADATA ".metadata"

/* Return whether `path` is a folder with a .metadata. */
bool gt_dcp_is_folder(const char *path);

/*
 * A set is the checkpoint as one rank sees it: the values of a tree under flat names, and the parts
 * of these values that ranks have written. A part of a tensor is a box of it. Each rank adds its
 * parts and writes its file; then rank 0 adds the lists of the other ranks' parts, and writes the
 * .metadata. A folder has a checkpoint from that moment on.
 *
 * The tensors of all ranks' trees have the same names, types and shapes, in the same order. Values
 * that are no tensors count on rank 0 only.
 */
struct gt_dcp_set;

/* Make a set without parts. The tree is borrowed until gt_dcp_set_free(). Errors: GT_ENOTSUP for a
 * root that is no dict, keys that are no text or number, and values with the same name. */
int gt_dcp_set_new(
    struct gt_dcp_set **out, const struct gt_tree *root, int rank, struct gt_err *err);
void gt_dcp_set_free(struct gt_dcp_set *set);

/* Return the number of values, and value i, borrowed. */
size_t gt_dcp_set_count(const struct gt_dcp_set *set);
struct gt_tree *gt_dcp_set_value(const struct gt_dcp_set *set, size_t i);

/* Add to this rank's file the whole value i. */
int gt_dcp_set_add(struct gt_dcp_set *set, size_t i, struct gt_err *err);

/* Add the box of tensor i that begins at offset[ndim]. `part` is a contiguous tensor of the box's
 * shape, borrowed until the set is freed. */
int gt_dcp_set_add_box(struct gt_dcp_set *set, size_t i, const int64_t *offset,
    const struct gt_tree *part, struct gt_err *err);

/* Return the number of parts that were added, and part i, borrowed: a box or a whole value. */
size_t gt_dcp_set_part_count(const struct gt_dcp_set *set);
const struct gt_tree *gt_dcp_set_part(const struct gt_dcp_set *set, size_t i);

/* Write this rank's file into the folder. It is synced, unless `no_sync` is set. A rank without
 * parts has no file. */
int gt_dcp_set_write(
    struct gt_dcp_set *set, const struct gt_folder *folder, bool no_sync, struct gt_err *err);

/* Set *list to [*count] integers that describe the parts of this rank's file, which was written, in
 * the order of their values. The caller frees the list. */
int gt_dcp_set_list(
    int64_t **list, size_t *count, const struct gt_dcp_set *set, struct gt_err *err);

/* Add the parts of another rank. Errors: GT_EFORMAT if the list has a part of no tensor of this
 * set; GT_ENOMEM. */
int gt_dcp_set_add_list(
    struct gt_dcp_set *set, int rank, const int64_t *list, size_t count, struct gt_err *err);

/* Write the .metadata, when the set has the parts of all ranks. */
int gt_dcp_set_write_metadata(
    const struct gt_dcp_set *set, const struct gt_folder *folder, bool no_sync, struct gt_err *err);

#endif
