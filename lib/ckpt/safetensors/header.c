/* header.c - the JSON header: parsed, and every rule of the format checked. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/safetensors/json.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

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

enum {
	TENSOR_LIMIT = 4096, /* bytes of JSON that describe one tensor */
	TYPE_NAME_MAX = 40,  /* length of the name of a type that is not in the table */
	TYPE_BITS_MAX = 256  /* bits of an element of such a type */
};

/* The order is the library's "increasing alignment", the reverse of the order in its layout. The
 * types in raw.h have GT_RAW8. */
static const struct {
	const char *name;
	unsigned bits;
	enum gt_dtype dtype;
} types[] = {
	{ "BOOL", 8, GT_BOOL },
	{ "F4", 4, GT_RAW8 },
	{ "F6_E2M3", 6, GT_RAW8 },
	{ "F6_E3M2", 6, GT_RAW8 },
	{ "U8", 8, GT_U8 },
	{ "I8", 8, GT_I8 },
	{ "F8_E5M2", 8, GT_F8_E5M2 },
	{ "F8_E4M3", 8, GT_F8_E4M3 },
	{ "F8_E8M0", 8, GT_RAW8 },
	{ "F8_E4M3FNUZ", 8, GT_RAW8 },
	{ "F8_E5M2FNUZ", 8, GT_RAW8 },
	{ "I16", 16, GT_I16 },
	{ "U16", 16, GT_U16 },
	{ "F16", 16, GT_F16 },
	{ "BF16", 16, GT_BF16 },
	{ "I32", 32, GT_I32 },
	{ "U32", 32, GT_U32 },
	{ "F32", 32, GT_F32 },
	{ "C64", 64, GT_C64 },
	{ "F64", 64, GT_F64 },
	{ "I64", 64, GT_I64 },
	{ "U64", 64, GT_U64 },
};

enum { TYPE_COUNT = sizeof(types) / sizeof(*types) };

static int rank_of_name(const char *name)
{
	for (int i = 0; i < TYPE_COUNT; i++)
		if (!strcmp(types[i].name, name))
			return i;
	return -1;
}

/* A type that is not in the table stands behind the types of its size. */
static int rank_of_raw(const struct gt_raw_type *raw)
{
	int rank = raw->safetensors ? rank_of_name(raw->safetensors) : -1;

	for (int i = 0; raw->safetensors && rank < 0 && i < TYPE_COUNT; i++)
		if (i + 1 == TYPE_COUNT || types[i + 1].bits > 8 * gt_dtype_size(raw->dtype))
			rank = i;
	return rank;
}

int gt_st_rank(enum gt_dtype dtype, const struct gt_raw_type *raw)
{
	if (raw)
		return rank_of_raw(raw);
	for (int i = 0; i < TYPE_COUNT; i++)
		if (types[i].dtype == dtype)
			return i;
	return -1;
}

const char *gt_st_type(enum gt_dtype dtype, const struct gt_raw_type *raw)
{
	int rank = gt_st_rank(dtype, raw);

	return rank < 0 ? NULL : raw ? raw->safetensors : types[rank].name;
}

/* ---- digests ---- */

uint32_t gt_st_header_crc(const char *text, size_t size, size_t digits_at)
{
	unsigned char length[GT_ST_LENGTH_BYTES];
	uint32_t crc;

	gt_put_le(length, size, sizeof(length));
	crc = gt_crc32(0, length, sizeof(length));
	crc = gt_crc32(crc, text, digits_at);
	crc = gt_crc32(crc, "00000000", GT_ST_CRC_DIGITS);
	digits_at += GT_ST_CRC_DIGITS;
	return gt_crc32(crc, text + digits_at, size - digits_at);
}

const struct gt_st_string *gt_st_metadata(const struct gt_st_header *h, const char *key)
{
	for (size_t i = 0; i < h->metadata_count; i++)
		if (!strcmp(h->metadata[i].key, key))
			return &h->metadata[i];
	return NULL;
}

size_t gt_st_ties(const struct gt_st_header *h)
{
	const struct gt_st_string *said = gt_st_metadata(h, GT_ST_TIED);
	char *end;
	size_t count;

	if (!said || h->stale || !gt_st_metadata(h, GT_ST_HEADER) ||
	    !gt_st_metadata(h, GT_ST_TENSORS))
		return 0;
	count = strtoul(said->value, &end, 10);
	return !*end && count == (size_t)(h->metadata + h->metadata_count - said) - 1 ? count : 0;
}

/* ---- a tensor's entry ---- */

