/* write.c - a tree as a distributed checkpoint: files of archives, and the metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/meter.h"
#include "lib/base/new_folder.h"
#include "lib/ckpt/dcp/flatten.h"
#include "lib/ckpt/torch/write.h"
#include "lib/ckpt/tree/tree.h"

/*
 * `ckpt convert` writes the folder of a run with one rank: every tensor is one part, and all
 * archives are in __0_0.distcp. It is written under a temporary name and renamed when it is whole.
 */

/* Archives begin at multiples of this many bytes, as the records in an archive do. */
enum { ALIGN = 64 };

/* A value, or a box of a tensor, in the file of a rank. */
struct part {
	size_t value; /* index in `flat` */
	int rank;
	const int64_t *offset, *size; /* [ndim] of a tensor */
	const struct gt_tree *node;   /* what is written; NULL: another rank has written it */
	uint64_t at, bytes;           /* place of its archive in the file */
};

struct gt_dcp_set {
	struct gt_ckpt_write_options options;
	int rank;
	struct gt_dcp_values flat;
	struct part *parts;
	size_t count, capacity;
	size_t *tensors; /* [tensor_count] indices in `flat` */
	size_t tensor_count;
	const char *path; /* the file that is being written */
	struct gt_arena arena;
	struct gt_meter meter;
};

bool gt_dcp_is_folder(const char *path)
{
	char *name = gt_asprintf(GT_ERR_IGNORED, "%s/" GT_DCP_METADATA, path);
	bool found = name && !access(name, F_OK);

	free(name);
	return found;
}

/* ---- parts ---- */

static int find_tensors(struct gt_dcp_set *set, struct gt_err *err)
{
	set->tensors = gt_calloc(set->flat.count, sizeof(*set->tensors), err);
	for (size_t i = 0; set->tensors && i < set->flat.count; i++)
		if (set->flat.items[i].value->kind == GT_TREE_TENSOR)
			set->tensors[set->tensor_count++] = i;
	return set->tensors ? 0 : GT_ENOMEM;
}

static int new_set(struct gt_dcp_set **out, const struct gt_tree *root, int rank,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_dcp_set *set = gt_calloc(1, sizeof(*set), err);
	int rc = GT_ENOMEM;

	*out = NULL;
	if (!set)
		return GT_ENOMEM;
	set->options = *options;
	set->rank = rank;
	rc = gt_dcp_flatten(&set->flat, root, err);
	if (!rc)
		rc = find_tensors(set, err);
	if (rc)
		gt_dcp_set_free(set);
	else
		*out = set;
	return rc;
}

int gt_dcp_set_new(
    struct gt_dcp_set **out, const struct gt_tree *root, int rank, struct gt_err *err)
{
	return new_set(out, root, rank, &(struct gt_ckpt_write_options){ 0 }, err);
}

void gt_dcp_set_free(struct gt_dcp_set *set)
{
	if (!set)
		return;
	gt_dcp_values_release(&set->flat);
	gt_arena_release(&set->arena);
	free(set->parts);
	free(set->tensors);
	free(set);
}

size_t gt_dcp_set_count(const struct gt_dcp_set *set)
{
	return set->flat.count;
}

struct gt_tree *gt_dcp_set_value(const struct gt_dcp_set *set, size_t i)
{
	return set->flat.items[i].value;
}

static int add_part(struct gt_dcp_set *set, const struct part *part, struct gt_err *err)
{
	int rc = gt_grow(&set->parts, set->count, &set->capacity, sizeof(*part), err);

	if (!rc)
		set->parts[set->count++] = *part;
	return rc;
}

int gt_dcp_set_add(struct gt_dcp_set *set, size_t i, struct gt_err *err)
{
	static const int64_t zeros[GT_TREE_MAX_DIMS];
	const struct gt_tree *value = gt_dcp_set_value(set, i);
	struct part part = { .value = i, .rank = set->rank, .node = value };

	if (value->kind == GT_TREE_TENSOR) {
		part.offset = zeros;
		part.size = value->tensor.shape;
	}
	return add_part(set, &part, err);
}

static int64_t *copy_dims(struct gt_dcp_set *set, const int64_t *dims, int ndim, struct gt_err *err)
{
	int64_t *copy = gt_arena_alloc(&set->arena, ((size_t)ndim + 1) * sizeof(*copy), err);

	for (int i = 0; copy && i < ndim; i++)
		copy[i] = dims[i];
	return copy;
}

