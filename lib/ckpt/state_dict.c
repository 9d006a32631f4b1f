/* state_dict.c - find the model's tensors inside a checkpoint, and their names without wrappers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tree.h"

/* Where training scripts put it, commonest first. */
static const char *const wrappers[] = { "model", "state_dict", "model_state_dict", "net", "module",
	"network", "model_state", "weights", "params" };

static const char *const prefixes[] = { "module.", "_orig_mod." };

enum {
	COUNT_WRAPPERS = sizeof(wrappers) / sizeof(*wrappers),
	COUNT_PREFIXES = sizeof(prefixes) / sizeof(*prefixes),
	MAX_NESTING = 8,
	MAX_LOCATIONS = 3, /* named in the note */
};

struct found {
	const struct gt_tree *node;
	const char *path[MAX_NESTING];
	int depth;
};

/* ---- where it is ---- */

static bool is_plain_key(const struct gt_tree *key)
{
	return key->kind == GT_TREE_STRING && strlen(key->string.bytes) == key->string.length;
}

static size_t count_tensors(const struct gt_tree *dict, bool *only)
{
	size_t n = 0;

	*only = true;
	for (size_t i = 0; i < dict->seq.count; i++) {
		bool tensor = dict->seq.items[i].value->kind == GT_TREE_TENSOR &&
		              is_plain_key(dict->seq.items[i].key);

		n += tensor;
		if (!tensor && dict->seq.items[i].value->kind != GT_TREE_NONE)
			*only = false;
	}
	return n;
}

/* The attribute of a pickled object, or NULL. */
static const struct gt_tree *attribute(const struct gt_tree *object, const char *name)
{
	return object && object->kind == GT_TREE_OPAQUE ? gt_tree_get(object->opaque.state, name)
	                                                : NULL;
}

static bool search(struct found *f, const struct gt_tree *node);

static bool search_under(struct found *f, const char *key, const struct gt_tree *value)
{
	if (!value || f->depth == MAX_NESTING)
		return false;
	f->path[f->depth++] = key;
	if (search(f, value))
		return true;
	f->depth--;
	return false;
}

/* The only one of a dict's values in which there is a state_dict. */
static bool search_single(struct found *f, const struct gt_tree *dict)
{
	struct found one = { 0 };
	int hits = 0;

	for (size_t i = 0; i < dict->seq.count && hits < 2; i++) {
		struct found trial = *f;

		if (dict->seq.items[i].value->kind != GT_TREE_DICT ||
		    !is_plain_key(dict->seq.items[i].key) ||
		    !search_under(
		        &trial, dict->seq.items[i].key->string.bytes, dict->seq.items[i].value))
			continue;
		one = trial;
		hits++;
	}
	if (hits == 1)
		*f = one;
	return hits == 1;
}

static bool search(struct found *f, const struct gt_tree *node)
{
	size_t tensors;
	bool only;

	f->node = node;
	if (attribute(node, "_modules"))
		return true;
	if (node->kind != GT_TREE_DICT)
		return false;
	tensors = count_tensors(node, &only);
	if (tensors && only)
		return true;
	for (int i = 0; i < COUNT_WRAPPERS; i++)
		if (search_under(f, wrappers[i], gt_tree_get(node, wrappers[i])))
			return true;
	f->node = node;
	return tensors || search_single(f, node);
}

/* Say what is there instead. */
static int not_found(const struct gt_tree *root, struct gt_err *err)
{
	char keys[200] = "";
	size_t used = 0;

	if (root->kind != GT_TREE_DICT)
		return gt_err_set(
		    err, GT_EFORMAT, "no state_dict: the checkpoint is no dict and no model");
	for (size_t i = 0; i < root->seq.count && used < sizeof(keys) - 40; i++)
		if (is_plain_key(root->seq.items[i].key))
			used += (size_t)snprintf(keys + used, sizeof(keys) - used, "%s'%.30s'",
			    used ? ", " : "", root->seq.items[i].key->string.bytes);
	gt_err_set(err, GT_EFORMAT, "no state_dict in the checkpoint; its keys are: %s",
	    used ? keys : "none");
	return gt_err_hint(err, "a state_dict is a dict of names and tensors");
}

