/* write.c - a tree as a distributed checkpoint: one file of archives, and the metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/meter.h"
#include "lib/base/new_folder.h"
#include "lib/ckpt/dcp/flatten.h"
#include "lib/ckpt/torch/write.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The folder looks like that of a run with one rank: every tensor is one chunk, and all archives
 * are in __0_0.distcp. It is written under a temporary name and renamed when it is whole.
 */

#define RANK_FILE "__0_0.distcp"

/* Archives begin at multiples of this many bytes, as the records in an archive do. */
enum { ALIGN = 64 };

struct writer {
	const struct gt_ckpt_write_options *options;
	struct gt_dcp_values flat;
	struct gt_meter meter;
};

/* ---- the file of archives ---- */

/* An optimizer's numbers keep their type, as in other formats. */
static int write_item(struct writer *w, struct gt_dcp_value *e, int fd, struct gt_err *err)
{
	struct gt_ckpt_write_options options = *w->options;
	uint64_t end;
	int rc;

	options.cast = options.cast && !e->is_number;
	options.keep_devices = false;
	options.progress = NULL;
	rc = gt_torch_write_archive(fd, e->at, e->value, &options, &end, err);
	if (rc)
		return gt_err_prefix(err, "'%.200s'", e->name);
	e->bytes = end - e->at;
	gt_meter_add(&w->meter, e->bytes);
	return 0;
}

static int write_items(void *self, int fd, struct gt_err *err)
{
	struct writer *w = self;
	uint64_t total = 0, at = 0;
	int rc = 0;

	for (size_t i = 0; i < w->flat.count; i++)
		if (w->flat.items[i].value->kind == GT_TREE_TENSOR)
			total += gt_ckpt_tensor_bytes(&w->flat.items[i].value->tensor);
	gt_meter_begin(&w->meter, w->options->progress, "writing, MiB", total);
	for (size_t i = 0; i < w->flat.count && !rc; i++) {
		struct gt_dcp_value *e = &w->flat.items[i];

		e->at = at;
		rc = write_item(w, e, fd, err);
		at = (e->at + e->bytes + ALIGN - 1) / ALIGN * ALIGN;
	}
	gt_meter_end(&w->meter);
	return rc;
}

/* ---- the metadata ---- */

/* Any of these returns NULL after a failure, and takes NULL from another. */
struct builder {
	struct gt_arena *arena;
	struct gt_err *err;
};

#define MODULE "torch.distributed.checkpoint."

static struct gt_tree *new_object(struct builder *b, const char *class, struct gt_tree *state)
{
	struct gt_tree *node = gt_tree_opaque(b->arena, class, b->err);

	if (!node)
		return NULL;
	node->opaque.args = gt_tree_tuple(b->arena, b->err);
	node->opaque.made = GT_TREE_NEW;
	node->opaque.state = state;
	return node->opaque.args ? node : NULL;
}

static struct gt_tree *new_call(struct builder *b, const char *function, struct gt_tree *argument)
{
	struct gt_tree *node = gt_tree_opaque(b->arena, function, b->err);

	if (!node)
		return NULL;
	node->opaque.args = gt_tree_tuple(b->arena, b->err);
	if (!node->opaque.args || gt_tree_append(node->opaque.args, argument, b->arena, b->err))
		return NULL;
	return node;
}

static void set(struct builder *b, struct gt_tree *dict, const char *key, struct gt_tree *value)
{
	if (dict && !b->err->code)
		gt_tree_set(dict, key, value, b->arena, b->err);
}

static struct gt_tree *new_size(struct builder *b, const int64_t *dims, int ndim)
{
	struct gt_tree *size = gt_tree_tuple(b->arena, b->err);

	if (!size)
		return NULL;
	size->seq.is_size = true;
	for (int i = 0; i < ndim; i++) {
		int64_t value = dims ? dims[i] : 0;

		if (gt_tree_append(size, gt_tree_int(b->arena, value, b->err), b->arena, b->err))
			return NULL;
	}
	return size;
}

static const char *dtype_name(const struct writer *w, const struct gt_dcp_value *e)
{
	const struct gt_tree_tensor *t = &e->value->tensor;
	bool cast = w->options->cast && !e->is_number && gt_dtype_is_float(t->dtype);

	return cast ? gt_dtype_name(w->options->dtype) : gt_ckpt_tensor_type(t);
}

/* The tuple for TensorProperties.__setstate__(). */
static struct gt_tree *new_properties(
    struct builder *b, const struct writer *w, const struct gt_dcp_value *e)
{
	struct gt_tree *state = gt_tree_tuple(b->arena, b->err), *items[5];
	char dtype[64];

	snprintf(dtype, sizeof(dtype), "torch.%s", dtype_name(w, e));
	items[0] = gt_tree_opaque(b->arena, dtype, b->err);
	items[1] = new_call(b, "torch.serialization._get_layout",
	    gt_tree_string(b->arena, "torch.strided", b->err));
	items[2] = gt_tree_bool(b->arena, false, b->err); /* requires_grad */
	items[3] =
	    new_call(b, MODULE "metadata._MEM_FORMAT_ENCODING", gt_tree_int(b->arena, 0, b->err));
	items[4] = gt_tree_bool(b->arena, false, b->err); /* pin_memory */
	for (size_t i = 0; state && i < 5 && !b->err->code; i++)
		gt_tree_append(state, items[i], b->arena, b->err);
	return new_object(b, MODULE "metadata.TensorProperties", state);
}

