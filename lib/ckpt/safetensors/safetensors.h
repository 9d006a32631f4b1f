/* safetensors.h - private: the header of safetensors files, and the digests gtrain adds. */
#ifndef GT_CKPT_SAFETENSORS_SAFETENSORS_H
#define GT_CKPT_SAFETENSORS_SAFETENSORS_H

#include "lib/ckpt/ckpt.h"

/*
 * A safetensors file is the length of the header (8 bytes), the header (JSON), and the bytes of
 * the tensors. gtrain adds checksums, called digests, to the header. safetensors/header.c
 * describes the format, the digests and the entries for tied tensors.
 */

#define GT_ST_METADATA "__metadata__"
#define GT_ST_TENSORS  "gtrain.crc32.tensors"
#define GT_ST_HEADER   "gtrain.crc32.header"
#define GT_ST_TIED     "gtrain.tied"
#define GT_ST_FORMAT   "format" /* the value is "pt"; the transformers library requires the entry */

/* GT_ST_START is the start of each header that gtrain writes, up to the digits of GT_ST_HEADER. */
#define GT_ST_MARK    "{\"" GT_ST_METADATA "\":  "
#define GT_ST_ENTRIES "{\"" GT_ST_FORMAT "\":\"pt\",\"" GT_ST_HEADER "\":\""
#define GT_ST_START   GT_ST_MARK GT_ST_ENTRIES

enum {
	GT_ST_LENGTH_BYTES = 8,
	/* limit of the header, in bytes; the safetensors library has the same limit */
	GT_ST_HEADER_MAX = 100000000,
	/* limit of the number of tensors and entries of __metadata__ together */
	GT_ST_ENTRIES_MAX = 1 << 20,
	GT_ST_CRC_DIGITS = 8,
};

struct gt_st_tensor {
	const char *name;
	const char *type; /* "F32" */
	unsigned bits;    /* bits per element */
	enum gt_dtype dtype;
	const struct gt_raw_type *raw; /* the type, if gtrain does not compute with it; or NULL */
	int ndim;
	const int64_t *shape; /* [ndim], as in the tree: the last one may count bytes (raw.h) */
	uint64_t begin, end;  /* range of its bytes in the data */
	size_t name_at;       /* offset in the header of the '"' before the name */
	size_t name_length;   /* length of the name in the header, with quotes and escapes */
};

/* An entry of __metadata__. */
struct gt_st_string {
	const char *key, *value;
	/* offsets and lengths in the header, like name_at and name_length */
	size_t key_at, key_length, value_at, value_length;
};

struct gt_st_header {
	/*
	 * The text of the header, not zero-terminated. gt_st_parse() borrows it from its caller;
	 * gt_st_open() allocates a copy in the arena.
	 */
	const char *text;
	size_t size;
	struct gt_st_tensor *tensors; /* in the order of the header, without GT_ST_METADATA */
	size_t count, capacity;
	/* The tensors sorted by `begin`. Of tensors with the same `begin`, empty ones are first. */
	struct gt_st_tensor **by_offset;
	struct gt_st_string *metadata;
	size_t metadata_count, metadata_capacity;
	/* set when a file is opened */
	bool stale; /* the CRC-32 of the header is wrong: the digests are ignored */
};

/*
 * Parse a header, whose text is borrowed; results are in the arena. Set *data_bytes to the length
 * that the data must have. GT_ENOTSUP: an unknown dtype without whole bits, too many dimensions or
 * entries.
 */
int gt_st_parse(struct gt_st_header *out, struct gt_arena *arena, const char *text, size_t size,
    uint64_t *data_bytes, struct gt_err *err);

/* Copy and parse the header of a mapped file, and check the length of the file. */
int gt_st_open(const struct gt_mapping *map, struct gt_st_header *header, struct gt_arena *arena,
    struct gt_err *err);

/* Return the entry of __metadata__ with this key, or NULL. */
const struct gt_st_string *gt_st_metadata(const struct gt_st_header *header, const char *key);

/*
 * Return the number of entries at the end of __metadata__ that name tied tensors; 0 without valid
 * digests.
 */
size_t gt_st_ties(const struct gt_st_header *header);

/* Return the CRC-32 of a header and its length; the 8 digits at `digits_at` count as zeros. */
uint32_t gt_st_header_crc(const char *text, size_t size, size_t digits_at);

/*
 * Return the name of a type, such as "F32", or NULL; and its rank, or -1. Tensors of a higher rank
 * come first in the data. `raw` may be NULL.
 */
const char *gt_st_type(enum gt_dtype dtype, const struct gt_raw_type *raw);
int gt_st_rank(enum gt_dtype dtype, const struct gt_raw_type *raw);

#endif
