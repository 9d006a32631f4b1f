/* torch_objects.c - the classes a torch pickle calls: storages, tensors, parameters, dicts. */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/torch.h"
#include "lib/ckpt/tree.h"

/* Tensors whose storages have no bytes yet; then they can be checked. */
struct gt_torch_pending {
	const struct gt_tree_tensor *tensor;
	struct gt_torch_pending *next;
};

static const struct {
	const char *global; /* the storage class; NULL: torch stores it untyped */
	const char *dtype;
} names[GT_DTYPE_COUNT] = {
	[GT_F32] = { "torch\nFloatStorage\n", "torch.float32" },
	[GT_F64] = { "torch\nDoubleStorage\n", "torch.float64" },
	[GT_F16] = { "torch\nHalfStorage\n", "torch.float16" },
	[GT_BF16] = { "torch\nBFloat16Storage\n", "torch.bfloat16" },
	[GT_I64] = { "torch\nLongStorage\n", "torch.int64" },
	[GT_I32] = { "torch\nIntStorage\n", "torch.int32" },
	[GT_I16] = { "torch\nShortStorage\n", "torch.int16" },
	[GT_I8] = { "torch\nCharStorage\n", "torch.int8" },
	[GT_U8] = { "torch\nByteStorage\n", "torch.uint8" },
	[GT_BOOL] = { "torch\nBoolStorage\n", "torch.bool" },
	[GT_C64] = { "torch\nComplexFloatStorage\n", "torch.complex64" },
	[GT_C128] = { "torch\nComplexDoubleStorage\n", "torch.complex128" },
	[GT_U16] = { NULL, "torch.uint16" },
	[GT_U32] = { NULL, "torch.uint32" },
	[GT_U64] = { NULL, "torch.uint64" },
	[GT_F8_E4M3] = { NULL, "torch.float8_e4m3fn" },
	[GT_F8_E5M2] = { NULL, "torch.float8_e5m2" },
};

const char *gt_torch_storage_global(enum gt_dtype dtype)
{
	return names[dtype].global;
}

bool gt_torch_dtype(const char *name, enum gt_dtype *dtype)
{
	for (int i = 0; i < GT_DTYPE_COUNT; i++) {
		if (strcmp(names[i].dtype, name))
			continue;
		*dtype = (enum gt_dtype)i;
		return true;
	}
	return false;
}

/* "torch.cuda.FloatStorage" is a FloatStorage that was on a GPU (before 0.4). */
bool gt_torch_storage_dtype(const char *class_name, enum gt_dtype *dtype)
{
	const char *name = strrchr(class_name, '.');
	size_t length;

	if (strncmp(class_name, "torch.", 6) || !name)
		return false;
	length = strlen(++name);
	if (!strcmp(name, "UntypedStorage") || !strcmp(name, "_UntypedStorage")) {
		*dtype = GT_U8;
		return true;
	}
	for (int i = 0; i < GT_DTYPE_COUNT; i++) {
		const char *known = names[i].global ? names[i].global + strlen("torch\n") : "";

		if (strlen(known) != length + 1 || strncmp(known, name, length))
			continue;
		*dtype = (enum gt_dtype)i;
		return true;
	}
	return false;
}

/* ---- arguments ---- */

/* The i-th value of a tuple or list, or NULL, which every check of a kind below refuses. */
static struct gt_tree *arg(const struct gt_tree *args, size_t i)
{
	return i < args->seq.count ? args->seq.items[i].value : NULL;
}

static bool is_kind(const struct gt_tree *node, enum gt_tree_kind kind)
{
	return node && node->kind == kind;
}

static bool is_class(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_OPAQUE) && !node->opaque.args;
}

static bool is_count(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_INT) && node->integer >= 0;
}

static bool is_text(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_STRING) && strlen(node->string.bytes) == node->string.length;
}

static int wrong(struct gt_err *err, const char *what)
{
	return gt_err_set(err, GT_EFORMAT, "%s", what);
}

/* ---- storages ---- */

static int compare_storages(const void *a, const void *b)
{
	const struct gt_torch_storage *x = a, *y = b;

	return strcmp(x->base.key, y->base.key);
}

struct gt_torch_storage *gt_torch_storage_get(
    const struct gt_torch_objects *objects, const char *key)
{
	struct gt_torch_storage wanted = { .base.key = key };
	struct gt_torch_storage **found = tfind(&wanted, &objects->by_key, compare_storages);

	return found ? *found : NULL;
}

