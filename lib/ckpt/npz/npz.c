/* npz.c - numpy's archives and single arrays: a dict of tensors, read, edited and written. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/flat.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

/*
 * A zip archive with a record NAME.npy for each array, as numpy.savez() writes it. Read: stored or
 * deflated records (the latter are inflated into memory), in the archive's order; every record has
 * to be an array. A lone .npy file is a dict of one array, "arr_0", as savez() calls an array
 * without a name.
 * Written: stored records whose elements start at a multiple of 64 bytes; views as arrays of their
 * own, tied arrays twice: the format knows no sharing. numpy.load(allow_pickle=False) reads them.
 */

enum {
	ENDING = 4,       /* bytes of ".npy" */
	START_BYTES = 256 /* bytes to read of an array at first; most headers are shorter */
};

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
	return length >= ENDING && gt_inside(GT_ZIP_LOCAL_BYTES, length, map->size) &&
	       !memcmp(map->data + GT_ZIP_LOCAL_BYTES + length - ENDING, ".npy", ENDING);
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
	const struct gt_mapping memory = { record->bytes, record->size_bytes, -1, 0 };
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

/* Compute the CRC-32 of the elements from the CRC-32 of the whole record: join() is linear in both.
 * A record whose header is damaged gives a wrong sum, so that the header is covered too. */
static void take_crc(struct gt_storage *data, const struct gt_storage *record,
    const unsigned char *header, size_t size)
{
	uint32_t before = gt_crc32(0, header, size);

	data->has_crc = record->has_crc;
	data->crc = gt_crc32_join(before, 0, data->size_bytes) ^ record->crc;
}

/* The tensor whose header and elements `record` holds; its storage is the elements. NULL with err
 * set: if *others is set, too, the elements are strings or objects. */
static struct gt_tree *make_tensor(struct gt_arena *arena, const struct gt_storage *record,
    const char **others, struct gt_err *err)
{
	unsigned char start[START_BYTES];
	const unsigned char *header;
	struct gt_npy npy = { 0 };
	struct gt_tree *node;
	struct gt_storage *s;
	size_t has;

	if (copy_header(arena, record, start, &header, &has, err) ||
	    gt_npy_parse(&npy, header, has, record->size_bytes, err)) {
		*others = npy.others;
		return NULL;
	}
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

/* The name of a record's array: without its ending. */
static const char *array_name(
    struct gt_ckpt *ckpt, const struct gt_zip_record *r, struct gt_err *err)
{
	char *name;

	if (!gt_text_ends_with(r->name, ".npy")) {
		gt_err_set(err, GT_ENOTSUP, "record '%.200s' is no array (.npy)", r->name);
		return NULL;
	}
	name = gt_arena_strdup(&ckpt->arena, r->name, err);
	if (name)
		name[strlen(name) - ENDING] = '\0';
	return name;
}

/* Names of classes and the like stand beside weights: an array of them is kept by its name. */
static struct gt_tree *make_object(struct gt_arena *arena, const char *others, struct gt_err *err)
{
	struct gt_tree *node;
	char class[64];

	*err = GT_ERR_INIT;
	snprintf(class, sizeof(class), "numpy.ndarray of %s", others);
	node = gt_tree_opaque(arena, class, err);
	if (!node)
		return NULL;
	node->opaque.made = GT_TREE_UNREAD;
	node->opaque.args = gt_tree_tuple(arena, err);
	return node->opaque.args ? node : NULL;
}

static int add_record(
    struct gt_ckpt *ckpt, struct gt_zip *zip, const struct gt_zip_record *r, struct gt_err *err)
{
	const char *name = array_name(ckpt, r, err);
	struct gt_storage record = { 0 };
	struct gt_tree *node = NULL;
	const char *others = NULL;
	int rc = name ? gt_zip_storage(zip, r, &ckpt->arena, &record, err) : err->code;

	if (rc)
		return rc;
	node = make_tensor(&ckpt->arena, &record, &others, err);
	if (node)
		node->tensor.storage->name = name;
	else if (others && !ckpt->choice)
		node = make_object(&ckpt->arena, others, err);
	if (!node)
		return gt_err_prefix(err, "array '%.200s'", name);
	return gt_tree_set(ckpt->root, name, node, &ckpt->arena, err);
}

/* Keep the records that ckpt->choice wants. Records that are not arrays are not offered to it. */
static int choose_arrays(
    struct gt_ckpt *ckpt, const struct gt_zip_record **order, size_t *count, struct gt_err *err)
{
	const char **names = gt_arena_alloc(&ckpt->arena, *count * sizeof(*names), err);
	bool *wanted = gt_arena_alloc(&ckpt->arena, *count * sizeof(*wanted), err);
	size_t arrays = 0, kept = 0;
	int rc = names && wanted ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < *count && !rc; i++) {
		const char *name = NULL;

		if (!gt_text_ends_with(order[i]->name, ".npy"))
			continue;
		name = array_name(ckpt, order[i], err);
		order[arrays] = order[i];
		names[arrays] = name;
		wanted[arrays++] = false;
		rc = name ? 0 : GT_ENOMEM;
	}
	if (!rc)
		rc = ckpt->choice->choose(ckpt->choice->self, names, arrays, wanted, err);
	for (size_t i = 0; i < arrays; i++)
		if (wanted[i])
			order[kept++] = order[i];
	*count = kept;
	return rc;
}

