/* names.c - the names in a checkpoint that an edit changes, and where they stand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/index.h"
#include "lib/base/text.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/metadata.h"
#include "lib/ckpt/tree/tree.h"

/* The path from the root, one step per container. */
struct step {
	const struct step *up;
	const struct gt_tree *key; /* NULL: in a list */
	size_t index;
};

struct walk {
	struct gt_edit *edit;
	struct gt_edit_naming *naming;
	struct gt_index seen; /* nodes already walked: a shared node is walked once */
	bool references;      /* the second walk: optimizers, once all names are known */
	/* the names in all state_dicts; sorted by `from` for the second walk */
	struct gt_edit_key *names;
	size_t name_count, name_capacity;
	size_t dicts, optimizers;
	const struct gt_tree *found; /* the state_dict that other commands take; or NULL */
	const struct gt_tree *model; /* a pickled one, and where */
	const char *model_path;
	struct gt_name_list edited,
	    skipped;            /* state_dicts with a change; dicts of tensors that are none */
	const char *in_the_way; /* the first key beside tensors that kept a dict from being one */
};

/* ---- changes ---- */

static void put_path(struct gt_buf *out, const struct step *step)
{
	if (!step || !step->up)
		return;
	put_path(out, step->up);
	gt_tree_put_step(out, step->key, step->index);
}

/* "model.state_dict", in the edit's arena. */
static const char *path_of(struct walk *w, const struct step *step, struct gt_err *err)
{
	struct gt_buf text = { 0 };

	put_path(&text, step);
	return gt_buf_keep(&text, &w->edit->arena, err);
}

static int compare_to(const void *a, const void *b)
{
	const struct gt_edit_key *x = a, *y = b;
	int order = strcmp(x->to, y->to);

	return order ? order : (x->item > y->item) - (x->item < y->item);
}

/* Name the first keys of `sorted` that became one, and how many there are. */
static int check_collisions(
    const struct gt_edit_key *sorted, size_t count, const char *where, struct gt_err *err)
{
	struct gt_name_list list = { .max = 3 };

	for (size_t i = 1; i < count; i++) {
		const struct gt_edit_key *a = &sorted[i - 1], *b = &sorted[i];

		if (!strcmp(a->to, b->to))
			gt_name_list_add(
			    &list, "'%.40s' and '%.40s' become '%.40s'", a->from, b->from, b->to);
	}
	if (list.count) {
		size_t n = list.count;

		gt_err_set(err, GT_EFORMAT, "%zu name%s of %s%.60s%s would be there twice: %s", n,
		    n == 1 ? "" : "s", *where ? "'" : "the state_dict", where, *where ? "'" : "",
		    gt_name_list_text(&list));
		gt_err_hint(err, "nothing was written; rename one of each two first");
	}
	gt_name_list_release(&list);
	return list.count ? GT_EFORMAT : 0;
}

static void mention(struct gt_name_list *list, const char *path)
{
	if (*path)
		gt_name_list_add(list, "'%.20s'", path);
	else
		gt_name_list_add(list, "the outermost");
}

/* Record the changes of one dict's keys. `keys` is sorted by `to` afterwards. */
static int push_keys(struct walk *w, enum gt_edit_use use, const struct step *step,
    struct gt_edit_key *keys, size_t count, struct gt_err *err)
{
	const char *where = NULL;
	int rc = 0;

	for (size_t i = 0; !rc && i < count; i++) {
		struct gt_edit_change c = { .use = use, .from = keys[i].from, .to = keys[i].to };

		if (!strcmp(c.from, c.to))
			continue;
		if (!where && !(where = path_of(w, step, err)))
			return GT_ENOMEM;
		c.where = where;
		c.at = keys[i].item->key_at;
		rc = gt_edit_push(w->edit, &c, err);
	}
	if (rc || !where)
		return rc;
	w->edit->dicts += use == GT_EDIT_NAME;
	if (use == GT_EDIT_NAME)
		mention(&w->edited, where);
	qsort(keys, count, sizeof(*keys), compare_to);
	return check_collisions(keys, count, where, err);
}