static int fail_at_tensor(struct gt_err *err, const struct gt_st_tensor *t, const char *what)
{
	return gt_err_set(err, GT_EFORMAT, "tensor '%.200s': %s", t->name, what);
}

static bool is_type_name(const char *name)
{
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return length && length <= TYPE_NAME_MAX && !name[length];
}

/* The type of the table; of another name, the type is found when the size is known. */
static int read_type(
    struct gt_st_tensor *t, const json_t *value, struct gt_arena *arena, struct gt_err *err)
{
	int rank = json_is_string(value) ? rank_of_name(json_string_value(value)) : -1;

	if (!json_is_string(value))
		return fail_at_tensor(err, t, "it has no dtype");
	if (rank >= 0) {
		t->type = types[rank].name;
		t->bits = types[rank].bits;
		t->raw = gt_raw_of_safetensors(t->type);
		t->dtype = t->raw ? t->raw->dtype : types[rank].dtype;
		return 0;
	}
	if (!is_type_name(json_string_value(value))) {
		gt_err_set(err, GT_ENOTSUP, "tensor '%.200s': '%.40s' is not the name of a dtype",
		    t->name, json_string_value(value));
		return gt_err_hint(
		    err, "the known types are BOOL, U8 to U64, I8 to I64, F4 to F64, BF16, C64");
	}
	t->type = gt_arena_strdup(arena, json_string_value(value), err);
	return t->type ? 0 : GT_ENOMEM;
}

/* The bytes that shape and dtype take. */
static int count_bytes(const struct gt_st_tensor *t, uint64_t *bytes, struct gt_err *err)
{
	int64_t stride[GT_TREE_MAX_DIMS];
	uint64_t bits = t->bits;

	for (int i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			bits = 0;
	for (int i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(bits, (uint64_t)t->shape[i], &bits))
			return fail_at_tensor(err, t, "its shape overflows");
	if (!gt_ckpt_tensor_contiguous_stride(t->ndim, t->shape, stride))
		return fail_at_tensor(err, t, "its shape overflows");
	if (bits % 8)
		return fail_at_tensor(err, t, "its elements do not fill whole bytes");
	*bytes = bits / 8;
	return 0;
}

static int read_shape(struct gt_st_tensor *t, const json_t *value, int64_t **dims,
    struct gt_arena *arena, struct gt_err *err)
{
	size_t ndim = json_array_size(value);
	int64_t *shape;

	if (!json_is_array(value))
		return fail_at_tensor(err, t, "it has no shape");
	if (ndim > GT_TREE_MAX_DIMS)
		return gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.200s': %zu dimensions, at most %d known", t->name, ndim,
		    GT_TREE_MAX_DIMS);
	shape = gt_arena_alloc(arena, ndim * sizeof(*shape), err);
	if (!shape)
		return GT_ENOMEM;
	for (size_t i = 0; i < ndim; i++) {
		shape[i] = gt_json_count(json_array_get(value, i));
		if (shape[i] < 0)
			return fail_at_tensor(err, t, "a size in its shape is no count");
	}
	t->ndim = (int)ndim;
	t->shape = *dims = shape;
	return 0;
}

/* A type that is not in the table: the tensor's size tells that of its elements. */
static int find_type(struct gt_st_tensor *t, struct gt_arena *arena, struct gt_err *err)
{
	int64_t count = 1;
	uint64_t bytes = t->end - t->begin, bits = 8;

	for (int i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(count, t->shape[i], &count))
			return fail_at_tensor(err, t, "its shape overflows");
	if (count && __builtin_mul_overflow(bytes, (uint64_t)8, &bits))
		return fail_at_tensor(err, t, "its size overflows");
	if (count && (bits % (uint64_t)count || !bits || bits / (uint64_t)count > TYPE_BITS_MAX)) {
		gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.120s': the dtype '%s' is not known, and %lld elements of it do not "
		    "fill %llu bytes",
		    t->name, t->type, (long long)count, (unsigned long long)bytes);
		return gt_err_hint(err, "its bytes could be kept if each element had as many");
	}
	t->bits = (unsigned)(count ? bits / (uint64_t)count : 8);
	t->raw = gt_raw_new(arena, t->type, t->bits, err);
	if (!t->raw)
		return GT_ENOMEM;
	t->dtype = t->raw->dtype;
	return 0;
}

/* The shape as the tree counts it: in units of whole bytes. */
static int pack_shape(struct gt_st_tensor *t, int64_t *shape, struct gt_err *err)
{
	int64_t *last = &shape[t->ndim - 1], one;

	if (!t->raw ||
	    (t->ndim ? gt_raw_pack(t->raw, *last, last) : gt_raw_pack(t->raw, 1, &one) && one == 1))
		return 0;
	return gt_err_set(err, GT_ENOTSUP,
	    "tensor '%.200s': its last dimension does not fill whole bytes of %s", t->name,
	    t->type);
}

