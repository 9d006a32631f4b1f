/* metadata.c - attributes of a state_dict: its modules' versions, and texts. */
#include "lib/ckpt/tree/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/tree/tree.h"

/* ---- versions of modules: `_metadata` ---- */

const struct gt_tree *gt_metadata_of(const struct gt_tree *dict)
{
	const struct gt_tree *m = gt_tree_get(dict->seq.attributes, "_metadata");

	return m && m->kind == GT_TREE_DICT ? m : NULL;
}

static bool all_stay(const struct gt_state_dict *sd)
{
	size_t tensors = 0;

	for (size_t i = 0; i < sd->node->seq.count; i++)
		tensors += sd->node->seq.items[i].value->kind == GT_TREE_TENSOR &&
		           gt_tree_is_text(sd->node->seq.items[i].key);
	return tensors == sd->count;
}

/* Whether one of the sorted names begins with "PATH."; "" is the path of all. */
static bool has_under(const char *const *names, size_t count, const char *path)
{
	size_t low = 0, high = count, n = strlen(path);

	while (n && low < high) {
		const char *name = names[low + (high - low) / 2];
		int order = strncmp(name, path, n);

		if (!order)
			order = (int)(unsigned char)name[n] - '.';
		if (!order)
			return true;
		if (order < 0)
			low += (high - low) / 2 + 1;
		else
			high = low + (high - low) / 2;
	}
	return !n;
}

/* A path without names, that of a ReLU, stays with all others alone. */
static int keep_paths(struct gt_tree *paths, const struct gt_tree *from,
    const struct gt_state_dict *sd, struct gt_arena *arena, struct gt_err *err)
{
	const char **names = gt_calloc(sd->count, sizeof(*names), err);
	bool all = all_stay(sd);
	int rc = names ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < sd->count; i++)
		names[i] = sd->entries[i].name;
	if (!rc)
		qsort(names, sd->count, sizeof(*names), gt_index_by_name);
	for (size_t i = 0; !rc && i < from->seq.count; i++) {
		const struct gt_tree_item *item = &from->seq.items[i];

		if (all || (gt_tree_is_text(item->key) &&
		               has_under(names, sd->count, item->key->string.bytes)))
			rc = gt_tree_push(paths, item->key, item->value, arena, err);
	}
	free(names);
	return rc;
}

/* ---- texts: `__metadata__` ---- */

static const struct gt_tree *texts_of(const struct gt_tree *node)
{
	const struct gt_tree *texts = NULL;

	if (node->kind == GT_TREE_DICT)
		texts = gt_tree_get(node->seq.attributes, GT_ST_METADATA);
	return texts && texts->kind == GT_TREE_DICT ? texts : NULL;
}

const char *gt_state_dict_metadata(const struct gt_state_dict *sd, const char *name)
{
	const struct gt_tree *texts = texts_of(sd->node);
	const struct gt_tree *text = texts ? gt_tree_get(texts, name) : NULL;

	return text && text->kind == GT_TREE_STRING ? text->string.bytes : NULL;
}

static int set_attribute(struct gt_tree *dict, const char *name, struct gt_tree *value,
    struct gt_arena *a, struct gt_err *err)
{
	if (!dict->seq.attributes)
		dict->seq.attributes = gt_tree_dict(a, err);
	dict->seq.ordered = true;
	return dict->seq.attributes ? gt_tree_set(dict->seq.attributes, name, value, a, err)
	                            : GT_ENOMEM;
}

int gt_tree_set_metadata(struct gt_tree *dict, const char *name, const char *text,
    struct gt_arena *a, struct gt_err *err)
{
	struct gt_tree *texts = (struct gt_tree *)texts_of(
	    dict); /* the caller may change `dict`, so also this part of it */
	int rc = 0;

	if (!texts) {
		texts = gt_tree_dict(a, err);
		rc = set_attribute(dict, GT_ST_METADATA, texts, a, err);
	}
	return rc ? rc : gt_tree_set(texts, name, gt_tree_string(a, text, err), a, err);
}

/* ---- both ---- */

/* An entry of the first dict that has it. */
struct entry {
	const struct gt_tree_item *item;
	bool differs; /* the entry of another dict is different */
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return strcmp(x->item->key->string.bytes, y->item->key->string.bytes);
}

