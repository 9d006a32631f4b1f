/* check.c - the check that lets every walker recurse: depth, size, cycles, double keys. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tree/tree.h"

enum { LONG_TEXT = 256 }; /* bytes that count as one more visit: long texts take walkers time too */

struct walk {
	struct gt_arena *arena; /* NULL: the tree may not be touched */
	const struct gt_tree *path[GT_TREE_MAX_DEPTH];
	size_t depth, deepest; /* containers around us; the most there were anywhere below */
	size_t visits, repeats;
};

static int compare_keys(const void *a, const void *b)
{
	const struct gt_tree *x = *(const struct gt_tree *const *)a;
	const struct gt_tree *y = *(const struct gt_tree *const *)b;
	int order;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->kind == GT_TREE_INT)
		return (x->integer > y->integer) - (x->integer < y->integer);
	order = memcmp(x->string.bytes, y->string.bytes,
	    x->string.length < y->string.length ? x->string.length : y->string.length);
	return order
	           ? order
	           : (x->string.length > y->string.length) - (x->string.length < y->string.length);
}

static int fail_double(const struct gt_tree *key, struct gt_err *err)
{
	if (key->kind == GT_TREE_INT)
		return gt_err_set(
		    err, GT_EFORMAT, "a dict has the key %lld twice", (long long)key->integer);
	return gt_err_set(err, GT_EFORMAT, "a dict has the key '%.200s' twice", key->string.bytes);
}

/* Python keeps the last of two equal keys, other readers the first: neither is meant. */
static int check_keys(const struct gt_tree *dict, struct gt_err *err)
{
	const struct gt_tree **keys;
	size_t n = 0;
	int rc = 0;

	if (dict->seq.count < 2)
		return 0;
	keys = gt_calloc(dict->seq.count, sizeof(*keys), err);
	if (!keys)
		return GT_ENOMEM;
	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree *key = dict->seq.items[i].key;

		if (key->kind == GT_TREE_STRING || key->kind == GT_TREE_INT)
			keys[n++] = key;
	}
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 1; i < n && !rc; i++)
		if (!compare_keys(&keys[i - 1], &keys[i]))
			rc = fail_double(keys[i], err);
	free(keys);
	return rc;
}

static bool is_leaf(const struct gt_tree *node)
{
	if (node->kind == GT_TREE_TENSOR)
		return !node->tensor.attributes;
	return !gt_tree_is_seq(node) && node->kind != GT_TREE_OPAQUE;
}

static int visit_checked_node(struct walk *w, struct gt_tree *node, struct gt_err *err);

static bool encloses(const struct walk *w, const struct gt_tree *node)
{
	for (size_t i = 0; !is_leaf(node) && i < w->depth; i++)
		if (w->path[i] == node)
			return true;
	return false;
}

/* Visit a child; one that encloses us is cut off there. */
static int visit_child(struct walk *w, struct gt_tree **child, struct gt_err *err)
{
	if (!encloses(w, *child))
		return visit_checked_node(w, *child, err);
	if (!w->arena)
		return gt_err_set(err, GT_EINVAL, "the tree contains itself");
	*child = gt_tree_opaque(w->arena, "(cycle)", err);
	return *child ? 0 : GT_ENOMEM;
}

/* Arguments stay a tuple, items a dict or list, also where they enclose us: others rely on it. */
static int cut_parts(struct walk *w, struct gt_tree *node, struct gt_err *err)
{
	if (node->opaque.args && encloses(w, node->opaque.args)) {
		struct gt_tree *cycle = gt_tree_opaque(w->arena, "(cycle)", err);

		node->opaque.args = cycle ? gt_tree_tuple(w->arena, err) : NULL;
		if (!node->opaque.args ||
		    gt_tree_push(node->opaque.args, NULL, cycle, w->arena, err))
			return GT_ENOMEM;
	}
	if (node->opaque.items && encloses(w, node->opaque.items))
		node->opaque.items = NULL;
	return 0;
}

