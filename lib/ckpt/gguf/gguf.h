/* gguf.h - GGUF, the format of llama.cpp: its numbers, and the types of its tensors. */
#ifndef GT_CKPT_GGUF_GGUF_H
#define GT_CKPT_GGUF_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "lib/device/dtype.h"

/*
 * A GGUF file is, all numbers little-endian:
 *
 *   "GGUF", u32 version, u64 tensors, u64 metadata
 *   for each entry of the metadata: string key, u32 type, value
 *   for each tensor: string name, u32 dimensions, u64 size of each one, the fastest first,
 *                    u32 type, u64 offset in the data
 *   the data, aligned, in the order of the tensors, each aligned
 *
 * A string is its u64 length and its bytes; an array is u32 type, u64 count and the elements.
 * Source: ggml, docs/gguf.md.
 */
#define GT_GGUF_MAGIC     "GGUF"
#define GT_GGUF_ALIGNMENT "general.alignment"

enum {
	GT_GGUF_ALIGN = 32, /* without an entry GT_GGUF_ALIGNMENT */
	GT_GGUF_MAX_DIMS = 4,
	GT_GGUF_MAX_BLOCK = 256 /* the most elements in a block */
};

enum gt_gguf_value_type {
	GT_GGUF_U8,
	GT_GGUF_I8,
	GT_GGUF_U16,
	GT_GGUF_I16,
	GT_GGUF_U32,
	GT_GGUF_I32,
	GT_GGUF_F32,
	GT_GGUF_BOOL,
	GT_GGUF_STRING,
	GT_GGUF_ARRAY,
	GT_GGUF_U64,
	GT_GGUF_I64,
	GT_GGUF_F64
};

/* A type of elements. A row is a block of 32 or 256 quantized elements after the other. */
struct gt_gguf_type {
	uint32_t id;
	const char *name;
	unsigned elements, bytes; /* of a block; 0: gtrain does not decode the type */
	enum gt_dtype dtype;      /* of the elements as gtrain reads them */
	/* NULL: the elements are stored as `dtype` */
	void (*decode)(const unsigned char *block, float *out);
	/* NULL: gtrain does not write the type, or the elements are stored as `dtype` */
	void (*encode)(const float *in, unsigned char *block);
};

/* Return the row of a type, or NULL: ggml had no such type when this table was written. */
const struct gt_gguf_type *gt_gguf_type_of(uint32_t id);

/* Return the row with this name, or NULL. */
const struct gt_gguf_type *gt_gguf_type_named(const char *name);

#endif