int gt_dcp_set_add_box(struct gt_dcp_set *set, size_t i, const int64_t *offset,
    const struct gt_tree *node, struct gt_err *err)
{
	struct part part = { .value = i, .rank = set->rank, .node = node };

	part.offset = copy_dims(set, offset, node->tensor.ndim, err);
	part.size = node->tensor.shape;
	return part.offset ? add_part(set, &part, err) : GT_ENOMEM;
}

size_t gt_dcp_set_part_count(const struct gt_dcp_set *set)
{
	return set->count;
}

const struct gt_tree *gt_dcp_set_part(const struct gt_dcp_set *set, size_t i)
{
	return set->parts[i].node;
}

/* ---- a rank's file ---- */

/* An optimizer's numbers keep their type, as in other formats. */
static int write_part(struct gt_dcp_set *set, struct part *part, int fd, struct gt_err *err)
{
	const struct gt_dcp_value *value = &set->flat.items[part->value];
	struct gt_ckpt_write_options options = set->options;
	uint64_t end;
	int rc;

	options.cast = options.cast && !value->is_number;
	options.keep_devices = false;
	options.progress = NULL;
	rc = gt_torch_write_archive(fd, part->at, part->node, &options, &end, err);
	if (rc)
		return gt_err_prefix(err, "'%.200s'", value->name);
	part->bytes = end - part->at;
	gt_meter_add(&set->meter, part->bytes);
	return 0;
}

static int write_parts(void *self, int fd, struct gt_err *err)
{
	struct gt_dcp_set *set = self;
	uint64_t total = 0, at = 0;
	int rc = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->parts[i].node->kind == GT_TREE_TENSOR)
			total += gt_ckpt_tensor_bytes(&set->parts[i].node->tensor);
	gt_meter_begin(&set->meter, set->options.progress, "writing, MiB", total);
	for (size_t i = 0; i < set->count && !rc; i++) {
		struct part *part = &set->parts[i];

		part->at = at;
		rc = write_part(set, part, fd, err);
		at = (part->at + part->bytes + ALIGN - 1) / ALIGN * ALIGN;
	}
	gt_meter_end(&set->meter);
	return rc ? gt_err_prefix(err, "'%s'", set->path) : 0;
}

enum { FILE_NAME = 40 };

static void name_file(char out[FILE_NAME], int rank)
{
	snprintf(out, FILE_NAME, "__%d_0.distcp", rank);
}

static int write_file(struct gt_dcp_set *set, const struct gt_folder *folder, const char *name,
    bool no_sync, gt_ckpt_writer *write, struct gt_err *err)
{
	char *path = gt_folder_path(folder, name, err);
	int rc = GT_ENOMEM;

	set->path = path;
	if (path)
		rc = gt_ckpt_write_file(
		    (struct gt_file_name){ folder, path }, no_sync, write, set, err);
	free(path);
	return rc;
}

int gt_dcp_set_write(
    struct gt_dcp_set *set, const struct gt_folder *folder, bool no_sync, struct gt_err *err)
{
	char name[FILE_NAME];

	name_file(name, set->rank);
	return set->count ? write_file(set, folder, name, no_sync, write_parts, err) : 0;
}

/* ---- lists of parts ---- */

/* A list has these integers for each part of a tensor, and then its offset and its size. */
enum field { TENSOR, AT, BYTES, FIELDS };

int gt_dcp_set_list(int64_t **list, size_t *count, const struct gt_dcp_set *set, struct gt_err *err)
{
	size_t tensor = 0, most = 0, n = 0;

	for (size_t i = 0; i < set->count; i++)
		most += FIELDS + 2 * GT_TREE_MAX_DIMS;
	*list = gt_calloc(most, sizeof(**list), err);
	*count = 0;
	if (!*list)
		return GT_ENOMEM;
	for (size_t i = 0; i < set->count; i++) { /* values are added in their order */
		const struct part *part = &set->parts[i];
		int ndim;

		if (!part->offset)
			continue;
		while (set->tensors[tensor] != part->value)
			tensor++;
		ndim = gt_dcp_set_value(set, part->value)->tensor.ndim;
		(*list)[n + TENSOR] = (int64_t)tensor;
		(*list)[n + AT] = (int64_t)part->at;
		(*list)[n + BYTES] = (int64_t)part->bytes;
		n += FIELDS;
		for (int k = 0; k < ndim; k++) {
			(*list)[n + (size_t)k] = part->offset[k];
			(*list)[n + (size_t)(ndim + k)] = part->size[k];
		}
		n += 2 * (size_t)ndim;
	}
	*count = n;
	return 0;
}

