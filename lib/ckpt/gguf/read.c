/* read.c - opening a GGUF file: a dict of tensors, whose blocks are decoded while they are read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/gguf/gguf.h"
#include "lib/ckpt/tree/tree.h"

enum {
	WINDOW = 1 << 16,      /* bytes of the header that are read at once */
	MAX_TENSORS = 1 << 18, /* as many as are written, see tree/flat.h */
	MAX_ENTRIES = 1 << 16, /* entries of metadata; llama.cpp writes a few dozen */
	MAX_STRING = 1 << 20,  /* bytes of a string that is kept */
	MAX_STRINGS = 1 << 24, /* texts in an array, such as the tokens */
	MAX_ALIGN = 1 << 20,
	FORGET = 2 << 20, /* bytes of the mapping that are in memory at a time */
	SHOWN = 16        /* elements of an array that are kept */
};

#define COPY_AGAIN "copy or download it again, and compare sizes"

/* ---- the header, byte by byte ---- */

struct reader {
	struct gt_ckpt *ckpt;
	uint64_t at;
	unsigned char *window; /* [WINDOW] */
	uint64_t window_at;
	size_t window_bytes;
	struct gt_tree *metadata; /* a dict of strings */
	struct gt_tree *root;
	uint64_t align, data_at;
};

static int check_left(const struct reader *r, uint64_t bytes, struct gt_err *err)
{
	if (gt_inside(r->at, bytes, r->ckpt->map.size))
		return 0;
	gt_err_set(err, GT_EFORMAT, "the file is cut: its header goes on behind byte %zu",
	    r->ckpt->map.size);
	return gt_err_hint(err, COPY_AGAIN);
}

/* Copy the next bytes, which are few, and go on behind them. */
static int take(struct reader *r, void *out, size_t size, struct gt_err *err)
{
	const struct gt_mapping *map = &r->ckpt->map;
	int rc = check_left(r, size, err);

	if (rc)
		return rc;
	if (size > WINDOW)
		rc = gt_map_peek(map, r->at, out, size, err);
	else if (r->at < r->window_at || !gt_inside(r->at - r->window_at, size, r->window_bytes)) {
		r->window_at = r->at;
		r->window_bytes = map->size - r->at < WINDOW ? map->size - r->at : WINDOW;
		rc = gt_map_peek(map, r->at, r->window, r->window_bytes, err);
	}
	if (!rc && size && size <= WINDOW)
		memcpy(out, r->window + (r->at - r->window_at), size);
	r->at += size;
	return rc;
}

static int take_number(struct reader *r, size_t size, uint64_t *out, struct gt_err *err)
{
	unsigned char bytes[8] = { 0 };
	int rc = take(r, bytes, size, err);

	*out = gt_get_le(bytes, size);
	return rc;
}

/* Read a string that is text, into the arena. `what` names it in messages. */
static int take_string(struct reader *r, const char *what, const char **out, struct gt_err *err)
{
	const uint64_t at = r->at;
	uint64_t length;
	char *text;
	int rc = take_number(r, 8, &length, err);

	if (!rc && length > MAX_STRING)
		return gt_err_set(err, GT_EFORMAT,
		    "%s at byte %" PRIu64 " has %" PRIu64 " bytes: the most is %d", what, at,
		    length, MAX_STRING);
	if (rc)
		return rc;
	text = gt_arena_alloc(&r->ckpt->arena, length + 1, err);
	if (!text)
		return GT_ENOMEM;
	rc = take(r, text, length, err);
	if (rc)
		return rc;
	text[length] = '\0';
	if (strlen(text) != length || !gt_text_is_utf8(text))
		return gt_err_set(err, GT_EFORMAT,
		    "%s at byte %" PRIu64 " holds a zero or is not UTF-8", what, at);
	*out = text;
	return 0;
}

/* ---- metadata ---- */

/* The bytes of a value; 0: it has no fixed size. */
static const unsigned char value_bytes[] = { [GT_GGUF_U8] = 1,
	[GT_GGUF_I8] = 1,
	[GT_GGUF_U16] = 2,
	[GT_GGUF_I16] = 2,
	[GT_GGUF_U32] = 4,
	[GT_GGUF_I32] = 4,
	[GT_GGUF_F32] = 4,
	[GT_GGUF_BOOL] = 1,
	[GT_GGUF_STRING] = 0,
	[GT_GGUF_ARRAY] = 0,
	[GT_GGUF_U64] = 8,
	[GT_GGUF_I64] = 8,
	[GT_GGUF_F64] = 8 };