static int add_storage(struct gt_torch_objects *o, const struct gt_torch_storage *like,
    struct gt_torch_storage **out, struct gt_err *err)
{
	struct gt_torch_storage *s = gt_arena_alloc(o->arena, sizeof(*s), err);

	if (!s)
		return GT_ENOMEM;
	*s = *like;
	if (!tsearch(s, &o->by_key, compare_storages))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the index of storages");
	s->next = o->storages;
	o->storages = s;
	*out = s;
	return 0;
}

/* A storage that is mentioned again keeps its type; the larger size counts, and is checked
 * later. */
static int find_storage(struct gt_torch_objects *o, const struct gt_torch_storage *like,
    struct gt_torch_storage **out, struct gt_err *err)
{
	struct gt_torch_storage *s = gt_torch_storage_get(o, like->base.key);

	if (!s)
		return add_storage(o, like, out, err);
	if (gt_dtype_size(s->dtype) != gt_dtype_size(like->dtype))
		return gt_err_set(err, GT_EFORMAT, "storage '%.80s' is %s and %s", s->base.key,
		    gt_dtype_name(s->dtype), gt_dtype_name(like->dtype));
	if (s->bytes < like->bytes)
		s->bytes = like->bytes;
	*out = s;
	return 0;
}

/* A tensor node that waits for the memory of `s`, with room for its shape. */
static struct gt_tree *new_tensor(struct gt_torch_objects *o, struct gt_storage *s,
    enum gt_dtype dtype, int ndim, int64_t **dims, struct gt_err *err)
{
	struct gt_torch_pending *p = gt_arena_alloc(o->arena, sizeof(*p), err);
	struct gt_tree *node = gt_tree_new(o->arena, GT_TREE_TENSOR, err);

	*dims = gt_arena_alloc(o->arena, 2 * (size_t)ndim * sizeof(**dims), err);
	if (!p || !node || !*dims)
		return NULL;
	node->tensor = (struct gt_tree_tensor){
		.dtype = dtype,
		.ndim = ndim,
		.shape = *dims,
		.stride = *dims + ndim,
		.storage = s,
	};
	p->tensor = &node->tensor;
	p->next = o->pending;
	o->pending = p;
	return node;
}

/* The view of legacy files: (key, first element, elements) of the storage, or None. */
static int apply_view(
    const struct gt_tree *view, struct gt_tree_tensor *t, int64_t *numel, struct gt_err *err)
{
	if (!view || view->kind == GT_TREE_NONE)
		return 0;
	if (!gt_tree_is_seq(view) || !is_count(arg(view, 1)) || !is_count(arg(view, 2)))
		return wrong(err, "a storage's view is not (key, offset, size)");
	t->offset = arg(view, 1)->integer;
	*numel = arg(view, 2)->integer;
	return 0;
}

static int note_location(
    struct gt_torch_objects *o, const struct gt_storage *storage, size_t at, struct gt_err *err)
{
	struct gt_torch_location *l = gt_arena_alloc(o->arena, sizeof(*l), err);

	if (!l)
		return GT_ENOMEM;
	*l = (struct gt_torch_location){ storage, at, o->locations };
	o->locations = l;
	return 0;
}

/* A storage by itself is a tensor of one dimension; the rebuild functions look through it. */
static int storage_tensor(
    struct gt_torch_objects *o, struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	struct gt_torch_storage like = { 0 }, *s = NULL;
	int64_t *dims, numel;
	int rc;

	if (!is_class(arg(id, 1)) || !is_text(arg(id, 2)) || !is_text(arg(id, 3)) ||
	    !is_count(arg(id, 4)))
		return wrong(err, "a storage is not (class, key, location, count)");
	if (!gt_torch_storage_dtype(arg(id, 1)->opaque.class_name, &like.dtype))
		return gt_err_set(err, GT_ENOTSUP, "a storage of class '%s' is not known",
		    arg(id, 1)->opaque.class_name);
	like.base.key = like.base.name = arg(id, 2)->string.bytes;
	like.base.location = arg(id, 3)->string.bytes;
	numel = arg(id, 4)->integer;
	if (__builtin_mul_overflow(
	        (uint64_t)numel, (uint64_t)gt_dtype_size(like.dtype), &like.bytes))
		return wrong(err, "a storage's size overflows");
	rc = find_storage(o, &like, &s, err);
	if (!rc)
		rc = note_location(o, &s->base, id->seq.items[3].value_at, err);
	if (rc)
		return rc;
	*out = new_tensor(o, &s->base, like.dtype, 1, &dims, err);
	if (!*out)
		return GT_ENOMEM;
	rc = apply_view(arg(id, 5), &(*out)->tensor, &numel, err);
	dims[0] = numel;
	dims[1] = 1;
	return rc;
}