/* Return whether list[left] begins with a part of a tensor of this set. */
static bool is_part(const struct gt_dcp_set *set, const int64_t *list, size_t left)
{
	const struct gt_tree_tensor *t;

	if (left < FIELDS || list[TENSOR] < 0 || (size_t)list[TENSOR] >= set->tensor_count ||
	    list[AT] < 0 || list[BYTES] < 0)
		return false;
	t = &gt_dcp_set_value(set, set->tensors[list[TENSOR]])->tensor;
	if (left - FIELDS < 2 * (size_t)t->ndim)
		return false;
	for (int k = 0; k < t->ndim; k++) {
		int64_t offset = list[FIELDS + k], size = list[FIELDS + t->ndim + k];

		if (offset < 0 || size < 0 || offset > t->shape[k] || size > t->shape[k] - offset)
			return false;
	}
	return true;
}

int gt_dcp_set_add_list(
    struct gt_dcp_set *set, int rank, const int64_t *list, size_t count, struct gt_err *err)
{
	size_t n = 0;
	int rc = 0;

	while (!rc && n < count) {
		struct part part = { .rank = rank };
		int ndim;

		if (!is_part(set, list + n, count - n))
			return gt_err_set(err, GT_EFORMAT,
			    "rank %d sent a list with a part that its tensor does not have", rank);
		part.value = set->tensors[list[n + TENSOR]];
		part.at = (uint64_t)list[n + AT];
		part.bytes = (uint64_t)list[n + BYTES];
		ndim = gt_dcp_set_value(set, part.value)->tensor.ndim;
		n += FIELDS;
		part.offset = copy_dims(set, list + n, ndim, err);
		part.size = copy_dims(set, list + n + ndim, ndim, err);
		n += 2 * (size_t)ndim;
		rc = part.offset && part.size ? add_part(set, &part, err) : GT_ENOMEM;
	}
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
		if (gt_tree_append(size, gt_tree_int(b->arena, dims[i], b->err), b->arena, b->err))
			return NULL;
	}
	return size;
}

static const char *dtype_name(const struct gt_dcp_set *s, const struct gt_dcp_value *e)
{
	const struct gt_tree_tensor *t = &e->value->tensor;
	bool cast = s->options.cast && !e->is_number && gt_dtype_is_float(t->dtype);

	return cast ? gt_dtype_name(s->options.dtype) : gt_ckpt_tensor_type(t);
}

/* The tuple for TensorProperties.__setstate__(). */
static struct gt_tree *new_properties(
    struct builder *b, const struct gt_dcp_set *s, const struct gt_dcp_value *e)
{
	struct gt_tree *state = gt_tree_tuple(b->arena, b->err), *items[5];
	char dtype[64];

	snprintf(dtype, sizeof(dtype), "torch.%s", dtype_name(s, e));
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

/* Return the metadata of a tensor whose chunks are a list. */
static struct gt_tree *new_tensor_metadata(struct builder *b, const struct gt_dcp_set *s,
    const struct gt_dcp_value *e, struct gt_tree *chunks)
{
	const struct gt_tree_tensor *t = &e->value->tensor;
	struct gt_tree *state = gt_tree_dict(b->arena, b->err);

	set(b, state, "properties", new_properties(b, s, e));
	set(b, state, "size", new_size(b, t->shape, t->ndim));
	set(b, state, "chunks", chunks);
	return new_object(b, MODULE "metadata.TensorStorageMetadata", state);
}

static void add_chunk(struct builder *b, struct gt_tree *chunks, const struct part *part, int ndim)
{
	struct gt_tree *chunk = gt_tree_dict(b->arena, b->err);

	set(b, chunk, "offsets", new_size(b, part->offset, ndim));
	set(b, chunk, "sizes", new_size(b, part->size, ndim));
	if (chunks && !b->err->code)
		gt_tree_append(chunks, new_object(b, MODULE "metadata.ChunkStorageMetadata", chunk),
		    b->arena, b->err);
}

/* Add an item MetadataIndex: _StorageInfo to storage_data. */
static void add_place(
    struct builder *b, struct gt_tree *data, const struct gt_dcp_value *e, const struct part *part)
{
	struct gt_tree *key = gt_tree_dict(b->arena, b->err);
	struct gt_tree *info = gt_tree_dict(b->arena, b->err), *index, *value;
	char name[FILE_NAME];

