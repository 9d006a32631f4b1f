/* read.c - opening a safetensors file: a dict of tensors, as a tree. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/safetensors/write.h"
#include "lib/ckpt/tree/tree.h"

/* "{" is the first byte of the header; of a header that could be one, the length's last byte is no
 * letter (which tells a JSON text that happens to have a "{" there). */
static bool sniff_safetensors(const struct gt_mapping *map)
{
	return map->size > GT_ST_LENGTH_BYTES && map->data[GT_ST_LENGTH_BYTES] == '{' &&
	       (map->data[7] < ' ' || map->data[7] > '~');
}

static int fail_cut_file(struct gt_err *err, uint64_t has, uint64_t needs, const char *what)
{
	gt_err_set(err, GT_EFORMAT, "the file is cut: %llu of its %llu bytes are missing, %s",
	    (unsigned long long)(needs - has), (unsigned long long)needs, what);
	return gt_err_hint(err, "copy or download it again, and compare sizes");
}

int gt_st_open(const struct gt_mapping *map, struct gt_st_header *header, struct gt_arena *arena,
    struct gt_err *err)
{
	uint64_t length, data_bytes = 0, start;
	unsigned char bytes[GT_ST_LENGTH_BYTES], *text;
	int rc;

	if (map->size < GT_ST_LENGTH_BYTES)
		return fail_cut_file(
		    err, map->size, GT_ST_LENGTH_BYTES, "the header's length among them");
	rc = gt_map_peek(map, 0, bytes, sizeof(bytes), err);
	if (rc)
		return rc;
	length = gt_get_le(bytes, sizeof(bytes));
	if (length > GT_ST_HEADER_MAX)
		return gt_err_set(err, GT_EFORMAT, "a header of %llu bytes: the most is %d",
		    (unsigned long long)length, GT_ST_HEADER_MAX);
	start = GT_ST_LENGTH_BYTES + length;
	if (start > map->size) {
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: it ends after %llu bytes, its header after %llu",
		    (unsigned long long)map->size, (unsigned long long)start);
		return gt_err_hint(err, "copy or download it again, and compare sizes");
	}
	rc = gt_map_copy(map, GT_ST_LENGTH_BYTES, length, arena, &text, err);
	if (!rc)
		rc = gt_st_parse(header, arena, (const char *)text, length, &data_bytes, err);
	if (rc)
		return rc;
	if (data_bytes > map->size - start)
		return fail_cut_file(err, map->size, start + data_bytes, "at its end");
	if (data_bytes < map->size - start)
		return gt_err_set(err, GT_EFORMAT,
		    "%llu bytes at the end of the file belong to no tensor",
		    (unsigned long long)(map->size - start - data_bytes));
	return 0;
}

/* ---- digests ---- */

/* 8 lower-case hexadecimal digits; anything else is damage. */
static bool read_hex(const char *digits, uint32_t *out)
{
	uint32_t value = 0;

	for (int i = 0; i < GT_ST_CRC_DIGITS; i++) {
		const char *digit = digits[i] ? strchr("0123456789abcdef", digits[i]) : NULL;

		if (!digit)
			return false;
		value = value << 4 | (uint32_t)(digit - "0123456789abcdef");
	}
	*out = value;
	return true;
}

static int damaged(struct gt_err *err, const char *what)
{
	gt_err_set(err, GT_EFORMAT, "the header is damaged: %s", what);
	return gt_err_hint(err, "copy or download the file again");
}

/* Whether the header has digests; then its own is compared. */
static int check_header(struct gt_st_header *h, bool *digests, struct gt_err *err)
{
	const struct gt_st_string *own = gt_st_metadata(h, GT_ST_HEADER);
	const struct gt_st_string *tensors = gt_st_metadata(h, GT_ST_TENSORS);
	uint32_t expected = 0, crc;

	*digests = own && tensors;
	if (!own != !tensors)
		return damaged(err, own ? "'" GT_ST_HEADER "' without '" GT_ST_TENSORS "'"
		                        : "'" GT_ST_TENSORS "' without '" GT_ST_HEADER "'");
	if (!own)
		return 0;
	if (own->value_length != GT_ST_CRC_DIGITS + 2 || !read_hex(own->value, &expected))
		return damaged(err, "'" GT_ST_HEADER "' is no CRC-32");
	crc = gt_st_header_crc(h->text, h->size, own->value_at + 1);
	if (crc == expected)
		return 0;
	/* a header with both entries is longer than GT_ST_MARK */
	h->stale = memcmp(h->text, GT_ST_MARK, sizeof(GT_ST_MARK) - 1) != 0;
	*digests = !h->stale;
	if (h->stale)
		return 0;
	gt_err_set(
	    err, GT_EFORMAT, "the header is damaged: its CRC-32 is %08x, not %08x", crc, expected);
	return gt_err_hint(err, "copy or download the file again");
}

/* The next word of the list goes to a tensor's storage. */
static int take_crc(const char **list, struct gt_storage *storage, struct gt_err *err)
{
	if (!read_hex(*list, &storage->crc))
		return damaged(err, "'" GT_ST_TENSORS "' lacks a tensor's CRC-32");
	*list += GT_ST_CRC_DIGITS;
	*list += **list == ' ';
	storage->has_crc = true;
	return 0;
}

/* ---- the tree ---- */

struct builder {
	const struct gt_mapping *map;
	const struct gt_st_header *header;
	struct gt_arena *arena;
	struct gt_tree **nodes; /* of header->tensors */
	struct gt_tree *root;
};