static int count(struct walk *w, size_t visits, size_t depth, struct gt_err *err)
{
	w->visits += visits;
	if (w->visits > GT_TREE_MAX_VISITS)
		return gt_err_set(
		    err, GT_EFORMAT, "more than %d objects in the tree", GT_TREE_MAX_VISITS);
	if (depth > GT_TREE_MAX_DEPTH)
		return gt_err_set(
		    err, GT_EFORMAT, "objects nested deeper than %d", GT_TREE_MAX_DEPTH);
	w->deepest = depth > w->deepest ? depth : w->deepest;
	return 0;
}

/* A container that has been walked, in another place. */
static int count_again(struct walk *w, const struct gt_tree *node, struct gt_err *err)
{
	w->repeats += node->visits;
	if (w->repeats > GT_TREE_MAX_REPEATS)
		return gt_err_set(err, GT_EFORMAT,
		    "its shared lists and dicts stand for more than %d objects more than it has",
		    GT_TREE_MAX_REPEATS);
	return count(w, node->visits, w->depth + node->height, err);
}

static int visit_parts(struct walk *w, struct gt_tree *node, struct gt_err *err)
{
	struct gt_walk part = { 0 };
	int rc = 0;

	if (node->kind == GT_TREE_DICT)
		rc = check_keys(node, err);
	else if (node->kind == GT_TREE_OPAQUE && w->arena)
		rc = cut_parts(w, node, err);
	while (!rc && gt_walk_next(node, &part))
		rc = visit_child(w, part.slot, err);
	return rc;
}

/*
 * A shared node counts for each of its places, and is walked once: a few hundred bytes can be
 * lists in lists, twice each, that are 2^24 nodes. One that is done holds nothing that encloses it,
 * so another place finds no cycle in it either.
 */
static int visit_checked_node(struct walk *w, struct gt_tree *node, struct gt_err *err)
{
	size_t before = w->visits, around = w->deepest;
	int rc;

	if (node->visits)
		return count_again(w, node, err);
	if (is_leaf(node))
		return count(w,
		    1 + (node->kind == GT_TREE_STRING ? node->string.length / LONG_TEXT : 0),
		    w->depth, err);
	rc = count(w, 1, w->depth + 1, err);
	if (rc)
		return rc;
	node->visits = 1;
	w->path[w->depth++] = node;
	w->deepest = w->depth;
	rc = visit_parts(w, node, err);
	w->depth--;
	if (!rc) {
		node->visits = (unsigned)(w->visits - before) & GT_TREE_MAX_VISITS;
		node->height = (unsigned)(w->deepest - w->depth) & 0xff;
	}
	w->deepest = around > w->deepest ? around : w->deepest;
	return rc;
}

/* Take the marks off again; only marked nodes are entered. */
static void forget(struct gt_tree *node)
{
	struct gt_walk part = { 0 };

	if (!node->visits)
		return;
	node->visits = node->height = 0;
	while (gt_walk_next(node, &part))
		forget(part.node);
}

/*
 * Check that a walk of the tree ends: it is at most GT_TREE_MAX_DEPTH levels deep, it visits at
 * most GT_TREE_MAX_VISITS nodes, and at most GT_TREE_MAX_REPEATS of the visits are repeated visits.
 * Also check that no dict has the same string or the same integer as a key twice. If `a` is not
 * NULL, replace each reference to an enclosing object by an opaque node of class "(cycle)". If `a`
 * is NULL, the tree is not changed, and a reference to an enclosing object is an error. Errors:
 * GT_EFORMAT; GT_EINVAL for a reference to an enclosing object; GT_ENOMEM.
 */
int gt_tree_check(struct gt_tree *root, struct gt_arena *a, struct gt_err *err)
{
	struct walk w = { .arena = a };
	int rc = visit_checked_node(&w, root, err);

	forget(root);
	return rc;
}
