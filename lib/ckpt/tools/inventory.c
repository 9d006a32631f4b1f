/* inventory.c - the contents of a checkpoint, as two lists. */
#include "lib/ckpt/tools/inventory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/zip.h"

enum {
	MAX_ROWS = 1 << 18,
	/* bytes of all names; a small file can contain a long name and use it many times */
	MAX_BYTES = 128 << 20
};

struct lister {
	struct gt_inventory *out;
	size_t tensor_capacity, value_capacity;
	bool tensors_only; /* also inside a module's own attributes */
	struct gt_err *err;
};

static int list(struct lister *l, const struct gt_path *path, const struct gt_tree *node);

/* ---- paths ---- */

static const struct gt_path *add_path_step(
    struct lister *l, const struct gt_path *parent, struct gt_path step)
{
	struct gt_path *p = gt_arena_alloc(&l->out->arena, sizeof(*p), l->err);

	if (!p)
		return NULL;
	*p = step;
	p->parent = parent;
	return p;
}

static const struct gt_path *step_name(
    struct lister *l, const struct gt_path *parent, const char *name)
{
	return add_path_step(l, parent, (struct gt_path){ .name = name, .length = strlen(name) });
}

/* Keys are strings and integers in practice. */
static const struct gt_path *step_key(
    struct lister *l, const struct gt_path *parent, const struct gt_tree *key)
{
	struct gt_path p = { .kind = GT_STEP_OTHER_KEY };
	struct gt_buf text = { 0 };

	if (key->kind == GT_TREE_STRING) {
		p = (struct gt_path){ .name = key->string.bytes, .length = key->string.length };
	} else if (key->kind == GT_TREE_INT) {
		p = (struct gt_path){ .kind = GT_STEP_INTEGER, .number = key->integer };
	} else {
		gt_tree_put_key(&text, key);
		p.name = gt_buf_keep(&text, &l->out->arena, l->err);
		if (!p.name)
			return NULL;
		p.length = strlen(p.name);
	}
	return add_path_step(l, parent, p);
}

static size_t step_text(const struct gt_path *p, char text[24], const char **name)
{
	*name = p->name ? p->name : text;
	return p->name ? p->length : (size_t)snprintf(text, 24, "%" PRId64, p->number);
}

/* A zero byte becomes two characters, "\\0". */
static size_t shown_length(const char *name, size_t length)
{
	size_t shown = length;

	for (size_t i = 0; i < length; i++)
		shown += !name[i];
	return shown;
}

static char *put_before(char *at, const char *name, size_t length)
{
	while (length) {
		char c = name[--length];

		*--at = c ? c : '0';
		if (!c)
			*--at = '\\';
	}
	return at;
}

/* The steps joined, written from the back. */
static const char *join_path(struct lister *l, const struct gt_path *path)
{
	char number[24], *key, *at;
	const char *name;
	size_t length = 0, n;

	for (const struct gt_path *p = path; p; p = p->parent) {
		n = step_text(p, number, &name);
		length += shown_length(name, n) + (p->parent != NULL);
	}
	key = gt_arena_alloc(&l->out->arena, length + 1, l->err);
	if (!key)
		return NULL;
	at = key + length;
	for (const struct gt_path *p = path; p; p = p->parent) {
		n = step_text(p, number, &name);
		at = put_before(at, name, n);
		if (p->parent)
			*--at = '.';
	}
	return key;
}

/* The last step that is not a string, and the bytes of text behind it. */
static const struct gt_path *typed_step(const struct gt_path *p, size_t *behind)
{
	char number[24];
	const char *name;

	for (; p && p->kind == GT_STEP_STRING; p = p->parent)
		*behind += step_text(p, number, &name) + 1;
	return p;
}

/*
 * Compare the steps of two paths, for sorting. The texts of both paths (gt_inventory_row.key) are
 * equal. Return 0 if integer keys, other keys, list indices and tuple indices are at the same
 * places of both texts. It does not matter how the text between these places is divided into names:
 * the one name "a.b" equals the two names "a" and "b". But a name with a zero byte does not equal a
 * name with the two characters \0, although their texts are equal.
 */