/* ---- its tensors ---- */

static int add(struct gt_state_dict *sd, size_t *capacity, const char *prefix,
    const struct gt_tree_item *item, struct gt_err *err)
{
	size_t length = strlen(prefix);
	char *name;

	if (item->value->kind != GT_TREE_TENSOR || !is_plain_key(item->key))
		return 0;
	if (gt_grow(&sd->entries, sd->count, capacity, sizeof(*sd->entries), err))
		return GT_ENOMEM;
	name = gt_arena_alloc(&sd->arena, length + item->key->string.length + 1, err);
	if (!name)
		return GT_ENOMEM;
	memcpy(name, prefix, length);
	memcpy(name + length, item->key->string.bytes, item->key->string.length);
	sd->entries[sd->count++] = (struct gt_state_entry){ name, &item->value->tensor };
	return 0;
}

static int add_all(struct gt_state_dict *sd, size_t *capacity, const char *prefix,
    const struct gt_tree *dict, const struct gt_tree *except, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; dict && dict->kind == GT_TREE_DICT && !rc && i < dict->seq.count; i++) {
		bool skip = false;

		for (size_t k = 0; except && k < except->seq.count; k++)
			skip |= is_plain_key(dict->seq.items[i].key) &&
			        gt_tree_is_string(except->seq.items[k].value,
			            dict->seq.items[i].key->string.bytes);
		if (!skip)
			rc = add(sd, capacity, prefix, &dict->seq.items[i], err);
	}
	return rc;
}

/* Buffers that the module keeps out of its state_dict: a set of names, or NULL. */
static const struct gt_tree *hidden_buffers(const struct gt_tree *module)
{
	const struct gt_tree *set = attribute(module, "_non_persistent_buffers_set");
	const struct gt_tree *names = NULL;

	if (set && set->kind == GT_TREE_OPAQUE && set->opaque.items)
		names = set->opaque.items;
	else if (set && set->kind == GT_TREE_OPAQUE && set->opaque.args &&
	         set->opaque.args->seq.count)
		names = set->opaque.args->seq.items[0].value; /* set([...]) of protocol 2 */
	return names && names->kind == GT_TREE_LIST ? names : NULL;
}

/* In the order of nn.Module.state_dict(). The tree's depth is limited, so is ours. */
static int add_module(struct gt_state_dict *sd, size_t *capacity, const char *prefix,
    const struct gt_tree *module, struct gt_err *err)
{
	const struct gt_tree *children = attribute(module, "_modules");
	int rc = add_all(sd, capacity, prefix, attribute(module, "_parameters"), NULL, err);

	if (!rc)
		rc = add_all(sd, capacity, prefix, attribute(module, "_buffers"),
		    hidden_buffers(module), err);
	if (!children || children->kind != GT_TREE_DICT)
		return rc;
	for (size_t i = 0; !rc && i < children->seq.count; i++) {
		const struct gt_tree_item *child = &children->seq.items[i];
		char *name;

		if (!is_plain_key(child->key))
			continue;
		name = gt_asprintf(err, "%s%s.", prefix, child->key->string.bytes);
		if (!name)
			return GT_ENOMEM;
		rc = add_module(sd, capacity, name, child->value, err);
		free(name);
	}
	return rc;
}

/* ---- its names ---- */

