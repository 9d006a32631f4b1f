/* fuzz_pickle.c - fuzz target: a pickle alone, with torch's classes and without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/pickle/scan.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/tree.h"
#include "tests/fuzz/fuzz.h"

enum { STORAGE_MAX = 4096 };

/* Every storage that asks for little gets zeros, so that its tensors can be read. */
static void give_storages(struct gt_torch_objects *o)
{
	static const unsigned char zeros[STORAGE_MAX];

	for (struct gt_torch_storage *s = o->storages; s; s = s->next) {
		if (s->bytes > sizeof(zeros))
			continue;
		s->base.bytes = zeros;
		s->base.size_bytes = s->bytes;
	}
}

/* Uses come in order, lie in the pickle, and are of strings. */
static void check_layout(const struct gt_pickle_layout *l, size_t used)
{
	size_t end = 0;

	for (size_t i = 0; i < l->use_count; i++) {
		const struct gt_pickle_use *u = &l->uses[i];

		fuzz_require(u->at >= end && u->length && u->length <= used - u->at);
		fuzz_require(u->string->kind == GT_TREE_STRING);
		end = u->at + u->length;
	}
	for (size_t i = 0; i < l->frame_count; i++)
		fuzz_require(l->frames[i] + 9 <= used);
}

/* ---- a written tree is read again, the same ---- */

static bool same(const struct gt_tree *a, const struct gt_tree *b, size_t *visits);

static bool same_items(const struct gt_tree *a, const struct gt_tree *b, size_t *visits)
{
	if (a->seq.count != b->seq.count)
		return false;
	for (size_t i = 0; i < a->seq.count; i++)
		if ((a->kind == GT_TREE_DICT &&
		        !same(a->seq.items[i].key, b->seq.items[i].key, visits)) ||
		    !same(a->seq.items[i].value, b->seq.items[i].value, visits))
			return false;
	return true;
}

static bool same(const struct gt_tree *a, const struct gt_tree *b, size_t *visits)
{
	if (++*visits > 1 << 16)
		return true;
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case GT_TREE_BOOL:
		return a->boolean == b->boolean;
	case GT_TREE_INT:
		return a->integer == b->integer;
	case GT_TREE_FLOAT:
		return !memcmp(&a->real, &b->real, sizeof(a->real));
	case GT_TREE_STRING:
		return a->string.length == b->string.length &&
		       !memcmp(a->string.bytes, b->string.bytes, a->string.length);
	default:
		return a->kind == GT_TREE_NONE || same_items(a, b, visits);
	}
}

static int write_none(
    struct gt_pickle_writer *w, const struct gt_tree_tensor *t, struct gt_err *err)
{
	(void)t;
	(void)err;
	gt_pickle_put_op(w, GT_PICKLE_NONE);
	return 0;
}

/* Only values that Python has literals for: a call may be written as another call. */
static bool is_plain(const struct gt_tree *t)
{
	if (t->kind == GT_TREE_OPAQUE || t->kind == GT_TREE_TENSOR)
		return false;
	if (!gt_tree_is_seq(t))
		return true;
	if (t->seq.attributes)
		return false;
	for (size_t i = 0; i < t->seq.count; i++)
		if (!is_plain(t->seq.items[i].value) ||
		    (t->kind == GT_TREE_DICT && !is_plain(t->seq.items[i].key)))
			return false;
	return true;
}

static void read_back(const struct gt_tree *root, const char *text, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_torch_objects objects;
	struct gt_tree *again;
	size_t used = 0, visits = 0;
	int rc;

	gt_torch_objects_init(&objects, &arena);
	rc = gt_pickle_read(
	    &again, &arena, (const unsigned char *)text, size, &used, &objects.hooks, &err);
	if (is_plain(root)) {
		fuzz_require(!rc && used == size);
		fuzz_require(same(root, again, &visits));
	}
	gt_torch_objects_release(&objects);
	gt_arena_release(&arena);
}

static size_t count_nodes(const struct gt_tree *t, size_t max)
{
	size_t n = 1;

	if (!gt_tree_is_seq(t))
		return 1;
	for (size_t i = 0; i < t->seq.count && n < max; i++)
		n += 1 + count_nodes(t->seq.items[i].value, max - n);
	return n;
}

/* Shared parts are written each time they are met, so only trees that stay small are written. */
static void write_and_read(const struct gt_tree *root)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_pickle_writer w = { .tensor = write_none };
	char *text = NULL;
	size_t size = 0;
	int rc;

	if (count_nodes(root, 10000) >= 10000)
		return;
	rc = gt_pickle_write(&w, root, &text, &size, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	else
		read_back(root, text, size);
	free(text);
}

/* ---- the machine that keeps names alone ---- */

static int check_text(void *self, const unsigned char *bytes, size_t size, struct gt_err *err)
{
	size_t *sum = self;

	(void)err;
	fuzz_require(size <= GT_PICKLE_TEXT_MAX);
	for (size_t i = 0; i < size; i++)
		*sum += bytes[i];
	return 0;
}

/* It comes as far as the reader does, which took `used` bytes; 0: it failed. */
static void scan(const unsigned char *bytes, size_t size, size_t used)
{
	const struct gt_mapping map = { bytes, size, -1, 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_pickle_scan found;
	size_t sum = 0;

	fuzz_require(!gt_pickle_scan(&found, &arena, &map, 0, check_text, &sum, &err));
	fuzz_require(found.used <= size && found.at <= size);
	fuzz_require(!used || found.used == used);
	for (size_t i = 0; i < found.count; i++)
		fuzz_require(found.items[i]->count && strlen(found.items[i]->name) >= 3);
	gt_pickle_scan_release(&found);
	gt_arena_release(&arena);
}

/* ---- the target ---- */

static void read_as_torch(const unsigned char *bytes, size_t size)
{
	struct gt_pickle_layout layout = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_torch_objects objects;
	struct gt_tree *root;
	size_t used = 0;
	int rc;

	gt_torch_objects_init(&objects, &arena);
	objects.hooks.layout = &layout;
	rc = gt_pickle_read(&root, &arena, bytes, size, &used, &objects.hooks, &err);
	if (!rc) {
		fuzz_require(used <= size);
		check_layout(&layout, used);
		give_storages(&objects);
		rc = gt_torch_objects_finish(&objects, size & 1, &err);
	} else {
		fuzz_require(!root);
	}
	if (rc) {
		fuzz_check_error(rc, &err);
	} else {
		fuzz_use(root);
		fuzz_splice(root, bytes, used, &layout);
		write_and_read(root);
	}
	gt_torch_objects_release(&objects);
	gt_pickle_layout_release(&layout);
	gt_arena_release(&arena);
}

void fuzz_pickle(const unsigned char *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_tree *root;
	size_t used = 0;
	int rc;

	read_as_torch(bytes, size);
	rc = gt_pickle_read(&root, &arena, bytes, size, &used, NULL, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	else
		fuzz_walk(root);
	scan(bytes, size, rc ? 0 : used);
	gt_arena_release(&arena);
}
