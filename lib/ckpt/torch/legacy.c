/* legacy.c - torch.save before 1.6: five pickles in a row, then the storages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/copy.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/torch/write.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/tree.h"

/*
 * pickle   0x1950a86a20f9469cfc6c
 * pickle   1001, the version
 * pickle   a dict of the writer's C types; its `little_endian` is the writer's, the data is
 *          little-endian always (THPStorage_writeFileRaw in torch/csrc/serialization.cpp
 *          swaps on other hosts)
 * pickle   the object
 * pickle   the list of storage keys
 * then, for each key: int64 count of elements, elements
 * Source: torch/serialization.py, _legacy_save and _legacy_load.
 */

#define MAGIC         "0x1950a86a20f9469cfc6c"
#define MAGIC_DECIMAL "119547037146038801333356"

enum { VERSION = 1001 };

struct reader {
	struct gt_ckpt *ckpt;
	struct gt_torch_objects objects;
	size_t at;
};

/* *bytes, unless NULL, gets a copy of the pickle, which ends at r->at then. */
static int next_pickle(struct reader *r, const struct gt_pickle_hooks *hooks, struct gt_tree **out,
    const unsigned char **bytes, struct gt_err *err)
{
	size_t used = 0;
	int rc = gt_pickle_read_file(
	    out, &r->ckpt->arena, &r->ckpt->map, r->at, bytes, &used, hooks, err);

	if (rc)
		return gt_err_prefix(err, "at byte %zu of the file", r->at);
	r->at += used;
	return 0;
}

/*
 * Return whether a file begins like a pickle of protocol 2 or later, written by torch or by another
 * program. A safetensors file may begin with the same two bytes, which are then part of the length
 * of its header. For a safetensors file the function returns false: the length ends with zero
 * bytes, and a "{" follows the length.
 */
bool gt_torch_begins_pickle(const struct gt_mapping *map)
{
	const unsigned char *p = map->data;
	bool is_length = map->size > 8 && !memcmp(p + 4, "\0\0\0\0{", 5);

	return map->size >= 2 && p[0] == 0x80 && p[1] <= 5 && !is_length;
}

/* Any pickle of protocol 2 and up; of 0 and 1 the magic number itself. Whether the former is
 * torch's is told when it is opened. */
static bool sniff_legacy(const struct gt_mapping *map)
{
	static const char text[] = "L" MAGIC_DECIMAL "L\n.";

	return gt_torch_begins_pickle(map) ||
	       (map->size >= sizeof(text) - 1 && !memcmp(map->data, text, sizeof(text) - 1));
}

static bool is_magic(const struct gt_tree *tree)
{
	const struct gt_tree *text;

	if (tree->kind != GT_TREE_OPAQUE || strcmp(tree->opaque.class_name, "builtins.int") ||
	    !tree->opaque.args || !tree->opaque.args->seq.count)
		return false;
	text = tree->opaque.args->seq.items[0].value;
	return gt_tree_is_string(text, MAGIC) || gt_tree_is_string(text, MAGIC_DECIMAL);
}

/* A tensor in an ordinary pickle is a torch file of its own inside a byte string. */
static bool has_tensors(const unsigned char *pickle, size_t size)
{
	static const char loader[] = "_load_from_bytes";

	return memmem(pickle, size, loader, sizeof(loader) - 1);
}

/* A pickle by pickle.dump() is a checkpoint if a state_dict is in it, as one of numpy's arrays. */
static int open_plain(struct reader *r, const unsigned char *pickle, struct gt_err *err)
{
	struct gt_ckpt *ckpt = r->ckpt;
	size_t size = r->at;
	int rc = size == ckpt->map.size ? 0 : GT_EFORMAT;

	r->at = 0;
	if (!rc)
		rc = next_pickle(r, &r->objects.hooks, &ckpt->root, NULL, err);
	if (!rc)
		rc = gt_torch_objects_finish(&r->objects, gt_host_is_big(), err);
	if (!rc)
		rc = gt_pickle_state_dict(ckpt->root, &ckpt->arena, err);
	if (!rc && gt_state_dict_node(ckpt->root)) {
		ckpt->format = &gt_format_pickle;
		return 0;
	}
	gt_err_set(err, GT_EFORMAT, "a pickle%s, but not one of torch.save",
	    has_tensors(pickle, size) ? " with tensors, by pickle.dump" : "");
	return gt_err_hint(err, "load it in Python and write it with torch.save");
}

