/* torch_save.c - writing the zip archives that torch.load reads. */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/torch.h"
#include "lib/ckpt/tree.h"
#include "lib/ckpt/zip.h"

/* What data/KEY will hold: memory that one or more tensors of one dtype look at. */
struct source {
	struct gt_storage *storage; /* the first that was met with these bytes */
	size_t bytes;
	enum gt_dtype dtype;
	size_t key;
};

struct writer {
	struct gt_arena arena;
	struct source **sources; /* by key */
	size_t count, capacity;
	void *by_data; /* the same, for tsearch() */
	struct gt_zip_writer zip;
};

/* ---- storages ---- */

/* Torch allows a storage one dtype: the same memory seen as two is written twice. */
static int compare_sources(const void *a, const void *b)
{
	const struct source *x = a, *y = b;

	if (x->storage->bytes != y->storage->bytes)
		return (uintptr_t)x->storage->bytes < (uintptr_t)y->storage->bytes ? -1 : 1;
	if (x->dtype != y->dtype)
		return x->dtype < y->dtype ? -1 : 1;
	return (int)x->storage->swapped - (int)y->storage->swapped;
}

static int add_source(
    struct writer *w, const struct source *like, struct source **out, struct gt_err *err)
{
	struct source *s = gt_arena_alloc(&w->arena, sizeof(*s), err);
	int rc =
	    s ? gt_grow(&w->sources, w->count, &w->capacity, sizeof(*w->sources), err) : GT_ENOMEM;

	if (rc)
		return rc;
	*s = *like;
	s->key = w->count;
	w->sources[w->count++] = s;
	/* Empty tensors share nothing, whatever their pointers say. */
	if (s->bytes && !tsearch(s, &w->by_data, compare_sources))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the index of storages");
	*out = s;
	return 0;
}

static int find_source(
    struct writer *w, const struct gt_tree_tensor *t, struct source **out, struct gt_err *err)
{
	struct source like = { t->storage, t->storage->size_bytes, t->dtype, 0 };
	struct source **found;

	like.bytes -= like.bytes % gt_dtype_size(t->dtype);
	found = like.bytes ? tfind(&like, &w->by_data, compare_sources) : NULL;

	if (!found)
		return add_source(w, &like, out, err);
	*out = *found;
	if ((*out)->bytes < like.bytes)
		(*out)->bytes = like.bytes;
	return 0;
}

/* All storages must be known before the first tensor is written: a later one may widen an
 * earlier. */
static int collect(struct writer *w, const struct gt_tree *node, struct gt_err *err)
{
	struct source *unused;
	int rc = 0;

	if (node->kind == GT_TREE_TENSOR) {
		rc = gt_tensor_check(&node->tensor, err);
		if (rc || !node->tensor.storage->size_bytes)
			return rc;
		return find_source(w, &node->tensor, &unused, err);
	}
	for (size_t i = 0; gt_tree_is_seq(node) && !rc && i < node->seq.count; i++)
		rc = collect(w, node->seq.items[i].value, err);
	return rc;
}

/* ---- the pickle ---- */

static void put_dims(struct gt_pickle_writer *p, const int64_t *dims, int n)
{
	gt_pickle_put_op(p, OP_MARK);
	for (int i = 0; i < n; i++)
		gt_pickle_put_int(p, dims[i]);
	gt_pickle_put_op(p, OP_TUPLE);
}

/* ('storage', class, key, location, count) as a persistent id. */
static void put_storage(struct gt_pickle_writer *p, const struct source *s)
{
	const char *class = gt_torch_storage_global(s->dtype);
	char key[24];

	snprintf(key, sizeof(key), "%zu", s->key);
	gt_pickle_put_op(p, OP_MARK);
	gt_pickle_put_word(p, "storage");
	gt_pickle_put_global(p, class ? class : "torch.storage\nUntypedStorage\n");
	gt_pickle_put_text(p, key, strlen(key));
	gt_pickle_put_word(p, "cpu");
	gt_pickle_put_int(p, (int64_t)(s->bytes / (class ? gt_dtype_size(s->dtype) : 1)));
	gt_pickle_put_op(p, OP_TUPLE);
	gt_pickle_put_op(p, OP_BINPERSID);
}

/* "torch\nfloat8_e4m3fn\n": the object that a dtype is. */
static void put_dtype(struct gt_pickle_writer *p, enum gt_dtype dtype)
{
	gt_pickle_put_op(p, OP_GLOBAL);
	fprintf(p->stream, "torch\n%s\n", gt_dtype_name(dtype));
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, OrderedDict()), or v3 with the
 * dtype at the end where the storage's class does not tell it. */
