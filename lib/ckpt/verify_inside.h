/* verify_inside.h - inside ckpt: the steps of gt_verify(). */
#ifndef GT_CKPT_VERIFY_INSIDE_H
#define GT_CKPT_VERIFY_INSIDE_H

#include "lib/ckpt/verify.h"
#include "lib/ckpt/zip.h"

/* Put a finding down. Texts are copied; 0 or GT_ENOMEM. */
int gt_verify_find(struct gt_verify *v, enum gt_finding_kind kind, const char *hint,
    struct gt_err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Note the globals that the pickle at `bytes` names; *used gets its length, 0 when it cannot be
 * read. A pickle that cannot is no finding here: opening the file tells. */
int gt_verify_pickle(struct gt_verify *v, const unsigned char *bytes, size_t size,
    const char *where, size_t *used, struct gt_err *err);

/* Once all pickles are seen: one line for each name, findings for those not allowed. */
int gt_verify_globals(struct gt_verify *v, struct gt_err *err);

/* The records of a zip: headers, overlaps, checksums, pickles. */
int gt_verify_zip(
    struct gt_verify *v, const struct gt_mapping *map, size_t threads, struct gt_err *err);

/* Compare the records of an archive with their CRC-32, by threads. bad[i], not NULL, gets whether
 * that of record i differs; with NULL the first one that does is an error. */
int gt_zip_check_records(struct gt_zip *zip, struct gt_arena *arena, size_t threads, bool *bad,
    uint64_t *checked_bytes, struct gt_err *err);

#endif
