/* select.c - a part of a checkpoint: by path in its tree, by names of its state_dict. */
#include "lib/ckpt/tools/select.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/tree.h"

/* ---- by path ---- */

/* The rest of the path after this step; NULL if the path does not begin with it. */
static const char *after(const char *path, const char *step, size_t length)
{
	if (strncmp(path, step, length) || (path[length] && path[length] != '.'))
		return NULL;
	return path + length + (path[length] == '.');
}

static struct gt_tree *follow(struct gt_tree *node, const char *path);

static struct gt_tree *follow_items(struct gt_tree *seq, const char *path)
{
	for (size_t i = 0; i < seq->seq.count; i++) {
		const struct gt_tree *key = seq->seq.items[i].key;
		struct gt_tree *found = NULL;
		char number[24];
		const char *rest;

		snprintf(number, sizeof(number), "%lld",
		    key && key->kind == GT_TREE_INT ? (long long)key->integer : (long long)i);
		if (key && key->kind == GT_TREE_STRING)
			rest = after(path, key->string.bytes, key->string.length);
		else
			rest = after(path, number, strlen(number));
		if (rest)
			found = follow(seq->seq.items[i].value, rest);
		if (found)
			return found;
	}
	return NULL;
}

/* Modules keep their parts in dicts of their own. */
static struct gt_tree *follow_object(struct gt_tree *object, const char *path)
{
	struct gt_tree *state = object->opaque.state, *found = NULL;
	bool module = gt_module_is(object);

	if (object->opaque.items)
		found = follow(object->opaque.items, path);
	if (!found && state)
		found = follow(state, path);
	for (size_t i = 0; module && !found && i < GT_MODULE_MAX_ATTRIBUTES; i++) {
		struct gt_tree *attributes = gt_module_attributes(object, i);

		if (attributes)
			found = follow(attributes, path);
	}
	for (int i = GT_MODULE_PART_COUNT - 1; module && !found && i >= 0; i--) {
		struct gt_tree *part = gt_module_part(object, i);

		if (part)
			found = follow(part, path);
	}
	return found;
}

static struct gt_tree *follow(struct gt_tree *node, const char *path)
{
	if (!*path)
		return node;
	if (gt_tree_is_seq(node))
		return follow_items(node, path);
	return node->kind == GT_TREE_OPAQUE ? follow_object(node, path) : NULL;
}

/*
 * Find the value at a path. The steps of a path are keys of dicts, indices of lists and attributes
 * of pickled objects, joined by dots. Keys may contain dots themselves: "model.layer1.0.weight" is
 * found both if `model` has the key "layer1.0.weight" and if it has nested dicts. *out is borrowed.
 * Errors: GT_EFORMAT if there is no value at the path; the hint lists keys of the root.
 */
int gt_select_path(struct gt_tree **out, struct gt_tree *root, const char *path, struct gt_err *err)
{
	struct gt_name_list keys = { .max = 6 };

	*out = *path ? follow(root, path) : NULL;
	if (*out)
		return 0;
	for (size_t i = 0; root->kind == GT_TREE_DICT && i < root->seq.count; i++)
		if (root->seq.items[i].key->kind == GT_TREE_STRING)
			gt_name_list_add(&keys, "'%.30s'", root->seq.items[i].key->string.bytes);
	gt_err_set(err, GT_EFORMAT, "{path}: nothing is under '%.200s'", path);
	if (keys.count)
		gt_err_hint(err, "the file has %s", gt_name_list_text(&keys));
	else
		gt_err_hint(err, "gtrain ckpt ls lists the contents of a file");
	gt_name_list_release(&keys);
	return err->code;
}

/* ---- by name ---- */

static int fail_unmatched_key(
    const struct gt_state_dict *sd, const char *pattern, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "{keys}: no name matches '%.200s'", pattern);
	if (sd->count > 1)
		return gt_err_hint(err, "the names are like '%.80s' and '%.80s'",
		    sd->entries[0].name, sd->entries[sd->count - 1].name);
	return gt_err_hint(err, "gtrain ckpt ls lists the names");
}

struct selection {
	const char *const *patterns;
	size_t count;
	bool *used; /* used[k]: pattern k has matched a name */
};

static bool matches_key_pattern(const struct selection *s, const char *name)
{
	bool any = false;

	for (size_t k = 0; k < s->count; k++) {
		if (fnmatch(s->patterns[k], name, 0))
			continue;
		any = s->used[k] = true;
	}
	return any;
}

/* Keep the entries that a pattern matches, in their order. */
static void keep_entries(struct gt_state_dict *sd, const struct selection *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < sd->count; i++) {
		struct gt_state_entry entry = sd->entries[kept];

		if (!matches_key_pattern(s, sd->entries[i].name))
			continue;
		sd->entries[kept++] = sd->entries[i];
		sd->entries[i] = entry;
	}
	sd->count = kept;
}

/* Tensors of kinds that gtrain does not interpret go as they are; *all counts them. */
static int add_objects(struct gt_tree *out, const struct gt_tree *from, const struct selection *s,
    size_t *all, struct gt_arena *arena, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; from->kind == GT_TREE_DICT && i < from->seq.count && !rc; i++) {
		const struct gt_tree_item *item = &from->seq.items[i];

		if (item->value->kind != GT_TREE_OPAQUE || !gt_class_is_entry(item, false))
			continue;
		++*all;
		if (matches_key_pattern(s, item->key->string.bytes))
			rc = gt_tree_push(out, item->key, item->value, arena, err);
	}
	return rc;
}

static int select_names(struct gt_tree **out, struct gt_state_dict *sd, const struct selection *s,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	struct gt_state_dict before = *sd;
	size_t all = sd->count;
	int rc;

	keep_entries(sd, s);
	*out = gt_convert_state_dict(sd, arena, err);
	rc = *out ? add_objects(*out, sd->node, s, &all, arena, err) : GT_ENOMEM;
	for (size_t k = 0; !rc && k < s->count; k++)
		if (!s->used[k])
			rc = fail_unmatched_key(&before, s->patterns[k], err);
	if (rc)
		return rc;
	if (sd->note[0] && !sd->left_out) /* the note says that these are left out */
		gt_buf_printf(note, "%s\n", sd->note);
	gt_buf_printf(
	    note, "%zu of %zu tensor%s selected\n", (*out)->seq.count, all, all == 1 ? "" : "s");
	return 0;
}

/*
 * Find the state_dict of a tree and build a dict of some of its tensors: a tensor is selected if
 * its name matches one of `count` patterns. fnmatch(3) defines the patterns; '*' also matches dots.
 * Tensors that gtrain does not interpret are selected, too; only formats of PyTorch can hold them.
 * *out is in the arena; tensors are borrowed. Lines about the selection are appended to `note`.
 * Errors: GT_EFORMAT if a pattern matches no name; the hint contains a few names.
 */
int gt_select_keys(struct gt_tree **out, const struct gt_tree *root, const char *const *patterns,
    size_t count, struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	struct selection s = { patterns, count, gt_calloc(count, sizeof(*s.used), err) };
	struct gt_state_dict sd;
	int rc = s.used ? gt_state_dict_find_as_is(&sd, root, err) : GT_ENOMEM;

	if (!rc) {
		rc = select_names(out, &sd, &s, arena, note, err);
		gt_state_dict_release(&sd);
	}
	free(s.used);
	return rc;
}
