/* write.c - a tree as torch pickles it: storages by number, tensors as calls on them. */
#include "lib/ckpt/torch/write.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/classify.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/* ---- storages ---- */

static int compare_sources(const void *a, const void *b)
{
	const struct gt_torch_source *x = a, *y = b;

	uintptr_t a_bytes = (uintptr_t)gt_storage_address(x->storage);
	uintptr_t b_bytes = (uintptr_t)gt_storage_address(y->storage);

	if (a_bytes != b_bytes)
		return a_bytes < b_bytes ? -1 : 1;
	if (x->dtype != y->dtype)
		return x->dtype < y->dtype ? -1 : 1;
	return (int)x->storage->swapped - (int)y->storage->swapped;
}

/* Tensors without elements share a storage of none, one for each type: 1.13 wants a record. */
static struct gt_storage *storage_of(struct gt_torch_writer *w, const struct gt_tree_tensor *t)
{
	return gt_ckpt_tensor_count(t) ? t->storage : &w->empty;
}

static struct gt_torch_source *source_of(struct gt_torch_writer *w, const struct gt_tree_tensor *t)
{
	struct gt_torch_source like = { .storage = storage_of(w, t), .dtype = t->dtype };

	return gt_index_find(&w->by_data, &like);
}

const struct gt_torch_source *gt_torch_writer_source(
    struct gt_torch_writer *w, const struct gt_tree_tensor *t)
{
	return source_of(w, t);
}

/* An optimizer's numbers are no weights: half precision counts steps up to 2048. */
static enum gt_dtype cast_of(const struct gt_torch_writer *w, const struct gt_tree_tensor *t)
{
	bool number = w->in_optimizer && (w->at_step || !t->ndim);

	return w->options->cast && gt_dtype_is_float(t->dtype) && !number ? w->options->dtype
	                                                                  : t->dtype;
}

static int add_source(struct gt_torch_writer *w, const struct gt_tree_tensor *t,
    struct gt_torch_source **out, struct gt_err *err)
{
	struct gt_torch_source *s = gt_arena_alloc(&w->arena, sizeof(*s), err);

	if (!s || gt_grow(&w->sources, w->count, &w->capacity, sizeof(*w->sources), err))
		return GT_ENOMEM;
	*s = (struct gt_torch_source){
		.storage = storage_of(w, t),
		.dtype = t->dtype,
		.as = cast_of(w, t),
		.first = gt_ckpt_tensor_count(t) ? INT64_MAX : 0,
		.stride = 1,
		.key = w->count,
	};
	w->by_data.compare = compare_sources;
	if (!gt_index_add(&w->by_data, s, err))
		return GT_ENOMEM;
	w->sources[w->count++] = s;
	*out = s;
	return 0;
}

/* `count` is the end of the range until all tensors have been seen. */
static int collect_tensor(
    struct gt_torch_writer *w, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct gt_torch_source *s = source_of(w, t);
	int64_t last = t->offset;
	int rc = gt_ckpt_tensor_check(t, err);

	if (!rc && t->raw && !t->raw->torch) {
		gt_err_set(err, GT_ENOTSUP, "a tensor of %s, a type that PyTorch does not have",
		    t->raw->safetensors);
		rc = gt_err_hint(err, "safetensors can hold it");
	}
	if (!rc && !s)
		rc = add_source(w, t, &s, err);
	if (rc || !gt_ckpt_tensor_count(t))
		return rc;
	for (int i = 0; i < t->ndim; i++)
		last += (t->shape[i] - 1) * t->stride[i];
	if (t->offset < s->first)
		s->first = t->offset;
	if (last + 1 > s->count)
		s->count = last + 1;
	return 0;
}

static int collect_tensors(
    struct gt_torch_writer *w, const struct gt_tree *node, struct gt_err *err)
{
	bool in_optimizer = w->in_optimizer, at_step = w->at_step;
	struct gt_walk part = { 0 };
	int rc = node->kind == GT_TREE_TENSOR ? collect_tensor(w, &node->tensor, err) : 0;

