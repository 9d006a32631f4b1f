/* layout.h - inside ckpt: bytes of a zip archive that nothing needs, and its earlier states. */
#ifndef GT_CKPT_ZIP_LAYOUT_H
#define GT_CKPT_ZIP_LAYOUT_H

#include "lib/ckpt/zip/zip.h"

/*
 * Bytes of the file that nothing refers to: records replaced by edits in place. Errors: GT_EIO,
 * GT_ENOMEM.
 */
int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err);

/*
 * Where the file would have to be cut to be the archive that it was before something was appended:
 * the last end record before byte *below (at most `reach` bytes before) whose directory can be
 * read. *below gets where it stands, to go on from there. False when there is none. Records are not
 * checked. *tries counts down the end records that are looked into: each may cost a reading of the
 * whole directory.
 */
enum { GT_ZIP_TRIES = 16 };

bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, int *tries, uint64_t *out_size);

/* To an error of opening a damaged archive add the hint that it can be mended, if an earlier state
 * of it stands in its last 16 MiB. Returns err->code. */
int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err);

#endif
