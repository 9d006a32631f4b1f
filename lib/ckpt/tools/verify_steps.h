/* verify_steps.h - private: the steps of gt_verify(). */
#ifndef GT_CKPT_TOOLS_VERIFY_STEPS_H
#define GT_CKPT_TOOLS_VERIFY_STEPS_H

#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/zip/zip.h"

/* Add a finding. Its text is formatted as by printf(). The text and the hint are copied. Errors:
 * GT_ENOMEM. */
int gt_verify_find(struct gt_verify *v, enum gt_finding_kind kind, const char *hint,
    struct gt_err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Read the pickle at offset `at` of the file `map`, and add its globals to v->globals. The globals
 * of a pickle are the Python functions and classes whose names it contains. Python imports them
 * when it loads the pickle. If a NumPy array begins at this offset, read the pickle after the
 * header of the array, because arrays of objects contain a pickle. Set *used to the length of the
 * pickle, or to 0 if it cannot be read; the globals before the faulty byte are added even then.
 * This function adds no finding for a pickle that cannot be read, because gt_verify() also opens
 * the file as a checkpoint, and reports the fault then. `where` names the pickle
 * (gt_verify_global.where), and is copied.
 *
 * `is_one` is true if the bytes are certainly a pickle. Other data may look like the name of a
 * global by chance. So if `is_one` is false, globals are added only in two cases: the bytes contain
 * an opcode that calls a global; or they begin like a pickle of protocol 2 or later.
 */
int gt_verify_pickle(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    const char *where, bool is_one, size_t *used, struct gt_err *err);

/*
 * Call this after all pickles are read. Merge the entries of v->globals that have the same name and
 * the same pickle, and add a finding for each global that torch.load(weights_only=True) refuses.
 */
int gt_verify_globals(struct gt_verify *v, struct gt_err *err);

/*
 * The CRC-32 of some bytes of a mapping. These structs are kept in an index by address, so that the
 * bytes need to be read only once.
 */
struct gt_known_sum {
	const void *bytes;
	uint64_t size;
	uint32_t crc;
};

/*
 * Check a zip: headers, overlaps and checksums of all records, and the globals of their pickles.
 * `known` is an index of struct gt_known_sum, or NULL. Checksums in this index are not computed
 * again. `threads` is the number of threads (0: one per processor, at most 16).
 */
int gt_verify_zip(struct gt_verify *v, const struct gt_mapping *map, const struct gt_index *known,
    size_t threads, struct gt_err *err);

/*
 * Compare the records of an archive with their CRC-32, on `threads` threads. If `bad` is not NULL,
 * set bad[i] to true if record i is damaged. If `bad` is NULL, the first record that is damaged or
 * packed by a method that gtrain cannot unpack is an error. Set *checked_bytes to the number of
 * bytes that were compared. `known` is the same as for gt_verify_zip().
 */
int gt_zip_check_records(struct gt_zip *zip, const struct gt_index *known, struct gt_arena *arena,
    size_t threads, bool *bad, uint64_t *checked_bytes, struct gt_err *err);

/*
 * Turn the error `found` into a finding and return 0. If the system failed (GT_EIO, GT_ENOMEM),
 * return the error instead. GT_ENOTSUP becomes a finding of the kind `unsupported`. The caller sets
 * `unsupported` to GT_FINDING_UNREAD, so that the verification fails, or to GT_FINDING_NOTE, so
 * that the verification can still succeed.
 */
int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err);

#endif
