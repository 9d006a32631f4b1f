/* metadata.c - the .metadata of a distributed checkpoint: a pickle of dataclasses, read as data. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/dcp/dcp.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The pickle is an object of torch.distributed.checkpoint.metadata.Metadata:
 *
 *   state_dict_metadata   dict: name -> TensorStorageMetadata or BytesStorageMetadata
 *   planner_data          dict: name -> path, a tuple of the keys that the name joins; or None
 *   storage_data          dict: MetadataIndex -> _StorageInfo
 *
 *   TensorStorageMetadata  properties (TensorProperties, whose first item is the dtype), size, and
 *                          chunks: a list of ChunkStorageMetadata (offsets, sizes)
 *   MetadataIndex          fqn (the name), offset: of the chunk; of a value that is no tensor, None
 *   _StorageInfo           relative_path, offset, length: the archive of torch.save() with the
 *                          tensor of the chunk's shape, or with the value
 *
 * PyTorch 1.13 has these classes in torch.distributed._shard.checkpoint.
 * Source: torch/distributed/checkpoint/metadata.py, filesystem.py, _nested_dict.py, of PyTorch 1.13
 * and 2.0 to 2.9.
 */

enum {
	LOOK_BYTES = 256, /* a .metadata file names its class at the start */
	CHUNKS_MAX = 1 << 22,
};

bool gt_dcp_is_metadata(const struct gt_mapping *map)
{
	static const char *const modules[] = { "torch.distributed.checkpoint.metadata",
		"torch.distributed._shard.checkpoint.metadata" };
	size_t size = map->size < LOOK_BYTES ? map->size : LOOK_BYTES;

	if (!gt_torch_begins_pickle(map))
		return false;
	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++)
		if (memmem(map->data, size, modules[i], strlen(modules[i])))
			return true;
	return false;
}

/* ---- the pickle ---- */

static int fail_global(const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "the metadata names '%.200s', which no distributed checkpoint of PyTorch has", name);
	return gt_err_hint(
	    err, "if another program wrote it, its own classes are in it; else do not load it");
}

/* Whether the pickle may name this global. */
static bool is_known(const char *name)
{
	return gt_global_is_of_dcp(name) || gt_global_classify(name) == GT_GLOBAL_ALLOWED;
}

/* Python 3.11.0 to 3.11.3 pickles an item of an enum as getattr(class, "NAME"). */
static bool is_enum_item(const char *name, const struct gt_tree *args)
{
	const struct gt_tree *class = gt_tree_value(args, 0);

	return !strcmp(name, "builtins.getattr") && args->seq.count == 2 &&
	       gt_tree_is_class(class) && gt_global_is_of_dcp(class->opaque.class_name) &&
	       gt_tree_is_text(gt_tree_value(args, 1)) &&
	       gt_tree_value(args, 1)->string.bytes[0] != '_';
}

/* Whether the result of a call is a layout or a memory format, which gtrain does not need. */
static bool is_unused(const char *name, const struct gt_tree *args)
{
	const char *dot = strrchr(name, '.');

	return is_enum_item(name, args) || !strcmp(name, "torch.serialization._get_layout") ||
	       (dot && gt_global_is_of_dcp(name) && strstr(dot, "MEM_FORMAT_ENCODING"));
}

/*
 * A call is judged at once, as its result need not stay in the tree. Results that all tensors share
 * become None, which a walk of the tree may visit as often as it likes.
 */
static int call_known(
    void *self, const char *name, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	struct gt_torch_objects *objects = self;

	if (is_unused(name, args)) {
		*out = gt_tree_none(objects->arena, err);
		return *out ? 0 : GT_ENOMEM;
	}
	if (!is_known(name))
		return fail_global(name, err);
	return objects->hooks.call(objects, name, args, out, err);
}

static int fail_persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	(void)self;
	(void)id;
	(void)out;
	return gt_err_set(err, GT_EFORMAT, "the metadata refers to data outside of it");
}