static int read_legacy_header(struct reader *r, struct gt_err *err)
{
	struct gt_tree *magic, *version, *system;
	const unsigned char *first;
	int64_t number;
	int rc = next_pickle(r, NULL, &magic, &first, err);

	if (rc)
		return rc;
	if (!is_magic(magic))
		return open_plain(r, first, err);
	rc = next_pickle(r, NULL, &version, NULL, err);
	if (rc)
		return rc;
	if (!gt_tree_as_int(version, &number) || number != VERSION)
		return gt_err_set(err, GT_ENOTSUP,
		    "a legacy torch file of a version other than %d: the pickle before byte %zu",
		    VERSION, r->at);
	rc = next_pickle(r, NULL, &system, NULL, err);
	if (!rc && system->kind != GT_TREE_DICT)
		rc = gt_err_set(err, GT_EFORMAT, "the third pickle is no dict of the system");
	return rc;
}

static struct gt_torch_storage *storage_of(const struct reader *r, const struct gt_tree *key)
{
	return key->kind == GT_TREE_STRING ? gt_torch_storage_get(&r->objects, key->string.bytes)
	                                   : NULL;
}

/*
 * The file ends inside the i-th storage. The pickle gives the sizes of this storage and the
 * following ones, and so the length of the whole file.
 */
static int fail_cut_storage(
    const struct reader *r, const struct gt_tree *keys, size_t i, struct gt_err *err)
{
	uint64_t end = r->at;
	char missing[64] = "";

	for (size_t k = i; k < keys->seq.count; k++) {
		const struct gt_torch_storage *s = storage_of(r, keys->seq.items[k].value);

		if (!s || __builtin_add_overflow(end, s->bytes + 8, &end))
			end = 0;
	}
	if (end > r->ckpt->map.size)
		snprintf(missing, sizeof(missing), ", %llu bytes are missing",
		    (unsigned long long)(end - r->ckpt->map.size));
	gt_err_set(err, GT_EFORMAT,
	    "the file is cut: it ends at byte %zu, in storage '%.80s', number %zu of %zu%s",
	    r->ckpt->map.size, storage_of(r, keys->seq.items[i].value)->base.key, i + 1,
	    keys->seq.count, missing);
	return gt_err_hint(err, "copy or download it again, and compare sizes");
}

/* The i-th storage: the count of its elements, then those. */
static int read_storage(struct reader *r, const struct gt_tree *keys, size_t i, struct gt_err *err)
{
	const struct gt_mapping *map = &r->ckpt->map;
	struct gt_torch_storage *s = storage_of(r, keys->seq.items[i].value);
	unsigned char number[8];
	uint64_t count, size;
	int rc;

	if (!s)
		return gt_err_set(err, GT_EFORMAT,
		    "the file lists a storage for byte %zu that nothing uses, or of a class that is "
		    "not known",
		    r->at);
	if (s->base.map)
		return gt_err_set(err, GT_EFORMAT,
		    "the file lists storage '%.80s' twice, again for byte %zu", s->base.key, r->at);
	if (map->size - r->at < 8)
		return fail_cut_storage(r, keys, i, err);
	rc = gt_map_peek(map, r->at, number, sizeof(number), err);
	if (rc)
		return rc;
	count = gt_get_le(number, 8);
	size = gt_dtype_size(s->dtype);
	if (count < s->bytes / size)
		return gt_err_set(err, GT_EFORMAT,
		    "storage '%.80s' needs %llu elements, the file gives %llu", s->base.key,
		    (unsigned long long)(s->bytes / size), (unsigned long long)count);
	if (count > (map->size - r->at - 8) / size)
		return fail_cut_storage(r, keys, i, err);
	r->at += 8;
	s->base.bytes = map->data + r->at;
	s->base.size_bytes = count * size;
	s->base.map = map;
	s->base.file_offset = r->at;
	r->at += s->base.size_bytes;
	return 0;
}

