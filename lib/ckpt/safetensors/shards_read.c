/* shards_read.c - opening a checkpoint in several files by its index. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/json.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/safetensors/write.h"
#include "lib/ckpt/tree/tree.h"

/*
 * Hugging Face stores a large checkpoint as several files, called shards, with an index. The index
 * is model.safetensors.index.json or pytorch_model.bin.index.json:
 *
 *   {"metadata": {"total_size": 123}, "weight_map": {"NAME": "model-00001-of-00002.safetensors"}}
 *
 * The shards are in the same folder as the index; a file name with a "/" is an error. weight_map
 * and the shards must agree: each tensor in weight_map must be in the named shard and in no other.
 * But a shard may also have tensors that weight_map does not list, such as tied ones; these are
 * read, too.
 * Source: transformers, docs/source/en/big_models.md, "Sharded checkpoints".
 */

enum {
	ENTRIES_MAX = 1 << 20,
	SHARDS_MAX = 1 << 16,
	VALUE_LIMIT = 1 << 20, /* bytes of JSON outside weight_map */
	SNIFF_BYTES = 64 * 1024,
	INDEX_MAX_BYTES = 1 << 28,
};

struct entry {
	const char *name, *file;
};

/* A tensor that a shard has. */
struct item {
	const char *name;
	size_t shard;
};

struct index {
	struct gt_ckpt *ckpt;
	bool found;            /* weight_map */
	struct entry *entries; /* the entries of weight_map; later sorted by file, then by name */
	size_t count, capacity;
	struct item *items; /* shard by shard */
	size_t item_count;
};

/* ---- the index ---- */

static bool sniff_shard_index(const struct gt_mapping *map)
{
	static const char key[] = "\"weight_map\"";
	size_t i = 0, size = map->size < SNIFF_BYTES ? map->size : SNIFF_BYTES;

	while (i < size && map->data[i] && strchr(" \t\r\n", map->data[i]))
		i++;
	return i < size && map->data[i] == '{' && memmem(map->data, size, key, sizeof(key) - 1);
}

static int read_weight_entry(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err)
{
	struct index *x = self;
	const char *name = key->text;
	struct gt_arena *arena = &x->ckpt->arena;
	json_t *value;
	int rc = gt_json_value(json, VALUE_LIMIT, &value, err);

	if (rc)
		return rc;
	if (!json_is_string(value))
		rc = gt_err_set(
		    err, GT_EFORMAT, "weight_map: the value of '%.200s' is no string", name);
	else if (x->count == ENTRIES_MAX)
		rc = gt_err_set(err, GT_ENOTSUP, "more than %d tensors", ENTRIES_MAX);
	else
		rc = gt_grow(&x->entries, x->count, &x->capacity, sizeof(*x->entries), err);
	if (!rc) {
		struct entry *e = &x->entries[x->count];

		e->name = gt_arena_strdup(arena, name, err);
		e->file = gt_arena_strdup(arena, json_string_value(value), err);
		rc = e->name && e->file ? 0 : GT_ENOMEM;
		x->count += !rc;
	}
	json_decref(value);
	return rc;
}

static int read_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err)
{
	struct index *x = self;

	if (strcmp(key->text, "weight_map") != 0)
		return gt_json_skip(json, VALUE_LIMIT, err);
	if (x->found)
		return gt_err_set(err, GT_EFORMAT, "the index has weight_map twice");
	x->found = true;
	return gt_json_members(json, read_weight_entry, x, err);
}

static int parse_index(struct index *x, struct gt_json *json, struct gt_err *err)
{
	int rc = gt_json_members(json, read_member, x, err);

	if (!rc && !gt_json_at_end(json))
		rc =
		    gt_err_set(err, GT_EFORMAT, "JSON: more follows its end at byte %zu", json->at);
	if (!rc && !x->count)
		rc = gt_err_set(err, GT_EFORMAT, "the index lists no tensors in weight_map");
	return rc;
}

static int copy_text(
    struct gt_json *json, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err)
{
	unsigned char *text;

