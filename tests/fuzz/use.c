/* use.c - users' operations on an open checkpoint, for fuzz targets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/tree/tree.h"
#include "tests/fuzz/fuzz.h"

enum {
	SMALL = 4096,      /* elements of a tensor that is read */
	VISITS = 1 << 18,  /* of nodes: then the walk has seen enough */
	READS = 256,       /* of tensors */
	STORAGES = 1 << 20 /* bytes whose checksum is computed */
};

struct walk {
	size_t visits, reads;
	int depth;
};

_Noreturn void fuzz_abort(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
	abort();
}

void fuzz_check_error(int rc, const struct gt_err *err)
{
	fuzz_require(rc < 0 && rc == err->code);
	fuzz_require(err->text[0]);
}

/* Both the type it has and one that every element is converted to. */
static void read_tensor(struct walk *w, const struct gt_tree_tensor *t)
{
	struct gt_err err = GT_ERR_INIT;
	int64_t count = gt_ckpt_tensor_count(t);
	void *data;
	int rc;

	fuzz_require(t->ndim >= 0 && t->ndim <= GT_TREE_MAX_DIMS && count >= 0);
	fuzz_require(t->storage && t->storage->key && t->storage->location && t->storage->name);
	if (count > SMALL || t->storage->size_bytes > STORAGES || w->reads++ > READS)
		return;
	data = malloc((size_t)count * 16 + 1);
	fuzz_require(data);
	rc = gt_ckpt_tensor_read(t, t->dtype, data, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	if (!rc && gt_ckpt_tensor_read(t, GT_BF16, data, &err))
		gt_ckpt_tensor_read(t, GT_I8, data, &err);
	free(data);
}

static void visit(struct walk *w, const struct gt_tree *t);

static void visit_items(struct walk *w, const struct gt_tree *t)
{
	fuzz_require(t->seq.count <= t->seq.capacity);
	for (size_t i = 0; i < t->seq.count; i++) {
		fuzz_require(t->kind != GT_TREE_DICT || t->seq.items[i].key);
		fuzz_require(t->seq.items[i].value);
		if (t->kind == GT_TREE_DICT)
			visit(w, t->seq.items[i].key);
		visit(w, t->seq.items[i].value);
	}
	visit(w, t->seq.attributes);
}

static void visit_opaque(struct walk *w, const struct gt_tree *t)
{
	fuzz_require(t->opaque.class_name);
	fuzz_require(!t->opaque.args || t->opaque.args->kind == GT_TREE_TUPLE);
	visit(w, t->opaque.args);
	visit(w, t->opaque.items);
	visit(w, t->opaque.state);
}

static void visit_scalar(const struct gt_tree *t)
{
	double real;
	int64_t integer;

	if (t->kind == GT_TREE_STRING)
		fuzz_require(t->string.bytes[t->string.length] == 0);
	if (t->kind == GT_TREE_BOOL)
		fuzz_require(t->boolean || !t->boolean); /* the sanitizer sees other values */
	gt_tree_as_int(t, &integer);
	gt_tree_as_float(t, &real);
}

static void visit(struct walk *w, const struct gt_tree *t)
{
	if (!t || ++w->visits > VISITS)
		return;
	fuzz_require(++w->depth <= GT_TREE_MAX_DEPTH + 1);
	if (gt_tree_is_seq(t))
		visit_items(w, t);
	else if (t->kind == GT_TREE_OPAQUE)
		visit_opaque(w, t);
	else if (t->kind == GT_TREE_TENSOR)
		read_tensor(w, &t->tensor);
	else
		visit_scalar(t);
	w->depth--;
}

void fuzz_walk(const struct gt_tree *root)
{
	struct walk w = { 0 };

	fuzz_require(root);
	visit(&w, root);
}

void fuzz_use(const struct gt_tree *root)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_state_dict sd;
	int rc;

	fuzz_walk(root);
	rc = gt_state_dict_find(&sd, root, &err);
	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	fuzz_require(sd.note != NULL);
	for (size_t i = 0; i < sd.count && i < READS; i++)
		fuzz_require(gt_state_dict_get(&sd, sd.entries[i].name) == sd.entries[i].tensor);
	gt_state_dict_release(&sd);
}

void fuzz_open(const unsigned char *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open_memory(&ckpt, bytes, size, &err);

	if (size % 4 == 0)
		fuzz_verify(bytes, size);
	if (rc) {
		fuzz_require(!ckpt);
		fuzz_check_error(rc, &err);
		return;
	}
	fuzz_use(gt_ckpt_root(ckpt));
	fuzz_commands(ckpt);
	gt_ckpt_close(ckpt);
}