static int check_value_type(uint64_t type, const char *key, struct gt_err *err)
{
	if (type < sizeof(value_bytes))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "the metadata '%.80s' is of type %" PRIu64 ", which GGUF does not have", key, type);
}

static int64_t sign_extend(uint64_t bits, int bytes)
{
	const int unused = 64 - 8 * bytes;

	return (int64_t)(bits << unused) >> unused;
}

/* The fewest digits, of 6 or 9, that are this number again. */
static void put_float(struct gt_buf *text, float value)
{
	char number[32];

	snprintf(number, sizeof(number), "%.6g", (double)value);
	if (strtof(number, NULL) != value)
		snprintf(number, sizeof(number), "%.9g", (double)value);
	gt_buf_puts(text, number);
}

/* Append a number as text. */
static void put_number(struct gt_buf *text, uint64_t type, uint64_t bits)
{
	const uint32_t low = (uint32_t)bits;
	char number[GT_TEXT_SIZE];
	double real;
	float single;

	switch (type) {
	case GT_GGUF_I8:
	case GT_GGUF_I16:
	case GT_GGUF_I32:
	case GT_GGUF_I64:
		gt_buf_printf(text, "%" PRId64, sign_extend(bits, value_bytes[type]));
		break;
	case GT_GGUF_BOOL:
		gt_buf_puts(text, bits ? "true" : "false");
		break;
	case GT_GGUF_F32:
		memcpy(&single, &low, sizeof(single));
		put_float(text, single);
		break;
	case GT_GGUF_F64:
		memcpy(&real, &bits, sizeof(real));
		gt_buf_puts(text, gt_text_number(number, real));
		break;
	default:
		gt_buf_printf(text, "%" PRIu64, bits);
	}
}

static int skip_strings(struct reader *r, const char *key, uint64_t count, struct gt_err *err)
{
	uint64_t length;
	int rc = 0;

	if (count > MAX_STRINGS)
		return gt_err_set(err, GT_ENOTSUP,
		    "the metadata '%.80s' has %" PRIu64 " strings: the most is %d", key, count,
		    MAX_STRINGS);

	for (uint64_t i = 0; !rc && i < count; i++) {
		rc = take_number(r, 8, &length, err);
		if (!rc)
			rc = check_left(r, length, err);
		if (!rc)
			r->at += length;
	}
	return rc;
}

/* Append the elements of a short array of numbers. */
static int put_array(
    struct reader *r, struct gt_buf *text, uint64_t type, uint64_t count, struct gt_err *err)
{
	uint64_t bits;
	int rc = 0;

	gt_buf_puts(text, "[");
	for (uint64_t i = 0; !rc && i < count; i++) {
		rc = take_number(r, value_bytes[type], &bits, err);
		gt_buf_puts(text, i ? ", " : "");
		put_number(text, type, bits);
	}
	gt_buf_puts(text, "]");
	return rc;
}

/* The tree has short arrays of numbers, and of others, such as the tokens, only their size. */
static int read_array(struct reader *r, const char *key, struct gt_buf *text, struct gt_err *err)
{
	uint64_t type, count, left;
	int rc = take_number(r, 4, &type, err);

	if (!rc)
		rc = check_value_type(type, key, err);
	if (!rc && type == GT_GGUF_ARRAY)
		return gt_err_set(err, GT_ENOTSUP,
		    "the metadata '%.80s' is an array of arrays, which gtrain does not read", key);
	if (!rc)
		rc = take_number(r, 8, &count, err);
	if (rc)
		return rc;
	left = r->ckpt->map.size - r->at;
	if (count > left / (type == GT_GGUF_STRING ? 8 : value_bytes[type]))
		return check_left(r, left + 1, err);
	if (type != GT_GGUF_STRING && count <= SHOWN)
		return put_array(r, text, type, count, err);
	gt_buf_printf(text, "%" PRIu64 " %s", count,
	    type == GT_GGUF_STRING ? count == 1 ? "string" : "strings" : "numbers");
	if (type == GT_GGUF_STRING)
		return skip_strings(r, key, count, err);
	r->at += count * value_bytes[type];
	return 0;
}

static int set_align(struct reader *r, uint64_t type, uint64_t bits, struct gt_err *err)
{
	if (type != GT_GGUF_U32 || !bits || bits % 8 || (bits & (bits - 1)) || bits > MAX_ALIGN)
		return gt_err_set(err, GT_EFORMAT,
		    "the metadata '" GT_GGUF_ALIGNMENT "' must be a power of 2 of 8 to %d",
		    MAX_ALIGN);
	r->align = bits;
	return 0;
}

