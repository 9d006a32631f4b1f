/* state_dict.c - find the model's tensors inside a checkpoint, and their names without wrappers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/tree.h"

/* The keys under which training scripts put the state_dict of a model, commonest first; averaged
 * copies after the originals. */
static const char *const model_keys[] = { "model", "state_dict", "model_state_dict", "net",
	"module", "network", "model_state", "weights", "params", "model_dict", "net_state_dict",
	"network_state_dict", "model_weights", "ema", "model_ema", "ema_model", "ema_state_dict",
	"state_dict_ema", "model_state_dict_ema", "params_ema", "ema_params" };

/* "module." is the first: as modules may be named "module" for other reasons, wrapper_of() takes it
 * only at the front of a name and behind another wrapper. The other names are PyTorch's own. */
const char *const gt_state_dict_wrappers[] = { "module.", "_orig_mod.", "_fsdp_wrapped_module.",
	"_checkpoint_wrapped_module.", NULL };

enum {
	COUNT_MODEL_KEYS = sizeof(model_keys) / sizeof(*model_keys),
	COUNT_PREFIXES = sizeof(gt_state_dict_wrappers) / sizeof(*gt_state_dict_wrappers) - 1,
	MAX_NESTING = 8,
	MAX_LOCATIONS = 3,  /* named in the note */
	MAX_ITEMS = 1 << 22 /* looked at: a file may refer to one dict again and again */
};

struct found {
	const struct gt_tree *node, *parent; /* parent: the dict or list it was found in, or NULL */
	const char *path[MAX_NESTING];
	int depth;
	size_t *items; /* looked at so far */
};

/* ---- where it is ---- */

static bool search(struct found *f, const struct gt_tree *node);

static bool search_under(
    struct found *f, const char *key, const struct gt_tree *parent, const struct gt_tree *value)
{
	const struct gt_tree *before = f->parent;

	if (!value || f->depth == MAX_NESTING)
		return false;
	f->path[f->depth++] = key;
	f->parent = parent;
	if (search(f, value))
		return true;
	f->depth--;
	f->parent = before;
	return false;
}

/* The only one of a dict's values in which there is a state_dict. */
static bool search_single(struct found *f, const struct gt_tree *dict)
{
	struct found one = { 0 };
	int hits = 0;

	for (size_t i = 0; i < dict->seq.count && hits < 2; i++) {
		const struct gt_tree_item *item = &dict->seq.items[i];
		struct found trial = *f;

		if ((!gt_class_dict(item->value) && !gt_module_is(item->value)) ||
		    !gt_tree_is_text(item->key) ||
		    !search_under(&trial, item->key->string.bytes, dict, item->value))
			continue;
		one = trial;
		hits++;
	}
	if (hits == 1)
		*f = one;
	return hits == 1;
}

/* Take the first item with tensors of a tuple or list such as (model, optimizer). */
static bool search_seq(struct found *f, const struct gt_tree *seq)
{
	static const char *const places[] = { "[0]", "[1]", "[2]", "[3]" };

	for (size_t i = 0; i < seq->seq.count && i < sizeof(places) / sizeof(*places); i++)
		if (search_under(f, places[i], seq, seq->seq.items[i].value))
			return true;
	return false;
}

/* Tensors alone are taken at once; of other values one may be the state_dict itself. */
static bool search(struct found *f, const struct gt_tree *node)
{
	struct gt_content c;
	enum gt_class class = gt_classify(node, f->depth == 0, &c);

	f->node = node;
	if (class == GT_CLASS_MODEL)
		return true;
	if (node->kind == GT_TREE_TUPLE || node->kind == GT_TREE_LIST)
		return search_seq(f, node);
	if (!c.dict || class == GT_CLASS_OPTIMIZER)
		return false;
	*f->items += 1 + c.dict->seq.count;
	if (*f->items > MAX_ITEMS)
		return false;
	f->node = c.dict;
	if (c.tensors && !c.others)
		return true;
	for (int i = 0; i < COUNT_MODEL_KEYS; i++)
		if (search_under(f, model_keys[i], c.dict, gt_tree_get(c.dict, model_keys[i])))
			return true;
	f->node = c.dict;
	return c.tensors || search_single(f, c.dict);
}

const struct gt_tree *gt_state_dict_node(const struct gt_tree *root)
{
	size_t items = 0;
	struct found f = { .items = &items };

	return search(&f, root) ? f.node : NULL;
}

/* ---- descriptions of trees without a state_dict ---- */

