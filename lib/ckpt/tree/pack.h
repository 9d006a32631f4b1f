/* pack.h - inside ckpt: elements of a strided tensor, put in a row. */
#ifndef GT_CKPT_TREE_PACK_H
#define GT_CKPT_TREE_PACK_H

#include "lib/ckpt/ckpt.h"

/*
 * Copy the `count` elements from the `first` on, in order, packed, in the byte order of the
 * storage, which is not checked. The larger the range, the better the order in which the storage is
 * read: a few MiB make a large transposed matrix quick. GT_EIO when the file cannot be read.
 */
int gt_ckpt_tensor_pack(
    const struct gt_tree_tensor *t, int64_t first, size_t count, void *out, struct gt_err *err);

#endif