	if (node->kind == GT_TREE_DICT && gt_classify(node, false, NULL) == GT_CLASS_OPTIMIZER)
		w->in_optimizer = true;
	while (!rc && gt_walk_next(node, &part)) {
		w->at_step =
		    at_step || (part.part == GT_PART_VALUE &&
		                   gt_tree_is_string(node->seq.items[part.index].key, "step"));
		rc = collect_tensors(w, part.node, err);
		if (rc == GT_ENOTSUP && gt_tree_is(part.node, GT_TREE_TENSOR) &&
		    part.part == GT_PART_VALUE && gt_tree_is_text(node->seq.items[part.index].key))
			gt_err_prefix(
			    err, "'%.200s'", node->seq.items[part.index].key->string.bytes);
	}
	w->in_optimizer = in_optimizer;
	w->at_step = at_step;
	return rc;
}

int gt_torch_writer_collect(struct gt_torch_writer *w, struct gt_tree *root, struct gt_err *err)
{
	int rc = gt_tree_check(root, NULL, err);

	if (!rc)
		rc = collect_tensors(w, root, err);
	for (size_t i = 0; !rc && i < w->count; i++) {
		struct gt_torch_source *s = w->sources[i];

		s->count -= s->first;
		s->all = (struct gt_tree_tensor){
			.dtype = s->dtype,
			.ndim = 1,
			.shape = &s->count,
			.stride = &s->stride,
			.offset = s->first,
			.storage = s->storage,
		};
	}
	return rc;
}

void gt_torch_writer_release(struct gt_torch_writer *w)
{
	gt_index_release(&w->by_data);
	free(w->sources);
	gt_arena_release(&w->arena);
}

uint64_t gt_torch_source_units(const struct gt_torch_source *s)
{
	return gt_torch_storage_global(s->as) ? (uint64_t)s->count : gt_torch_source_bytes(s);
}

uint64_t gt_torch_source_bytes(const struct gt_torch_source *s)
{
	return (uint64_t)s->count * gt_dtype_size(s->as);
}

struct gt_copy_place gt_torch_source_place(const struct gt_torch_source *s, uint64_t offset)
{
	return (struct gt_copy_place){
		.offset = offset,
		.size_bytes = gt_torch_source_bytes(s),
		.tensor = &s->all,
		.as = s->as,
	};
}

/* ---- the pickle ---- */

static void put_dims(struct gt_pickle_writer *p, const int64_t *dims, int n)
{
	gt_pickle_put_op(p, GT_PICKLE_MARK);
	for (int i = 0; i < n; i++)
		gt_pickle_put_int(p, dims[i]);
	gt_pickle_put_op(p, GT_PICKLE_TUPLE);
}

/* ('storage', class, key, location, count[, view]) as a persistent id. The class is the one that
 * was read where the tree has the storage itself, unless its type is changed. */
static int put_storage(
    struct gt_pickle_writer *p, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct gt_torch_writer *w = p->self;
	const struct gt_torch_source *s = source_of(w, t);
	const char *class = gt_torch_storage_global(s->as);
	char key[24];
	int rc = 0;

	snprintf(key, sizeof(key), "%zu", s->key);
	gt_pickle_put_op(p, GT_PICKLE_MARK);
	gt_pickle_put_word(p, "storage");
	if (t->storage_class && s->as == t->dtype)
		rc = gt_pickle_put_class(p, t->storage_class, err);
	else
		gt_pickle_put_global(p, class ? class : "torch.storage\nUntypedStorage\n");
	gt_pickle_put_text(p, key, strlen(key));
	gt_pickle_put_word(p, w->options->keep_devices ? t->storage->location : "cpu");
	gt_pickle_put_int(p, (int64_t)gt_torch_source_units(s));
	if (w->views)
		gt_pickle_put_op(p, GT_PICKLE_NONE);
	gt_pickle_put_op(p, GT_PICKLE_TUPLE);
	gt_pickle_put_op(p, GT_PICKLE_BINPERSID);
	return rc;
}

/* The function that makes a tensor, then the tuple of its arguments: _rebuild_tensor_v2(storage,
 * offset, size, stride, requires_grad, OrderedDict()), or v3 with the dtype at the end where the
 * storage's class does not tell it. */
