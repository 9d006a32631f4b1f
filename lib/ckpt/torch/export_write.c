/* export_write.c - an archive of torch.export, written again with other weights. */
#include "lib/ckpt/torch/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/torch/zip.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The records keep their order, names and sizes, so the layout is that of a new archive of the same
 * records (zip/write.c). Only records of weights get other bytes. Each of them is the storage of
 * one tensor or of several, and the config has the place of each tensor in it:
 *
 *   record    tensors in the archive                        written as
 *   weight_0  fc.weight [4, 3], stride [3, 1]               the elements of the new fc.weight
 *   weight_1  conv.weight [8, 3, 2, 2], channels last:      the elements of the new one in the
 *             stride [12, 1, 6, 3]                          order of dimensions 0, 2, 3, 1
 *   weight_2  embed.weight and head.weight, the same        the elements of embed.weight, after a
 *             [13, 8]: tied                                 comparison with head.weight
 *   weight_3  a [4] from element 0, b [4] from element 6    the old bytes, with the elements put
 *             of 12                                         into their places
 */

/* A weight in the archive, and the tensor that takes its place. */
struct weight {
	const char *name;
	const struct gt_tree_tensor *old, *new;
};

struct export_writer {
	struct gt_torch_archive *archive;
	const struct gt_tree *own; /* the dict of the archive's weights */
	const char *from;          /* the file of the new weights, for messages */
	const struct gt_ckpt_write_options *options;
	struct weight *weights; /* those of one storage lie together */
	size_t weight_count;
	struct gt_zip_writer zip;
	/* places of records that are not written at once, and the index of their record */
	struct gt_copy_place *places;
	size_t *record_of;
	size_t place_count;
	struct gt_arena arena;
	int fd;
};

/* ---- the weights ---- */

static bool same_dims(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape));
}

static void print_shape(char text[80], const struct gt_tree_tensor *t)
{
	size_t used = (size_t)snprintf(text, 80, "[");

	for (int i = 0; i < t->ndim && used < 60; i++)
		used += (size_t)snprintf(
		    text + used, 80 - used, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
	snprintf(text + used, 80 - used, "]");
}

static int check_new_weight(
    const struct export_writer *x, const struct weight *w, struct gt_err *err)
{
	char own[80], given[80];

	if (!w->new)
		return gt_err_set(err, GT_EFORMAT, "'%s': '%.200s' is missing", x->from, w->name);
	if (same_dims(w->old, w->new))
		return 0;
	print_shape(own, w->old);
	print_shape(given, w->new);
	return gt_err_set(err, GT_EFORMAT, "'%s': '%.200s' has the shape %s, and %s in the network",
	    x->from, w->name, given, own);
}

static int check_no_others(
    const struct export_writer *x, const struct gt_state_dict *given, struct gt_err *err)
{
	for (size_t i = 0; i < given->count; i++)
		if (!gt_tree_get(x->own, given->entries[i].name))
			return gt_err_set(err, GT_EFORMAT,
			    "'%s': '%.200s' is not a weight of the network", x->from,
			    given->entries[i].name);
	return 0;
}

static int compare_weights(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;
	uintptr_t p = (uintptr_t)x->old->storage, q = (uintptr_t)y->old->storage;

	if (p != q)
		return p < q ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int pair_weights(
    struct export_writer *x, const struct gt_state_dict *given, struct gt_err *err)
{
	int rc = 0;

	x->weight_count = x->own->seq.count;
	x->weights = gt_calloc(x->weight_count, sizeof(*x->weights), err);
	if (!x->weights)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < x->weight_count; i++) {
		const struct gt_tree_item *item = &x->own->seq.items[i];
		const char *name = item->key->string.bytes;

		x->weights[i] =
		    (struct weight){ name, &item->value->tensor, gt_state_dict_get(given, name) };
		rc = check_new_weight(x, &x->weights[i], err);
	}
	if (!rc)
		rc = check_no_others(x, given, err);
	qsort(x->weights, rc ? 0 : x->weight_count, sizeof(*x->weights), compare_weights);
	return rc;
}

/* ---- a storage whose elements are those of one tensor ---- */

/* Whether `b` is the same tensor as `a`, under another name. */
static bool is_tied(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return same_dims(a, b) && a->dtype == b->dtype && a->offset == b->offset &&
	       !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof(*a->stride));
}