/* Read a value as text. */
static int read_text(struct reader *r, const char *key, struct gt_buf *text, struct gt_err *err)
{
	uint64_t type, bits;
	const char *string;
	int rc = take_number(r, 4, &type, err);

	if (!rc)
		rc = check_value_type(type, key, err);
	if (!rc && type == GT_GGUF_ARRAY)
		return read_array(r, key, text, err);
	if (!rc && type == GT_GGUF_STRING) {
		rc = take_string(r, "a value of the metadata", &string, err);
		if (!rc)
			gt_buf_puts(text, string);
		return rc;
	}
	if (!rc)
		rc = take_number(r, value_bytes[type], &bits, err);
	if (!rc && !strcmp(key, GT_GGUF_ALIGNMENT))
		rc = set_align(r, type, bits, err);
	if (!rc)
		put_number(text, type, bits);
	return rc;
}

static int read_entry(struct reader *r, struct gt_index *keys, struct gt_err *err)
{
	const char **key = gt_arena_alloc(&r->ckpt->arena, sizeof(*key), err), **known;
	struct gt_buf text = { 0 };
	int rc = key ? take_string(r, "a key of the metadata", key, err) : GT_ENOMEM;

	if (rc)
		return rc;
	known = gt_index_add(keys, key, err);
	if (!known)
		return GT_ENOMEM;
	if (known != key)
		return gt_err_set(err, GT_EFORMAT, "the metadata '%.80s' is there twice", *key);
	rc = read_text(r, *key, &text, err);
	if (!rc)
		rc = gt_buf_check(&text, err);
	if (!rc)
		rc = gt_tree_set(r->metadata, *key,
		    gt_tree_string(&r->ckpt->arena, gt_buf_text(&text), err), &r->ckpt->arena, err);
	gt_buf_release(&text);
	return rc;
}

/* ---- tensors ---- */

/* The elements of a tensor of blocks. */
struct blocks {
	struct gt_storage storage;
	const struct gt_mapping *map;
	uint64_t at; /* in the file */
	const struct gt_gguf_type *type;
};

/* Decode the blocks of a range, and copy the part of each that is in the range. Reads follow each
 * other, so pages are released when one enters the next FORGET bytes. */
static int read_blocks(void *self, uint64_t offset, void *out, size_t size, struct gt_err *err)
{
	const struct blocks *b = self;
	const size_t block_bytes = b->type->elements * sizeof(float);
	const uint64_t first = offset / block_bytes;
	float values[GT_GGUF_MAX_BLOCK];
	unsigned char *to = out;
	uint64_t block = first, from_file;

	(void)err;
	while (size) {
		const size_t from = (size_t)(offset % block_bytes);
		const size_t n = size < block_bytes - from ? size : block_bytes - from;

		b->type->decode(b->map->data + b->at + block * b->type->bytes, values);
		memcpy(to, (const unsigned char *)values + from, n);
		to += n;
		offset += n;
		size -= n;
		block++;
	}
	from_file = b->at + first * b->type->bytes;
	if (from_file / FORGET != (b->at + block * b->type->bytes) / FORGET)
		gt_map_forget(b->map, from_file, (block - first) * b->type->bytes);
	return 0;
}

static int decode_storage(struct gt_tree_tensor *t, const struct reader *r, const char *name,
    const struct gt_gguf_type *type, uint64_t at, struct gt_err *err)
{
	struct blocks *b = gt_arena_alloc(&r->ckpt->arena, sizeof(*b), err);

	if (!b)
		return GT_ENOMEM;
	*b = (struct blocks){ .map = &r->ckpt->map, .at = at, .type = type };
	b->storage = (struct gt_storage){ .size_bytes = t->storage->size_bytes,
		.read = read_blocks,
		.self = b,
		.key = "",
		.location = "cpu",
		.name = name,
		.packed = type->name };
	t->storage = &b->storage;
	return 0;
}

/* A tensor's entry in the header. */
struct entry {
	const char *name; /* first, for gt_index_by_name() */
	const struct gt_gguf_type *type;
	uint64_t offset, bytes;
	int ndim;
	int64_t shape[GT_GGUF_MAX_DIMS];
};

static int find_type(struct entry *e, uint64_t id, struct gt_err *err)
{
	e->type = gt_gguf_type_of((uint32_t)id);
	if (e->type && e->type->elements)
		return 0;
	if (e->type)
		gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.80s' is quantized as %s, which gtrain does "
		    "not decode",
		    e->name, e->type->name);
	else
		gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.80s' is of type %" PRIu64 " of GGUF, which gtrain does not know",
		    e->name, id);
	return gt_err_hint(err, "it decodes f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1 and q2_K "
	                        "to q6_K: take a file of one of these");
}