static void put_function(struct gt_pickle_writer *p, enum gt_dtype dtype)
{
	gt_pickle_put_global(p, gt_torch_storage_global(dtype)
	                            ? "torch._utils\n_rebuild_tensor_v2\n"
	                            : "torch._utils\n_rebuild_tensor_v3\n");
}

static int put_arguments(
    struct gt_pickle_writer *p, const struct gt_tree_tensor *t, struct gt_err *err)
{
	const struct gt_torch_source *s = source_of(p->self, t);
	int rc;

	gt_pickle_put_op(p, GT_PICKLE_MARK);
	rc = put_storage(p, t, err);
	gt_pickle_put_int(p, s->count ? t->offset - s->first : 0);
	put_dims(p, t->shape, t->ndim);
	put_dims(p, t->stride, t->ndim);
	gt_pickle_put_bool(p, t->requires_grad && !t->parameter);
	gt_pickle_put_ordered_dict(p);
	if (!gt_torch_storage_global(s->as)) { /* the object that a dtype is */
		gt_pickle_put_op(p, GT_PICKLE_GLOBAL);
		gt_buf_printf(
		    &p->out, "torch\n%s\n", t->raw ? t->raw->torch : gt_dtype_name(s->as));
	}
	gt_pickle_put_op(p, GT_PICKLE_TUPLE);
	return rc;
}

/* A storage that is in the tree by itself can be written only where it is one of the output. */
static int put_bare_storage(
    struct gt_pickle_writer *p, const struct gt_tree_tensor *t, struct gt_err *err)
{
	const struct gt_torch_source *s = source_of(p->self, t);

	if (s->count && (t->offset != s->first || gt_ckpt_tensor_count(t) != s->count))
		return gt_err_set(err, GT_ENOTSUP,
		    "a storage that is a part of storage '%.80s' cannot be written",
		    t->storage->key);
	return put_storage(p, t, err);
}

/*
 * _rebuild_parameter(tensor, requires_grad, OrderedDict()), or _rebuild_parameter_with_state() with
 * the attributes that Python code added.
 */
static int put_parameter(
    struct gt_pickle_writer *p, const struct gt_tree_tensor *t, struct gt_err *err)
{
	int rc;

	gt_pickle_put_global(p, t->attributes ? "torch._utils\n_rebuild_parameter_with_state\n"
	                                      : "torch._utils\n_rebuild_parameter\n");
	gt_pickle_put_op(p, GT_PICKLE_MARK);
	put_function(p, source_of(p->self, t)->as);
	rc = put_arguments(p, t, err);
	gt_pickle_put_op(p, GT_PICKLE_REDUCE);
	gt_pickle_put_bool(p, t->requires_grad);
	gt_pickle_put_ordered_dict(p);
	if (!rc && t->attributes)
		rc = gt_pickle_put_node(p, t->attributes, err);
	gt_pickle_put_op(p, GT_PICKLE_TUPLE);
	gt_pickle_put_op(p, GT_PICKLE_REDUCE);
	return rc;
}

static int put_tensor_rebuild(
    struct gt_pickle_writer *p, const struct gt_tree_tensor *t, struct gt_err *err)
{
	int rc;

	if (t->storage_class)
		return put_bare_storage(p, t, err);
	if (t->parameter)
		return put_parameter(p, t, err);
	if (t->attributes) { /* _rebuild_from_type_v2(function, class, arguments, state) */
		gt_pickle_put_global(p, "torch._tensor\n_rebuild_from_type_v2\n");
		gt_pickle_put_op(p, GT_PICKLE_MARK);
	}
	put_function(p, source_of(p->self, t)->as);
	if (t->attributes)
		gt_pickle_put_global(p, "torch\nTensor\n");
	rc = put_arguments(p, t, err);
	if (t->attributes) {
		if (!rc)
			rc = gt_pickle_put_node(p, t->attributes, err);
		gt_pickle_put_op(p, GT_PICKLE_TUPLE);
	}
	gt_pickle_put_op(p, GT_PICKLE_REDUCE);
	return rc;
}

int gt_torch_writer_pickle(struct gt_torch_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err)
{
	struct gt_pickle_writer pickle = { .self = w, .tensor = put_tensor_rebuild };

	return gt_pickle_write(&pickle, root, bytes, size, err);
}
