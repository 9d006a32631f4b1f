/* write.c - writing safetensors as the library does, with digests. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/base/json_string.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/safetensors/write.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/flat.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/* ---- the header's text ---- */

struct header {
	const struct gt_st_output *output;
	const struct gt_copy_place
	    *places; /* one for each of output->tensors; offsets count from the start of the data */
	char *text;
	size_t size;
	size_t digits_at; /* offset of the digits of the header's own CRC-32 */
};

static void put_entry(struct gt_buf *out, const char *key, const char *value)
{
	gt_buf_puts(out, ",");
	gt_buf_json(out, key, strlen(key));
	gt_buf_puts(out, ":");
	gt_buf_json(out, value, strlen(value));
}

static bool is_ours(const char *key)
{
	return !strcmp(key, GT_ST_FORMAT) || !strcmp(key, GT_ST_HEADER) ||
	       !strcmp(key, GT_ST_TENSORS) || !strcmp(key, GT_ST_TIED);
}

/* Copy the tree's own __metadata__, except keys that are taken and values that JSON cannot hold. */
static void put_kept_metadata(struct gt_buf *out, const struct gt_tree *metadata)
{
	for (size_t i = 0; metadata && i < metadata->seq.count; i++) {
		const struct gt_tree *key = metadata->seq.items[i].key;
		const struct gt_tree *value = metadata->seq.items[i].value;

		if (gt_flat_is_text(key) && gt_flat_is_text(value) && !is_ours(key->string.bytes))
			put_entry(out, key->string.bytes, value->string.bytes);
	}
}

static void put_metadata(struct gt_buf *out, struct header *h)
{
	const struct gt_st_output *o = h->output;
	const char *separator = "";

	gt_buf_puts(out, GT_ST_START);
	h->digits_at = out->length;
	gt_buf_puts(out, "00000000\",\"" GT_ST_TENSORS "\":\"");
	for (size_t i = 0; i < o->count; i++) {
		if (!h->places[i].size_bytes)
			continue;
		gt_buf_printf(out, "%s%08" PRIx32, separator, h->places[i].crc);
		separator = " ";
	}
	gt_buf_puts(out, "\"");
	put_kept_metadata(out, o->metadata);
	if (o->tied_count)
		gt_buf_printf(out, ",\"" GT_ST_TIED "\":\"%zu\"", o->tied_count);
	for (size_t i = 0; i < o->tied_count; i++)
		put_entry(out, o->tied[i]->name, o->tied[i]->kept->name);
	gt_buf_puts(out, "}");
}

/* A dimension in the file. The last one of a raw type counts elements there. */
static int64_t dimension(const struct gt_tree_tensor *t, int i)
{
	int64_t elements = t->shape[i];

	if (t->raw && i == t->ndim - 1)
		gt_raw_unpack(t->raw, t->shape[i], &elements); /* check_types() has tried it */
	return elements;
}

static void put_header_tensor(
    struct gt_buf *out, const struct gt_flat_tensor *t, const struct gt_copy_place *place)
{
	gt_buf_puts(out, ",");
	gt_buf_json(out, t->name, strlen(t->name));
	gt_buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", gt_st_type(t->as, t->tensor->raw));
	for (int i = 0; i < t->tensor->ndim; i++)
		gt_buf_printf(out, "%s%" PRId64, i ? "," : "", dimension(t->tensor, i));
	gt_buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", place->offset,
	    place->offset + place->size_bytes);
}

/* Build the text of the header. The length does not depend on the checksums. */
static int build_header(struct header *h, struct gt_err *err)
{
	struct gt_buf out = { 0 };
	int rc;

	free(h->text);
	put_metadata(&out, h);
	for (size_t i = 0; i < h->output->count; i++)
		put_header_tensor(&out, h->output->tensors[i], &h->places[i]);
	gt_buf_puts(&out, "}");
	while (out.length % 8)
		gt_buf_puts(&out, " ");
	rc = gt_buf_take(&out, &h->text, &h->size, err);
	if (rc)
		return rc;
	if (h->size > GT_ST_HEADER_MAX)
		return gt_err_set(err, GT_ENOTSUP, "a header of %zu bytes: the most is %d", h->size,
		    GT_ST_HEADER_MAX);
	return 0;
}