/* Whether two entries say the same: texts, or the versions of a module. */
static bool same_entry(const struct gt_tree *a, const struct gt_tree *b)
{
	int64_t x = 0, y = 0;

	if (a->kind == GT_TREE_STRING)
		return gt_tree_is_string(b, a->string.bytes);
	return gt_tree_as_int(gt_tree_get(a, "version"), &x) ==
	           gt_tree_as_int(gt_tree_get(b, "version"), &y) &&
	       x == y;
}

/* Add the entries of `from` that `to` lacks. All entries of `to` are `known`. */
static int merge_entries(struct gt_tree *to, struct gt_index *known, const struct gt_tree *from,
    size_t *differ, struct gt_arena *arena, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < from->seq.count; i++) {
		const struct gt_tree_item *item = &from->seq.items[i];
		struct entry *entry, *first;

		if (!gt_tree_is_text(item->key))
			continue;
		entry = gt_arena_alloc(arena, sizeof(*entry), err);
		if (!entry)
			return GT_ENOMEM;
		*entry = (struct entry){ .item = item };
		first = gt_index_add(known, entry, err);
		if (!first)
			return GT_ENOMEM;
		if (first == entry) {
			rc = gt_tree_push(to, item->key, item->value, arena, err);
		} else if (!first->differs && !same_entry(first->item->value, item->value)) {
			first->differs = true;
			++*differ;
		}
	}
	return rc;
}

/* The attribute `name` of all dicts. */
static int merge_attribute(struct gt_tree *dict, const char *name, struct gt_tree *const *from,
    size_t count, size_t *differ, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_index known = { .compare = compare_entries };
	struct gt_tree *own = NULL;
	int rc = 0;

	for (size_t i = 0; !rc && i < count; i++) {
		const struct gt_tree *entries = gt_tree_get(from[i]->seq.attributes, name);

		if (!gt_tree_is(entries, GT_TREE_DICT))
			continue;
		if (!own) {
			own = gt_tree_dict(arena, err);
			if (own)
				own->seq.ordered = entries->seq.ordered;
			rc = set_attribute(dict, name, own, arena, err);
		}
		if (!rc)
			rc = merge_entries(own, &known, entries, differ, arena, err);
	}
	gt_index_release(&known);
	return rc;
}

static int keep_versions(struct gt_tree *dict, const struct gt_state_dict *sd,
    struct gt_arena *arena, struct gt_err *err)
{
	const struct gt_tree *from = NULL;
	struct gt_tree *paths;
	int rc;

	if (sd->node->kind == GT_TREE_DICT && !(from = gt_metadata_of(sd->node)))
		return 0;
	paths = gt_tree_dict(arena, err);
	if (!paths)
		return GT_ENOMEM;
	paths->seq.ordered = true;
	if (!from)
		rc = gt_module_versions(paths, "", sd->node, arena, err);
	else
		rc = keep_paths(paths, from, sd, arena, err);
	if (rc || !paths->seq.count)
		return rc;
	return set_attribute(dict, "_metadata", paths, arena, err);
}

/*
 * Set the attributes of `dict`, which contains the entries of `sd`. `sd` may contain only some of
 * the tensors that the state_dict has in the file. If it contains all of them, `_metadata` is
 * copied completely. Otherwise only two kinds of entries are copied: the entry of the path "", and
 * the entries of modules to which a tensor in `dict` belongs. For example, the entry of "layer1.0"
 * is copied if the name of a tensor begins with "layer1.0.". If `sd` comes from a pickled model,
 * `_metadata` is built from the versions in the module objects of the model.
 *
 * The attribute `__metadata__`, texts that a file stores together with its weights
 * (gt_state_dict_metadata()), is copied unchanged. Errors: GT_ENOMEM.
 */
int gt_metadata_keep(struct gt_tree *dict, const struct gt_state_dict *sd, struct gt_arena *arena,
    struct gt_err *err)
{
	const struct gt_tree *texts = texts_of(sd->node);
	int rc = keep_versions(dict, sd, arena, err);

	return rc || !texts
	           ? rc
	           : set_attribute(dict, GT_ST_METADATA, (struct gt_tree *)texts, arena, err);
}

int gt_metadata_merge(struct gt_tree *dict, struct gt_tree *const *from, size_t count,
    size_t *differ, struct gt_arena *arena, struct gt_err *err)
{
	int rc;

	*differ = 0;
	rc = merge_attribute(dict, "_metadata", from, count, differ, arena, err);
	return rc ? rc : merge_attribute(dict, GT_ST_METADATA, from, count, differ, arena, err);
}
