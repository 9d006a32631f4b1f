/* read.c - opening numpy's archives and single arrays: a dict of tensors, as a tree. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/npz/npz.h"
#include "lib/ckpt/safetensors/edit.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

static const char ending[] = ".npy";

enum { START_BYTES = 256 }; /* of an array: most headers are shorter */

static bool is_array(const char *name, size_t length)
{
	size_t n = sizeof(ending) - 1;

	return length >= n && !memcmp(name + length - n, ending, n);
}

/* A zip archive whose first record is an array; or one that consists of its end record only:
 * numpy writes such a file if there are no arrays. */
static bool sniff_npz(const struct gt_mapping *map)
{
	size_t length;

	if (map->size == GT_ZIP_END_BYTES && !memcmp(map->data, "PK\5\6", 4))
		return true;
	if (map->size < GT_ZIP_LOCAL_BYTES || memcmp(map->data, "PK\3\4", 4) != 0)
		return false;
	length = gt_get_le(map->data + 26, 2);
	return gt_inside(GT_ZIP_LOCAL_BYTES, length, map->size) &&
	       is_array((const char *)map->data + GT_ZIP_LOCAL_BYTES, length);
}

static bool sniff_npy(const struct gt_mapping *map)
{
	return map->size >= 6 && !memcmp(map->data, "\x93NUMPY", 6);
}

/* ---- one array ---- */

/* Strides of an array whose first index is that of neighbours. */
static void turn(struct gt_tree_tensor *t, int64_t *stride)
{
	int64_t step = 1;

	for (int i = 0; i < t->ndim; i++) {
		stride[i] = step;
		step *= t->shape[i];
	}
	t->stride = stride;
}

/* A record's bytes up to its elements, or as many of them as there are: a copy, as no other process
 * must change a header between its check and its use. `start` is used if it is large enough. */
static int copy_header(struct gt_arena *arena, const struct gt_storage *record,
    unsigned char start[START_BYTES], const unsigned char **out, size_t *size, struct gt_err *err)
{
	const struct gt_mapping memory = { record->bytes, record->size_bytes, -1 };
	const struct gt_mapping *map = record->map ? record->map : &memory;
	size_t has = record->size_bytes < START_BYTES ? record->size_bytes : START_BYTES;
	uint64_t at = record->map ? record->file_offset : 0;
	unsigned char *copy;
	int rc = gt_map_peek(map, at, start, has, err);

	*out = start;
	*size = has;
	if (rc || gt_npy_header_bytes(start, has) <= has || has == record->size_bytes)
		return rc;
	*size = gt_npy_header_bytes(start, has);
	if (*size > record->size_bytes)
		*size = record->size_bytes;
	rc = gt_map_copy(map, at, *size, arena, &copy, err);
	*out = copy;
	return rc;
}

/* From the sum of a whole record to that of its elements alone: join() is linear in both. A record
 * whose header is damaged gives a wrong sum, so that the header is covered too. */
static void take_crc(struct gt_storage *data, const struct gt_storage *record,
    const unsigned char *header, size_t size)
{
	uint32_t before = gt_crc32(0, header, size);

	data->has_crc = record->has_crc;
	data->crc = gt_crc32_join(before, 0, data->size_bytes) ^ record->crc;
}

/* The tensor whose header and elements `record` holds; its storage is the elements. */
static struct gt_tree *make_tensor(
    struct gt_arena *arena, const struct gt_storage *record, struct gt_err *err)
{
	unsigned char start[START_BYTES];
	const unsigned char *header;
	struct gt_npy npy;
	struct gt_tree *node;
	struct gt_storage *s;
	size_t has;