	name_file(name, part->rank);
	set(b, key, "fqn", gt_tree_string(b->arena, e->name, b->err));
	set(b, key, "index", gt_tree_none(b->arena, b->err));
	if (part->offset)
		set(b, key, "offset", new_size(b, part->offset, e->value->tensor.ndim));
	set(b, info, "relative_path", gt_tree_string(b->arena, name, b->err));
	set(b, info, "offset", gt_tree_int(b->arena, (int64_t)part->at, b->err));
	set(b, info, "length", gt_tree_int(b->arena, (int64_t)part->bytes, b->err));
	index = new_object(b, MODULE "metadata.MetadataIndex", key);
	value = new_object(b, MODULE "filesystem._StorageInfo", info);
	if (!b->err->code)
		gt_tree_push(data, index, value, b->arena, b->err);
}

/* Add the chunks and places of all parts. chunks[i] are those of value i, or NULL. */
static void add_parts(
    struct builder *b, const struct gt_dcp_set *s, struct gt_tree **chunks, struct gt_tree *data)
{
	for (size_t i = 0; i < s->count && !b->err->code; i++) {
		const struct part *part = &s->parts[i];
		const struct gt_dcp_value *e = &s->flat.items[part->value];

		if (part->offset)
			add_chunk(b, chunks[part->value], part, e->value->tensor.ndim);
		add_place(b, data, e, part);
	}
}

static struct gt_tree *new_metadata(struct builder *b, const struct gt_dcp_set *s)
{
	struct gt_tree *state = gt_tree_dict(b->arena, b->err);
	struct gt_tree *dict = gt_tree_dict(b->arena, b->err);
	struct gt_tree *paths = gt_tree_dict(b->arena, b->err);
	struct gt_tree *data = gt_tree_dict(b->arena, b->err);
	struct gt_tree **chunks =
	    gt_arena_alloc(b->arena, (s->flat.count + 1) * sizeof(*chunks), b->err);

	for (size_t i = 0; i < s->flat.count && !b->err->code; i++) {
		const struct gt_dcp_value *e = &s->flat.items[i];
		bool is_tensor = e->value->kind == GT_TREE_TENSOR;

		chunks[i] = is_tensor ? gt_tree_list(b->arena, b->err) : NULL;
		set(b, dict, e->name,
		    is_tensor ? new_tensor_metadata(b, s, e, chunks[i])
		              : new_object(b, MODULE "metadata.BytesStorageMetadata", NULL));
		set(b, paths, e->name, e->path);
	}
	if (!b->err->code)
		add_parts(b, s, chunks, data);
	set(b, state, "state_dict_metadata", dict);
	set(b, state, "planner_data", paths);
	set(b, state, "storage_data", data);
	return b->err->code ? NULL : new_object(b, MODULE "metadata.Metadata", state);
}

static int write_metadata(void *self, int fd, struct gt_err *err)
{
	const struct gt_dcp_set *s = self;
	struct gt_pickle_writer pickle = { 0 };
	struct gt_arena arena = { 0 };
	struct gt_tree *root;
	char *bytes = NULL;
	size_t size;
	int rc = 0;

	root = new_metadata(&(struct builder){ &arena, err }, s);
	rc = root ? gt_tree_check(root, NULL, err) : err->code;
	if (!rc)
		rc = gt_pickle_write(&pickle, root, &bytes, &size, err);
	if (!rc)
		rc = gt_write_at(fd, 0, bytes, size, err);
	free(bytes);
	gt_arena_release(&arena);
	return rc ? gt_err_prefix(err, "'%s'", s->path) : 0;
}

int gt_dcp_set_write_metadata(
    const struct gt_dcp_set *s, const struct gt_folder *folder, bool no_sync, struct gt_err *err)
{
	return write_file(
	    (struct gt_dcp_set *)s, folder, GT_DCP_METADATA, no_sync, write_metadata, err);
}

/* ---- the folder ---- */

int gt_dcp_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_new_folder new = { 0 };
	struct gt_dcp_set *set;
	int rc = new_set(&set, root, 0, options, err);

	for (size_t i = 0; !rc && i < gt_dcp_set_count(set); i++)
		rc = gt_dcp_set_add(set, i, err);
	if (!rc)
		rc = gt_new_folder_open(&new, path, err);
	if (!rc)
		rc = gt_dcp_set_write(set, &new.folder, options->no_sync, err);
	if (!rc)
		rc = gt_dcp_set_write_metadata(set, &new.folder, options->no_sync, err);
	if (!rc)
		rc = gt_new_folder_commit(&new, options->no_sync, err);
	gt_new_folder_abandon(&new);
	gt_dcp_set_free(set);
	return rc;
}