int gt_path_compare_types(const struct gt_path *a, const struct gt_path *b)
{
	size_t behind_a = 0, behind_b = 0;
	char number[24];
	const char *name;

	while ((a = typed_step(a, &behind_a)), (b = typed_step(b, &behind_b)), a && b) {
		if (behind_a != behind_b)
			return behind_a < behind_b ? -1 : 1;
		if (a->kind != b->kind)
			return a->kind < b->kind ? -1 : 1;
		behind_a += step_text(a, number, &name) + 1;
		behind_b += step_text(b, number, &name) + 1;
		a = a->parent;
		b = b->parent;
	}
	if (a || b)
		return a ? 1 : -1;
	/* a zero byte has the text of two characters */
	return (behind_a > behind_b) - (behind_a < behind_b);
}

/* ---- rows ---- */

static int add_inventory_row(
    struct lister *l, const struct gt_path *path, const struct gt_tree *node)
{
	struct gt_inventory *v = l->out;
	bool tensor = node->kind == GT_TREE_TENSOR;
	size_t *count = tensor ? &v->tensor_count : &v->value_count;
	struct gt_inventory_row **rows = tensor ? &v->tensors : &v->values, *row;

	if (!tensor && l->tensors_only)
		return 0;
	if (*count == MAX_ROWS) {
		gt_err_set(l->err, GT_EFORMAT, "more than %d %s in the tree", MAX_ROWS,
		    tensor ? "tensors" : "values");
		return gt_err_hint(l->err, "'gtrain ckpt select' takes parts of a checkpoint");
	}
	if (gt_grow(rows, *count, tensor ? &l->tensor_capacity : &l->value_capacity, sizeof(**rows),
	        l->err))
		return GT_ENOMEM;
	row = &(*rows)[*count];
	*row = (struct gt_inventory_row){ .path = path, .value = node };
	row->key = join_path(l, path);
	if (!row->key)
		return GT_ENOMEM;
	++*count;
	return 0;
}

bool gt_inventory_is_plain(const struct gt_tree *seq)
{
	if (seq->kind != GT_TREE_LIST && seq->kind != GT_TREE_TUPLE)
		return false;
	for (size_t i = 0; i < seq->seq.count; i++)
		if (seq->seq.items[i].value->kind > GT_TREE_STRING)
			return false;
	return true;
}

/* Which items of a module's dict are listed, and how. */
struct choice {
	bool no_parts;                 /* parts have been listed: parameters, buffers, modules */
	const struct gt_index *hidden; /* buffers that state_dict() leaves out; or NULL */
};

static bool is_part_name(const struct gt_tree *key)
{
	for (int k = 0; k < GT_MODULE_PART_COUNT; k++)
		if (gt_tree_is_string(key, gt_module_part_name(k)))
			return true;
	return false;
}

static int list_items(struct lister *l, const struct gt_path *path, const struct gt_tree *seq,
    const struct choice *choice)
{
	enum gt_step_kind kind =
	    gt_tree_is(seq, GT_TREE_TUPLE) ? GT_STEP_TUPLE_INDEX : GT_STEP_LIST_INDEX;
	int rc = 0;

	for (size_t i = 0; seq && i < seq->seq.count && !rc; i++) {
		const struct gt_tree_item *item = &seq->seq.items[i];
		size_t before = l->out->tensor_count;
		const struct gt_path *p;

		if (choice->no_parts && is_part_name(item->key))
			continue;
		p = seq->kind == GT_TREE_DICT
		        ? step_key(l, path, item->key)
		        : add_path_step(
		              l, path, (struct gt_path){ .kind = kind, .number = (int64_t)i });
		rc = p ? list(l, p, item->value) : GT_ENOMEM;
		for (; choice->hidden && before < l->out->tensor_count; before++)
			l->out->tensors[before].hidden = gt_module_hides(choice->hidden, item->key);
	}
	return rc;
}