static int list_keys(const struct gt_tree *dict, struct gt_err *err)
{
	struct gt_name_list keys = { .max = 6 };

	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree *key = dict->seq.items[i].key;

		if (gt_tree_is_text(key))
			gt_name_list_add(&keys, "'%.30s'", key->string.bytes);
		else if (gt_tree_is(key, GT_TREE_INT))
			gt_name_list_add(&keys, "%lld", (long long)key->integer);
	}
	gt_err_set(err, GT_EFORMAT, "no state_dict in the checkpoint; its keys are: %s",
	    keys.count ? gt_name_list_text(&keys) : "none");
	gt_name_list_release(&keys);
	return gt_err_hint(err, "a state_dict is a dict of names and tensors");
}

static const char *optimizer_in(const struct gt_tree *dict)
{
	for (size_t i = 0; i < dict->seq.count; i++)
		if (gt_classify(dict->seq.items[i].value, false, NULL) == GT_CLASS_OPTIMIZER &&
		    gt_tree_is_text(dict->seq.items[i].key))
			return dict->seq.items[i].key->string.bytes;
	return NULL;
}

/* List the keys of a dict under which there is a state_dict; *first is one of them. */
static size_t list_models(
    const struct gt_tree *dict, struct gt_name_list *names, const char **first)
{
	size_t items = 0, count = 0;

	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree_item *item = &dict->seq.items[i];
		struct found f = { .items = &items };

		if (!gt_tree_is_text(item->key) ||
		    (!gt_class_dict(item->value) && !gt_module_is(item->value)) ||
		    !search(&f, item->value))
			continue;
		gt_name_list_add(names, "'%.40s'", item->key->string.bytes);
		*first = *first ? *first : item->key->string.bytes;
		count++;
	}
	return count;
}

/* A generator and a discriminator: the caller has to choose. Return 0 if there are not several. */
static int fail_several(const struct gt_tree *dict, struct gt_err *err)
{
	struct gt_name_list names = { .max = 6 };
	const char *first = NULL;
	size_t count = list_models(dict, &names, &first);
	int rc = 0;

	if (count > 1) {
		gt_err_set(err, GT_ENOTSUP, "there are %zu state_dicts in the checkpoint: %s",
		    count, gt_name_list_text(&names));
		rc = gt_err_hint(
		    err, "'gtrain ckpt select {path} %.40s' writes one of them as a file", first);
	}
	gt_name_list_release(&names);
	return rc;
}

/* Describe a tree that is not a dict. */
static int fail_kind(const struct gt_tree *root, struct gt_err *err)
{
	if (root->kind == GT_TREE_OPAQUE)
		gt_err_set(err, GT_EFORMAT,
		    "no state_dict: the checkpoint is an object of class '%.200s', no model of torch.nn",
		    root->opaque.class_name);
	else if (root->kind == GT_TREE_TENSOR)
		gt_err_set(err, GT_EFORMAT, "no state_dict: the checkpoint is one tensor");
	else
		gt_err_set(
		    err, GT_EFORMAT, "no state_dict: the checkpoint is no dict and no model");
	return gt_err_hint(err, "'gtrain ckpt ls' lists the contents");
}

static int not_found(const struct gt_tree *root, struct gt_err *err)
{
	static const char hint[] =
	    "the model is saved elsewhere, perhaps in a file beside this one";
	const struct gt_tree *dict = gt_class_dict(root);

	if (!dict)
		return fail_kind(root, err);
	if (gt_classify(root, true, NULL) == GT_CLASS_OPTIMIZER) {
		gt_err_set(
		    err, GT_EFORMAT, "no state_dict of a model: this is the state of an optimizer");
		return gt_err_hint(err, hint);
	}
	if (fail_several(dict, err))
		return err->code;
	list_keys(dict, err);
	return optimizer_in(dict) ? gt_err_hint(err, "'%.40s' is the state of an optimizer; %s",
	                                optimizer_in(dict), hint)
	                          : err->code;
}

/* ---- its names ---- */

/*
 * Remove the prefixes at the front of a name until the rest begins with none of them, and return
 * the rest. `prefixes` ends with NULL. The rest points into `name` and is never empty: a prefix
 * that is the whole rest is kept. Set met[i] to true if prefix i was removed.
 */
const char *gt_state_dict_strip(const char *name, const char *const *prefixes, bool *met)
{
	for (int i = 0; prefixes[i]; i++) {
		size_t n = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], n) || !name[n])
			continue;
		met[i] = true;
		name += n;
		i = -1; /* start again at the first prefix */
	}
	return name;
}

/* The wrapper whose prefix is this step of a name, or -1. `follows`: the step is at the front of
 * the name, or behind another wrapper. */
static int wrapper_of(const char *step, size_t length, bool follows)
{
	for (int i = 0; i < COUNT_PREFIXES; i++)
		if (!strncmp(step, gt_state_dict_wrappers[i], length + 1) &&
		    !gt_state_dict_wrappers[i][length + 1])
			return i || follows ? i : -1;
	return -1;
}