/* ---- state_dicts ---- */

static int new_name(struct walk *w, struct gt_edit_key *key, struct gt_err *err)
{
	key->to = gt_edit_rename(w->naming, key->from, err);
	if (!key->to)
		return err->code;
	if (!*key->to && *key->from) {
		gt_err_set(err, GT_EFORMAT, "'%.200s' would be left without a name", key->from);
		return gt_err_hint(err, "nothing was written; match less of it");
	}
	if (key->to == key->from || gt_text_is_utf8(key->to))
		return 0;
	gt_err_set(err, GT_EFORMAT, "'%.200s' would become text that is not UTF-8", key->from);
	return gt_text_is_utf8(key->from)
	           ? err->code
	           : gt_err_hint(err, "the name is not UTF-8 itself: rename it in Python first");
}

/* All plain keys of a dict, as they are. *keys is yours to free. */
static int list_keys(
    const struct gt_tree *dict, struct gt_edit_key **keys, size_t *count, struct gt_err *err)
{
	*count = 0;
	*keys = gt_calloc(dict->seq.count, sizeof(**keys), err);
	if (!*keys)
		return GT_ENOMEM;
	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree_item *item = &dict->seq.items[i];

		if (gt_tree_is_text(item->key))
			(*keys)[(*count)++] = (struct gt_edit_key){ item->key->string.bytes,
				item->key->string.bytes, item, false };
	}
	return 0;
}

static int edit_metadata(struct walk *w, const struct step *step, const struct gt_tree *dict,
    const struct gt_edit_key *names, size_t name_count, struct gt_err *err)
{
	const struct gt_tree *paths = gt_metadata_of(dict);
	struct gt_edit_key *keys;
	size_t count;
	int rc = paths ? list_keys(paths, &keys, &count, err) : 0;

	if (rc || !paths)
		return rc;
	if (!rc)
		rc = gt_edit_paths(w->naming, keys, count, names, name_count, err);
	if (!rc)
		rc = push_keys(w, GT_EDIT_METADATA, step, keys, count, err);
	free(keys);
	return rc;
}

static int keep_names(struct walk *w, const struct gt_edit_key *keys, size_t count,
    const struct gt_content *c, struct gt_err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (!gt_class_is_entry(keys[i].item, c->by_modules))
			continue;
		if (gt_grow(&w->names, w->name_count, &w->name_capacity, sizeof(*w->names), err))
			return GT_ENOMEM;
		w->names[w->name_count++] = keys[i];
	}
	return 0;
}

static int edit_state_dict(
    struct walk *w, const struct step *step, const struct gt_content *c, struct gt_err *err)
{
	struct gt_edit_key *keys;
	size_t count, changed;
	int rc = list_keys(c->dict, &keys, &count, err);

	w->dicts++;
	for (size_t i = 0; !rc && i < count; i++)
		if (gt_class_is_entry(keys[i].item, c->by_modules))
			rc = new_name(w, &keys[i], err);
	if (!rc)
		rc = keep_names(w, keys, count, c, err);
	changed = w->edit->count;
	if (!rc)
		rc = push_keys(w, GT_EDIT_NAME, step, keys, count, err);
	if (!rc && w->edit->count > changed) {
		qsort(keys, count, sizeof(*keys), gt_index_by_name);
		rc = edit_metadata(w, step, c->dict, keys, count, err);
	}
	free(keys);
	return rc;
}

/* ---- optimizers ---- */

static const char *reference(const struct walk *w, const char *name)
{
	const struct gt_edit_key *k =
	    bsearch(&name, w->names, w->name_count, sizeof(*k), gt_index_by_name);

	return k ? k->to : name;
}