/* Compute the bytes of a tensor, whose first dimension of the file is its last one. */
static int measure(struct entry *e, struct gt_err *err)
{
	int64_t unused[GT_GGUF_MAX_DIMS];
	uint64_t count = 1;

	if (!gt_ckpt_tensor_contiguous_stride(e->ndim, e->shape, unused))
		return gt_err_set(
		    err, GT_EFORMAT, "the shape of tensor '%.80s' overflows", e->name);
	for (int i = 0; i < e->ndim; i++)
		count *= (uint64_t)e->shape[i];
	if ((e->ndim ? (uint64_t)e->shape[e->ndim - 1] : 1) % e->type->elements)
		return gt_err_set(err, GT_EFORMAT,
		    "tensor '%.80s' has rows of %" PRId64 " elements, but %s has blocks of %u",
		    e->name, e->ndim ? e->shape[e->ndim - 1] : 1, e->type->name, e->type->elements);
	e->bytes = count / e->type->elements * e->type->bytes;
	return 0;
}

static int read_shape(struct reader *r, struct entry *e, struct gt_err *err)
{
	uint64_t n = 0, size;
	int rc = take_number(r, 4, &n, err);

	if (!rc && n > GT_GGUF_MAX_DIMS)
		return gt_err_set(err, GT_EFORMAT,
		    "tensor '%.80s' has %" PRIu64 " dimensions: the most is %d", e->name, n,
		    GT_GGUF_MAX_DIMS);
	e->ndim = (int)n;
	for (int i = e->ndim - 1; !rc && i >= 0; i--) {
		rc = take_number(r, 8, &size, err);
		if (!rc && size > INT64_MAX)
			return gt_err_set(
			    err, GT_EFORMAT, "the shape of tensor '%.80s' overflows", e->name);
		e->shape[i] = (int64_t)size;
	}
	return rc;
}

/* Read an entry; `next` is the place of its data, behind that of the entries before. */
static int read_tensor(struct reader *r, struct entry *e, uint64_t *next, struct gt_err *err)
{
	uint64_t type;
	int rc = take_string(r, "the name of a tensor", &e->name, err);

	if (!rc)
		rc = read_shape(r, e, err);
	if (!rc)
		rc = take_number(r, 4, &type, err);
	if (!rc)
		rc = find_type(e, type, err);
	if (!rc)
		rc = measure(e, err);
	if (!rc)
		rc = take_number(r, 8, &e->offset, err);
	if (rc)
		return rc;
	if (e->offset != *next)
		return gt_err_set(err, GT_EFORMAT,
		    "tensor '%.80s' is at byte %" PRIu64 " of the data, not behind the tensor "
		    "before it, at byte %" PRIu64,
		    e->name, e->offset, *next);
	if (__builtin_add_overflow(*next, e->bytes, next) ||
	    __builtin_add_overflow(*next, r->align - 1, next))
		return gt_err_set(err, GT_EFORMAT, "the bytes of tensor '%.80s' overflow", e->name);
	*next -= *next % r->align;
	return 0;
}

/* The data of the last tensor ends within the file, which may pad it. */
static int check_data(
    const struct reader *r, const struct entry *last, uint64_t padded, struct gt_err *err)
{
	const uint64_t size = r->ckpt->map.size;
	uint64_t end = r->data_at;

	if (last && __builtin_add_overflow(r->data_at, last->offset + last->bytes, &end))
		end = UINT64_MAX;
	if (last && end > size) {
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: it ends after byte %" PRIu64 ", its tensors after byte "
		    "%" PRIu64,
		    size, end);
		return gt_err_hint(err, COPY_AGAIN);
	}
	if (size > r->data_at && size - r->data_at > padded)
		return gt_err_set(err, GT_EFORMAT,
		    "%" PRIu64 " bytes at the end of the file belong to no tensor",
		    size - r->data_at - padded);
	return 0;
}

static int add_tensor(struct reader *r, const struct entry *e, struct gt_err *err)
{
	struct gt_arena *arena = &r->ckpt->arena;
	const uint64_t at = r->data_at + e->offset;
	struct gt_tree *node = gt_tree_tensor(arena, e->type->dtype, e->ndim, e->shape,
	    e->type->decode ? NULL : r->ckpt->map.data + at, err);
	int rc = 0;

	if (!node)
		return GT_ENOMEM;
	if (e->type->decode) {
		rc = decode_storage(&node->tensor, r, e->name, e->type, at, err);
	} else {
		node->tensor.storage->name = e->name;
		node->tensor.storage->map = &r->ckpt->map;
		node->tensor.storage->file_offset = at;
		node->tensor.storage->swapped = gt_host_is_big();
	}
	return rc ? rc : gt_tree_set(r->root, e->name, node, arena, err);
}