	*json = (struct gt_json){ .size = map->size };
	if (map->size > INDEX_MAX_BYTES)
		return gt_err_set(err, GT_EFORMAT, "an index of %zu bytes: the most is %d",
		    map->size, INDEX_MAX_BYTES);
	if (gt_map_copy(map, 0, map->size, arena, &text, err))
		return err->code;
	json->text = (const char *)text;
	return 0;
}

static int read_shard_index(struct index *x, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_json json;
	int rc = copy_text(&json, &x->ckpt->map, &arena, err);

	if (!rc)
		rc = parse_index(x, &json, err);
	gt_arena_release(&arena);
	return rc;
}

static int keep_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err)
{
	json_t *value;

	if (!strcmp(key->text, "weight_map"))
		return gt_json_skip(json, INDEX_MAX_BYTES, err);
	if (gt_json_value(json, VALUE_LIMIT, &value, err))
		return err->code;
	if (json_object_set_new(self, key->text, value))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	return 0;
}

int gt_shards_other_members(json_t **out, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_json json;
	int rc = copy_text(&json, &ckpt->map, &arena, err);

	*out = json_object();
	if (!rc && !*out)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	if (!rc)
		rc = gt_json_members(&json, keep_member, *out, err);
	gt_arena_release(&arena);
	return rc;
}

/* ---- the shards ---- */

static int compare_files(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return strcmp(x->file, y->file);
}

/* A shard must be in the folder of the index. */
static int check_shard_name(const struct entry *e, struct gt_err *err)
{
	if (*e->file && !strchr(e->file, '/') && strcmp(e->file, ".") && strcmp(e->file, ".."))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "weight_map: '%.120s' is to be found in '%.120s', which is no name of a file in this folder",
	    e->name, e->file);
}

static int open_shard(struct gt_ckpt *ckpt, const char *file, struct gt_err *err)
{
	const char *slash = strrchr(ckpt->path, '/');
	int folder = slash ? (int)(slash - ckpt->path) + 1 : 0;
	char *path = gt_asprintf(err, "%.*s%s", folder, ckpt->path, file);
	struct gt_ckpt *shard;
	int rc = path ? gt_ckpt_open_shard(&shard, (struct gt_file_name){ ckpt->folder, path }, err)
	              : GT_ENOMEM;

	if (!rc) {
		ckpt->shards[ckpt->shard_count++] = (struct gt_ckpt_shard){ shard, file };
		if (shard->root->kind != GT_TREE_DICT)
			rc = gt_err_set(err, GT_EFORMAT, "'%s' is no state_dict", path);
	} else if (rc == GT_EIO) {
		gt_err_hint(err, "the index lists this shard: bring it into the same folder");
	}
	free(path);
	return rc;
}

/* Every file once, by name. */
static int open_shards(struct index *x, struct gt_err *err)
{
	struct gt_ckpt *ckpt = x->ckpt;
	size_t files = 0;
	int rc = 0;

	qsort(x->entries, x->count, sizeof(*x->entries), compare_files);
	for (size_t i = 0; i < x->count && !rc; i++) {
		files += !i || strcmp(x->entries[i - 1].file, x->entries[i].file) != 0;
		rc = check_shard_name(&x->entries[i], err);
	}
	if (!rc && files > SHARDS_MAX)
		rc = gt_err_set(err, GT_ENOTSUP, "%zu shards, at most %d", files, SHARDS_MAX);
	if (rc)
		return rc;
	ckpt->shards = gt_calloc(files, sizeof(*ckpt->shards), err);
	if (!ckpt->shards)
		return GT_ENOMEM;
	for (size_t i = 0; i < x->count && !rc; i++)
		if (!i || strcmp(x->entries[i - 1].file, x->entries[i].file) != 0)
			rc = open_shard(ckpt, x->entries[i].file, err);
	return rc;
}

/* ---- the tree, and whether all agree ---- */