static int read_offsets(
    struct gt_st_tensor *t, const json_t *value, struct gt_arena *arena, struct gt_err *err)
{
	json_int_t begin = gt_json_count(json_array_get(value, 0));
	json_int_t end = gt_json_count(json_array_get(value, 1));
	uint64_t bytes = 0;
	int rc;

	if (json_array_size(value) != 2 || begin < 0 || end < 0)
		return fail_at_tensor(err, t, "its data_offsets are not two counts");
	if (end < begin)
		return fail_at_tensor(err, t, "its data_offsets end before they begin");
	t->begin = (uint64_t)begin;
	t->end = (uint64_t)end;
	rc = t->bits ? 0 : find_type(t, arena, err);
	if (!rc)
		rc = count_bytes(t, &bytes, err);
	if (rc || bytes == t->end - t->begin)
		return rc;
	return gt_err_set(err, GT_EFORMAT,
	    "tensor '%.200s': its shape takes %llu bytes of %s, its data_offsets are %llu apart",
	    t->name, (unsigned long long)bytes, t->type, (unsigned long long)(t->end - t->begin));
}

static int read_tensor(
    struct gt_json *json, struct gt_st_tensor *t, struct gt_arena *arena, struct gt_err *err)
{
	json_t *value;
	int64_t *shape = NULL;
	int rc = gt_json_value(json, TENSOR_LIMIT, &value, err);

	if (rc)
		return gt_err_prefix(err, "tensor '%.200s'", t->name);
	if (!json_is_object(value))
		rc = fail_at_tensor(err, t, "its entry is no object");
	if (!rc)
		rc = read_type(t, json_object_get(value, "dtype"), arena, err);
	if (!rc)
		rc = read_shape(t, json_object_get(value, "shape"), &shape, arena, err);
	if (!rc)
		rc = read_offsets(t, json_object_get(value, "data_offsets"), arena, err);
	if (!rc)
		rc = pack_shape(t, shape, err);
	json_decref(value);
	return rc;
}

/* ---- the whole ---- */

struct parser {
	struct gt_json json;
	struct gt_st_header *header;
	struct gt_arena *arena;
	bool metadata; /* has been met */
};

/* A growing array in the arena: one more element. */
static int more(
    struct parser *p, void *items, size_t count, size_t *capacity, size_t size, struct gt_err *err)
{
	size_t wanted = *capacity ? *capacity * 2 : 64;
	void *grown, *old;

	if (p->header->count + p->header->metadata_count >= GT_ST_ENTRIES_MAX)
		return gt_err_set(err, GT_ENOTSUP, "more than %d tensors", GT_ST_ENTRIES_MAX);
	if (count < *capacity)
		return 0;
	grown = gt_arena_alloc(p->arena, wanted * size, err);
	if (!grown)
		return GT_ENOMEM;
	memcpy(&old, items, sizeof(old));
	if (count)
		memcpy(grown, old, count * size);
	memcpy(items, &grown, sizeof(grown));
	*capacity = wanted;
	return 0;
}

static int read_string(struct parser *p, struct gt_st_string *s, struct gt_err *err)
{
	json_t *value = NULL;
	int rc = 0;

	/* Another value may be long: it is refused before it is parsed. */
	if (!gt_json_at_end(&p->json) && p->json.text[p->json.at] == '"') {
		s->value_at = p->json.at;
		rc = gt_json_value(&p->json, p->json.size, &value, err);
	}
	if (!rc && !json_is_string(value))
		rc = gt_err_set(err, GT_EFORMAT, "the value of '%.200s' is no string", s->key);
	if (!rc) {
		s->value_length = p->json.at - s->value_at;
		s->value = gt_arena_strdup(p->arena, json_string_value(value), err);
		rc = s->value ? 0 : GT_ENOMEM;
	}
	json_decref(value);
	return rc;
}

static int read_metadata_entry(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err)
{
	struct parser *p = self;
	struct gt_st_header *h = p->header;
	struct gt_st_string s = { .key_at = key->at, .key_length = key->length };
	int rc = more(p, &h->metadata, h->metadata_count, &h->metadata_capacity, sizeof(s), err);

	(void)json;
	s.key = rc ? NULL : gt_arena_strdup(p->arena, key->text, err);
	if (!s.key)
		return err->code;
	rc = read_string(p, &s, err);
	if (!rc)
		h->metadata[h->metadata_count++] = s;
	return rc;
}