static int open_npz(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_zip zip;
	const struct gt_zip_record **order;
	int rc = gt_zip_read(&zip, &ckpt->map, &ckpt->arena, err);
	size_t count;

	if (rc)
		return rc;
	order = gt_calloc(zip.count, sizeof(*order), err);
	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	rc = order && ckpt->root ? 0 : GT_ENOMEM;
	count = zip.count;
	for (size_t i = 0; i < count && !rc; i++)
		order[i] = &zip.records[i];
	if (!rc)
		qsort(order, count, sizeof(*order), compare_places);
	if (!rc && ckpt->choice)
		rc = choose_arrays(ckpt, order, &count, err);
	for (size_t i = 0; i < count && !rc; i++)
		rc = add_record(ckpt, &zip, order[i], err);
	free(order);
	return rc;
}

static int open_npy(struct gt_ckpt *ckpt, struct gt_err *err)
{
	const struct gt_storage file = {
		.bytes = ckpt->map.data, .size_bytes = ckpt->map.size, .map = &ckpt->map
	};
	const char *others = NULL;
	struct gt_tree *node = make_tensor(&ckpt->arena, &file, &others, err);

	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	if (!node || !ckpt->root)
		return err->code;
	node->tensor.storage->name = "arr_0";
	return gt_tree_set(ckpt->root, "arr_0", node, &ckpt->arena, err);
}

/* ---- writing ---- */

struct array {
	unsigned char *header;
	size_t header_size;
	uint64_t at; /* offset of the header in the file */
};

struct writer {
	struct gt_flat flat;
	struct array *arrays;         /* of flat.tensors */
	struct gt_copy_place *places; /* the same */
	struct gt_zip_writer zip;
	struct gt_progress *progress;
};

static int fail_raw(const struct gt_tree_tensor *t, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP, "numpy has no %s", gt_ckpt_tensor_type(t));
	return gt_err_hint(err, "%s can hold it",
	    !t->raw->torch         ? "safetensors"
	    : !t->raw->safetensors ? "a .pth"
	                           : "safetensors and .pth");
}

/* The record of a tensor: its header, then its elements. */
static int add_array(struct writer *w, size_t i, struct gt_err *err)
{
	const struct gt_flat_tensor *t = &w->flat.tensors[i];
	struct array *a = &w->arrays[i];
	char *name;
	int rc = t->tensor->raw ? fail_raw(t->tensor, err)
	                        : gt_npy_format(&a->header, &a->header_size, t->as, t->tensor->ndim,
	                              t->tensor->shape, err);

	if (rc)
		return gt_err_prefix(err, "tensor '%.200s'", t->name);
	name = gt_asprintf(err, "%s.npy", t->name);
	if (!name)
		return GT_ENOMEM;
	if (gt_zip_check_name(name, strlen(name), 0, GT_ERR_IGNORED)) {
		gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.200s': this name is no plain relative path, as an array in a zip "
		    "archive needs",
		    t->name);
		rc = gt_err_hint(err, "'gtrain ckpt rename' changes it");
	} else {
		rc = gt_zip_add(&w->zip, name, a->header_size + t->size_bytes, &a->at, err);
	}
	free(name);
	w->places[i] = (struct gt_copy_place){
		.offset = a->at + a->header_size,
		.size_bytes = t->size_bytes,
		.tensor = t->tensor,
		.as = t->as,
	};
	return rc;
}