/* Whether a name may have a prefix of wrapper_of(). */
static bool has_wrapper(const char *name)
{
	bool found = !strncmp(name, gt_state_dict_wrappers[0], strlen(gt_state_dict_wrappers[0]));

	for (int i = 1; i < COUNT_PREFIXES && !found; i++)
		found = strstr(name, gt_state_dict_wrappers[i]) != NULL;
	return found;
}

/*
 * Remove the prefixes of wrappers from a name: "module." at the front and behind another wrapper;
 * those of torch.compile, of FSDP and of activation checkpointing anywhere, as such a wrapper can
 * be around any module: "model._orig_mod.module.a._checkpoint_wrapped_module.w" becomes
 * "model.a.w". Return `name` itself or a new text in the arena, which is never empty; NULL with err
 * set if memory runs out. Set met[i] to true if wrapper i was removed.
 */
const char *gt_state_dict_unwrap(
    const char *name, bool *met, struct gt_arena *arena, struct gt_err *err)
{
	bool any = has_wrapper(name);
	char *out = any ? gt_arena_alloc(arena, strlen(name) + 1, err) : NULL;
	bool follows = true;
	size_t kept = 0;
	const char *dot;

	if (!out)
		return any ? NULL : name;
	for (const char *step = name;; step = dot + 1) {
		int wrapper;

		dot = strchr(step, '.');
		if (!dot) {
			strcpy(out + kept, step);
			return out;
		}
		wrapper = dot[1] ? wrapper_of(step, (size_t)(dot - step), follows) : -1;
		follows = wrapper >= 0;
		if (follows) {
			met[wrapper] = true;
			continue;
		}
		memcpy(out + kept, step, (size_t)(dot + 1 - step));
		kept += (size_t)(dot + 1 - step);
	}
}

const char *gt_state_dict_bare_name(const char *name, struct gt_arena *arena, struct gt_err *err)
{
	bool met[COUNT_PREFIXES] = { false };

	return gt_state_dict_unwrap(name, met, arena, err);
}

/* No name may be there twice. */
static int index_names(struct gt_state_dict *sd, struct gt_err *err)
{
	sd->by_name.compare = gt_index_by_name;
	for (size_t i = 0; i < sd->count; i++) {
		const struct gt_state_entry *first =
		    gt_index_add(&sd->by_name, &sd->entries[i], err);

		if (first == &sd->entries[i])
			continue;
		if (!first)
			return GT_ENOMEM;
		gt_err_set(err, GT_EFORMAT,
		    "two keys become '%.200s' when the prefixes of wrappers are removed",
		    first->name);
		return gt_err_hint(
		    err, "'gtrain ckpt rename' or 'select' makes a file with one of them");
	}
	return 0;
}

/* ---- the note ---- */

static void note_path(struct gt_buf *note, const struct found *f)
{
	bool model = gt_module_is(f->node);

	if (model)
		gt_buf_printf(note, "%s",
		    strncmp(f->node->opaque.class_name, "__torch__.", 10) ? "a whole pickled model"
		                                                          : "a TorchScript model");
	else if (f->depth)
		gt_buf_printf(note, "%s", "state_dict");
	for (int i = 0; i < f->depth; i++)
		gt_buf_printf(note, "%s%s", i ? "." : " found under '", f->path[i]);
	if (f->depth)
		gt_buf_printf(note, "%s", "'");
}

static bool is_model_key(const char *key)
{
	int i = 0;

	while (i < COUNT_MODEL_KEYS && strcmp(key, model_keys[i]) != 0)
		i++;
	return i < COUNT_MODEL_KEYS;
}

/* Whether a value may be another state_dict of a model: under another key than the usual ones, only
 * if it has as many tensors as the one that was taken. */
static bool is_another(const struct found *f, const char *key, const struct gt_tree *value)
{
	const struct gt_tree *dict = gt_class_dict(value);
	struct gt_content c, taken;
	bool model;

	*f->items += 1 + (dict ? dict->seq.count : 0);
	if (!strcmp(key, f->path[f->depth - 1]) || *f->items > MAX_ITEMS)
		return false;
	model = gt_classify(value, false, &c) == GT_CLASS_MODEL;
	if (model || !c.tensors || c.others || is_model_key(key))
		return model || (c.tensors && !c.others);
	gt_classify(f->node, false, &taken);
	return c.tensors == taken.tensors;
}

/* Other state_dicts beside the one that was taken. */
static void note_others(struct gt_buf *note, const struct found *f)
{
	struct gt_name_list names = { .max = 4 };

	for (size_t i = 0; f->parent && i < f->parent->seq.count; i++) {
		const struct gt_tree_item *item = &f->parent->seq.items[i];
		char place[24];
		const char *key = place;

		snprintf(place, sizeof(place), "[%zu]", i);
		if (f->parent->kind == GT_TREE_DICT)
			key = gt_tree_is_text(item->key) ? item->key->string.bytes : NULL;
		if (key && is_another(f, key, item->value))
			gt_name_list_add(&names, "'%.40s'", key);
	}
	if (names.count)
		gt_buf_printf(note, "; there is also %s", gt_name_list_text(&names));
	gt_name_list_release(&names);
}

