/* verify_steps.h - inside ckpt: the steps of gt_verify(). */
#ifndef GT_CKPT_TOOLS_VERIFY_STEPS_H
#define GT_CKPT_TOOLS_VERIFY_STEPS_H

#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/zip/zip.h"

/* Add a finding. Texts are copied. Returns 0 or GT_ENOMEM. */
int gt_verify_find(struct gt_verify *v, enum gt_finding_kind kind, const char *hint,
    struct gt_err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * List the globals of the pickle at byte `at` of a file. If a numpy array begins there, list those
 * of the pickle after its header, because arrays of objects are pickles. *used becomes the length
 * of the pickle, or 0 if it cannot be read; globals before the faulty byte are listed even then. A
 * pickle that cannot be read is not a finding here, because opening the file reports it. `where` is
 * copied.
 *
 * If it is not certain that the bytes are a pickle (`is_one` is false), globals count only if the
 * bytes call one, or begin like a pickle of protocol 2 or later: other data may look like a name by
 * chance.
 */
int gt_verify_pickle(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    const char *where, bool is_one, size_t *used, struct gt_err *err);

/* Call this after all pickles: merge the globals to one line per name, and add findings for names
 * that are not allowed. */
int gt_verify_globals(struct gt_verify *v, struct gt_err *err);

/* The CRC-32 of some bytes of a mapping. It is kept in an index by their address, so that the bytes
 * are read only once. */
struct gt_known_sum {
	const void *bytes;
	uint64_t size;
	uint32_t crc;
};

/* The records of a zip: headers, overlaps, pickles, checksums. Checksums in `known`, which may be
 * NULL, are not computed again. */
int gt_verify_zip(struct gt_verify *v, const struct gt_mapping *map, const struct gt_index *known,
    size_t threads, struct gt_err *err);

/* Compare the records of an archive with their CRC-32, by threads. If `bad` is not NULL, bad[i] is
 * set to whether the CRC-32 of record i differs. If it is NULL, the first record that differs is an
 * error. */
int gt_zip_check_records(struct gt_zip *zip, const struct gt_index *known, struct gt_arena *arena,
    size_t threads, bool *bad, uint64_t *checked_bytes, struct gt_err *err);

/*
 * Turn an error into a finding, and return 0; failures of the machine (GT_EIO, memory) are returned
 * as errors. GT_ENOTSUP becomes a finding of the kind `unsupported`, which the caller chooses: only
 * the caller knows whether a check was skipped, and so whether verify fails.
 */
int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err);

#endif
