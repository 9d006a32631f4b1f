/* npz.h - inside ckpt: numpy's archives of arrays. */
#ifndef GT_CKPT_NPZ_NPZ_H
#define GT_CKPT_NPZ_NPZ_H

#include "lib/ckpt/write.h"

/*
 * A zip archive with a record NAME.npy for each array, as numpy.savez() writes it. Read: stored or
 * deflated records (the latter are inflated into memory), in the archive's order; every record has
 * to be an array. A lone .npy file is a dict of one array, "arr_0", as savez() calls an array
 * without a name.
 * Written: stored records whose elements start at a multiple of 64 bytes; views as arrays of their
 * own, tied arrays twice: the format knows no sharing. numpy.load(allow_pickle=False) reads them.
 */

/* The row's `write` (format.h). Shards are refused (GT_ENOTSUP). */
int gt_npz_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
