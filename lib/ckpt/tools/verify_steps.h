/* verify_steps.h - private: the steps of gt_verify(). */
#ifndef GT_CKPT_TOOLS_VERIFY_STEPS_H
#define GT_CKPT_TOOLS_VERIFY_STEPS_H

#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/zip/zip.h"

/* Add a finding. Its text is formatted as by printf(). The text and the hint are copied. Errors:
 * GT_ENOMEM. */
int gt_verify_find(struct gt_verify *v, enum gt_finding_kind kind, const char *hint,
    struct gt_err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* How certain it is that bytes are a pickle. */
enum gt_verify_trust {
	GT_VERIFY_MAYBE, /* other data may look like the name of a global by chance */
	GT_VERIFY_PICKLE,
	GT_VERIFY_TORCH /* a pickle that torch.load() reads */
};

/* Bytes in which a pickle is looked for, and the result. */
struct gt_verify_source {
	const struct gt_mapping *map;
	uint64_t at;       /* the pickle begins there */
	const char *where; /* names the pickle (gt_verify_global.where); is copied */
	enum gt_verify_trust trust;
	bool cut;  /* the bytes go on behind the end of `map` */
	bool more; /* with `cut`: if they do not suffice, the caller comes back with more of them */
	/* results. used: length of the pickle, or 0 if it breaks off. unfinished: more bytes are
	 * needed, and nothing was reported */
	size_t used;
	bool unfinished;
};

/*
 * Run a pickle as far as Python would (pickle/scan.h), and add
 * its globals to v->globals. The globals of a pickle are the Python functions and classes whose
 * names it contains. Python imports them when it loads the pickle. If a NumPy array begins at this
 * offset, read the pickle after the header of the array, because arrays of objects contain a
 * pickle. If the pickle breaks off, the globals before the faulty byte are added. This function
 * adds no finding for it, because gt_verify() also opens the file as a checkpoint, and reports the
 * fault then. It adds a note for the first pickle with an opcode that PyTorch refuses.
 *
 * With GT_VERIFY_MAYBE, globals are added in three cases only: the bytes contain an opcode that
 * calls a global; or they name one that is dangerous; or they begin like a pickle of protocol 2 or
 * later.
 */
int gt_verify_pickle(struct gt_verify *v, struct gt_verify_source *source, struct gt_err *err);

/*
 * Look for a pickle in the deflated bytes [at, at + packed) of a file. At most *budget bytes are
 * inflated, which are subtracted from it. Only where, trust and the results of `source` are used.
 */
int gt_verify_deflated(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, uint64_t *budget, struct gt_verify_source *source, struct gt_err *err);

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
 * Look through the records of a zip that gt_zip_read() refuses, so that readers may see different
 * contents: all bytes behind something that looks like a local header. A record whose bytes are
 * plain, although it is marked as encrypted, is a finding. Set *count to the number of headers, and
 * *first to the offset of the first one.
 */
int gt_verify_headers(struct gt_verify *v, const struct gt_mapping *map, uint64_t *first,
    size_t *count, struct gt_err *err);

/* Look for a zip at the end of a file that does not begin as one, and through its records. */
int gt_verify_appended(struct gt_verify *v, const struct gt_mapping *map, struct gt_err *err);

enum gt_record_state {
	GT_RECORD_SOUND,
	GT_RECORD_DAMAGED,
	GT_RECORD_UNCHECKED,     /* it would unpack to more bytes than a limit allows */
	GT_RECORD_UNKNOWN_METHOD /* gtrain cannot unpack it */
};

/*
 * Compare the records of an archive with their CRC-32, on `threads` threads, and set states[i] for
 * record i. Set *checked_bytes to the number of bytes that were compared. `known` is the same as
 * for gt_verify_zip(). Errors: GT_EIO, GT_ENOMEM.
 */
int gt_zip_check_records(struct gt_zip *zip, const struct gt_index *known, size_t threads,
    enum gt_record_state *states, uint64_t *checked_bytes, struct gt_err *err);

/*
 * Turn the error `found` into a finding and return 0. If the system failed (GT_EIO, GT_ENOMEM),
 * return the error instead. GT_ENOTSUP becomes a finding of the kind `unsupported`. The caller sets
 * `unsupported` to GT_FINDING_UNREAD, so that the verification fails, or to GT_FINDING_NOTE, so
 * that the verification can still succeed.
 */
int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err);

#endif