/* The keys of `state` alone; the names below them, such as "exp_avg", are not parameters'. */
static int edit_state(
    struct walk *w, const struct step *step, const struct gt_tree *state, struct gt_err *err)
{
	struct gt_edit_key *keys;
	size_t count;
	int rc = list_keys(state, &keys, &count, err);

	for (size_t i = 0; !rc && i < count; i++)
		keys[i].to = reference(w, keys[i].from);
	if (!rc)
		rc = push_keys(w, GT_EDIT_REFERENCE, step, keys, count, err);
	free(keys);
	return rc;
}

static int edit_list(
    struct walk *w, const struct step *step, const struct gt_tree *list, struct gt_err *err)
{
	const char *where = NULL;
	int rc = 0;

	for (size_t i = 0; !rc && i < list->seq.count; i++) {
		const struct gt_tree_item *item = &list->seq.items[i];
		struct gt_edit_change c = { .use = GT_EDIT_REFERENCE, .at = item->value_at };

		if (!gt_tree_is_text(item->value))
			continue;
		c.from = item->value->string.bytes;
		c.to = reference(w, c.from);
		if (!strcmp(c.from, c.to))
			continue;
		if (!where && !(where = path_of(w, step, err)))
			return GT_ENOMEM;
		c.where = where;
		rc = gt_edit_push(w->edit, &c, err);
	}
	return rc;
}

/* One of param_groups: {"params": [...], "param_names": [...], "lr": ...}. */
static int edit_group(
    struct walk *w, const struct step *up, const struct gt_tree *group, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; group->kind == GT_TREE_DICT && !rc && i < group->seq.count; i++) {
		const struct gt_tree_item *item = &group->seq.items[i];
		struct step step = { up, item->key, i };

		if (item->value->kind == GT_TREE_LIST)
			rc = edit_list(w, &step, item->value, err);
	}
	return rc;
}

static int edit_optimizer(
    struct walk *w, const struct step *up, const struct gt_tree *dict, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < dict->seq.count; i++) {
		const struct gt_tree_item *item = &dict->seq.items[i];
		struct step step = { up, item->key, i };

		if (gt_tree_is_string(item->key, "state"))
			rc = edit_state(w, &step, item->value, err);
		for (size_t k = 0; !rc && gt_tree_is_string(item->key, "param_groups") &&
		                   k < item->value->seq.count;
		     k++) {
			struct step inner = { &step, NULL, k };

			rc = edit_group(w, &inner, item->value->seq.items[k].value, err);
		}
	}
	return rc;
}

/* ---- the walk ---- */

static int visit_tree_node(
    struct walk *w, const struct step *step, const struct gt_tree *node, struct gt_err *err);

static int visit_items(
    struct walk *w, const struct step *up, const struct gt_tree *seq, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < seq->seq.count; i++) {
		const struct gt_tree_item *item = &seq->seq.items[i];
		struct step step = { up, item->key, i };

		rc = visit_tree_node(w, &step, item->value, err);
	}
	return rc;
}

/* Take a dict for a state_dict or not. A dict of tensors for the greater part that is none is worth
 * a word. */
static int visit_dict(struct walk *w, const struct step *step, const struct gt_content *c,
    enum gt_class class, struct gt_err *err)
{
	const char *path;

	if (class == GT_CLASS_STATE_DICT || (class == GT_CLASS_TENSORS && c->dict == w->found))
		return edit_state_dict(w, step, c, err);
	if (c->tensors && c->others && !w->in_the_way)
		w->in_the_way = c->other;
	if (!c->tensors || c->tensors < c->others)
		return 0;
	path = path_of(w, step, err);
	if (!path)
		return GT_ENOMEM;
	mention(&w->skipped, path);
	return 0;
}