static int read_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err)
{
	struct parser *p = self;
	struct gt_st_header *h = p->header;
	struct gt_st_tensor t = { .name_at = key->at, .name_length = key->length };
	int rc;

	if (!strcmp(key->text, GT_ST_METADATA)) {
		if (p->metadata)
			return gt_err_set(err, GT_EFORMAT, "the header has __metadata__ twice");
		p->metadata = true;
		rc = gt_json_members(json, read_metadata_entry, p, err);
		return rc ? gt_err_prefix(err, GT_ST_METADATA) : 0;
	}
	rc = more(p, &h->tensors, h->count, &h->capacity, sizeof(t), err);
	t.name = rc ? NULL : gt_arena_strdup(p->arena, key->text, err);
	if (!t.name)
		return err->code;
	rc = read_tensor(json, &t, p->arena, err);
	if (!rc)
		h->tensors[h->count++] = t;
	return rc;
}

static int read_members(struct parser *p, struct gt_err *err)
{
	int rc = gt_json_members(&p->json, read_member, p, err);

	if (!rc && !gt_json_at_end(&p->json))
		rc = gt_err_set(err, GT_EFORMAT,
		    "the header's JSON ends at byte %zu, but more follows",
		    p->json.base + p->json.at);
	return rc;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct gt_st_tensor *x = *(struct gt_st_tensor *const *)a;
	const struct gt_st_tensor *y = *(struct gt_st_tensor *const *)b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* Check that names are unique. `items` are `count` structs of `size` bytes; the first member of
 * each is its name. `format` is the error for a name that occurs twice. */
static int check_names(
    const void *items, size_t count, size_t size, const char *format, struct gt_err *err)
{
	struct gt_index names = { .compare = gt_index_by_name };
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++) {
		const void *item = (const char *)items + i * size;
		const void *first = gt_index_add(&names, item, err);

		if (first != item)
			rc = first
			         ? gt_err_set(err, GT_EFORMAT, format, *(const char *const *)first)
			         : GT_ENOMEM;
	}
	gt_index_release(&names);
	return rc;
}

/* The ranges follow each other without gap or overlap, from 0. */
static int check_ranges(struct gt_st_header *h, uint64_t *data_bytes, struct gt_err *err)
{
	const struct gt_st_tensor *before = NULL;
	uint64_t at = 0;

	qsort(h->by_offset, h->count, sizeof(*h->by_offset), compare_offsets);
	for (size_t i = 0; i < h->count; i++) {
		const struct gt_st_tensor *t = h->by_offset[i];

		if (t->begin < at)
			return gt_err_set(err, GT_EFORMAT,
			    "tensor '%.120s': its bytes %llu to %llu of the data overlap those of '%.120s'",
			    t->name, (unsigned long long)t->begin, (unsigned long long)t->end,
			    before->name);
		if (t->begin > at)
			return gt_err_set(err, GT_EFORMAT,
			    "tensor '%.200s': the bytes %llu to %llu of the data, before it, belong to no tensor",
			    t->name, (unsigned long long)at, (unsigned long long)t->begin);
		at = t->end;
		before = t;
	}
	*data_bytes = at;
	return 0;
}

static int list_tensors(struct gt_st_header *h, struct gt_arena *arena, struct gt_err *err)
{
	h->by_offset = gt_arena_alloc(arena, h->count * sizeof(*h->by_offset), err);
	if (!h->by_offset)
		return GT_ENOMEM;
	for (size_t i = 0; i < h->count; i++)
		h->by_offset[i] = &h->tensors[i];
	return 0;
}

int gt_st_parse(struct gt_st_header *out, struct gt_arena *arena, const char *text, size_t size,
    uint64_t *data_bytes, struct gt_err *err)
{
	struct parser p = { .json = { .text = text, .size = size, .base = GT_ST_LENGTH_BYTES },
		.header = out,
		.arena = arena };
	int rc;

	*out = (struct gt_st_header){ .text = text, .size = size };
	if (!size || *text != '{')
		return gt_err_set(err, GT_EFORMAT, "the header does not start with '{'");
	rc = read_members(&p, err);
	if (!rc)
		rc = check_names(out->metadata, out->metadata_count, sizeof(*out->metadata),
		    "__metadata__ has the key '%.200s' twice", err);
	if (!rc)
		rc = check_names(out->tensors, out->count, sizeof(*out->tensors),
		    "tensor '%.200s': the header has it twice", err);
	if (!rc)
		rc = list_tensors(out, arena, err);
	return rc ? rc : check_ranges(out, data_bytes, err);
}