/* Sort the dimensions of a tensor by their strides, the largest first. */
static void sort_dims(const struct gt_tree_tensor *t, int order[GT_TREE_MAX_DIMS])
{
	for (int i = 0; i < t->ndim; i++) {
		int k = i;

		for (; k > 0 && t->stride[order[k - 1]] < t->stride[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

/* Return a view of a tensor, with its dimensions in another order; NULL with err set. */
static struct gt_tree_tensor *reorder_dims(struct export_writer *x, const struct gt_tree_tensor *t,
    const int order[GT_TREE_MAX_DIMS], struct gt_err *err)
{
	struct gt_tree_tensor *view = gt_arena_alloc(&x->arena, sizeof(*view), err);
	int64_t *dims = gt_arena_alloc(&x->arena, 2 * (size_t)t->ndim * sizeof(*dims), err);

	if (!view || !dims)
		return NULL;
	*view = *t;
	view->shape = dims;
	view->stride = dims + t->ndim;
	for (int i = 0; i < t->ndim; i++) {
		dims[i] = t->shape[order[i]];
		dims[t->ndim + i] = t->stride[order[i]];
	}
	return view;
}

/* Set *out to the elements of the new tensor in the order of the old one's storage. NULL: the
 * storage has other elements, too, or is not little-endian as gt_copy_tensors() writes. */
static int order_elements(struct export_writer *x, const struct weight *first, size_t count,
    const struct gt_tree_tensor **out, struct gt_err *err)
{
	const struct gt_tree_tensor *old = first->old, *view;
	int order[GT_TREE_MAX_DIMS], same;

	*out = NULL;
	for (size_t i = 1; i < count; i++)
		if (!is_tied(old, first[i].old))
			return 0;
	sort_dims(old, order);
	view = reorder_dims(x, old, order, err);
	if (!view)
		return GT_ENOMEM;
	if (!gt_ckpt_tensor_is_whole(view) || old->storage->swapped != gt_host_is_big())
		return 0;
	for (size_t i = 1; i < count; i++) {
		same = gt_ckpt_tensor_same(first->new, first[i].new, old->dtype, err);
		if (same < 0)
			return same;
		if (!same)
			return gt_err_set(err, GT_EFORMAT,
			    "'%s': '%.200s' and '%.200s' differ, which are one tensor in the "
			    "network",
			    x->from, first->name, first[i].name);
	}
	*out = reorder_dims(x, first->new, order, err);
	return *out ? 0 : GT_ENOMEM;
}

/* ---- any other storage: its bytes in memory ---- */

/* Put the packed elements of a tensor into their places in its storage. Return false if `compare`
 * is set instead, and a place has another element. */
static bool visit_elements(
    const struct gt_tree_tensor *t, const unsigned char *packed, unsigned char *bytes, bool compare)
{
	size_t size = gt_dtype_size(t->dtype);
	int64_t index[GT_TREE_MAX_DIMS] = { 0 }, count = gt_ckpt_tensor_count(t);

	for (int64_t i = 0; i < count; i++, packed += size) {
		int64_t at = t->offset;

		for (int d = 0; d < t->ndim; d++)
			at += index[d] * t->stride[d];
		if (!compare)
			memcpy(bytes + (size_t)at * size, packed, size);
		else if (memcmp(bytes + (size_t)at * size, packed, size))
			return false;
		for (int d = t->ndim - 1; d >= 0 && ++index[d] == t->shape[d]; d--)
			index[d] = 0;
	}
	return true;
}

/* Read the new elements of a weight, packed, in the type and byte order of its storage. */
static int place_elements(const struct export_writer *x, const struct weight *w,
    unsigned char *bytes, bool compare, struct gt_err *err)
{
	uint64_t size = gt_ckpt_tensor_bytes(w->old);
	unsigned char *packed;
	int rc;

	if (size > w->old->storage->size_bytes)
		return gt_err_set(err, GT_ENOTSUP,
		    "'%.200s' repeats elements of its storage, and such a weight cannot be written",
		    w->name);
	packed = gt_calloc(size, 1, err);
	rc = packed ? gt_ckpt_tensor_read(w->new, w->old->dtype, packed, err) : GT_ENOMEM;
	if (!rc && w->old->storage->swapped)
		gt_ckpt_tensor_swap(w->old->dtype, packed, (size_t)gt_ckpt_tensor_count(w->old));
	if (!rc && !visit_elements(w->old, packed, bytes, compare))
		rc = gt_err_set(err, GT_EFORMAT,
		    "'%s': '%.200s' shares elements with another weight in the network, but "
		    "differs from it",
		    x->from, w->name);
	free(packed);
	return rc;
}

static int put_storage_record(
    struct export_writer *x, const struct weight *first, size_t count, struct gt_err *err)
{
	struct gt_storage *storage = first->old->storage;
	int64_t size = (int64_t)storage->size_bytes, stride = 1;
	const struct gt_tree_tensor all = {
		.dtype = GT_U8, .ndim = 1, .shape = &size, .stride = &stride, .storage = storage
	};
	unsigned char *bytes = gt_calloc(storage->size_bytes, 1, err);
	int rc = bytes ? gt_ckpt_tensor_read(&all, GT_U8, bytes, err) : GT_ENOMEM;

	for (size_t i = 0; !rc && i < 2 * count; i++)
		rc = place_elements(x, &first[i % count], bytes, i >= count, err);
	if (!rc)
		rc = gt_zip_put(&x->zip, x->zip.count - 1, x->fd, bytes, err);
	free(bytes);
	return rc;
}

/* ---- the records ---- */

/* Plan a copy into the record that was added last. */
static void add_place(struct export_writer *x, struct gt_copy_place place)
{
	place.offset = x->zip.records[x->zip.count - 1].data;
	x->record_of[x->place_count] = x->zip.count - 1;
	x->places[x->place_count++] = place;
}

static int add_weights(
    struct export_writer *x, const struct weight *first, size_t count, struct gt_err *err)
{
	const struct gt_tree_tensor *ordered;
	int rc = order_elements(x, first, count, &ordered, err);

	if (rc)
		return rc;
	if (!ordered)
		return put_storage_record(x, first, count, err);
	add_place(x, (struct gt_copy_place){ .size_bytes = first->old->storage->size_bytes,
	                 .tensor = ordered,
	                 .as = first->old->dtype });
	return 0;
}

static int add_unchanged(
    struct export_writer *x, const struct gt_zip_record *record, struct gt_err *err)
{
	struct gt_storage *storage = gt_arena_alloc(&x->arena, sizeof(*storage), err);

	if (!storage || gt_zip_storage(&x->archive->zip, record, &x->arena, storage, err))
		return err->code;
	add_place(x,
	    (struct gt_copy_place){ .size_bytes = record->size, .storage = storage, .as = GT_U8 });
	return 0;
}

static int compare_headers(const void *a, const void *b)
{
	const struct gt_zip_record *x = *(const struct gt_zip_record *const *)a;
	const struct gt_zip_record *y = *(const struct gt_zip_record *const *)b;

	return (x->header > y->header) - (x->header < y->header);
}

/* Set first[i] to the first weight in record i of the archive; NULL: it has no weights. */
static void find_weight_records(const struct export_writer *x, const struct weight **first)
{
	char path[512];

	for (size_t i = x->weight_count; i-- > 0;) {
		const struct gt_zip_record *r;

		snprintf(path, sizeof(path), "data/weights/%s", x->weights[i].old->storage->key);
		r = gt_torch_archive_find(x->archive, path);
		if (r)
			first[r - x->archive->zip.records] = &x->weights[i];
	}
}

static int add_exported_record(struct export_writer *x, const struct gt_zip_record *record,
    const struct weight *first, struct gt_err *err)
{
	const struct weight *end = x->weights + x->weight_count;
	uint64_t unused;
	size_t count = 0;
	int rc = gt_zip_add(&x->zip, record->name, record->size, &unused, err);

	while (first && first + count < end && first[count].old->storage == first->old->storage)
		count++;
	if (rc)
		return rc;
	return first ? add_weights(x, first, count, err) : add_unchanged(x, record, err);
}

/* Add all records in the order of the file. */
static int add_records(struct export_writer *x, struct gt_err *err)
{
	const struct gt_zip *zip = &x->archive->zip;
	const struct gt_zip_record **order = gt_calloc(zip->count, sizeof(*order), err);
	const struct weight **first = gt_calloc(zip->count, sizeof(*first), err);
	int rc = order && first ? 0 : GT_ENOMEM;

	if (!rc)
		find_weight_records(x, first);
	for (size_t i = 0; !rc && i < zip->count; i++)
		order[i] = &zip->records[i];
	if (!rc)
		qsort(order, zip->count, sizeof(*order), compare_headers);
	for (size_t i = 0; !rc && i < zip->count; i++)
		rc = add_exported_record(x, order[i], first[order[i] - zip->records], err);
	free(first);
	free(order);
	return rc;
}

static int write_exported(void *self, int fd, struct gt_err *err)
{
	struct export_writer *x = self;
	int rc;

	x->fd = fd;
	rc = add_records(x, err);
	if (!rc)
		rc = gt_copy_tensors(fd, x->places, x->place_count, x->options->progress, err);
	if (rc)
		return rc;
	gt_copy_losses(x->places, x->place_count, x->options->losses);
	for (size_t i = 0; i < x->place_count; i++)
		x->zip.records[x->record_of[i]].crc = x->places[i].crc;
	return gt_zip_finish(&x->zip, fd, err);
}

int gt_exported_write(const char *path, const struct gt_ckpt *archive,
    const struct gt_state_dict *weights, const char *from,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct export_writer x = { .archive = archive->exported->archive,
		.own = archive->root,
		.from = from,
		.options = options };
	size_t records = x.archive->zip.count;
	int rc = gt_ckpt_check_output(path, options, err);

	if (!rc)
		rc = pair_weights(&x, weights, err);
	if (!rc) {
		x.places = gt_calloc(records, sizeof(*x.places), err);
		x.record_of = gt_calloc(records, sizeof(*x.record_of), err);
		rc = x.places && x.record_of ? 0 : GT_ENOMEM;
	}
	if (!rc)
		rc = gt_ckpt_write_file((struct gt_file_name){ .path = path }, options->no_sync,
		    write_exported, &x, err);
	gt_zip_release(&x.zip);
	gt_arena_release(&x.arena);
	free(x.places);
	free(x.record_of);
	free(x.weights);
	return rc;
}