static int check_globals(const struct gt_tree *node, struct gt_err *err)
{
	struct gt_walk part = { 0 };
	int rc = 0;

	if (node->kind == GT_TREE_OPAQUE && !is_known(node->opaque.class_name) &&
	    strcmp(node->opaque.class_name, "builtins.int") != 0)
		return fail_global(node->opaque.class_name, err);
	while (!rc && gt_walk_next(node, &part))
		rc = check_globals(part.node, err);
	return rc;
}

static int read_pickle(
    struct gt_tree **out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_torch_objects objects;
	struct gt_pickle_hooks hooks = {
		.self = &objects, .call = call_known, .persistent = fail_persistent
	};
	size_t used = 0;
	int rc;

	gt_torch_objects_init(&objects, arena);
	rc = gt_pickle_read_file(out, arena, map, 0, NULL, &used, &hooks, err);
	gt_torch_objects_release(&objects);
	if (!rc && used != map->size) {
		gt_err_set(err, GT_EFORMAT, "%zu bytes follow the pickle of the metadata",
		    map->size - used);
		rc = gt_err_hint(err, GT_CKPT_COPY_AGAIN);
	}
	return rc ? rc : check_globals(*out, err);
}

/* ---- objects ---- */

static const char *class_of(const struct gt_tree *object)
{
	const char *name = gt_tree_is(object, GT_TREE_OPAQUE) && object->opaque.args
	                       ? object->opaque.class_name
	                       : "";
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

/* The attribute of a dataclass, or NULL. */
static const struct gt_tree *attribute(const struct gt_tree *object, const char *name)
{
	return gt_tree_is(object, GT_TREE_OPAQUE) && gt_tree_is(object->opaque.state, GT_TREE_DICT)
	           ? gt_tree_get(object->opaque.state, name)
	           : NULL;
}

static int wrong(struct gt_err *err, const char *what)
{
	gt_err_set(err, GT_EFORMAT, "the metadata is damaged: %s", what);
	return gt_err_hint(err, GT_CKPT_COPY_AGAIN);
}

/* Set *out to the `ndim` integers of a torch.Size. */
static int read_dims(const int64_t **out, const struct gt_tree *size, int ndim,
    struct gt_arena *arena, struct gt_err *err)
{
	int64_t *dims;

	if (!size || !gt_tree_is_seq(size) || size->kind == GT_TREE_DICT ||
	    size->seq.count != (size_t)ndim)
		return wrong(err, "a shape or an offset is no tuple of as many dimensions");
	dims = gt_arena_alloc(arena, (size_t)ndim * sizeof(*dims), err);
	if (!dims)
		return GT_ENOMEM;
	for (int i = 0; i < ndim; i++) {
		if (!gt_tree_is_count(gt_tree_value(size, (size_t)i)))
			return wrong(err, "a shape or an offset is no count");
		dims[i] = gt_tree_value(size, (size_t)i)->integer;
	}
	*out = dims;
	return 0;
}

/* ---- storage_data: the places of chunks ---- */

/* An item of storage_data; `offset` is NULL for None. */
struct place {
	const char *name;
	const struct gt_tree *offset;
	const struct gt_tree *info;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	size_t n = x->offset ? x->offset->seq.count : 0, m = y->offset ? y->offset->seq.count : 0;
	int order = strcmp(x->name, y->name);

	if (!order)
		order = !!x->offset - !!y->offset;
	if (!order)
		order = (n > m) - (n < m);
	for (size_t i = 0; !order && i < n; i++) {
		int64_t p = x->offset->seq.items[i].value->integer;
		int64_t q = y->offset->seq.items[i].value->integer;

		order = (p > q) - (p < q);
	}
	return order;
}

struct places {
	struct place *items; /* sorted */
	size_t count;
};

static int read_place(struct place *out, const struct gt_tree_item *item, struct gt_err *err)
{
	const struct gt_tree *name = attribute(item->key, "fqn");
	const struct gt_tree *offset = attribute(item->key, "offset");

	if (!gt_tree_is_text(name) || strcmp(class_of(item->key), "MetadataIndex") != 0 ||
	    strcmp(class_of(item->value), "_StorageInfo") != 0)
		return wrong(err, "an item of storage_data is not MetadataIndex: _StorageInfo");
	*out = (struct place){ name->string.bytes, NULL, item->value };
	if (!offset || offset->kind == GT_TREE_NONE)
		return 0;
	if (offset->kind != GT_TREE_TUPLE)
		return wrong(err, "the offset of a chunk is no tuple");
	for (size_t i = 0; i < offset->seq.count; i++)
		if (!gt_tree_is_count(gt_tree_value(offset, i)))
			return wrong(err, "the offset of a chunk is no tuple of counts");
	out->offset = offset;
	return 0;
}

static int read_places(struct places *p, const struct gt_tree *data, struct gt_err *err)
{
	int rc = 0;

	if (!gt_tree_is(data, GT_TREE_DICT))
		return wrong(err, "storage_data is no dict");
	p->items = gt_calloc(data->seq.count, sizeof(*p->items), err);
	if (!p->items)
		return GT_ENOMEM;
	for (size_t i = 0; i < data->seq.count && !rc; i++)
		rc = read_place(&p->items[p->count++], &data->seq.items[i], err);
	if (rc)
		return rc;
	qsort(p->items, p->count, sizeof(*p->items), compare_places);
	for (size_t i = 1; i < p->count; i++)
		if (!compare_places(&p->items[i - 1], &p->items[i])) {
			gt_err_set(err, GT_EFORMAT,
			    "the metadata is damaged: storage_data has a chunk of '%.200s' twice",
			    p->items[i].name);
			return gt_err_hint(err, GT_CKPT_COPY_AGAIN);
		}
	return 0;
}

static int read_info(struct gt_dcp_item *out, const struct gt_tree *info, struct gt_err *err)
{
	const struct gt_tree *path = attribute(info, "relative_path"),
	                     *at = attribute(info, "offset"), *length = attribute(info, "length"),
	                     *transforms = attribute(info, "transform_descriptors");

	if (!gt_tree_is_text(path) || !gt_tree_is_count(at) || !gt_tree_is_count(length))
		return wrong(err, "a _StorageInfo is not (relative_path, offset, length)");
	if (transforms && transforms->kind != GT_TREE_NONE &&
	    !(gt_tree_is_seq(transforms) && !transforms->seq.count)) {
		const struct gt_tree *first =
		    gt_tree_is_seq(transforms) ? gt_tree_value(transforms, 0) : transforms;

		gt_err_set(err, GT_ENOTSUP, "it is stored through the extension '%.80s'",
		    gt_tree_is_text(first) ? first->string.bytes : "?");
		return gt_err_hint(
		    err, "save without extensions, or convert it with dcp_to_torch_save()");
	}
	if (!path->string.length || strchr(path->string.bytes, '/') ||
	    !strcmp(path->string.bytes, ".") || !strcmp(path->string.bytes, ".."))
		return gt_err_set(err, GT_EFORMAT,
		    "it is to be found in '%.120s', which is no name of a file in this folder",
		    path->string.bytes);
	*out = (struct gt_dcp_item){ path->string.bytes, (uint64_t)at->integer,
		(uint64_t)length->integer };
	return 0;
}

/* Find the place of a chunk, or of a value, whose offset is NULL. */
static int find_item(struct gt_dcp_item *out, const struct places *places, const char *name,
    const struct gt_tree *offset, struct gt_err *err)
{
	struct place like = { name, offset, NULL };
	const struct place *found =
	    bsearch(&like, places->items, places->count, sizeof(like), compare_places);
	bool zero = offset;

	for (size_t i = 0; offset && i < offset->seq.count; i++)
		zero &= !gt_tree_value(offset, i)->integer;
	if (!found && zero) {
		like.offset = NULL;
		found = bsearch(&like, places->items, places->count, sizeof(like), compare_places);
	}
	if (found)
		return read_info(out, found->info, err);
	gt_err_set(err, GT_EFORMAT, "storage_data has no place for %s",
	    offset ? "one of its chunks" : "it");
	return gt_err_hint(err, GT_CKPT_COPY_AGAIN);
}

/* ---- state_dict_metadata ---- */

/* PyTorch 1.13 and 2.x give the tuple to TensorProperties.__setstate__(): the dtype comes first. */
static int read_dtype(struct gt_dcp_entry *e, const struct gt_tree *properties, struct gt_err *err)
{
	const struct gt_tree *state =
	    gt_tree_is(properties, GT_TREE_OPAQUE) ? properties->opaque.state : NULL;
	const struct gt_tree *dtype = gt_tree_is(state, GT_TREE_TUPLE)
	                                  ? gt_tree_value(state, 0)
	                                  : attribute(properties, "dtype");

	if (!gt_tree_is_class(dtype))
		return wrong(err, "the properties of a tensor have no dtype");
	if (gt_torch_dtype(dtype->opaque.class_name, &e->dtype))
		return 0;
	e->raw = gt_raw_of_torch(dtype->opaque.class_name);
	if (!e->raw)
		return gt_err_set(err, GT_ENOTSUP,
		    "its type is '%.80s', which gtrain does not read", dtype->opaque.class_name);
	e->dtype = e->raw->dtype;
	return 0;
}

static int read_chunk(struct gt_dcp_chunk *out, const struct gt_dcp_entry *e,
    const struct gt_tree *chunk, const struct places *places, struct gt_arena *arena,
    struct gt_err *err)
{
	const struct gt_tree *offsets = attribute(chunk, "offsets");
	int rc;

	if (strcmp(class_of(chunk), "ChunkStorageMetadata") != 0)
		return wrong(err, "a chunk is no ChunkStorageMetadata");
	rc = read_dims(&out->offset, offsets, e->ndim, arena, err);
	if (!rc)
		rc = read_dims(&out->size, attribute(chunk, "sizes"), e->ndim, arena, err);
	return rc ? rc : find_item(&out->item, places, e->name, offsets, err);
}

static int read_tensor(struct gt_dcp_entry *e, const struct gt_tree *value,
    const struct places *places, struct gt_arena *arena, struct gt_err *err)
{
	const struct gt_tree *size = attribute(value, "size"), *chunks = attribute(value, "chunks");
	int rc = read_dtype(e, attribute(value, "properties"), err);

	if (rc)
		return rc;
	if (!gt_tree_is(size, GT_TREE_TUPLE) || !gt_tree_is(chunks, GT_TREE_LIST))
		return wrong(err, "a TensorStorageMetadata has no size or no chunks");
	if (size->seq.count > GT_TREE_MAX_DIMS || chunks->seq.count > CHUNKS_MAX)
		return gt_err_set(err, GT_ENOTSUP,
		    "%zu dimensions and %zu chunks, at most %d and %d", size->seq.count,
		    chunks->seq.count, GT_TREE_MAX_DIMS, CHUNKS_MAX);
	e->is_tensor = true;
	e->ndim = (int)size->seq.count;
	e->chunk_count = chunks->seq.count;
	e->chunks = gt_arena_alloc(arena, e->chunk_count * sizeof(*e->chunks), err);
	rc = e->chunks ? read_dims(&e->shape, size, e->ndim, arena, err) : GT_ENOMEM;
	for (size_t i = 0; i < e->chunk_count && !rc; i++)
		rc = read_chunk(&e->chunks[i], e, gt_tree_value(chunks, i), places, arena, err);
	return rc;
}

/* An item of planner_data. */
struct named_path {
	const char *name;
	const struct gt_tree *path;
};

struct paths {
	struct named_path *items; /* sorted by name */
	size_t count;
};

/* A path has as many keys as the tree may have levels. */
static int read_path(struct named_path *out, const struct gt_tree_item *item, struct gt_err *err)
{
	const struct gt_tree *path = item->value;

	if (!gt_tree_is_text(item->key) || path->kind != GT_TREE_TUPLE || !path->seq.count ||
	    path->seq.count >= GT_TREE_MAX_DEPTH)
		return wrong(err, "an item of planner_data is not a name and a tuple of keys");
	for (size_t i = 0; i < path->seq.count; i++)
		if (!gt_tree_is(gt_tree_value(path, i), GT_TREE_STRING) &&
		    !gt_tree_is_count(gt_tree_value(path, i)))
			return wrong(err, "planner_data has a key that is no string and no count");
	*out = (struct named_path){ item->key->string.bytes, path };
	return 0;
}

/* A planner may keep other data there, or none: then names are keys. */
static int read_paths(struct paths *p, const struct gt_tree *data, struct gt_err *err)
{
	size_t count = gt_tree_is(data, GT_TREE_DICT) ? data->seq.count : 0;
	int rc = 0;

	p->items = gt_calloc(count, sizeof(*p->items), err);
	if (!p->items)
		return GT_ENOMEM;
	for (size_t i = 0; i < count && !rc; i++)
		rc = read_path(&p->items[p->count++], &data->seq.items[i], err);
	if (!rc)
		qsort(p->items, p->count, sizeof(*p->items), gt_index_by_name);
	return rc;
}

static int read_entry(struct gt_dcp_entry *e, const struct gt_tree_item *item,
    const struct paths *paths, const struct places *places, struct gt_arena *arena,
    struct gt_err *err)
{
	const char *class = class_of(item->value);
	const struct named_path *path;
	int rc;

	if (!gt_tree_is_text(item->key))
		return wrong(err, "a key of state_dict_metadata is no string");
	e->name = item->key->string.bytes;
	path = bsearch(&e->name, paths->items, paths->count, sizeof(*path), gt_index_by_name);
	e->path = path ? path->path : NULL;
	if (!strcmp(class, "TensorStorageMetadata"))
		rc = read_tensor(e, item->value, places, arena, err);
	else if (!strcmp(class, "BytesStorageMetadata"))
		rc = find_item(&e->value, places, e->name, NULL, err);
	else
		rc = wrong(err, "a value is neither a tensor nor bytes");
	return rc ? gt_err_prefix(err, "'%.200s'", e->name) : 0;
}

int gt_dcp_read_metadata(struct gt_dcp_metadata *out, const struct gt_mapping *map,
    struct gt_arena *arena, struct gt_err *err)
{
	struct places places = { 0 };
	struct paths paths = { 0 };
	struct gt_tree *root;
	const struct gt_tree *dict;
	int rc = read_pickle(&root, map, arena, err);

	*out = (struct gt_dcp_metadata){ 0 };
	if (rc)
		return rc;
	dict = attribute(root, "state_dict_metadata");
	if (strcmp(class_of(root), "Metadata") != 0 || !gt_tree_is(dict, GT_TREE_DICT))
		return wrong(err, "it is no Metadata with a state_dict_metadata");
	out->entries = gt_arena_alloc(arena, dict->seq.count * sizeof(*out->entries), err);
	rc = out->entries ? read_places(&places, attribute(root, "storage_data"), err) : GT_ENOMEM;
	if (!rc)
		rc = read_paths(&paths, attribute(root, "planner_data"), err);
	for (; out->count < dict->seq.count && !rc; out->count++)
		rc = read_entry(&out->entries[out->count], &dict->seq.items[out->count], &paths,
		    &places, arena, err);
	free(places.items);
	free(paths.items);
	return rc;
}