/* The separator between two statements of the note. */
static const char *semicolon(const struct gt_buf *note)
{
	return note->length ? "; " : "";
}

static void note_left_out(struct gt_buf *note, struct gt_module_list *list)
{
	size_t unnamed = list->unnamed.count;

	if (list->left_out)
		gt_buf_printf(note, "%s%zu left out (%s)", semicolon(note), list->left_out,
		    list->left_out_class);
	if (unnamed)
		gt_buf_printf(note, "%s%zu tensor%s left out, as %s not text: %s", semicolon(note),
		    unnamed, unnamed == 1 ? "" : "s",
		    unnamed == 1 ? "its key is" : "their keys are",
		    gt_name_list_text(&list->unnamed));
}

static void note_prefixes(struct gt_buf *note, const bool *met, size_t keys)
{
	if (!keys)
		return;
	gt_buf_printf(note, "%s", semicolon(note));
	for (int i = 0, named = 0; i < COUNT_PREFIXES; i++)
		if (met[i])
			gt_buf_printf(
			    note, "%s'%s'", named++ ? " and " : "", gt_state_dict_wrappers[i]);
	gt_buf_printf(note, " removed from %zu key%s", keys, keys == 1 ? "" : "s");
}

static void note_locations(struct gt_buf *note, const struct gt_state_dict *sd)
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
			gt_buf_printf(note, "%ssaved on ", semicolon(note));
		gt_buf_printf(note, "%s%s", n ? ", " : "", location);
		seen[n++] = location;
	}
}

/* Take wrappers off all names. Set *stripped to the number of changed names, and met[i] for each
 * wrapper. */
static int strip_all(struct gt_state_dict *sd, bool *met, size_t *stripped, struct gt_err *err)
{
	for (size_t i = 0; i < sd->count; i++) {
		const char *name = gt_state_dict_unwrap(sd->entries[i].name, met, &sd->arena, err);

		if (!name)
			return GT_ENOMEM;
		*stripped += strcmp(name, sd->entries[i].name) != 0;
		sd->entries[i].name = name;
	}
	return 0;
}

static int find_state_dict(
    struct gt_state_dict *out, const struct gt_tree *root, bool as_is, struct gt_err *err)
{
	struct gt_module_list list = { .sd = out, .unnamed.max = 6 };
	struct gt_buf note = { 0 };
	size_t stripped = 0, items = 0;
	struct found f = { .items = &items };
	bool met[COUNT_PREFIXES] = { false };
	int rc;

	*out = (struct gt_state_dict){ 0 };
	if (!search(&f, root))
		return items > MAX_ITEMS ? gt_err_set(err, GT_EFORMAT,
		                               "no state_dict among %d items of dicts: they refer "
		                               "to one another too often",
		                               MAX_ITEMS)
		                         : not_found(root, err);
	out->node = f.node;
	rc = gt_module_is(f.node) ? gt_module_add(&list, "", f.node, err)
	                          : gt_module_add_dict(&list, "", f.node, err);
	if (!rc && !as_is)
		rc = strip_all(out, met, &stripped, err);
	if (!rc)
		rc = index_names(out, err);
	if (rc) {
		gt_name_list_release(&list.unnamed);
		gt_state_dict_release(out);
		return rc;
	}
	out->left_out = list.left_out;
	note_path(&note, &f);
	note_others(&note, &f);
	note_prefixes(&note, met, stripped);
	note_left_out(&note, &list);
	note_locations(&note, out);
	gt_name_list_release(&list.unnamed);
	out->note = gt_buf_keep(&note, &out->arena, err);
	if (!out->note)
		gt_state_dict_release(out);
	return out->note ? 0 : GT_ENOMEM;
}

int gt_state_dict_find(struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err)
{
	return find_state_dict(out, root, false, err);
}

int gt_state_dict_find_as_is(
    struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err)
{
	return find_state_dict(out, root, true, err);
}

const struct gt_tree_tensor *gt_state_dict_get(const struct gt_state_dict *sd, const char *name)
{
	const struct gt_state_entry *found = gt_index_find(&sd->by_name, &name);

	return found ? found->tensor : NULL;
}

void gt_state_dict_release(struct gt_state_dict *sd)
{
	free(sd->entries);
	gt_index_release(&sd->by_name);
	gt_arena_release(&sd->arena);
	*sd = (struct gt_state_dict){ 0 };
}
