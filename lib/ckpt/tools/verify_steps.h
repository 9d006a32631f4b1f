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
	GT_VERIFY_DCP,  /* the metadata of a distributed checkpoint, which has globals of its own */
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

/* Run a pickle as far as Python would, and add its globals to v->globals. */
int gt_verify_pickle(struct gt_verify *v, struct gt_verify_source *source, struct gt_err *err);

/*
 * Look for a pickle in deflated bytes. The inflated bytes are subtracted from *budget. `map` and
 * `at` of `source` are not used.
 */
int gt_verify_deflated(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, uint64_t *budget, struct gt_verify_source *source, struct gt_err *err);

/* Merge equal globals of all pickles, and add a finding for each that weights_only=True refuses. */
int gt_verify_globals(struct gt_verify *v, struct gt_err *err);

/* The CRC-32 of bytes of a mapping, in an index by address. */
struct gt_known_sum {
	const void *bytes;
	uint64_t size;
	uint32_t crc;
};

/*
 * Check the records of a zip and the globals of their pickles. `known`: an index of struct
 * gt_known_sum, or NULL. `threads` 0: one per processor, at most 16.
 */
int gt_verify_zip(struct gt_verify *v, const struct gt_mapping *map, const struct gt_index *known,
    size_t threads, struct gt_err *err);

/*
 * Check all local headers of a zip that gt_zip_read() refuses. Set *count to their number and
 * *first to the first offset.
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

/* Compare records with their CRC-32, and set states[i] for record i. Set *checked_bytes. */
int gt_zip_check_records(struct gt_zip *zip, const struct gt_index *known, size_t threads,
    enum gt_record_state *states, uint64_t *checked_bytes, struct gt_err *err);

/*
 * Turn `found` into a finding, GT_ENOTSUP into one of the kind `unsupported`, and return 0. GT_EIO
 * and GT_ENOMEM are returned.
 */
int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err);

#endif
