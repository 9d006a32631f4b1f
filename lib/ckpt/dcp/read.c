/* read.c - open a distributed checkpoint: the archives in the ranks' files become one tree. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/dcp/dcp.h"
#include "lib/ckpt/torch/zip.h"
#include "lib/ckpt/tree/join.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The open checkpoint is the .metadata; its shards are the files of the ranks, each mapped as a
 * whole, with a part for each archive. A tensor that is one chunk is the tensor of its archive. One
 * of several chunks has a storage that reads from theirs (tree/join.h), so that it is never in
 * memory as a whole.
 */

enum { FILES_MAX = 1 << 20 };

/* An archive, and the entry that it is for. */
struct archive {
	const struct gt_dcp_entry *entry;
	const struct gt_dcp_item *item;
	struct gt_tree *root;
};

struct reader {
	struct gt_ckpt *ckpt;
	struct gt_dcp_metadata metadata;
	struct archive *archives;      /* in the order of the metadata: chunk by chunk */
	const struct archive **sorted; /* by file, then by offset */
	size_t count;
	uint64_t compared; /* gt_join.compared */
};

/* ---- the archives ---- */

static int list_archives(struct reader *r, struct gt_err *err)
{
	size_t count = 0;

	for (size_t i = 0; i < r->metadata.count; i++)
		count += r->metadata.entries[i].is_tensor ? r->metadata.entries[i].chunk_count : 1;
	r->archives = gt_calloc(count, sizeof(*r->archives), err);
	r->sorted = gt_calloc(count, sizeof(*r->sorted), err);
	if (!r->archives || !r->sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < r->metadata.count; i++) {
		const struct gt_dcp_entry *e = &r->metadata.entries[i];

		for (size_t k = 0; k < (e->is_tensor ? e->chunk_count : 1); k++) {
			struct archive *a = &r->archives[r->count];

			a->entry = e;
			a->item = e->is_tensor ? &e->chunks[k].item : &e->value;
			r->sorted[r->count++] = a;
		}
	}
	return 0;
}

static int compare_archives(const void *a, const void *b)
{
	const struct gt_dcp_item *x = (*(const struct archive *const *)a)->item;
	const struct gt_dcp_item *y = (*(const struct archive *const *)b)->item;
	int order = strcmp(x->file, y->file);

	return order ? order : (x->at > y->at) - (x->at < y->at);
}

static bool begins_file(const struct reader *r, size_t i)
{
	return !i || strcmp(r->sorted[i - 1]->item->file, r->sorted[i]->item->file) != 0;
}

/* ---- the files of ranks ---- */

/* A file of a rank has no tree of its own. */
static int open_rank_file(struct gt_ckpt *ckpt, struct gt_err *err)
{
	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	return ckpt->root ? 0 : GT_ENOMEM;
}

const struct gt_ckpt_format gt_format_dcp_file = { .name = "distcp", .open = open_rank_file };

bool gt_dcp_is_rank_file(const char *path)
{
	return gt_text_ends_with(path, ".distcp");
}

int gt_dcp_fail_rank_file(struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "a rank's file of a distributed checkpoint (DCP): the names of its tensors are in "
	    "the folder's " GT_DCP_METADATA);
	return gt_err_hint(err, "name the folder, with the files of all ranks in it");
}

/* The archives of a file, sorted[first] to sorted[end - 1], lie in it, one behind the other. */
static int check_ranges(
    const struct reader *r, size_t first, size_t end, size_t size, struct gt_err *err)
{
	for (size_t i = first; i < end; i++) {
		const struct archive *a = r->sorted[i],
		                     *next = i + 1 < end ? r->sorted[i + 1] : NULL;
		const struct gt_dcp_item *item = a->item;

		if (item->at > size || item->bytes > size - item->at) {
			gt_err_set(err, GT_EFORMAT,
			    "'%.200s' has %llu bytes at byte %llu of '%.100s', which has %zu bytes",
			    a->entry->name, (unsigned long long)item->bytes,
			    (unsigned long long)item->at, item->file, size);
			return gt_err_hint(err, GT_CKPT_COPY_AGAIN);
		}
		if (next && next->item->at - item->at < item->bytes) {
			gt_err_set(err, GT_EFORMAT,
			    "'%.200s' and '%.200s' have bytes of '%.100s' in common",
			    a->entry->name, next->entry->name, item->file);
			return gt_err_hint(err, GT_CKPT_COPY_AGAIN);
		}
	}
	return 0;
}

static int read_archive(
    struct archive *a, struct gt_ckpt *file, const struct gt_mapping *part, struct gt_err *err)
{
	int rc = gt_torch_zip_read(&a->root, part, &file->arena, err);

	if (!rc)
		return 0;
	gt_err_prefix(err, "'%.200s': '%.100s' at byte %llu", a->entry->name, a->item->file,
	    (unsigned long long)a->item->at);
	return rc == GT_EFORMAT ? gt_err_hint(err, GT_CKPT_COPY_AGAIN) : rc;
}

static int read_rank_file(struct reader *r, size_t first, size_t end, struct gt_err *err)
{
	struct gt_ckpt *ckpt = r->ckpt, *file;
	const char *name = r->sorted[first]->item->file;
	int rc = gt_ckpt_open_beside(&file, ckpt, name, &gt_format_dcp_file,
	    "the metadata names this file: bring it into the same folder", err);

	if (rc)
		return gt_err_prefix(err, "'%.200s'", r->sorted[first]->entry->name);
	ckpt->shards[ckpt->shard_count++] = (struct gt_ckpt_shard){ file, name };
	rc = check_ranges(r, first, end, file->map.size, err);
	if (rc)
		return rc;
	file->parts = gt_arena_alloc(&file->arena, (end - first) * sizeof(*file->parts), err);
	if (!file->parts)
		return GT_ENOMEM;
	for (size_t i = first; i < end && !rc; i++) {
		struct gt_mapping *part = &file->parts[file->part_count++];
		const struct gt_dcp_item *item = r->sorted[i]->item;

		*part = gt_map_part(&file->map, item->at, item->bytes);
		rc = read_archive((struct archive *)r->sorted[i], file, part, err);
	}
	return rc;
}