void gt_st_write_crc(char *text, size_t size, size_t digits_at)
{
	char digits[GT_ST_CRC_DIGITS + 1];

	snprintf(digits, sizeof(digits), "%08" PRIx32, gt_st_header_crc(text, size, digits_at));
	memcpy(text + digits_at, digits, GT_ST_CRC_DIGITS);
}

/* ---- one file ---- */

static int put_header(FILE *stream, const char *text, size_t size, struct gt_err *err)
{
	unsigned char length[GT_ST_LENGTH_BYTES];

	gt_put_le(length, size, sizeof(length));
	if (fwrite(length, 1, sizeof(length), stream) != sizeof(length) ||
	    fwrite(text, 1, size, stream) != size)
		return gt_err_sys(err, "cannot write the header");
	return 0;
}

static int write_contents(
    FILE *stream, struct header *h, struct gt_copy_place *places, struct gt_err *err)
{
	uint64_t start;
	int rc = build_header(h, err);

	if (rc)
		return rc;
	start = GT_ST_LENGTH_BYTES + h->size;
	for (size_t i = 0; i < h->output->count; i++)
		places[i].offset += start;
	rc = gt_copy_tensors(
	    fileno(stream), places, h->output->count, h->output->options->progress, err);
	gt_copy_losses(places, rc ? 0 : h->output->count, h->output->options->losses);
	for (size_t i = 0; i < h->output->count; i++)
		places[i].offset -= start;
	if (!rc)
		rc = build_header(h, err);
	if (rc)
		return rc;
	gt_st_write_crc(h->text, h->size, h->digits_at);
	return put_header(stream, h->text, h->size, err);
}

/* The library sorts in this order, too: larger elements first, so that all are aligned; then by
 * name. */
static int compare_layout(const void *a, const void *b)
{
	const struct gt_flat_tensor *x = *(const struct gt_flat_tensor *const *)a;
	const struct gt_flat_tensor *y = *(const struct gt_flat_tensor *const *)b;
	int order = gt_st_rank(y->as, y->tensor->raw) - gt_st_rank(x->as, x->tensor->raw);

	return order ? order : strcmp(x->name, y->name);
}

static struct gt_copy_place *lay_out_tensors(const struct gt_st_output *o, struct gt_err *err)
{
	struct gt_copy_place *places = gt_calloc(o->count, sizeof(*places), err);
	uint64_t at = 0;

	qsort(o->tensors, o->count, sizeof(*o->tensors), compare_layout);
	for (size_t i = 0; places && i < o->count; i++) {
		const struct gt_flat_tensor *t = o->tensors[i];

		places[i] = (struct gt_copy_place){
			.offset = at, .size_bytes = t->size_bytes, .tensor = t->tensor, .as = t->as
		};
		at += t->size_bytes;
	}
	return places;
}

int gt_st_write_begin(struct gt_atomic_file *file, const char *path,
    const struct gt_st_output *output, struct gt_err *err)
{
	struct gt_copy_place *places = lay_out_tensors(output, err);
	struct header h = { .output = output, .places = places };
	int rc = places ? gt_atomic_open(file, path, err) : GT_ENOMEM;

	if (!rc) {
		file->no_sync = output->options->no_sync;
		rc = write_contents(file->stream, &h, places, err);
		if (!rc)
			rc = gt_atomic_finish(file, err);
		if (rc)
			gt_atomic_abandon(file);
	}
	free(h.text);
	free(places);
	return rc;
}

int gt_st_write_file(const char *path, const struct gt_st_output *output, struct gt_err *err)
{
	struct gt_atomic_file file;
	int rc = gt_st_write_begin(&file, path, output, err);

	return rc ? rc : gt_atomic_commit(&file, err);
}