/* The tree's depth is limited (tree.h). */
static int visit_tree_node(
    struct walk *w, const struct step *step, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_content content;
	enum gt_class class = gt_classify(node, !step->up, &content);
	int rc = 0;

	if (class == GT_CLASS_MODEL && !w->model) {
		w->model = node;
		w->model_path = path_of(w, step, err);
		if (!w->model_path)
			return GT_ENOMEM;
	}
	if (node->kind == GT_TREE_OPAQUE)
		node = node->opaque.items; /* those of a subclass of dict or list */
	if (!node || !gt_tree_is_seq(node))
		return 0;
	if (gt_index_find(&w->seen, node))
		return 0;
	if (!gt_index_add(&w->seen, node, err))
		return GT_ENOMEM;
	if (class == GT_CLASS_OPTIMIZER) {
		w->optimizers++;
		return w->references ? edit_optimizer(w, step, node, err) : 0;
	}
	if (!w->references && content.dict)
		rc = visit_dict(w, step, &content, class, err);
	return rc ? rc : visit_items(w, step, node, err);
}

static int walk(struct walk *w, const struct gt_tree *root, struct gt_err *err)
{
	struct step top = { 0 };
	int rc = visit_tree_node(w, &top, root, err);

	gt_index_release(&w->seen);
	return rc;
}

static int fail_without_state_dict(const struct walk *w, struct gt_err *err)
{
	if (w->in_the_way) {
		gt_err_set(err, GT_EFORMAT,
		    "no state_dict in the file: '%.100s' is not a tensor, so its dict is not a "
		    "state_dict",
		    w->in_the_way);
		return gt_err_hint(err, "`gtrain ckpt select --keys '*'` takes the tensors alone");
	}
	if (w->model) {
		gt_err_set(err, GT_EFORMAT,
		    "a whole pickled model ('%.200s')%s%.100s%s, not a state_dict: the names are "
		    "in its code",
		    w->model->opaque.class_name, *w->model_path ? " under '" : "", w->model_path,
		    *w->model_path ? "'" : "");
		return gt_err_hint(err, "`gtrain ckpt convert` writes its weights as a state_dict");
	}
	if (w->optimizers) {
		gt_err_set(err, GT_EFORMAT, "an optimizer's state without a model's state_dict");
		return gt_err_hint(err, "the weights are in another file of that run");
	}
	gt_err_set(err, GT_EFORMAT, "no state_dict in the file: no dict of names and tensors");
	return gt_err_hint(err, "`gtrain ckpt ls` lists the contents");
}

/* Which dicts, where that is not plain. */
static int note_dicts(struct walk *w, struct gt_err *err)
{
	struct gt_buf note = { 0 };

	if (w->edited.count && (w->edited.count > 1 || w->skipped.count))
		gt_buf_printf(&note, "names changed in %s%s", gt_name_list_text(&w->edited),
		    w->skipped.count ? "; " : "");
	if (w->skipped.count)
		gt_buf_printf(
		    &note, "not taken for state_dicts: %s", gt_name_list_text(&w->skipped));
	w->edit->dicts_note = gt_buf_keep(&note, &w->edit->arena, err);
	return w->edit->dicts_note ? 0 : GT_ENOMEM;
}

int gt_edit_names(struct gt_edit *edit, const struct gt_tree *root, struct gt_edit_naming *naming,
    size_t *dicts, struct gt_err *err)
{
	struct walk w = { .edit = edit,
		.naming = naming,
		.edited.max = 4,
		.skipped.max = 4,
		.found = gt_state_dict_node(root) };
	int rc = walk(&w, root, err);

	if (!rc && !w.dicts)
		rc = fail_without_state_dict(&w, err);
	if (!rc && w.optimizers) {
		qsort(w.names, w.name_count, sizeof(*w.names), gt_index_by_name);
		w.references = true;
		rc = walk(&w, root, err);
	}
	rc = rc ? rc : note_dicts(&w, err);
	*dicts = w.dicts;
	gt_name_list_release(&w.edited);
	gt_name_list_release(&w.skipped);
	free(w.names);
	return rc;
}
