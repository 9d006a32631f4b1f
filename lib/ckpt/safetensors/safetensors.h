/* safetensors.h - inside ckpt: the header of safetensors files, and the digests gtrain adds. */
#ifndef GT_CKPT_SAFETENSORS_SAFETENSORS_H
#define GT_CKPT_SAFETENSORS_SAFETENSORS_H

#include "lib/ckpt/ckpt.h"

/*
 * 8 bytes: N, little-endian; N bytes of JSON, which start with "{" and may end in spaces:
 *
 *   {"__metadata__": {"format": "pt"},
 *    "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * then the bytes of the tensors: little-endian, row-major, at data_offsets, which cover them all
 * without gap or overlap. No name occurs twice. The values of __metadata__ are strings.
 * Source: huggingface/safetensors, README.md "Format" and safetensors/src/tensor.rs, 0.6.
 *
 * Files written by gtrain have digests, as two entries of __metadata__, which other readers ignore:
 *
 *   "gtrain.crc32.tensors"  "5f0c25f1 00a3..": the CRC-32 of each tensor that has bytes, in order
 *                           of data_offsets, as 8 hexadecimal digits each
 *   "gtrain.crc32.header"   "9d3e1a07": the CRC-32 of the first 8 + N bytes of the file, these
 *                           8 digits counted as zeros
 *
 * Both or none: one alone is an error. The first does not cover names, so renaming leaves it
 * unchanged. A program that rewrites the header must update the second, or remove both.
 *
 * Tied tensors are stored once. The other names are entries of __metadata__ too: {"lm_head.weight":
 * "wte.weight"}, as the library's save_model() does. The library treats views in the same way,
 * although they cannot be restored from such an entry. gtrain does it only for tensors with the
 * same storage, offset, dtype, shape and strides, and adds:
 *
 *   "gtrain.tied"           "1": the number of entries at the end of __metadata__ that are other
 *                           names of tensors. Readers that know this entry give the tensors both
 *                           names
 */

#define GT_ST_METADATA "__metadata__"
#define GT_ST_TENSORS  "gtrain.crc32.tensors"
#define GT_ST_HEADER   "gtrain.crc32.header"
#define GT_ST_TIED     "gtrain.tied"
#define GT_ST_FORMAT   "format" /* "pt": transformers insists on it */

enum {
	GT_ST_LENGTH_BYTES = 8,
	GT_ST_HEADER_MAX = 100000000, /* the limit of the library */
	GT_ST_ENTRIES_MAX = 1 << 20,  /* tensors and entries of __metadata__ */
	GT_ST_CRC_DIGITS = 8,
};

struct gt_st_tensor {
	const char *name;
	const char *type; /* "F32" */
	unsigned bits;    /* of an element */
	bool known;       /* a gt_dtype exists for `type` */
	enum gt_dtype dtype;
	int ndim;
	const int64_t *shape; /* [ndim] */
	uint64_t begin, end;  /* in the data */
	size_t name_at;       /* offset in the header's text of the '"' before the name */
	size_t name_length;   /* length in that text, with quotes and escapes */
};

struct gt_st_string {
	const char *key, *value;
	size_t key_at, key_length, value_at, value_length; /* as name_at, name_length */
};

struct gt_st_header {
	/* Borrowed, not zero-terminated. gt_st_open() allocates it in the arena. */
	const char *text;
	size_t size;
	struct gt_st_tensor *tensors; /* in the header's order, without GT_ST_METADATA */
	size_t count, capacity;
	struct gt_st_tensor **by_offset; /* the same, in order of offset, empty tensors first */
	struct gt_st_string *metadata;
	size_t metadata_count, metadata_capacity;
};

/*
 * Parse `size` bytes of header text and check every rule of the format except the length of the
 * data, which the header gives as *data_bytes. Everything but the text is the arena's. GT_EFORMAT
 * names the tensor or the byte (counted from the start of the file), GT_ENOTSUP an unknown dtype.
 */
int gt_st_parse(struct gt_st_header *out, struct gt_arena *arena, const char *text, size_t size,
    uint64_t *data_bytes, struct gt_err *err);

/* The same from a copy of a file's header; the file's length is checked first and last. */
int gt_st_open(const struct gt_mapping *map, struct gt_st_header *header, struct gt_arena *arena,
    struct gt_err *err);

/* The value of an entry of __metadata__, or NULL. */
const struct gt_st_string *gt_st_metadata(const struct gt_st_header *header, const char *key);

/* How many entries at the end of __metadata__ are other names of tensors: none unless the file has
 * digests and GT_ST_TIED is the count of entries after it. */
size_t gt_st_ties(const struct gt_st_header *header);

/* The CRC-32 of the length and the text, with the digits at `digits_at` in it as zeros. */
uint32_t gt_st_header_crc(const char *text, size_t size, size_t digits_at);

/* gt_st_type() returns "F32" for GT_F32, or NULL. gt_st_rank() returns the rank of a dtype; tensors
 * whose dtype has a higher rank lie before the others. */
const char *gt_st_type(enum gt_dtype dtype);
int gt_st_rank(enum gt_dtype dtype);

/* ---- shards ---- */

/*
 * Hugging Face's index of a checkpoint in shards, model.safetensors.index.json or
 * pytorch_model.bin.index.json:
 *
 *   {"metadata": {"total_size": 123}, "weight_map": {"NAME": "model-00001-of-00002.safetensors"}}
 *
 * The shards lie beside it; a file name with a "/" is an error. The shards and weight_map must
 * agree: each tensor is in the shard that weight_map names and in no other. Tensors that it does
 * not list (tied ones) are read too.
 * Source: transformers, docs/source/en/big_models.md, "Sharded checkpoints".
 */

/*
 * Find the file by which the checkpoint in a folder is opened, an index or a single file. It is the
 * first of these that exists: model.safetensors.index.json, pytorch_model.bin.index.json, another
 * single *.index.json, model.safetensors, pytorch_model.bin. *path is yours to free().
 */
int gt_shards_in_folder(char **path, const char *folder, struct gt_err *err);

#endif