static int list_seq(struct lister *l, const struct gt_path *path, const struct gt_tree *seq)
{
	return list_items(l, path, seq, &(struct choice){ 0 });
}

/* ---- objects ---- */

/*
 * List a module in the order of state_dict(): its parameters, buffers and children; then its other
 * attributes that are tensors.
 */
static int list_module(struct lister *l, const struct gt_path *path, const struct gt_tree *module)
{
	bool before = l->tensors_only;
	struct gt_index hidden;
	int rc = gt_module_hidden(&hidden, module, l->err);

	l->tensors_only = true;
	if (!rc)
		rc = list_seq(l, path, gt_module_part(module, GT_MODULE_PARAMETERS));
	if (!rc)
		rc = list_items(l, path, gt_module_part(module, GT_MODULE_BUFFERS),
		    &(struct choice){ .hidden = &hidden });
	l->tensors_only = before;
	if (!rc)
		rc = list_seq(l, path, gt_module_part(module, GT_MODULE_MODULES));
	l->tensors_only = true;
	for (size_t i = 0; i < GT_MODULE_MAX_ATTRIBUTES && !rc; i++)
		rc = list_items(
		    l, path, gt_module_attributes(module, i), &(struct choice){ .no_parts = true });
	l->tensors_only = before;
	gt_index_release(&hidden);
	return rc;
}

static int list_args(struct lister *l, const struct gt_path *path, const struct gt_tree *args)
{
	const struct gt_path *p;

	if (!args || !args->seq.count || gt_inventory_is_plain(args))
		return 0;
	p = step_name(l, path, "args");
	return p ? list(l, p, args) : GT_ENOMEM;
}

static int list_object(struct lister *l, const struct gt_path *path, const struct gt_tree *node)
{
	const struct gt_tree *state = node->opaque.state;
	bool module = gt_module_is(node);
	int rc = add_inventory_row(l, path, node);

	if (!rc && (!module || state)) /* else its attributes are an argument */
		rc = list_args(l, path, node->opaque.args);
	if (!rc && node->opaque.items)
		rc = list(l, path, node->opaque.items);
	if (!rc && module)
		return list_module(l, path, node);
	if (rc || !state)
		return rc;
	if (gt_tree_is_seq(state))
		return gt_inventory_is_plain(state) ? 0 : list_seq(l, path, state);
	return list(l, path, state);
}

static int list(struct lister *l, const struct gt_path *path, const struct gt_tree *node)
{
	if (node->kind == GT_TREE_OPAQUE)
		return list_object(l, path, node);
	if (gt_tree_is_seq(node) && !gt_inventory_is_plain(node))
		return list_seq(l, path, node);
	return add_inventory_row(l, path, node);
}

/* ---- storages ---- */

static int compare_storages(const void *a, const void *b)
{
	const struct gt_inventory_row *x = a, *y = b;
	uintptr_t p = (uintptr_t)x->value->tensor.storage, q = (uintptr_t)y->value->tensor.storage;

	return (p > q) - (p < q);
}

static int number_storages(struct gt_inventory *v, struct gt_err *err)
{
	struct gt_index storages = { .compare = compare_storages };
	int rc = 0;

	for (size_t i = 0; i < v->tensor_count && !rc; i++) {
		struct gt_inventory_row *row = &v->tensors[i];
		const struct gt_tree_tensor *t = &row->value->tensor;
		struct gt_inventory_row *first = gt_index_add(&storages, row, err);

		row->contiguous = gt_ckpt_tensor_is_contiguous(t);
		row->bytes = gt_ckpt_tensor_bytes(t);
		row->partial = row->bytes < t->storage->size_bytes;
		if (!first) {
			rc = GT_ENOMEM;
		} else if (first == row) {
			row->storage = v->storage_count++;
			v->storage_bytes += t->storage->size_bytes;
		} else {
			row->storage = first->storage;
			row->shared = first->shared = true;
		}
		row->first = first ? (size_t)(first - v->tensors) : 0;
		if (first == row || row->partial)
			v->elements += (uint64_t)gt_ckpt_tensor_count(t);
	}
	gt_index_release(&storages);
	return rc;
}

