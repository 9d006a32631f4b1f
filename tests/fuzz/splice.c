/* splice.c - an edited pickle, read again, is the tree with those keys changed and no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/tree.h"
#include "tests/fuzz/fuzz.h"

enum {
	CHANGES = 64,
	VISITS = 1 << 16 /* of a walk: then it has seen enough */
};

struct splice {
	const struct gt_pickle_layout *layout;
	struct gt_pickle_change changes[CHANGES];
	char texts[CHANGES][32];
	size_t count, visits;
};

/* ---- choosing the changes ---- */

static int compare_uses(const void *key, const void *use)
{
	size_t at = *(const size_t *)key, other = ((const struct gt_pickle_use *)use)->at;

	return (at > other) - (at < other);
}

/* Every third key that an opcode of its own puts there; `at` decides, so that a file is always
 * edited alike. */
static void choose(struct splice *s, const struct gt_tree_item *item)
{
	const struct gt_pickle_use *use;

	if (!item->key || item->key->kind != GT_TREE_STRING || item->key_at % 3 == 0 ||
	    s->count == CHANGES)
		return;
	use = bsearch(&item->key_at, s->layout->uses, s->layout->use_count,
	    sizeof(*s->layout->uses), compare_uses);
	if (!use || use->string != item->key)
		return;
	for (size_t i = 0; i < s->count; i++)
		if (s->changes[i].at == item->key_at)
			return;
	/* as long as no other; the text of a change tells where it was made */
	snprintf(s->texts[s->count], sizeof(s->texts[0]), "<%zu>", item->key_at);
	s->changes[s->count] = (struct gt_pickle_change){ item->key_at, s->texts[s->count] };
	s->count++;
}

static void collect(struct splice *s, const struct gt_tree *t)
{
	if (!t || ++s->visits > VISITS)
		return;
	if (t->kind == GT_TREE_OPAQUE) {
		collect(s, t->opaque.args);
		collect(s, t->opaque.items);
		collect(s, t->opaque.state);
	}
	if (!gt_tree_is_seq(t))
		return;
	for (size_t i = 0; i < t->seq.count; i++) {
		if (t->kind == GT_TREE_DICT)
			choose(s, &t->seq.items[i]);
		collect(s, t->seq.items[i].value);
	}
	collect(s, t->seq.attributes);
}

static int compare_changes(const void *a, const void *b)
{
	const struct gt_pickle_change *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* ---- comparing ---- */

static bool same(struct splice *s, const struct gt_tree *a, size_t at, const struct gt_tree *b);

/* A string with the change that was made where it was put; its opcode keeps its place in order, not
 * its offset. */
static bool same_string(
    const struct splice *s, const struct gt_tree *a, size_t at, const struct gt_tree *b)
{
	for (size_t i = 0; at && i < s->count; i++)
		if (s->changes[i].at == at)
			return gt_tree_is_string(b, s->changes[i].to);
	return a->string.length == b->string.length &&
	       !memcmp(a->string.bytes, b->string.bytes, a->string.length);
}

static bool same_tensor(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim && a->offset == b->offset &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)) &&
	       !strcmp(a->storage->key, b->storage->key) &&
	       !strcmp(a->storage->location, b->storage->location);
}

static bool same_items(struct splice *s, const struct gt_tree *a, const struct gt_tree *b)
{
	if (a->seq.count != b->seq.count)
		return false;
	for (size_t i = 0; i < a->seq.count; i++) {
		const struct gt_tree_item *x = &a->seq.items[i], *y = &b->seq.items[i];

		if ((a->kind == GT_TREE_DICT && !same(s, x->key, x->key_at, y->key)) ||
		    !same(s, x->value, x->value_at, y->value))
			return false;
	}
	return same(s, a->seq.attributes, 0, b->seq.attributes);
}

static bool same(struct splice *s, const struct gt_tree *a, size_t at, const struct gt_tree *b)
{
	if (!a || !b || ++s->visits > VISITS)
		return (!a && !b) || s->visits > VISITS;
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case GT_TREE_STRING:
		return same_string(s, a, at, b);
	case GT_TREE_INT:
		return a->integer == b->integer;
	case GT_TREE_TENSOR:
		return same_tensor(&a->tensor, &b->tensor);
	case GT_TREE_OPAQUE:
		return !strcmp(a->opaque.class_name, b->opaque.class_name) &&
		       same(s, a->opaque.args, 0, b->opaque.args) &&
		       same(s, a->opaque.items, 0, b->opaque.items) &&
		       same(s, a->opaque.state, 0, b->opaque.state);
	case GT_TREE_DICT:
	case GT_TREE_LIST:
	case GT_TREE_TUPLE:
		return same_items(s, a, b);
	default:
		return true;
	}
}

/* ---- the whole ---- */

static void read_again(
    struct splice *s, const struct gt_tree *root, const unsigned char *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_torch_objects objects;
	struct gt_tree *again;
	size_t used = 0;
	int rc;

	gt_torch_objects_init(&objects, &arena);
	rc = gt_pickle_read(&again, &arena, bytes, size, &used, &objects.hooks, &err);
	if (rc)
		fprintf(stderr, "the edited pickle: %s\n", err.text);
	fuzz_require(!rc && used == size);
	s->visits = 0;
	fuzz_require(same(s, root, 0, again));
	gt_torch_objects_release(&objects);
	gt_arena_release(&arena);
}

void fuzz_splice(const struct gt_tree *root, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout)
{
	struct splice s = { .layout = layout };
	struct gt_err err = GT_ERR_INIT;
	unsigned char *out = NULL;
	size_t out_size = 0;
	int rc;

	collect(&s, root);
	qsort(s.changes, s.count, sizeof(*s.changes), compare_changes);
	rc = gt_pickle_edit(&out, &out_size, bytes, size, layout, s.changes, s.count, &err);
	if (rc)
		fprintf(stderr, "the edit: %s\n", err.text);
	fuzz_require(!rc);
	if (!s.count)
		fuzz_require(out_size == size && !memcmp(out, bytes, size));
	read_again(&s, root, out, out_size);
	free(out);
}