static int persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	if (!gt_tree_is_seq(id))
		return 0;
	if (gt_tree_is_string(arg(id, 0), "storage"))
		return storage_tensor(self, id, out, err);
	/* ('module', class, file, source): a class of a model that was pickled whole */
	if (gt_tree_is_string(arg(id, 0), "module") && is_class(arg(id, 1)))
		*out = arg(id, 1);
	return 0;
}

/* ---- tensors ---- */

static int copy_dims(const struct gt_tree *from, int64_t *to, struct gt_err *err)
{
	for (size_t i = 0; i < from->seq.count; i++) {
		if (!is_count(arg(from, i)))
			return wrong(err, "a size or stride is no count");
		to[i] = arg(from, i)->integer;
	}
	return 0;
}

/* (storage, offset, size, stride, ...) as a tensor of `dtype`. */
static int rebuild(struct gt_torch_objects *o, const struct gt_tree *args, const enum gt_dtype *as,
    struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *storage = arg(args, 0), *size = arg(args, 2), *stride = arg(args, 3);
	struct gt_tree *node;
	int64_t *dims;
	size_t ndim;
	int rc;

	if (!is_kind(storage, GT_TREE_TENSOR) || !is_count(arg(args, 1)) || !size || !stride ||
	    !gt_tree_is_seq(size) || !gt_tree_is_seq(stride))
		return wrong(err, "the arguments are not (storage, offset, size, stride)");
	ndim = size->seq.count;
	if (ndim != stride->seq.count || ndim > GT_TREE_MAX_DIMS)
		return gt_err_set(err, GT_EFORMAT, "%zu sizes and %zu strides, at most %d known",
		    ndim, stride->seq.count, GT_TREE_MAX_DIMS);
	node = new_tensor(
	    o, storage->tensor.storage, as ? *as : storage->tensor.dtype, (int)ndim, &dims, err);
	if (!node)
		return GT_ENOMEM;
	rc = copy_dims(size, dims, err);
	if (!rc)
		rc = copy_dims(stride, dims + ndim, err);
	if (!rc && __builtin_add_overflow(
	               storage->tensor.offset, arg(args, 1)->integer, &node->tensor.offset))
		rc = wrong(err, "the offset overflows");
	if (is_kind(arg(args, 4), GT_TREE_BOOL))
		node->tensor.requires_grad = arg(args, 4)->boolean;
	*out = node;
	return rc;
}

static int call_rebuild_tensor(struct gt_torch_objects *o, const struct gt_tree *args,
    struct gt_tree **out, struct gt_err *err)
{
	return rebuild(o, args, NULL, out, err);
}

/* v3, for dtypes without a storage class: (storage, offset, size, stride, grad, hooks, dtype). */
static int call_rebuild_tensor_v3(struct gt_torch_objects *o, const struct gt_tree *args,
    struct gt_tree **out, struct gt_err *err)
{
	enum gt_dtype dtype;

	if (!is_class(arg(args, 6)) || !gt_torch_dtype(arg(args, 6)->opaque.class_name, &dtype))
		return 0;
	return rebuild(o, args, &dtype, out, err);
}

/* (tensor, requires_grad, ...). A node of its own: the tensor may also be in the file as such. */
static int call_rebuild_parameter(struct gt_torch_objects *o, const struct gt_tree *args,
    struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *data = arg(args, 0);
	struct gt_tree *node;
	int64_t *dims;

	if (!is_kind(data, GT_TREE_TENSOR))
		return is_kind(data, GT_TREE_OPAQUE) ? 0
		                                     : wrong(err, "a parameter without a tensor");
	node =
	    new_tensor(o, data->tensor.storage, data->tensor.dtype, data->tensor.ndim, &dims, err);
	if (!node)
		return GT_ENOMEM;
	node->tensor = data->tensor;
	node->tensor.requires_grad =
	    is_kind(arg(args, 1), GT_TREE_BOOL) ? arg(args, 1)->boolean : true;
	*out = node;
	return 0;
}

static int call(
    void *self, const char *name, struct gt_tree *args, struct gt_tree **out, struct gt_err *err);