static int read_rank_files(struct reader *r, struct gt_err *err)
{
	size_t files = 0, end;
	int rc = 0;

	qsort(r->sorted, r->count, sizeof(*r->sorted), compare_archives);
	for (size_t i = 0; i < r->count; i++)
		files += begins_file(r, i);
	if (files > FILES_MAX)
		return gt_err_set(err, GT_ENOTSUP, "%zu files, at most %d", files, FILES_MAX);
	r->ckpt->shards = gt_calloc(files, sizeof(*r->ckpt->shards), err);
	if (!r->ckpt->shards)
		return GT_ENOMEM;
	for (size_t i = 0; i < r->count && !rc; i = end) {
		end = i + 1;
		while (end < r->count && !begins_file(r, end))
			end++;
		rc = read_rank_file(r, i, end, err);
	}
	return rc;
}

/* ---- tensors ---- */

/* An archive has a tensor of the chunk's type and shape. */
static int check_chunk(const struct gt_dcp_entry *e, const struct gt_dcp_chunk *chunk,
    const struct gt_tree *root, struct gt_err *err)
{
	const struct gt_tree_tensor *t = &root->tensor;
	const struct gt_tree_tensor like = { .dtype = e->dtype, .raw = e->raw };

	if (root->kind != GT_TREE_TENSOR)
		return gt_err_set(err, GT_EFORMAT, "the archive of a chunk has no plain tensor");
	if (!gt_raw_same_type(t, &like))
		return gt_err_set(err, GT_EFORMAT,
		    "the metadata says that it is %s, but a chunk is %s",
		    gt_ckpt_tensor_type(&like), gt_ckpt_tensor_type(t));
	if (t->ndim != e->ndim ||
	    (e->ndim && memcmp(t->shape, chunk->size, (size_t)e->ndim * sizeof(*t->shape)) != 0))
		return gt_err_set(
		    err, GT_EFORMAT, "a chunk does not have the shape that the metadata says");
	return 0;
}

static struct gt_tree *joined_tensor(const struct reader *r, const struct gt_dcp_entry *e,
    struct gt_storage *storage, struct gt_err *err)
{
	struct gt_tree *node =
	    gt_tree_tensor(&r->ckpt->arena, e->dtype, e->ndim, e->shape, NULL, err);

	if (!node)
		return NULL;
	node->tensor.storage = storage;
	node->tensor.raw = e->raw;
	return node;
}

static int read_tensor(struct reader *r, const struct gt_dcp_entry *e,
    const struct archive *archives, struct gt_tree **out, struct gt_err *err)
{
	struct gt_join_box *boxes = gt_calloc(e->chunk_count, sizeof(*boxes), err);
	const struct gt_join join = { e->name, e->dtype, e->ndim, e->shape, boxes, e->chunk_count,
		&r->compared };
	struct gt_storage *storage;
	int rc = boxes ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < e->chunk_count && !rc; i++) {
		const struct gt_dcp_chunk *chunk = &e->chunks[i];

		boxes[i] =
		    (struct gt_join_box){ chunk->offset, chunk->size, &archives[i].root->tensor };
		rc = check_chunk(e, chunk, archives[i].root, err);
	}
	if (!rc && e->chunk_count == 1) {
		rc = gt_join_check(&join, err);
		*out = archives[0].root;
	} else if (!rc) {
		rc = gt_join_storage(&storage, &join, &r->ckpt->arena, err);
		*out = rc ? NULL : joined_tensor(r, e, storage, err);
		rc = rc ? rc : *out ? 0 : GT_ENOMEM;
	}
	free(boxes);
	return rc ? gt_err_prefix(err, "'%.200s'", e->name) : 0;
}

static int read_values(struct reader *r, struct gt_err *err)
{
	struct gt_tree **values = gt_calloc(r->metadata.count, sizeof(*values), err);
	const struct archive *a = r->archives;
	int rc = values ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < r->metadata.count && !rc; i++) {
		const struct gt_dcp_entry *e = &r->metadata.entries[i];

		if (e->is_tensor)
			rc = read_tensor(r, e, a, &values[i], err);
		else
			values[i] = a->root;
		a += e->is_tensor ? e->chunk_count : 1;
	}
	if (!rc)
		rc = gt_dcp_nest(&r->ckpt->root, &r->metadata, values, &r->ckpt->arena, err);
	free(values);
	return rc;
}

static int open_dcp(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct reader r = { .ckpt = ckpt };
	int rc = gt_dcp_read_metadata(&r.metadata, &ckpt->map, &ckpt->arena, err);

	if (!rc && !ckpt->path)
		rc = gt_err_set(
		    err, GT_EFORMAT, "the metadata of a distributed checkpoint, without its files");
	if (!rc)
		rc = list_archives(&r, err);
	if (!rc)
		rc = read_rank_files(&r, err);
	if (!rc)
		rc = read_values(&r, err);
	free(r.archives);
	free(r.sorted);
	return rc;
}

const struct gt_ckpt_format gt_format_dcp = {
	.name = "dcp", .sniff = gt_dcp_is_metadata, .open = open_dcp, .write = gt_dcp_write
};