static int collect_shard_tensors(struct index *x, struct gt_err *err)
{
	struct gt_ckpt *ckpt = x->ckpt;
	size_t all = 0;
	int rc = 0;

	for (size_t s = 0; s < ckpt->shard_count; s++)
		all += ckpt->shards[s].ckpt->root->seq.count;
	x->items = gt_calloc(all, sizeof(*x->items), err);
	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	if (!x->items || !ckpt->root)
		return GT_ENOMEM;
	for (size_t s = 0; s < ckpt->shard_count; s++) {
		const struct gt_tree *root = ckpt->shards[s].ckpt->root;

		for (size_t i = 0; i < root->seq.count && !rc; i++) {
			const struct gt_tree_item *item = &root->seq.items[i];

			if (item->key->kind == GT_TREE_STRING)
				x->items[x->item_count++] =
				    (struct item){ item->key->string.bytes, s };
			rc = gt_tree_push(ckpt->root, item->key, item->value, &ckpt->arena, err);
		}
	}
	ckpt->root->seq.attributes = ckpt->shards[0].ckpt->root->seq.attributes;
	return rc;
}

/* The tensors of all shards, each once. */
static int index_items(const struct index *x, struct gt_index *by_name, struct gt_err *err)
{
	const struct gt_ckpt_shard *shards = x->ckpt->shards;

	for (size_t i = 0; i < x->item_count; i++) {
		const struct item *b = &x->items[i], *a = gt_index_add(by_name, b, err);

		if (!a)
			return GT_ENOMEM;
		if (a != b)
			return gt_err_set(err, GT_EFORMAT,
			    "tensor '%.120s' is in two shards, '%.80s' and '%.80s'", a->name,
			    shards[a->shard].file, shards[b->shard].file);
	}
	return 0;
}

static int check_entry(const struct index *x, const struct gt_index *by_name, const struct entry *e,
    struct gt_err *err)
{
	const struct item *found = gt_index_find(by_name, &e->name);
	const char *file = found ? x->ckpt->shards[found->shard].file : NULL;

	if (!found)
		return gt_err_set(err, GT_EFORMAT,
		    "tensor '%.120s' is missing: its shard '%.120s' does not have it", e->name,
		    e->file);
	if (!strcmp(file, e->file))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "tensor '%.120s' is in shard '%.80s', the index says '%.80s'", e->name, file, e->file);
}

static int check_all(struct index *x, struct gt_err *err)
{
	struct gt_index by_name = { .compare = gt_index_by_name };
	int rc = index_items(x, &by_name, err);

	qsort(x->entries, x->count, sizeof(*x->entries), gt_index_by_name);
	for (size_t i = 0; i < x->count && !rc; i++) {
		const struct entry *e = &x->entries[i];

		if (i && !strcmp(e[-1].name, e->name))
			rc = gt_err_set(err, GT_EFORMAT, "weight_map has '%.200s' twice", e->name);
		else
			rc = check_entry(x, &by_name, e, err);
	}
	gt_index_release(&by_name);
	return rc;
}

static int open_index(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct index x = { .ckpt = ckpt };
	int rc;

	if (!ckpt->path)
		return gt_err_set(err, GT_EFORMAT, "an index of shards, where no file can be one");
	rc = read_shard_index(&x, err);
	if (!rc)
		rc = open_shards(&x, err);
	if (!rc)
		rc = collect_shard_tensors(&x, err);
	if (!rc)
		rc = check_all(&x, err);
	if (!rc && ckpt->shards[0].ckpt->format != &gt_format_safetensors)
		ckpt->format = &gt_format_torch_shards;
	free(x.entries);
	free(x.items);
	return rc;
}

const struct gt_ckpt_format gt_format_safetensors_shards = { .name = "safetensors-shards",
	.sniff = sniff_shard_index,
	.open = open_index,
	.apply = gt_st_shards_apply };

/* The same, of files that torch wrote: the row above gives way to it. */
const struct gt_ckpt_format gt_format_torch_shards = {
	.name = "torch-shards", .sniff = sniff_shard_index, .open = open_index
};