/* ---- the tree ---- */

/* Whether the shape can be written. Example: a scalar has no dimension that could count the two
 * numbers of a byte of F4. */
static bool has_shape(const struct gt_tree_tensor *t)
{
	int64_t last = t->ndim ? t->shape[t->ndim - 1] : 1, elements;

	return !t->raw || (gt_raw_unpack(t->raw, last, &elements) && (t->ndim || elements == 1));
}

static int check_types(const struct gt_flat *flat, struct gt_err *err)
{
	for (size_t i = 0; i < flat->count; i++) {
		const struct gt_flat_tensor *t = &flat->tensors[i];

		if (!strcmp(t->name, GT_ST_METADATA))
			return gt_err_set(err, GT_ENOTSUP,
			    "a tensor is called '" GT_ST_METADATA "', which safetensors reserves");
		if (!gt_st_type(t->as, t->tensor->raw))
			gt_err_set(err, GT_ENOTSUP,
			    "tensor '%.200s' is %s, which safetensors has no name for", t->name,
			    gt_ckpt_tensor_type(t->tensor));
		else if (!has_shape(t->tensor))
			gt_err_set(err, GT_ENOTSUP,
			    "tensor '%.200s' of %s: safetensors cannot express its shape", t->name,
			    gt_ckpt_tensor_type(t->tensor));
		else
			continue;
		return gt_err_hint(err, "a .pth can hold it");
	}
	return 0;
}

/* Whether the file's own metadata has the name that a tie would be recorded under: then the tensor
 * is stored a second time. */
static int untie(struct gt_flat *flat, const struct gt_tree *metadata, struct gt_err *err)
{
	struct gt_index keys = { .compare = gt_index_by_name };
	int rc = 0;

	for (size_t i = 0; metadata && i < metadata->seq.count && !rc; i++) {
		const struct gt_tree *key = metadata->seq.items[i].key;

		if (gt_flat_is_text(key))
			rc = gt_index_add(&keys, &key->string.bytes, err) ? 0 : GT_ENOMEM;
	}
	for (size_t i = 0; i < flat->count && !rc; i++) {
		struct gt_flat_tensor *t = &flat->tensors[i];

		if (t->kept && (is_ours(t->name) || gt_index_find(&keys, &t->name)))
			t->kept = NULL;
	}
	gt_index_release(&keys);
	return rc;
}

static int write_flat(const char *path, struct gt_flat *flat, const struct gt_tree *metadata,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_flat_tensor **list = gt_calloc(2 * flat->count, sizeof(*list), err);
	struct gt_st_output output = { .metadata = metadata, .tensors = list, .options = options };
	int rc;

	if (!list)
		return GT_ENOMEM;
	output.tied = list + flat->count;
	for (size_t i = 0; i < flat->count; i++) {
		if (flat->tensors[i].kept)
			output.tied[output.tied_count++] = &flat->tensors[i];
		else
			output.tensors[output.count++] = &flat->tensors[i];
	}
	rc = options->shard_bytes ? gt_st_write_shards(path, &output, err)
	                          : gt_st_write_file(path, &output, err);
	free(list);
	return rc;
}

int gt_st_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_flat flat = { 0 };
	const struct gt_tree *metadata;
	int rc = gt_tree_check((struct gt_tree *)root, NULL, err);

	if (!rc)
		rc = gt_flat_list(&flat, root, "safetensors", options, err);
	if (!rc)
		rc = check_types(&flat, err);
	if (!rc) {
		metadata = gt_tree_get(root->seq.attributes, GT_ST_METADATA);
		if (metadata && metadata->kind != GT_TREE_DICT)
			metadata = NULL;
		rc = untie(&flat, metadata, err);
		if (!rc)
			rc = write_flat(path, &flat, metadata, options, err);
	}
	gt_flat_release(&flat);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}
