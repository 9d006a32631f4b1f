/* numpy.c - numpy's arrays and scalars inside a pickle, as tensors. */
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"

/*
 * numpy writes an array as multiarray._reconstruct(ndarray, (0,), b"b") with the state
 *     (1, shape, dtype, whether in Fortran's order, bytes)
 * or, in protocol 5, as numeric._frombuffer(bytes, dtype, shape, "C" or "F"), where dtype is
 * numpy.dtype("f4", ...) with the state (3, "<", ...). The bytes stand there. A scalar is
 * multiarray.scalar(dtype, bytes). Source: numpy/core/src/multiarray/methods.c, array_reduce and
 * array_setstate.
 */

struct array {
	const struct gt_tree *shape, *bytes;
	enum gt_dtype dtype;
	bool fortran, big;
};

static bool read_dtype(const struct gt_tree *node, struct array *a)
{
	const struct gt_tree *name,
	    *state = gt_tree_is_object_of(node, "numpy.dtype") ? node->opaque.state : NULL;

	if (!gt_tree_is(state, GT_TREE_TUPLE))
		return false;
	a->big = gt_tree_is_string(gt_tree_value(state, 1), ">");
	name = gt_tree_value(node->opaque.args, 0);
	return gt_tree_is_text(name) && gt_npy_dtype(name->string.bytes, &a->dtype);
}

/* (1, shape, dtype, fortran, bytes), the state of a reconstructed array */
static bool read_state(const struct gt_tree *state, struct array *a)
{
	if (!gt_tree_is(state, GT_TREE_TUPLE) || !gt_tree_value(state, 2) ||
	    !gt_tree_is(gt_tree_value(state, 3), GT_TREE_BOOL))
		return false;
	a->shape = gt_tree_value(state, 1);
	a->fortran = gt_tree_value(state, 3)->boolean;
	a->bytes = gt_tree_value(state, 4);
	return read_dtype(gt_tree_value(state, 2), a);
}

/* (bytes, dtype, shape, order), how protocol 5 writes an array */
static bool read_buffer(const struct gt_tree *args, struct array *a)
{
	if (!gt_tree_value(args, 1))
		return false;
	a->bytes = gt_tree_value(args, 0);
	a->shape = gt_tree_value(args, 2);
	a->fortran = gt_tree_is_string(gt_tree_value(args, 3), "F");
	return read_dtype(gt_tree_value(args, 1), a);
}

/* The bytes of a node, or NULL. From Python 2 they may have come as text. */
static const struct gt_tree *bytes_of(const struct gt_tree *node)
{
	if (gt_tree_is_object_of(node, "builtins.bytes") ||
	    gt_tree_is_object_of(node, "builtins.bytearray"))
		node = gt_tree_value(node->opaque.args, 0);
	return gt_tree_is(node, GT_TREE_STRING) ? node : NULL;
}

static bool read_array(const struct gt_tree *node, struct array *a)
{
	bool known = false;

	if (gt_tree_is_object_of(node, "numpy.core.multiarray._reconstruct") ||
	    gt_tree_is_object_of(node, "numpy._core.multiarray._reconstruct"))
		known = read_state(node->opaque.state, a);
	else if (gt_tree_is_object_of(node, "numpy.core.numeric._frombuffer") ||
	         gt_tree_is_object_of(node, "numpy._core.numeric._frombuffer"))
		known = read_buffer(node->opaque.args, a);
	if (!known || !gt_tree_is(a->shape, GT_TREE_TUPLE) ||
	    a->shape->seq.count > GT_TREE_MAX_DIMS)
		return false;
	for (size_t i = 0; i < a->shape->seq.count; i++)
		if (!gt_tree_is_count(gt_tree_value(a->shape, i)))
			return false;
	a->bytes = bytes_of(a->bytes);
	return a->bytes;
}

static void set_storage(struct gt_storage *storage, const struct array *a)
{
	*storage = (struct gt_storage){
		.bytes = a->bytes->string.bytes,
		.size_bytes = a->bytes->string.length,
		.key = "",
		.name = "",
		.location = "",
		.swapped = a->big != gt_host_is_big(),
	};
}

static bool set_dims(const struct array *a, int ndim, int64_t *dims)
{
	int64_t step = 1;

	for (int i = 0; i < ndim; i++)
		dims[i] = gt_tree_value(a->shape, (size_t)i)->integer;
	if (!gt_ckpt_tensor_contiguous_stride(ndim, dims, dims + ndim))
		return false;
	for (int i = 0; a->fortran && i < ndim; i++) {
		dims[ndim + i] = step;
		if (dims[i])
			step *= dims[i]; /* which the check above has found not to overflow */
	}
	return true;
}

int gt_pickle_numpy(
    struct gt_tree **out, const struct gt_tree *node, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_storage *storage;
	struct array a = { 0 };
	int64_t *dims;
	int ndim;

	*out = NULL;
	if (!read_array(node, &a))
		return 0;
	ndim = (int)a.shape->seq.count;
	storage = gt_arena_alloc(arena, sizeof(*storage), err);
	dims = gt_arena_alloc(arena, (2 * (size_t)ndim + 1) * sizeof(*dims), err);
	*out = gt_tree_new(arena, GT_TREE_TENSOR, err);
	if (!storage || !dims || !*out)
		return GT_ENOMEM;
	if (!set_dims(&a, ndim, dims))
		return gt_err_set(err, GT_EFORMAT, "an array's shape overflows");
	set_storage(storage, &a);
	(*out)->tensor = (struct gt_tree_tensor){
		.dtype = a.dtype,
		.ndim = ndim,
		.shape = dims,
		.stride = dims + ndim,
		.storage = storage,
	};
	return gt_ckpt_tensor_check(&(*out)->tensor, err);
}

bool gt_pickle_numpy_scalar(
    struct gt_tree_tensor *out, struct gt_storage *storage, const struct gt_tree *node)
{
	struct array a = { 0 };

	if (!gt_tree_is_object_of(node, "numpy.core.multiarray.scalar") &&
	    !gt_tree_is_object_of(node, "numpy._core.multiarray.scalar"))
		return false;
	a.bytes = bytes_of(gt_tree_value(node->opaque.args, 1));
	if (!a.bytes || !read_dtype(gt_tree_value(node->opaque.args, 0), &a))
		return false;
	set_storage(storage, &a);
	*out = (struct gt_tree_tensor){ .dtype = a.dtype, .storage = storage };
	return !gt_ckpt_tensor_check(out, GT_ERR_IGNORED);
}
