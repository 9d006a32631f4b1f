/* objects.c - the calls of a torch pickle: tensors, parameters, dicts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/*
 * A torch file contains a pickle. In the pickle, a tensor is a call of a function
 * torch._utils._rebuild_*() with a storage as argument. A storage is a persistent id, a reference
 * to data outside of the pickle: ('storage', class, key, location, numel[, view]). The bytes of the
 * storages are elsewhere in the file; the zip format and the legacy format have different places
 * for them.
 *
 * So reading has two steps. First, gt_pickle_read() with the hooks (torch.h) creates tensors
 * without bytes, and the list of their storages. Then the reader of the zip format or the legacy
 * format finds the bytes of each storage, and gt_torch_objects_finish() checks that every tensor
 * lies inside its storage.
 *
 * Some tensors are not plain: quantized, sparse, nested, on the device 'meta', or of a subclass.
 * They become opaque objects (GT_TREE_OPAQUE), which keep the name of the function that would
 * rebuild the tensor, and its arguments. The arguments may contain tensors. If gtrain does not
 * interpret the elements of a storage (untyped or quantized), it treats them as integers of the
 * same width.
 * Source: torch/_utils.py, torch/_tensor.py, torch/serialization.py, PyTorch 1.13 and 2.4 to 2.9.
 */

enum { MAX_TENSORS = 1 << 20 }; /* limits the memory that a few bytes of the file can take */

/* Tensors whose storages have no bytes yet; then they can be checked. */
struct gt_torch_pending {
	const struct gt_tree_tensor *tensor;
	struct gt_torch_pending *next;
};

static int wrong(struct gt_err *err, const char *what)
{
	return gt_err_set(err, GT_EFORMAT, "%s", what);
}

/* ---- tensors ---- */

struct gt_tree *gt_torch_tensor(struct gt_torch_objects *o, struct gt_storage *s,
    enum gt_dtype dtype, int ndim, int64_t **dims, struct gt_err *err)
{
	struct gt_torch_pending *p = gt_arena_alloc(o->arena, sizeof(*p), err);
	struct gt_tree *node = gt_tree_new(o->arena, GT_TREE_TENSOR, err);