static int read_tensors(struct reader *r, uint64_t count, struct gt_err *err)
{
	struct entry *entries = gt_calloc(count, sizeof(*entries), err);
	struct gt_index names = { .compare = gt_index_by_name };
	uint64_t next = 0;
	int rc = entries ? 0 : GT_ENOMEM;

	for (uint64_t i = 0; !rc && i < count; i++) {
		const struct entry *known;

		rc = read_tensor(r, &entries[i], &next, err);
		if (rc)
			break;
		known = gt_index_add(&names, &entries[i], err);
		if (known != &entries[i])
			rc = !known ? GT_ENOMEM
			            : gt_err_set(err, GT_EFORMAT, "tensor '%.80s' is there twice",
			                  entries[i].name);
	}
	r->data_at = (r->at + r->align - 1) / r->align * r->align;
	if (!rc)
		rc = check_data(r, count ? &entries[count - 1] : NULL, next, err);
	for (uint64_t i = 0; !rc && i < count; i++)
		rc = add_tensor(r, &entries[i], err);
	gt_index_release(&names);
	free(entries);
	return rc;
}

/* ---- the file ---- */

static bool sniff_gguf(const struct gt_mapping *map)
{
	return map->size >= 4 && !memcmp(map->data, GT_GGUF_MAGIC, 4);
}

/* Each count has a limit, and a file of this size must have room for as many. */
static int read_counts(struct reader *r, uint64_t *tensors, uint64_t *entries, struct gt_err *err)
{
	enum { TENSOR_BYTES = 24, ENTRY_BYTES = 13 }; /* the least that one takes */
	uint64_t version = 0;
	int rc = take_number(r, 4, &version, err);

	if (!rc)
		rc = take_number(r, 4, &version, err);
	if (!rc && version > UINT16_MAX)
		return gt_err_set(
		    err, GT_ENOTSUP, "a big-endian GGUF by its header, which gtrain does not read");
	if (!rc && version != 2 && version != 3)
		return gt_err_set(err, GT_ENOTSUP,
		    "version %" PRIu64 " of GGUF in the header: gtrain reads 2 and 3", version);
	if (!rc)
		rc = take_number(r, 8, tensors, err);
	if (!rc)
		rc = take_number(r, 8, entries, err);
	if (rc)
		return rc;
	if (*tensors > MAX_TENSORS || *entries > MAX_ENTRIES)
		return gt_err_set(err, GT_ENOTSUP,
		    "a header of %" PRIu64 " tensors and %" PRIu64
		    " entries of metadata: the most are %d and %d",
		    *tensors, *entries, MAX_TENSORS, MAX_ENTRIES);
	return check_left(r, *tensors * TENSOR_BYTES + *entries * ENTRY_BYTES, err);
}

static int read_header(struct reader *r, struct gt_err *err)
{
	struct gt_index keys = { .compare = gt_index_by_name };
	uint64_t tensors = 0, entries = 0;
	int rc = read_counts(r, &tensors, &entries, err);

	for (uint64_t i = 0; !rc && i < entries; i++)
		rc = read_entry(r, &keys, err);
	gt_index_release(&keys);
	return rc ? rc : read_tensors(r, tensors, err);
}

/* The metadata become strings, as those of safetensors are. */
static int open_gguf(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct reader r = { .ckpt = ckpt, .align = GT_GGUF_ALIGN };
	int rc = 0;

	r.window = gt_calloc(WINDOW, 1, err);
	r.root = ckpt->root = gt_tree_dict(&ckpt->arena, err);
	r.metadata = gt_tree_dict(&ckpt->arena, err);
	if (!r.window || !r.root || !r.metadata)
		rc = GT_ENOMEM;
	if (!rc)
		rc = read_header(&r, err);
	if (!rc && r.metadata->seq.count) {
		r.root->seq.attributes = gt_tree_dict(&ckpt->arena, err);
		ckpt->metadata = r.metadata;
		rc = r.root->seq.attributes ? gt_tree_set(r.root->seq.attributes, "__metadata__",
		                                  r.metadata, &ckpt->arena, err)
		                            : GT_ENOMEM;
	}
	free(r.window);
	return rc;
}

const struct gt_ckpt_format gt_format_gguf = {
	.name = "gguf", .sniff = sniff_gguf, .open = open_gguf
};