	if (copy_header(arena, record, start, &header, &has, err) ||
	    gt_npy_parse(&npy, header, has, record->size_bytes, err))
		return NULL;
	node = gt_tree_tensor(arena, npy.dtype, npy.ndim, npy.shape,
	    (const unsigned char *)record->bytes + npy.data_at, err);
	if (!node) {
		if (err->code == GT_EINVAL)
			err->code = GT_EFORMAT;
		gt_err_prefix(err, "npy");
		return NULL;
	}
	s = node->tensor.storage;
	has = record->size_bytes - npy.data_at;
	if (s->size_bytes != has) {
		gt_err_set(err, GT_EFORMAT,
		    s->size_bytes > has ? "npy: %zu of its %zu bytes are missing"
		                        : "npy: %zu bytes more than its %zu",
		    s->size_bytes > has ? s->size_bytes - has : has - s->size_bytes, s->size_bytes);
		return NULL;
	}
	s->swapped = npy.swapped;
	s->map = record->map;
	s->file_offset = record->file_offset + npy.data_at;
	take_crc(s, record, header, npy.data_at);
	if (npy.fortran_order && gt_ckpt_tensor_count(&node->tensor))
		turn(&node->tensor, (int64_t *)node->tensor.stride);
	return node;
}

/* ---- archives ---- */

static int compare_places(const void *a, const void *b)
{
	const struct gt_zip_record *x = *(const struct gt_zip_record *const *)a;
	const struct gt_zip_record *y = *(const struct gt_zip_record *const *)b;

	return (x->header > y->header) - (x->header < y->header);
}

static int add_record(
    struct gt_ckpt *ckpt, struct gt_zip *zip, const struct gt_zip_record *r, struct gt_err *err)
{
	struct gt_storage record = { 0 };
	struct gt_tree *node = NULL;
	char *name;
	int rc;

	if (!is_array(r->name, strlen(r->name)))
		return gt_err_set(err, GT_ENOTSUP, "record '%.200s' is no array (.npy)", r->name);
	rc = gt_zip_storage(zip, r, &ckpt->arena, &record, err);
	if (rc)
		return rc;
	name = gt_arena_strdup(&ckpt->arena, r->name, err);
	if (!name)
		return GT_ENOMEM;
	name[strlen(name) - (sizeof(ending) - 1)] = '\0';
	node = make_tensor(&ckpt->arena, &record, err);
	if (!node)
		return gt_err_prefix(err, "array '%.200s'", name);
	node->tensor.storage->name = name;
	return gt_tree_set(ckpt->root, name, node, &ckpt->arena, err);
}

static int open_npz(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_zip zip;
	const struct gt_zip_record **order;
	int rc = gt_zip_read(&zip, &ckpt->map, &ckpt->arena, err);

	if (rc)
		return rc;
	order = gt_calloc(zip.count, sizeof(*order), err);
	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	rc = order && ckpt->root ? 0 : GT_ENOMEM;
	for (size_t i = 0; i < zip.count && !rc; i++)
		order[i] = &zip.records[i];
	if (!rc)
		qsort(order, zip.count, sizeof(*order), compare_places);
	for (size_t i = 0; i < zip.count && !rc; i++)
		rc = add_record(ckpt, &zip, order[i], err);
	free(order);
	return rc;
}

static int open_npy(struct gt_ckpt *ckpt, struct gt_err *err)
{
	const struct gt_storage file = {
		.bytes = ckpt->map.data, .size_bytes = ckpt->map.size, .map = &ckpt->map
	};
	struct gt_tree *node = make_tensor(&ckpt->arena, &file, err);

	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	if (!node || !ckpt->root)
		return err->code;
	node->tensor.storage->name = "arr_0";
	return gt_tree_set(ckpt->root, "arr_0", node, &ckpt->arena, err);
}

const struct gt_ckpt_format gt_format_npz = { .name = "npz",
	.sniff = sniff_npz,
	.open = open_npz,
	.apply = gt_npz_apply,
	.write = gt_npz_write };

const struct gt_ckpt_format gt_format_npy = { .name = "npy", .sniff = sniff_npy, .open = open_npy };