/* Take wrappers off the front; what came off is added to the mask. A name never becomes empty. */
static const char *strip(const char *name, unsigned *mask)
{
	for (int i = 0; i < COUNT_PREFIXES; i++) {
		size_t n = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], n) || !name[n])
			continue;
		*mask |= 1u << i;
		name += n;
		i = -1; /* from the first prefix again */
	}
	return name;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int refuse_doubles(const struct gt_state_dict *sd, struct gt_err *err)
{
	const char **names = gt_calloc(sd->count, sizeof(*names), err);
	int rc = 0;

	if (!names)
		return GT_ENOMEM;
	for (size_t i = 0; i < sd->count; i++)
		names[i] = sd->entries[i].name;
	qsort(names, sd->count, sizeof(*names), compare_names);
	for (size_t i = 1; !rc && i < sd->count; i++)
		if (!strcmp(names[i - 1], names[i]))
			rc = gt_err_set(err, GT_EFORMAT,
			    "two keys become '%.200s' when 'module.' and '_orig_mod.' are taken off",
			    names[i]);
	free(names);
	return rc;
}

/* ---- the note ---- */

static void say(struct gt_state_dict *sd, const char *format, const char *text)
{
	size_t used = strlen(sd->note);

	snprintf(sd->note + used, sizeof(sd->note) - used, format, text);
}

static void note_path(struct gt_state_dict *sd, const struct found *f)
{
	bool model = f->node->kind == GT_TREE_OPAQUE;

	if (model)
		say(sd, "%s", "a whole pickled model");
	else if (f->depth)
		say(sd, "%s", "state_dict");
	for (int i = 0; i < f->depth; i++) {
		say(sd, i ? "%s" : " found under '%s", i ? "." : f->path[i]);
		if (i)
			say(sd, "%s", f->path[i]);
	}
	if (f->depth)
		say(sd, "%s", "'");
}

static void note_prefixes(struct gt_state_dict *sd, unsigned mask, size_t keys)
{
	char count[48];

	if (!keys)
		return;
	say(sd, "%s", sd->note[0] ? "; " : "");
	for (int i = 0, named = 0; i < COUNT_PREFIXES; i++)
		if (mask >> i & 1)
			say(sd, named++ ? " and '%s'" : "'%s'", prefixes[i]);
	snprintf(count, sizeof(count), " taken off %zu key%s", keys, keys == 1 ? "" : "s");
	say(sd, "%s", count);
}

static void note_locations(struct gt_state_dict *sd)
{
	const char *seen[MAX_LOCATIONS];
	int n = 0;

	for (size_t i = 0; i < sd->count && n < MAX_LOCATIONS; i++) {
		const char *location = sd->entries[i].tensor->storage->location;
		bool known = !strcmp(location, "cpu");

		for (int k = 0; k < n; k++)
			known |= !strcmp(seen[k], location);
		if (known)
			continue;
		if (!n)
			say(sd, "%ssaved on ", sd->note[0] ? "; " : "");
		say(sd, n ? ", %.20s" : "%.20s", location);
		seen[n++] = location;
	}
}

int gt_state_dict_find(struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err)
{
	struct found f = { 0 };
	size_t capacity = 0, stripped = 0;
	unsigned mask = 0;
	int rc;

	*out = (struct gt_state_dict){ 0 };
	if (!search(&f, root))
		return not_found(root, err);
	if (f.node->kind == GT_TREE_OPAQUE)
		rc = add_module(out, &capacity, "", f.node, err);
	else
		rc = add_all(out, &capacity, "", f.node, NULL, err);
	for (size_t i = 0; !rc && i < out->count; i++) {
		const char *name = strip(out->entries[i].name, &mask);

		stripped += name != out->entries[i].name;
		out->entries[i].name = name;
	}
	if (!rc)
		rc = refuse_doubles(out, err);
	if (rc) {
		gt_state_dict_release(out);
		return rc;
	}
	note_path(out, &f);
	note_prefixes(out, mask, stripped);
	note_locations(out);
	return 0;
}

const struct gt_tree_tensor *gt_state_dict_get(const struct gt_state_dict *sd, const char *name)
{
	for (size_t i = 0; i < sd->count; i++)
		if (!strcmp(sd->entries[i].name, name))
			return sd->entries[i].tensor;
	return NULL;
}

void gt_state_dict_release(struct gt_state_dict *sd)
{
	free(sd->entries);
	gt_arena_release(&sd->arena);
	*sd = (struct gt_state_dict){ 0 };
}