static int read_all(struct reader *r, struct gt_err *err)
{
	struct gt_tree *keys;
	int rc = read_legacy_header(r, err);

	if (rc || r->ckpt->root) /* the file is a plain pickle */
		return rc;
	r->ckpt->pickle_at = r->at;
	rc = next_pickle(r, &r->objects.hooks, &r->ckpt->root, &r->ckpt->pickle, err);
	r->ckpt->pickle_bytes = (size_t)(r->at - r->ckpt->pickle_at);
	r->ckpt->locations = r->objects.locations;
	if (!rc)
		rc = next_pickle(r, NULL, &keys, NULL, err);
	if (rc)
		return rc;
	if (keys->kind != GT_TREE_LIST)
		return gt_err_set(err, GT_EFORMAT, "the fifth pickle is no list of storages");
	for (size_t i = 0; !rc && i < keys->seq.count; i++)
		rc = read_storage(r, keys, i, err);
	r->ckpt->tail_bytes = r->ckpt->map.size - r->at;
	if (!rc)
		rc = gt_torch_objects_finish(&r->objects, gt_host_is_big(), err);
	return rc ? rc : gt_pickle_state_dict(r->ckpt->root, &r->ckpt->arena, err);
}

static int open_legacy(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct reader r = { .ckpt = ckpt };
	int rc;

	gt_torch_objects_init(&r.objects, &ckpt->arena);
	rc = read_all(&r, err);
	gt_torch_objects_release(&r.objects);
	return rc;
}

/* ---- writing ---- */

struct legacy {
	const char *path;
	struct gt_tree *root;
	struct gt_torch_writer tree;
	struct gt_copy_place *places;
	uint64_t at; /* where the next bytes go */
	int fd;
};

/* The type of a tensor is that of its storage's class. Other storages have no type: PyTorch writes
 * them, too, but cannot load the file. */
static int check_tensor(
    struct legacy *l, const struct gt_tree_tensor *t, const char *name, struct gt_err *err)
{
	const enum gt_dtype as = gt_torch_writer_source(&l->tree, t)->as;
	const char *class = t->storage_class ? strrchr(t->storage_class, '.') : NULL;
	bool untyped =
	    class && (!strcmp(class, ".UntypedStorage") || !strcmp(class, "._UntypedStorage"));

	if (gt_torch_storage_global(as) && !untyped)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "%s%.200s%s %s %s, which the legacy format cannot hold",
	    *name ? "'" : "", *name ? name : "the tensor", *name ? "'" : "",
	    untyped ? "has an" : "is",
	    untyped  ? "UntypedStorage"
	    : t->raw ? gt_ckpt_tensor_type(t)
	             : gt_dtype_name(as));
	return gt_err_hint(err, "{to} pth can");
}

/* `path` is the path of the node, for messages. A tensor in the arguments of an object is reported
 * with the path of the object. */
static int check_types(struct legacy *l, const struct gt_tree *node, bool named,
    struct gt_buf *path, struct gt_err *err)
{
	struct gt_walk part = { 0 };
	size_t length = path->length;
	int rc = 0;

	if (node->kind == GT_TREE_TENSOR)
		rc = check_tensor(l, &node->tensor, gt_buf_text(path), err);
	while (!rc && gt_walk_next(node, &part)) {
		if (named && part.part == GT_PART_VALUE)
			gt_tree_put_step(path, node->seq.items[part.index].key, part.index);
		rc = check_types(l, part.node, named && part.part != GT_PART_ARGS, path, err);
		gt_buf_cut(path, length);
	}
	return rc;
}

static int put_legacy_bytes(struct legacy *l, const void *bytes, size_t size, struct gt_err *err)
{
	int rc = gt_write_at(l->fd, l->at, bytes, size, err);

	l->at += size;
	return rc;
}

/* A pickle without tensors. */
static int put_tree(struct legacy *l, const struct gt_tree *tree, struct gt_err *err)
{
	struct gt_pickle_writer w = { 0 };
	char *bytes;
	size_t size;
	int rc = tree ? gt_pickle_write(&w, tree, &bytes, &size, err) : err->code;

	if (rc)
		return rc;
	rc = put_legacy_bytes(l, bytes, size, err);
	free(bytes);
	return rc;
}