	if (o->tensor_count++ == MAX_TENSORS) {
		gt_err_set(err, GT_EFORMAT, "more than %d tensors", MAX_TENSORS);
		return NULL;
	}
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

static int copy_dims(const struct gt_tree *from, int64_t *to, struct gt_err *err)
{
	for (size_t i = 0; i < from->seq.count; i++) {
		if (!gt_tree_is_count(gt_tree_value(from, i)))
			return wrong(err, "a size or stride is no count");
		to[i] = gt_tree_value(from, i)->integer;
	}
	return 0;
}

/* (storage, offset, size, stride, ...) as a tensor of `dtype`. */
static int rebuild(struct gt_torch_objects *o, const struct gt_tree *args, const enum gt_dtype *as,
    struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *storage = gt_tree_value(args, 0), *size = gt_tree_value(args, 2),
	                     *stride = gt_tree_value(args, 3);
	struct gt_tree *node;
	int64_t *dims;
	size_t ndim;
	int rc;

	if (!gt_tree_is(storage, GT_TREE_TENSOR) || !gt_tree_is_count(gt_tree_value(args, 1)) ||
	    !size || !stride || !gt_tree_is_seq(size) || !gt_tree_is_seq(stride))
		return wrong(err, "the arguments are not (storage, offset, size, stride)");
	ndim = size->seq.count;
	if (ndim != stride->seq.count || ndim > GT_TREE_MAX_DIMS)
		return gt_err_set(err, GT_EFORMAT, "%zu sizes and %zu strides, at most %d known",
		    ndim, stride->seq.count, GT_TREE_MAX_DIMS);
	node = gt_torch_tensor(
	    o, storage->tensor.storage, as ? *as : storage->tensor.dtype, (int)ndim, &dims, err);
	if (!node)
		return GT_ENOMEM;
	rc = copy_dims(size, dims, err);
	if (!rc)
		rc = copy_dims(stride, dims + ndim, err);
	if (!rc && __builtin_add_overflow(storage->tensor.offset, gt_tree_value(args, 1)->integer,
	               &node->tensor.offset))
		rc = wrong(err, "the offset overflows");
	if (gt_tree_is(gt_tree_value(args, 4), GT_TREE_BOOL))
		node->tensor.requires_grad = gt_tree_value(args, 4)->boolean;
	*out = node;
	return rc;
}

/* Python attributes of a tensor: a dict, or (dict, slots); NULL where there are none. */
static struct gt_tree *attributes_of(struct gt_tree *state)
{
	if (gt_tree_is(state, GT_TREE_DICT))
		return state->seq.count ? state : NULL;
	return gt_tree_is(state, GT_TREE_TUPLE) && state->seq.count ? state : NULL;
}

/*
 * The metadata {"conj": True} or {"neg": True} of PyTorch 2.x marks a tensor whose values differ
 * from its storage's bytes: such a view becomes an opaque object.
 */
static bool is_lazy_view(const struct gt_tree *metadata)
{
	for (size_t i = 0; gt_tree_is(metadata, GT_TREE_DICT) && i < metadata->seq.count; i++)
		if (gt_tree_is(gt_tree_value(metadata, i), GT_TREE_BOOL) &&
		    gt_tree_value(metadata, i)->boolean)
			return true;
	return false;
}

/* (storage, offset, size, stride[, requires_grad, hooks[, metadata]]) */
static int call_rebuild_tensor(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	if (gt_tree_is(gt_tree_value(args, 0), GT_TREE_OPAQUE) ||
	    is_lazy_view(gt_tree_value(args, 6)))
		return 0;
	return rebuild(o, args, NULL, out, err);
}

/* For dtypes without a storage class: (storage, offset, size, stride, requires_grad, hooks, dtype[,
 * metadata]). */
static int call_rebuild_tensor_v3(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	const struct gt_raw_type *raw = NULL;
	enum gt_dtype dtype;
	int rc;

	if (gt_tree_is(gt_tree_value(args, 0), GT_TREE_OPAQUE) ||
	    is_lazy_view(gt_tree_value(args, 7)) || !gt_tree_is_class(gt_tree_value(args, 6)))
		return 0;
	if (!gt_torch_dtype(gt_tree_value(args, 6)->opaque.class_name, &dtype)) {
		raw = gt_raw_of_torch(gt_tree_value(args, 6)->opaque.class_name);
		if (!raw)
			return 0;
		dtype = raw->dtype;
	}
	rc = rebuild(o, args, &dtype, out, err);
	if (!rc)
		(*out)->tensor.raw = raw;
	return rc;
}

/* (tensor, requires_grad, hooks[, state]). A node of its own: the tensor may also be in the file as
 * such. */
static int call_rebuild_parameter(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *data = gt_tree_value(args, 0), *grad = gt_tree_value(args, 1);

	if (!gt_tree_is(data, GT_TREE_TENSOR))
		return gt_tree_is(data, GT_TREE_OPAQUE)
		           ? 0
		           : wrong(err, "a parameter without a tensor");
	*out = gt_tree_new(o->arena, GT_TREE_TENSOR, err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->tensor = data->tensor;
	(*out)->tensor.requires_grad = gt_tree_is(grad, GT_TREE_BOOL) ? grad->boolean : true;
	(*out)->tensor.attributes = attributes_of(gt_tree_value(args, 3));
	(*out)->tensor.parameter = true;
	return 0;
}

/* The base of Parameter before 0.4; its state comes later. */
static int call_variable(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	int rc = gt_tree_is(gt_tree_value(args, 0), GT_TREE_TENSOR)
	             ? call_rebuild_parameter(o, args, out, err)
	             : 0;

	if (!rc && *out)
		(*out)->tensor.requires_grad = (*out)->tensor.parameter = false;
	return rc;
}

static int call_torch_class(
    void *self, const char *name, struct gt_tree *args, struct gt_tree **out, struct gt_err *err);

/* (function, class, arguments, state): a tensor with attributes; of a class of its own, it is named
 * and left alone. */
static int call_rebuild_from_type(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	int rc;

	if (!gt_tree_is_class(gt_tree_value(args, 0)) ||
	    !gt_tree_is_class(gt_tree_value(args, 1)) ||
	    !gt_tree_is(gt_tree_value(args, 2), GT_TREE_TUPLE))
		return wrong(err, "the arguments are not (function, class, arguments, state)");
	if (!gt_tree_is_class_named(gt_tree_value(args, 1), "torch.Tensor") &&
	    !gt_tree_is_class_named(gt_tree_value(args, 1), "torch.nn.parameter.Parameter"))
		return 0;
	/* One level, of functions that make tensors: the file does not choose our depth. */
	if (strncmp(gt_tree_value(args, 0)->opaque.class_name, "torch._utils._rebuild_", 22))
		return 0;
	rc = call_torch_class(
	    o, gt_tree_value(args, 0)->opaque.class_name, gt_tree_value(args, 2), out, err);
	if (!rc && gt_tree_is(*out, GT_TREE_TENSOR))
		(*out)->tensor.attributes = attributes_of(gt_tree_value(args, 3));
	return rc;
}

/*
 * (tensor on the CPU, dtype, device, requires_grad): how PyTorch 2.4 and later write tensors of a
 * device without storages (XLA, HPU). This device takes the place of the storage's location.
 */
static int call_rebuild_device_tensor(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *data = gt_tree_value(args, 0), *dtype = gt_tree_value(args, 1),
	                     *device = gt_tree_value(args, 2);
	enum gt_dtype as;

	if (!gt_tree_is(data, GT_TREE_TENSOR) || !gt_tree_is_class(dtype) ||
	    !gt_tree_is_text(device) || !gt_torch_dtype(dtype->opaque.class_name, &as) ||
	    as != data->tensor.dtype)
		return 0;
	gt_torch_relocate(
	    o, data->tensor.storage, device->string.bytes, args->seq.items[2].value_at);
	return call_rebuild_parameter(o,
	    &(struct gt_tree){ GT_TREE_TUPLE,
	        .seq = { .items = (struct gt_tree_item[]){ { .value = gt_tree_value(args, 0) },
	                     { .value = gt_tree_value(args, 3) } },
	            .count = args->seq.count > 3 ? 2 : 1 } },
	    out, err);
}

/* ---- other classes ---- */

/* OrderedDict() or, by Python 2, OrderedDict([[key, value], ...]). */
static int call_dict(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *pairs = gt_tree_value(args, 0);
	int rc = 0;

	if (pairs && pairs->kind != GT_TREE_LIST)
		return 0;
	*out = gt_tree_dict(o->arena, err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->seq.ordered = true;
	for (size_t i = 0; pairs && !rc && i < pairs->seq.count; i++) {
		const struct gt_tree *pair = gt_tree_value(pairs, i);
		struct gt_tree_item *item;

		if (!gt_tree_is_seq(pair) || pair->seq.count != 2)
			return wrong(err, "a dict is made of values that are not pairs");
		rc = gt_tree_push(
		    *out, gt_tree_value(pair, 0), gt_tree_value(pair, 1), o->arena, err);
		item = &(*out)->seq.items[i];
		if (!rc) {
			item->key_at = pair->seq.items[0].value_at;
			item->value_at = pair->seq.items[1].value_at;
		}
	}
	return rc;
}

/* defaultdict(factory): a dict, which remembers the factory if it is a class. */
static int call_default_dict(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	struct gt_tree *defaults, *class;

	*out = gt_tree_dict(o->arena, err);
	if (!*out)
		return GT_ENOMEM;
	if (args->seq.count > 1 || (args->seq.count && !gt_tree_is_class(gt_tree_value(args, 0))))
		return 0;
	/* A copy, so that later opcodes of the file cannot change it. */
	defaults = gt_tree_tuple(o->arena, err);
	(*out)->seq.defaults = defaults;
	if (!defaults || !args->seq.count)
		return defaults ? 0 : GT_ENOMEM;
	class = gt_tree_new(o->arena, GT_TREE_OPAQUE, err);
	if (class) {
		*class = *gt_tree_value(args, 0);
		class->opaque.items = class->opaque.state = NULL;
	}
	return class ? gt_tree_push(defaults, NULL, class, o->arena, err) : GT_ENOMEM;
}

/* torch.Size((2, 3)): a tuple of its own, as the one in it may be elsewhere, too. */
static int call_size(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *dims = gt_tree_value(args, 0);
	int rc = 0;

	if (!gt_tree_is(dims, GT_TREE_TUPLE) && !gt_tree_is(dims, GT_TREE_LIST))
		return 0;
	*out = gt_tree_tuple(o->arena, err);
	for (size_t i = 0; *out && !rc && i < dims->seq.count; i++)
		rc = gt_tree_push(*out, NULL, gt_tree_value(dims, i), o->arena, err);
	if (!*out || rc)
		return GT_ENOMEM;
	(*out)->seq.is_size = true;
	return 0;
}

/*
 * PyTorch 1.5 to 2.3 writes a tensor of XLA or HPU as
 *     _rebuild_device_tensor_from_numpy(array, dtype, device, requires_grad)
 */
static int rebuild_from_numpy(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	const struct gt_tree *dtype = gt_tree_value(args, 1), *device = gt_tree_value(args, 2),
	                     *grad = gt_tree_value(args, 3);
	enum gt_dtype said;
	struct gt_tree *array;
	int rc;

	if (!gt_tree_value(args, 0) || !gt_tree_is_class(dtype) || !gt_tree_is_text(device) ||
	    !gt_torch_dtype(dtype->opaque.class_name, &said))
		return 0;
	rc = gt_pickle_numpy(&array, gt_tree_value(args, 0), o->arena, err);
	/* bfloat16 comes as float32, another type than the tensor had: stays opaque */
	if (rc || !array || array->tensor.dtype != said)
		return rc;
	array->tensor.storage->location = device->string.bytes;
	array->tensor.requires_grad = gt_tree_is(grad, GT_TREE_BOOL) && grad->boolean;
	*out = array;
	return 0;
}

/* A value wrapped to say its type: build_intlist([1, 2]). */
static int call_wrapped(
    struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out, struct gt_err *err)
{
	(void)o;
	(void)err;
	if (gt_tree_value(args, 0) && gt_tree_is_seq(gt_tree_value(args, 0)))
		*out = gt_tree_value(args, 0);
	return 0;
}

static const struct {
	const char *name;
	int (*call)(struct gt_torch_objects *o, struct gt_tree *args, struct gt_tree **out,
	    struct gt_err *err);
} calls[] = {
	{ "torch._utils._rebuild_tensor_v2", call_rebuild_tensor },
	{ "torch._utils._rebuild_tensor", call_rebuild_tensor },
	{ "torch._utils._rebuild_tensor_v3", call_rebuild_tensor_v3 },
	{ "torch._utils._rebuild_parameter", call_rebuild_parameter },
	{ "torch._utils._rebuild_parameter_with_state", call_rebuild_parameter },
	{ "torch._utils._rebuild_device_tensor_from_cpu_tensor", call_rebuild_device_tensor },
	{ "torch._utils._rebuild_device_tensor_from_numpy", rebuild_from_numpy },
	{ "torch._utils._rebuild_xla_tensor", rebuild_from_numpy },
	{ "torch.nn.parameter.Parameter", call_rebuild_parameter },
	{ "torch.autograd.variable.Variable", call_variable },
	{ "torch._tensor._rebuild_from_type_v2", call_rebuild_from_type },
	{ "torch._tensor._rebuild_from_type", call_rebuild_from_type },
	{ "torch.tensor._rebuild_from_type", call_rebuild_from_type },
	{ "collections.OrderedDict", call_dict },
	{ "collections.defaultdict", call_default_dict },
	{ "torch.Size", call_size },
	/* TorchScript's */
	{ "torch.jit._pickle.build_intlist", call_wrapped },
	{ "torch.jit._pickle.build_doublelist", call_wrapped },
	{ "torch.jit._pickle.build_boollist", call_wrapped },
	{ "torch.jit._pickle.build_tensorlist", call_wrapped },
	{ "torch.jit._pickle.restore_type_tag", call_wrapped },
};

static int call_torch_class(
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
		.hooks = {
		    .self = o, .call = call_torch_class, .persistent = gt_torch_persistent } };
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
		rc = gt_ckpt_tensor_check(p->tensor, err);
	}
	return rc;
}

void gt_torch_objects_release(struct gt_torch_objects *o)
{
	gt_index_release(&o->by_key);
}