static int put_tensor(
    struct gt_pickle_writer *p, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct source *s;
	int rc = find_source(p->self, t, &s, err);
	bool v3;

	if (rc)
		return rc;
	v3 = !gt_torch_storage_global(t->dtype);
	gt_pickle_put_global(
	    p, v3 ? "torch._utils\n_rebuild_tensor_v3\n" : "torch._utils\n_rebuild_tensor_v2\n");
	gt_pickle_put_op(p, OP_MARK);
	put_storage(p, s);
	gt_pickle_put_int(p, t->offset);
	put_dims(p, t->shape, t->ndim);
	put_dims(p, t->stride, t->ndim);
	gt_pickle_put_op(p, OP_NEWFALSE);
	gt_pickle_put_global(p, "collections\nOrderedDict\n");
	gt_pickle_put_op(p, OP_EMPTY_TUPLE);
	gt_pickle_put_op(p, OP_REDUCE);
	if (v3)
		put_dtype(p, t->dtype);
	gt_pickle_put_op(p, OP_TUPLE);
	gt_pickle_put_op(p, OP_REDUCE);
	return 0;
}

/* ---- the records ---- */

static int write_record(
    struct writer *w, const char *name, const void *bytes, size_t size, struct gt_err *err)
{
	int rc = gt_zip_begin(&w->zip, name, size, err);

	if (!rc)
		rc = gt_zip_write(&w->zip, bytes, size, err);
	return rc ? rc : gt_zip_end(&w->zip, err);
}

/* The pickle is small beside the tensors, and its length comes first: it goes through memory. */
static int write_pickle(struct writer *w, const struct gt_tree *root, struct gt_err *err)
{
	struct gt_pickle_writer pickle = { .self = w, .tensor = put_tensor };
	char *bytes = NULL;
	size_t size = 0;
	int rc;

	pickle.stream = open_memstream(&bytes, &size);
	if (!pickle.stream)
		return gt_err_sys(err, "cannot build the pickle");
	rc = gt_pickle_write(&pickle, root, err);
	if (ferror(pickle.stream) && !rc)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the pickle");
	if (fclose(pickle.stream) && !rc)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the pickle");
	if (!rc)
		rc = write_record(w, "archive/data.pkl", bytes, size, err);
	free(bytes);
	return rc;
}

static int write_swapped(struct writer *w, const struct source *s, struct gt_err *err)
{
	unsigned char part[4096]; /* whole elements of every dtype */
	int rc = 0;

	for (size_t done = 0; !rc && done < s->bytes;) {
		size_t n = s->bytes - done < sizeof(part) ? s->bytes - done : sizeof(part);

		memcpy(part, (const unsigned char *)s->storage->bytes + done, n);
		gt_tensor_swap(s->dtype, part, n / gt_dtype_size(s->dtype));
		rc = gt_zip_write(&w->zip, part, n, err);
		done += n;
	}
	return rc;
}

static int write_source(struct writer *w, const struct source *s, struct gt_err *err)
{
	char name[48];
	int rc;

	snprintf(name, sizeof(name), "archive/data/%zu", s->key);
	rc = gt_storage_check(s->storage, err);
	if (!rc)
		rc = gt_zip_begin(&w->zip, name, s->bytes, err);
	if (!rc)
		rc = s->storage->swapped ? write_swapped(w, s, err)
		                         : gt_zip_write(&w->zip, s->storage->bytes, s->bytes, err);
	return rc ? rc : gt_zip_end(&w->zip, err);
}

static int write_archive(struct writer *w, const struct gt_tree *root, struct gt_err *err)
{
	const char *order = gt_host_is_big() ? "big" : "little";
	int rc = collect(w, root, err);

	if (!rc)
		rc = write_pickle(w, root, err);
	if (!rc)
		rc = write_record(w, "archive/byteorder", order, strlen(order), err);
	for (size_t i = 0; !rc && i < w->count; i++)
		rc = write_source(w, w->sources[i], err);
	if (!rc)
		rc = write_record(w, "archive/version", "3\n", 2, err);
	return rc ? rc : gt_zip_finish(&w->zip, err);
}

static void keep(void *node)
{
	(void)node; /* sources are the arena's */
}

int gt_torch_save(const char *path, const struct gt_tree *root, struct gt_err *err)
{
	struct writer w = { 0 };
	struct gt_atomic_file file;
	int rc = root ? gt_tree_check((struct gt_tree *)root, NULL, err)
	              : (err && err->code ? err->code : GT_ENOMEM);

	if (!rc)
		rc = gt_atomic_open(&file, path, err);
	if (rc)
		return rc;
	w.zip.stream = file.stream;
	rc = write_archive(&w, root, err);
	if (rc) {
		gt_atomic_abandon(&file);
		gt_err_prefix(err, "'%s'", path);
	} else {
		rc = gt_atomic_commit(&file, err);
	}
	gt_zip_release(&w.zip);
	tdestroy(w.by_data, keep);
	free(w.sources);
	gt_arena_release(&w.arena);
	return rc;
}
