/* nest.c - the flat names of a distributed checkpoint, back in the containers they came from. */
#include <string.h>

#include "lib/base/index.h"
#include "lib/ckpt/dcp/dcp.h"
#include "lib/ckpt/tree/tree.h"

/*
 * PyTorch saves {"model": {"a": x}, "steps": [y, z]} as model.a, steps.0 and steps.1, and keeps the
 * paths ("model", "a"), ("steps", 0) and ("steps", 1). A string is a key of a dict, a count an
 * index of a list. The first path through a container creates it; items of a list that no path has
 * are None. Source: torch/distributed/checkpoint/_nested_dict.py, set_element().
 */

enum { GAPS = 1 << 16 }; /* items of lists that no path needs to have */

/* A value of a container, found by its key. */
struct slot {
	const struct gt_tree *container, *key;
	struct gt_tree *value; /* NULL: nothing is there yet */
	bool is_container;     /* `value` was created for the paths through it */
};

struct nest {
	struct gt_arena *arena;
	struct gt_index slots;
	size_t gaps; /* items that may still be added to lists */
};

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	int order;

	if (x->container != y->container)
		return x->container < y->container ? -1 : 1;
	if (x->key->kind != y->key->kind)
		return x->key->kind < y->key->kind ? -1 : 1;
	if (x->key->kind == GT_TREE_INT)
		return (x->key->integer > y->key->integer) - (x->key->integer < y->key->integer);
	if (x->key->string.length != y->key->string.length)
		return x->key->string.length < y->key->string.length ? -1 : 1;
	order = memcmp(x->key->string.bytes, y->key->string.bytes, x->key->string.length);
	return order;
}

static struct slot *get_slot(
    struct nest *n, const struct gt_tree *container, const struct gt_tree *key, struct gt_err *err)
{
	struct slot like = { .container = container, .key = key };
	struct slot *slot = gt_index_find(&n->slots, &like);

	if (slot)
		return slot;
	slot = gt_arena_alloc(n->arena, sizeof(*slot), err);
	if (!slot)
		return NULL;
	*slot = like;
	return gt_index_add(&n->slots, slot, err);
}

/* Put a value at an index of a list, which is made long enough. */
static int set_index(
    struct nest *n, struct gt_tree *list, int64_t index, struct gt_tree *value, struct gt_err *err)
{
	uint64_t i = (uint64_t)index, count = list->seq.count,
	         added = i < count ? 0 : i + 1 - count;
	int rc = 0;

	if (added > n->gaps)
		return gt_err_set(
		    err, GT_EFORMAT, "its path has an index beyond those of the list");
	n->gaps -= (size_t)added;
	while (!rc && list->seq.count <= i)
		rc = gt_tree_append(list, gt_tree_none(n->arena, err), n->arena, err);
	if (!rc)
		list->seq.items[i].value = value;
	return rc;
}

/* Go to the value under a key of `*at`. It is `value`, or a container if `value` is NULL. */
static int enter(struct nest *n, struct gt_tree **at, const struct gt_tree *key,
    struct gt_tree *value, enum gt_tree_kind kind, struct gt_err *err)
{
	struct gt_tree *in = *at;
	struct slot *slot;
	int rc;

	if (in->kind == GT_TREE_LIST && key->kind != GT_TREE_INT)
		return gt_err_set(err, GT_EFORMAT, "its path has a key where others have an index");
	slot = get_slot(n, in, key, err);
	if (!slot)
		return GT_ENOMEM;
	if (slot->value && (value || !slot->is_container))
		return gt_err_set(err, GT_EFORMAT, "its path is also that of another value");
	*at = slot->value;
	if (slot->value)
		return 0;
	slot->is_container = !value;
	*at = slot->value = value ? value : gt_tree_new(n->arena, kind, err);
	if (!slot->value)
		return GT_ENOMEM;
	if (in->kind == GT_TREE_LIST)
		rc = set_index(n, in, key->integer, slot->value, err);
	else
		rc = gt_tree_push(in, key, slot->value, n->arena, err);
	return rc;
}

static int put_value(struct nest *n, struct gt_tree *root, const struct gt_dcp_entry *e,
    struct gt_tree *value, struct gt_err *err)
{
	struct gt_tree *at = root;
	int rc = 0;

	if (!e->path) {
		const struct gt_tree *key = gt_tree_string(n->arena, e->name, err);

		return key ? enter(n, &at, key, value, GT_TREE_NONE, err) : GT_ENOMEM;
	}
	for (size_t i = 0; i < e->path->seq.count && !rc; i++) {
		const struct gt_tree *next = gt_tree_value(e->path, i + 1);

		rc = enter(n, &at, gt_tree_value(e->path, i), next ? NULL : value,
		    gt_tree_is(next, GT_TREE_INT) ? GT_TREE_LIST : GT_TREE_DICT, err);
	}
	return rc;
}

int gt_dcp_nest(struct gt_tree **out, const struct gt_dcp_metadata *m,
    struct gt_tree *const *values, struct gt_arena *arena, struct gt_err *err)
{
	struct nest n = { .arena = arena, .slots.compare = compare_slots, .gaps = GAPS + m->count };
	int rc;

	*out = gt_tree_dict(arena, err);
	rc = *out ? 0 : GT_ENOMEM;
	for (size_t i = 0; i < m->count && !rc; i++) {
		rc = put_value(&n, *out, &m->entries[i], values[i], err);
		if (rc)
			gt_err_prefix(err, "'%.200s'", m->entries[i].name);
	}
	gt_index_release(&n.slots);
	return rc ? rc : gt_tree_check(*out, NULL, err);
}
