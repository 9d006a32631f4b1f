/* verify_steps.h - inside ckpt: the steps of gt_verify(). */
#ifndef GT_CKPT_TOOLS_VERIFY_STEPS_H
#define GT_CKPT_TOOLS_VERIFY_STEPS_H

#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/zip/zip.h"

/* Put a finding down. Texts are copied; 0 or GT_ENOMEM. */
int gt_verify_find(struct gt_verify *v, enum gt_finding_kind kind, const char *hint,
    struct gt_err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Note the globals that the pickle at byte `at` of a file names, or that behind the header of an
 * array of numpy's which begins there: one of objects is a pickle. *used gets its length, 0 when it
 * cannot be read; the globals before the break are noted all the same. A pickle that cannot be read
 * is no finding here: opening the file reports it. `where` is copied.
 *
 * Unless it `is_one` for sure, globals count only if the bytes call one, or begin as pickles of
 * protocol 2 and up do: other data may name something by chance.
 */
int gt_verify_pickle(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    const char *where, bool is_one, size_t *used, struct gt_err *err);

/* Once all pickles are seen: one line for each name, findings for those not allowed. */
int gt_verify_globals(struct gt_verify *v, struct gt_err *err);

/* The CRC-32 of bytes of a mapping, kept so that they are read once. */
struct gt_known_sum {
	const void *bytes;
	uint64_t size;
	uint32_t crc;
};

struct gt_known_sums {
	struct gt_known_sum *items; /* by address */
	size_t count;
};

/* That of exactly these bytes, or NULL. `sums` may be NULL: none are known. */
const struct gt_known_sum *gt_known_sum_find(
    const struct gt_known_sums *sums, const void *bytes, uint64_t size);

/* The records of a zip: headers, overlaps, pickles, checksums (those of `known` are not made
 * again). */
int gt_verify_zip(struct gt_verify *v, const struct gt_mapping *map,
    const struct gt_known_sums *known, size_t threads, struct gt_err *err);

/* Compare the records of an archive with their CRC-32, by threads. bad[i], not NULL, gets whether
 * that of record i differs; with NULL the first one that does is an error. */
int gt_zip_check_records(struct gt_zip *zip, const struct gt_known_sums *known,
    struct gt_arena *arena, size_t threads, bool *bad, uint64_t *checked_bytes, struct gt_err *err);

/*
 * Turn an error into a finding: 0 once it is noted; its own code if it is a failure of the machine
 * (GT_EIO, memory). A file that is well formed but not supported gives a finding of the kind
 * `unsupported`: the caller knows whether a check was left undone, and so whether verify fails.
 */
int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err);

#endif