static int write_archive(void *self, int fd, struct gt_err *err)
{
	struct writer *w = self;
	int rc = 0;

	for (size_t i = 0; i < w->flat.count && !rc; i++)
		rc = add_array(w, i, err);
	if (!rc)
		rc = gt_copy_tensors(fd, w->places, w->flat.count, w->progress, err);
	for (size_t i = 0; i < w->flat.count && !rc; i++) {
		const struct array *a = &w->arrays[i];

		rc = gt_write_at(fd, a->at, a->header, a->header_size, err);
		w->zip.records[i].crc = gt_crc32_join(gt_crc32(0, a->header, a->header_size),
		    w->places[i].crc, w->places[i].size_bytes);
	}
	return rc ? rc : gt_zip_finish(&w->zip, fd, err);
}

static void release_npz_writer(struct writer *w)
{
	for (size_t i = 0; w->arrays && i < w->flat.count; i++)
		free(w->arrays[i].header);
	free(w->arrays);
	free(w->places);
	gt_zip_release(&w->zip);
	gt_flat_release(&w->flat);
}

static int prepare_npz_writer(struct writer *w, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	int rc = gt_tree_check((struct gt_tree *)root, NULL, err);

	if (!rc)
		rc = gt_flat_list(&w->flat, root, "npz", options, err);
	if (rc)
		return rc;
	w->arrays = gt_calloc(w->flat.count, sizeof(*w->arrays), err);
	w->places = gt_calloc(w->flat.count, sizeof(*w->places), err);
	return w->arrays && w->places ? 0 : GT_ENOMEM;
}

static int write_npz(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct writer w = { .progress = options->progress };
	int rc = prepare_npz_writer(&w, root, options, err);

	if (!rc)
		rc = gt_ckpt_write_file((struct gt_file_name){ .path = path }, options->no_sync,
		    write_archive, &w, err);
	gt_copy_losses(w.places, rc ? 0 : w.flat.count, options->losses);
	release_npz_writer(&w);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

/* ---- edits ---- */

/* The same tensors under their new names. */
static int rename_all(struct gt_tree **out, const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    struct gt_arena *arena, struct gt_err *err)
{
	const struct gt_tree *root = ckpt->root;
	int rc = 0;

	*out = gt_tree_dict(arena, err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t i = 0, next = 0; i < root->seq.count && !rc; i++) {
		const struct gt_tree_item *item = &root->seq.items[i];
		const char *name = item->key->string.bytes;

		/* changes are in the tree's order, and there are none but names */
		if (next < edit->count && !strcmp(edit->changes[next].from, name))
			name = edit->changes[next++].to;
		rc = gt_tree_set(*out, name, item->value, arena, err);
	}
	return rc;
}

static int apply_npz(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	static const struct gt_ckpt_write_options options = { 0 };
	struct gt_arena arena = { 0 };
	struct writer w = { 0 };
	struct gt_tree *root;
	int rc = rename_all(&root, ckpt, edit, &arena, err);

	if (!rc)
		rc = prepare_npz_writer(&w, root, &options, err);
	if (rc)
		gt_err_prefix(err, "'%s'", target->input);
	else
		rc = gt_edit_replace(ckpt, target, write_archive, &w, err);
	for (size_t i = 0; i < w.flat.count && !rc; i++)
		result->copied_bytes += w.flat.tensors[i].size_bytes;
	release_npz_writer(&w);
	gt_arena_release(&arena);
	result->replaced = !target->output;
	result->why = "the names of a zip archive's records have no room to change";
	return rc;
}

const struct gt_ckpt_format gt_format_npz = {
	.name = "npz", .sniff = sniff_npz, .open = open_npz, .apply = apply_npz, .write = write_npz
};

const struct gt_ckpt_format gt_format_npy = { .name = "npy", .sniff = sniff_npy, .open = open_npy };