static int make_inventory(
    struct gt_inventory *out, const struct gt_tree *root, bool tensors_only, struct gt_err *err)
{
	struct lister l = { .out = out, .tensors_only = tensors_only, .err = err };
	int rc;

	*out = (struct gt_inventory){ .arena.limit = MAX_BYTES };
	rc = list(&l, NULL, root);
	if (!rc)
		rc = number_storages(out, err);
	if (rc)
		gt_inventory_release(out);
	return rc;
}

/*
 * List the tensors and the other values of a tree. The tensors of a pickled nn.Module get the names
 * that its state_dict() would have: the steps through `_modules`, `_parameters` and `_buffers` are
 * left out. For an object of another class, the step to its arguments has the name "args". The
 * other values are the leaves of the tree, with two exceptions. First, a list or tuple of scalars,
 * strings and None is one value. Second, an object is a value, and the values inside it are listed,
 * too.
 *
 * Errors: GT_EFORMAT for more than 262144 tensors or more than 262144 other values; GT_ENOMEM, also
 * if the names need more than 128 MiB.
 */
int gt_inventory_make(struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err)
{
	return make_inventory(out, root, false, err);
}

int gt_inventory_make_tensors(
    struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err)
{
	return make_inventory(out, root, true, err);
}

void gt_inventory_release(struct gt_inventory *v)
{
	free(v->tensors);
	free(v->values);
	gt_arena_release(&v->arena);
	*v = (struct gt_inventory){ 0 };
}

/* ---- how much there is ---- */

struct counter {
	struct gt_tally *out;
	struct gt_index storages; /* the storages that have been counted */
};

static int count_tensor(struct counter *c, const struct gt_storage *storage, struct gt_err *err)
{
	c->out->tensors++;
	if (gt_index_find(&c->storages, storage))
		return 0;
	c->out->storage_bytes += storage->size_bytes;
	return gt_index_add(&c->storages, storage, err) ? 0 : GT_ENOMEM;
}

static int count(struct counter *c, const struct gt_tree *node, struct gt_err *err)
{
	struct gt_walk w = { 0 };
	int rc = 0;

	if (node->kind == GT_TREE_TENSOR)
		return count_tensor(c, node->tensor.storage, err);
	while (!rc && gt_walk_next(node, &w))
		if (w.part != GT_PART_KEY && w.part != GT_PART_ATTRIBUTES)
			rc = count(c, w.node, err);
	return rc;
}

int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err)
{
	struct counter c = { .out = out };
	int rc;

	*out = (struct gt_tally){ 0 };
	rc = count(&c, root, err);
	gt_index_release(&c.storages);
	return rc;
}

/* ---- the file ---- */

/* Add the figures of one file to both sums. */
static int add_file(
    const struct gt_ckpt *file, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err)
{
	const struct gt_mapping *map = &file->map;
	struct gt_arena arena = { 0 };
	struct gt_zip zip;
	uint64_t dead = 0;
	int rc;

	*file_bytes += map->size;
	/* A file of several archives is never edited. */
	if (file->part_count || map->size < 4 || memcmp(map->data, "PK\3\4", 4))
		return 0;
	rc = gt_zip_read(&zip, map, &arena, err);
	if (!rc)
		rc = gt_zip_dead_bytes(&zip, &dead, err);
	*dead_bytes += dead;
	gt_arena_release(&arena);
	return rc;
}

int gt_ckpt_file_usage(
    const struct gt_ckpt *ckpt, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err)
{
	int rc;

	*file_bytes = *dead_bytes = 0;
	rc = add_file(ckpt, file_bytes, dead_bytes, err);
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++)
		rc = add_file(ckpt->shards[i].ckpt, file_bytes, dead_bytes, err);
	return rc;
}