static struct gt_tree *make_tensor(
    const struct builder *b, const struct gt_st_tensor *t, struct gt_err *err)
{
	uint64_t start = GT_ST_LENGTH_BYTES + b->header->size;
	struct gt_tree *node = gt_tree_tensor(
	    b->arena, t->dtype, t->ndim, t->shape, b->map->data + start + t->begin, err);
	struct gt_storage *s;

	if (!node)
		return NULL;
	s = node->tensor.storage;
	s->name = t->name;
	s->map = b->map;
	s->file_offset = start + t->begin;
	s->swapped = gt_host_is_big();
	node->tensor.raw = t->raw;
	return node;
}

static int add_tensors(struct builder *b, struct gt_err *err)
{
	int rc = 0;

	b->nodes = gt_arena_alloc(b->arena, b->header->count * sizeof(*b->nodes), err);
	if (!b->nodes)
		return GT_ENOMEM;
	for (size_t i = 0; i < b->header->count && !rc; i++) {
		const struct gt_st_tensor *t = &b->header->tensors[i];

		b->nodes[i] = make_tensor(b, t, err);
		rc = gt_tree_set(b->root, t->name, b->nodes[i], b->arena, err);
	}
	return rc;
}

static int add_digests(struct builder *b, struct gt_err *err)
{
	const struct gt_st_string *digests = gt_st_metadata(b->header, GT_ST_TENSORS);
	const char *list = digests->value;
	int rc = 0;

	for (size_t i = 0; i < b->header->count && !rc; i++) {
		const struct gt_st_tensor *t = b->header->by_offset[i];

		if (t->begin < t->end)
			rc = take_crc(&list, b->nodes[t - b->header->tensors]->tensor.storage, err);
	}
	if (!rc && *list)
		rc = damaged(err, "'" GT_ST_TENSORS "' has a CRC-32 too many");
	return rc;
}

/* Another name of a tensor shares its storage. */
static int add_tied(
    struct builder *b, const char *name, const struct gt_tree *kept, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(b->arena, kept->kind, err);

	if (!node)
		return GT_ENOMEM;
	*node = *kept;
	return gt_tree_set(b->root, name, node, b->arena, err);
}

static int add_ties(struct builder *b, size_t count, struct gt_err *err)
{
	const struct gt_st_header *h = b->header;
	struct gt_index names = { .compare = gt_index_by_name };
	int rc = 0;

	for (size_t i = 0; count && i < h->count && !rc; i++)
		rc = gt_index_add(&names, &h->tensors[i], err) ? 0 : GT_ENOMEM;

	for (size_t i = h->metadata_count - count; i < h->metadata_count && !rc; i++) {
		const struct gt_st_string *s = &h->metadata[i];
		const struct gt_st_tensor *kept = gt_index_find(&names, &s->value);

		if (!kept || gt_index_find(&names, &s->key))
			rc = gt_err_set(err, GT_EFORMAT,
			    "__metadata__: '%.120s' is not another name of a tensor '%.120s'",
			    s->key, s->value);
		else
			rc = add_tied(b, s->key, b->nodes[kept - h->tensors], err);
	}
	gt_index_release(&names);
	return rc;
}

/*
 * Entries of __metadata__: gtrain's own have been used before, other names of tensors become
 * tensors again, and the rest becomes the attribute "__metadata__" of the root.
 */
static int add_metadata(struct builder *b, bool digests, struct gt_err *err)
{
	static const char *const ours[] = { GT_ST_HEADER, GT_ST_TENSORS, GT_ST_TIED };
	const struct gt_st_header *h = b->header;
	struct gt_tree *rest = gt_tree_dict(b->arena, err);
	size_t ties = gt_st_ties(h);
	int rc = rest ? add_ties(b, ties, err) : GT_ENOMEM;

	for (size_t i = 0; i < h->metadata_count - ties && !rc; i++) {
		const struct gt_st_string *s = &h->metadata[i];
		bool known = false;

		for (size_t k = 0; k < sizeof(ours) / sizeof(*ours); k++)
			known = known || !strcmp(s->key, ours[k]);
		if (!known || !(digests || h->stale))
			rc = gt_tree_set(
			    rest, s->key, gt_tree_string(b->arena, s->value, err), b->arena, err);
	}
	if (rc || !rest->seq.count)
		return rc;
	b->root->seq.attributes = gt_tree_dict(b->arena, err);
	return gt_tree_set(b->root->seq.attributes, GT_ST_METADATA, rest, b->arena, err);
}

static int open_safetensors(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_st_header *header = gt_arena_alloc(&ckpt->arena, sizeof(*header), err);
	struct builder b = { .map = &ckpt->map, .header = header, .arena = &ckpt->arena };
	bool digests = false;
	int rc = header ? gt_st_open(&ckpt->map, header, &ckpt->arena, err) : GT_ENOMEM;

	if (!rc)
		rc = check_header(header, &digests, err);
	if (rc)
		return rc;
	ckpt->st_header = header;
	ckpt->root = b.root = gt_tree_dict(b.arena, err);
	rc = b.root ? add_tensors(&b, err) : GT_ENOMEM;
	if (!rc && digests)
		rc = add_digests(&b, err);
	return rc ? rc : add_metadata(&b, digests, err);
}

const struct gt_ckpt_format gt_format_safetensors = { .name = "safetensors",
	.sniff = sniff_safetensors,
	.open = open_safetensors,
	.apply = gt_st_apply,
	.write = gt_st_write };