/* (function, class, arguments, state): a tensor with attributes, or of a class of its own. */
static int call_rebuild_from_type(struct gt_torch_objects *o, const struct gt_tree *args,
    struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *class_name = arg(args, 1);

	if (!is_class(arg(args, 0)) || !is_class(class_name) ||
	    !is_kind(arg(args, 2), GT_TREE_TUPLE))
		return wrong(err, "the arguments are not (function, class, arguments, state)");
	if (strcmp(class_name->opaque.class_name, "torch.Tensor") &&
	    strcmp(class_name->opaque.class_name, "torch.nn.parameter.Parameter"))
		return 0;
	/* One level: a function that names itself again would let the file choose our stack's
	 * depth. */
	if (strstr(arg(args, 0)->opaque.class_name, "_rebuild_from_type"))
		return 0;
	return call(o, arg(args, 0)->opaque.class_name, arg(args, 2), out, err);
}

/* ---- other classes ---- */

/* OrderedDict() or, by Python 2, OrderedDict([[key, value], ...]). */
static int call_dict(struct gt_torch_objects *o, const struct gt_tree *args, struct gt_tree **out,
    struct gt_err *err)
{
	const struct gt_tree *pairs = arg(args, 0);
	int rc = 0;

	if (pairs && pairs->kind != GT_TREE_LIST)
		return 0;
	*out = gt_tree_dict(o->arena, err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t i = 0; pairs && !rc && i < pairs->seq.count; i++) {
		const struct gt_tree *pair = arg(pairs, i);
		struct gt_tree_item *item;

		if (!gt_tree_is_seq(pair) || pair->seq.count != 2)
			return wrong(err, "a dict is made of what are no pairs");
		rc = gt_tree_push(*out, arg(pair, 0), arg(pair, 1), o->arena, err);
		item = &(*out)->seq.items[i];
		if (!rc) {
			item->key_at = pair->seq.items[0].value_at;
			item->value_at = pair->seq.items[1].value_at;
		}
	}
	return rc;
}

/* defaultdict(factory): a dict; what missing keys would become is lost. */
static int call_default_dict(struct gt_torch_objects *o, const struct gt_tree *args,
    struct gt_tree **out, struct gt_err *err)
{
	(void)args;
	*out = gt_tree_dict(o->arena, err);
	return *out ? 0 : GT_ENOMEM;
}

static int call_size(struct gt_torch_objects *o, const struct gt_tree *args, struct gt_tree **out,
    struct gt_err *err)
{
	(void)o;
	(void)err;
	if (is_kind(arg(args, 0), GT_TREE_TUPLE))
		*out = arg(args, 0);
	return 0;
}

static const struct {
	const char *name;
	int (*call)(struct gt_torch_objects *o, const struct gt_tree *args, struct gt_tree **out,
	    struct gt_err *err);
} calls[] = {
	{ "torch._utils._rebuild_tensor_v2", call_rebuild_tensor },
	{ "torch._utils._rebuild_tensor", call_rebuild_tensor },
	{ "torch._utils._rebuild_tensor_v3", call_rebuild_tensor_v3 },
	{ "torch._utils._rebuild_parameter", call_rebuild_parameter },
	{ "torch._utils._rebuild_parameter_with_state", call_rebuild_parameter },
	{ "torch.nn.parameter.Parameter", call_rebuild_parameter },
	{ "torch._tensor._rebuild_from_type_v2", call_rebuild_from_type },
	{ "collections.OrderedDict", call_dict },
	{ "collections.defaultdict", call_default_dict },
	{ "torch.Size", call_size },
};

static int call(
    void *self, const char *name, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].call(self, args, out, err);
	return 0;
}

/* ---- the whole ---- */

void gt_torch_objects_init(struct gt_torch_objects *o, struct gt_arena *arena)
{
	*o = (struct gt_torch_objects){ .arena = arena,
		.hooks = { .self = o, .call = call, .persistent = persistent } };
}

int gt_torch_objects_finish(struct gt_torch_objects *o, bool swapped, struct gt_err *err)
{
	int rc = 0;

	for (struct gt_torch_storage *s = o->storages; s; s = s->next)
		if (!s->base.bytes && s->bytes)
			return gt_err_set(
			    err, GT_EFORMAT, "storage '%.80s' has no bytes", s->base.key);
	for (struct gt_torch_pending *p = o->pending; p && !rc; p = p->next) {
		p->tensor->storage->swapped = swapped;
		rc = gt_tensor_check(p->tensor, err);
	}
	return rc;
}

static void keep(void *node)
{
	(void)node; /* storages are the arena's */
}

void gt_torch_objects_release(struct gt_torch_objects *o)
{
	tdestroy(o->by_key, keep);
	o->by_key = NULL;
}
