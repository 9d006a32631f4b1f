/* safetensors.h - private: the header of safetensors files, and the digests gtrain adds. */
#ifndef GT_CKPT_SAFETENSORS_SAFETENSORS_H
#define GT_CKPT_SAFETENSORS_SAFETENSORS_H

#include "lib/ckpt/ckpt.h"

/*
 * A safetensors file consists of three parts:
 *
 *   8 bytes    the number N, little-endian
 *   N bytes    the header: JSON that starts with "{" and may end with spaces
 *   the rest   the data: the bytes of the tensors, little-endian and row-major
 *
 * An example of a header:
 *
 *   {"__metadata__": {"format": "pt"},
 *    "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * data_offsets are byte offsets in the data. The ranges of all tensors cover the data without gap
 * or overlap. No name occurs twice. The values of __metadata__ are strings.
 * Source: huggingface/safetensors, README.md "Format" and safetensors/src/tensor.rs, 0.6.
 *
 * Files written by gtrain also contain checksums, called digests. They are two entries of
 * __metadata__; other readers ignore them:
 *
 *   "gtrain.crc32.tensors"  "5f0c25f1 00a3..": the CRC-32 of each tensor that has bytes, in the
 *                           order of data_offsets, each as 8 hexadecimal digits
 *   "gtrain.crc32.header"   "9d3e1a07": the CRC-32 of the first 8 + N bytes of the file; for the
 *                           computation, these 8 digits are replaced by zeros
 *
 * A file has both entries or none; if it has only one, this is an error. "gtrain.crc32.tensors"
 * does not depend on names, so renaming a tensor does not change it.
 *
 * Another program may copy both entries into a header of its own, where they are wrong. So gtrain's
 * headers begin with GT_ST_MARK, which ends in two spaces that no JSON library writes. If a header
 * begins with GT_ST_MARK, a wrong CRC-32 means that the header is damaged. A flipped bit in
 * GT_ST_MARK itself makes the header invalid. If a header does not begin with GT_ST_MARK, a wrong
 * CRC-32 means that the digests are stale: both entries and "gtrain.tied" are ignored, and the file
 * has no checksums.
 *
 * Tied tensors are several names for one tensor. The tensor is stored once, under one of the names.
 * Each other name is an entry of __metadata__, such as {"lm_head.weight": "wte.weight"}. The
 * safetensors library writes the same entries in save_model(). But the library does this also for
 * views of a tensor, and a view cannot be restored from such an entry. gtrain writes such entries
 * only for tensors with the same storage, offset, dtype, shape and strides. To a file with tied
 * tensors, gtrain adds this entry:
 *
 *   "gtrain.tied"           "1": the number of entries at the end of __metadata__ that are other
 *                           names of tensors. A reader that knows this entry finds a tensor
 *                           under each of its names
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
 * Parse a header of `size` bytes. Check all rules of the format, but not the length of the data:
 * set *data_bytes to the length that the data must have. The results are allocated in the arena;
 * the text is borrowed. Errors: GT_EFORMAT, with a message that names the tensor or the byte
 * (counted from the start of the file); GT_ENOTSUP for a dtype that is not known and whose elements
 * have no size in whole bits, for too many dimensions and too many entries. Another dtype that
 * gtrain does not compute with is no error: the tensor has a raw type.
 */
int gt_st_parse(struct gt_st_header *out, struct gt_arena *arena, const char *text, size_t size,
    uint64_t *data_bytes, struct gt_err *err);

/*
 * Read the header of the file that `map` maps, and parse it by gt_st_parse(). Check the length of
 * the file, too. The header is copied first, because other processes may change a mapped file.
 */
int gt_st_open(const struct gt_mapping *map, struct gt_st_header *header, struct gt_arena *arena,
    struct gt_err *err);

/* Return the entry of __metadata__ with this key, or NULL. */
const struct gt_st_string *gt_st_metadata(const struct gt_st_header *header, const char *key);

/*
 * Return the number of entries at the end of __metadata__ that are other names of tensors. Return 0
 * if the file has no digests or stale digests, or if the value of GT_ST_TIED differs from the
 * number of entries that follow the entry GT_ST_TIED.
 */
size_t gt_st_ties(const struct gt_st_header *header);

/*
 * Return the CRC-32 of a header: of the 8 bytes of its length and of its text. The 8 digits at
 * offset `digits_at` count as zeros.
 */
uint32_t gt_st_header_crc(const char *text, size_t size, size_t digits_at);

/*
 * gt_st_type() returns the name of a dtype, such as "F32". gt_st_rank() returns the rank of a
 * dtype. The rank gives the order of the tensors in the data: tensors with a higher rank come
 * first. `raw` is the raw type of the tensor, or NULL. If the format does not have the type, the
 * functions return NULL and -1.
 */
const char *gt_st_type(enum gt_dtype dtype, const struct gt_raw_type *raw);
int gt_st_rank(enum gt_dtype dtype, const struct gt_raw_type *raw);

/* ---- shards ---- */

/*
 * Hugging Face stores a large checkpoint as several files, called shards, with an index. The index
 * is model.safetensors.index.json or pytorch_model.bin.index.json:
 *
 *   {"metadata": {"total_size": 123}, "weight_map": {"NAME": "model-00001-of-00002.safetensors"}}
 *
 * The shards are in the same folder as the index; a file name with a "/" is an error. weight_map
 * and the shards must agree: each tensor in weight_map must be in the named shard and in no other.
 * But a shard may also have tensors that weight_map does not list, such as tied ones; these are
 * read, too.
 * Source: transformers, docs/source/en/big_models.md, "Sharded checkpoints".
 */

/*
 * Find the checkpoint in a folder: an index or a single file. Set *path to its path, which the
 * caller frees with free(). It is the first of these files that exists: model.safetensors,
 * model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json, the only
 * *.index.json of the folder. The first four are looked for in the order of transformers, so that
 * gtrain and transformers read the same weights. Errors: GT_EIO if none exists.
 * Source: transformers, modeling_utils.py, from_pretrained().
 */
int gt_shards_in_folder(char **path, const char *folder, struct gt_err *err);

#endif