static struct gt_tree *new_tensor_metadata(
    struct builder *b, const struct writer *w, const struct gt_dcp_value *e)
{
	const struct gt_tree_tensor *t = &e->value->tensor;
	struct gt_tree *state = gt_tree_dict(b->arena, b->err);
	struct gt_tree *chunk = gt_tree_dict(b->arena, b->err);
	struct gt_tree *chunks = gt_tree_list(b->arena, b->err);

	set(b, chunk, "offsets", new_size(b, NULL, t->ndim));
	set(b, chunk, "sizes", new_size(b, t->shape, t->ndim));
	if (chunks && !b->err->code)
		gt_tree_append(chunks, new_object(b, MODULE "metadata.ChunkStorageMetadata", chunk),
		    b->arena, b->err);
	set(b, state, "properties", new_properties(b, w, e));
	set(b, state, "size", new_size(b, t->shape, t->ndim));
	set(b, state, "chunks", chunks);
	return new_object(b, MODULE "metadata.TensorStorageMetadata", state);
}

/* Add an item MetadataIndex: _StorageInfo to storage_data. */
static void add_place(struct builder *b, struct gt_tree *data, const struct gt_dcp_value *e)
{
	struct gt_tree *key = gt_tree_dict(b->arena, b->err);
	struct gt_tree *info = gt_tree_dict(b->arena, b->err), *index, *value;
	bool is_tensor = e->value->kind == GT_TREE_TENSOR;

	set(b, key, "fqn", gt_tree_string(b->arena, e->name, b->err));
	set(b, key, "index", gt_tree_none(b->arena, b->err));
	if (is_tensor)
		set(b, key, "offset", new_size(b, NULL, e->value->tensor.ndim));
	set(b, info, "relative_path", gt_tree_string(b->arena, RANK_FILE, b->err));
	set(b, info, "offset", gt_tree_int(b->arena, (int64_t)e->at, b->err));
	set(b, info, "length", gt_tree_int(b->arena, (int64_t)e->bytes, b->err));
	index = new_object(b, MODULE "metadata.MetadataIndex", key);
	value = new_object(b, MODULE "filesystem._StorageInfo", info);
	if (!b->err->code)
		gt_tree_push(data, index, value, b->arena, b->err);
}

static struct gt_tree *new_metadata(struct builder *b, const struct writer *w)
{
	struct gt_tree *state = gt_tree_dict(b->arena, b->err);
	struct gt_tree *dict = gt_tree_dict(b->arena, b->err);
	struct gt_tree *paths = gt_tree_dict(b->arena, b->err);
	struct gt_tree *data = gt_tree_dict(b->arena, b->err);

	for (size_t i = 0; i < w->flat.count && !b->err->code; i++) {
		const struct gt_dcp_value *e = &w->flat.items[i];

		set(b, dict, e->name,
		    e->value->kind == GT_TREE_TENSOR
		        ? new_tensor_metadata(b, w, e)
		        : new_object(b, MODULE "metadata.BytesStorageMetadata", NULL));
		set(b, paths, e->name, e->path);
		add_place(b, data, e);
	}
	set(b, state, "state_dict_metadata", dict);
	set(b, state, "planner_data", paths);
	set(b, state, "storage_data", data);
	return b->err->code ? NULL : new_object(b, MODULE "metadata.Metadata", state);
}

static int write_metadata(void *self, int fd, struct gt_err *err)
{
	const struct writer *w = self;
	struct gt_pickle_writer pickle = { 0 };
	struct gt_arena arena = { 0 };
	struct gt_tree *root;
	char *bytes = NULL;
	size_t size;
	int rc = 0;

	root = new_metadata(&(struct builder){ &arena, err }, w);
	rc = root ? gt_tree_check(root, NULL, err) : err->code;
	if (!rc)
		rc = gt_pickle_write(&pickle, root, &bytes, &size, err);
	if (!rc)
		rc = gt_write_at(fd, 0, bytes, size, err);
	free(bytes);
	gt_arena_release(&arena);
	return rc;
}

/* ---- the folder ---- */

static int write_file(struct writer *w, const struct gt_folder *folder, const char *name,
    gt_ckpt_writer *write, struct gt_err *err)
{
	char *path = gt_folder_path(folder, name, err);
	int rc = path ? gt_ckpt_write_file((struct gt_file_name){ folder, path },
	                    w->options->no_sync, write, w, err)
	              : GT_ENOMEM;

	free(path);
	return rc;
}

int gt_dcp_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct writer w = { .options = options };
	struct gt_new_folder new = { 0 };
	int rc = gt_dcp_flatten(&w.flat, root, err);

	if (!rc)
		rc = gt_new_folder_open(&new, path, err);
	if (!rc)
		rc = write_file(&w, &new.folder, RANK_FILE, write_items, err);
	if (!rc)
		rc = write_file(&w, &new.folder, GT_DCP_METADATA, write_metadata, err);
	if (!rc)
		rc = gt_new_folder_commit(&new, options->no_sync, err);
	gt_new_folder_abandon(&new);
	gt_dcp_values_release(&w.flat);
	return rc;
}