/* The magic number, the version, and the C types of the writer. */
static int put_header(struct legacy *l, struct gt_arena *a, struct gt_err *err)
{
	static const unsigned char magic[] =
	    "\x80\2\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
	struct gt_tree *sizes = gt_tree_dict(a, err), *system = gt_tree_dict(a, err);
	int rc = put_legacy_bytes(l, magic, sizeof(magic) - 1, err);

	if (!rc)
		rc = put_tree(l, gt_tree_int(a, VERSION, err), err);
	if (!rc)
		rc = gt_tree_set(sizes, "short", gt_tree_int(a, 2, err), a, err);
	if (!rc)
		rc = gt_tree_set(sizes, "int", gt_tree_int(a, 4, err), a, err);
	if (!rc)
		rc = gt_tree_set(sizes, "long", gt_tree_int(a, 4, err), a, err);
	if (!rc)
		rc = gt_tree_set(system, "protocol_version", gt_tree_int(a, VERSION, err), a, err);
	if (!rc)
		rc = gt_tree_set(system, "little_endian", gt_tree_bool(a, true, err), a, err);
	if (!rc)
		rc = gt_tree_set(system, "type_sizes", sizes, a, err);
	return rc ? rc : put_tree(l, system, err);
}

/* The keys of the storages, in the order in which their bytes follow. */
static int put_keys(struct legacy *l, struct gt_arena *a, struct gt_err *err)
{
	struct gt_tree *keys = gt_tree_list(a, err);
	char key[24];
	int rc = keys ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < l->tree.count; i++) {
		snprintf(key, sizeof(key), "%zu", i);
		rc = gt_tree_append(keys, gt_tree_string(a, key, err), a, err);
	}
	return rc ? rc : put_tree(l, keys, err);
}

static int put_storages(struct legacy *l, struct gt_err *err)
{
	int rc = 0;

	l->places = gt_calloc(l->tree.count, sizeof(*l->places), err);
	if (!l->places)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < l->tree.count; i++) {
		const struct gt_torch_source *s = l->tree.sources[i];
		unsigned char count[8];

		gt_put_le(count, gt_torch_source_units(s), sizeof(count));
		rc = put_legacy_bytes(l, count, sizeof(count), err);
		l->places[i] = gt_torch_source_place(s, l->at);
		l->at += gt_torch_source_bytes(s);
	}
	if (!rc)
		rc = gt_copy_tensors(
		    l->fd, l->places, l->tree.count, l->tree.options->progress, err);
	gt_copy_losses(l->places, rc ? 0 : l->tree.count, l->tree.options->losses);
	return rc;
}

static int write_legacy(void *self, int fd, struct gt_err *err)
{
	struct legacy *l = self;
	struct gt_arena arena = { 0 };
	struct gt_buf path = { 0 };
	char *pickle = NULL;
	size_t bytes = 0;
	int rc = gt_torch_writer_collect(&l->tree, l->root, err);

	l->fd = fd;
	if (!rc)
		rc = check_types(l, l->root, true, &path, err);
	gt_buf_release(&path);
	if (!rc)
		rc = put_header(l, &arena, err);
	if (!rc)
		rc = gt_torch_writer_pickle(&l->tree, l->root, &pickle, &bytes, err);
	if (!rc)
		rc = put_legacy_bytes(l, pickle, bytes, err);
	if (!rc)
		rc = put_keys(l, &arena, err);
	if (!rc)
		rc = put_storages(l, err);
	free(pickle);
	gt_arena_release(&arena);
	return rc ? gt_err_prefix(err, "'%s'", l->path) : 0;
}

static int write_file(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct legacy l = { .path = path,
		.root = (struct gt_tree *)root,
		.tree = { .options = options, .views = true } };
	int rc = gt_ckpt_write_file(
	    (struct gt_file_name){ .path = path }, options->no_sync, write_legacy, &l, err);

	gt_torch_writer_release(&l.tree);
	free(l.places);
	return rc;
}

const struct gt_ckpt_format gt_format_torch_legacy = {
	.name = "torch-legacy",
	.sniff = sniff_legacy,
	.open = open_legacy,
	.apply = gt_torch_legacy_apply,
	.write = write_file,
};
