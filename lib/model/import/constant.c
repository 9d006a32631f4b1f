/* constant.c - tensors of the host: views, copies and functions of their elements. */
#include "lib/model/import/constant.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

void gt_constants_limit(struct gt_constants *all, int64_t batch, int64_t tokens)
{
	enum { ALWAYS = GT_CONSTANT_ELEMENTS >> 3, MASKS = 128 };
	const double most =
	    ALWAYS + (double)MASKS * (double)batch * (double)tokens * (double)tokens;

	all->most = most < GT_CONSTANT_ELEMENTS ? (int64_t)most : GT_CONSTANT_ELEMENTS;
}

bool gt_constants_read(struct gt_constants *all, int64_t elements)
{
	if (elements <= 16 * all->most - all->read) {
		all->read += elements;
		return true;
	}
	gt_err_set(all->err, GT_EINVAL, "constants of the network take too long to compute");
	return false;
}

int64_t gt_constant_count(const struct gt_constant *c)
{
	int64_t count = 1;

	for (int i = 0; i < c->ndim; i++)
		count *= c->shape[i];
	return count;
}

static bool is_supported(enum gt_dtype dtype)
{
	switch (dtype) {
	case GT_F32:
	case GT_F64:
	case GT_I64:
	case GT_I32:
	case GT_I16:
	case GT_I8:
	case GT_U8:
	case GT_BOOL:
		return true;
	default:
		return false;
	}
}

struct gt_constant *gt_constant_new(
    struct gt_constants *all, enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	struct gt_constant *c = gt_arena_alloc(&all->arena, sizeof(*c), all->err);
	int64_t count = 1;

	if (!c)
		return NULL;
	*c = (struct gt_constant){ .dtype = dtype, .ndim = ndim };
	if (!is_supported(dtype)) {
		gt_err_set(all->err, GT_EINVAL, "a constant of the type %s", gt_dtype_name(dtype));
		return NULL;
	}
	for (int i = ndim; i-- > 0;) {
		c->shape[i] = shape[i];
		c->stride[i] = count;
		if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count) ||
		    count > all->most - all->elements) {
			gt_err_set(all->err, GT_EINVAL,
			    "constants of the network with more than %lld elements",
			    (long long)all->most);
			return NULL;
		}
	}
	all->elements += count;
	c->elements = gt_arena_alloc(
	    &all->arena, (size_t)(count ? count : 1) * sizeof(*c->elements), all->err);
	if (!c->elements)
		return NULL;
	memset(c->elements, 0, (size_t)count * sizeof(*c->elements));
	c->storage = c->elements;
	return c;
}

double gt_constant_round(enum gt_dtype dtype, double x)
{
	switch (dtype) {
	case GT_F64:
		return x;
	case GT_F32:
		return (float)x;
	case GT_BOOL:
		return x != 0;
	default:
		return trunc(x);
	}
}

/* Read elements as int64, or else as float64. */
static bool read_elements(
    struct gt_constants *all, struct gt_constant *c, const struct gt_tree_tensor *tensor)
{
	bool whole = !gt_dtype_is_float(c->dtype);
	int64_t count = gt_constant_count(c), element;

	if (gt_ckpt_tensor_read(tensor, whole ? GT_I64 : GT_F64, c->elements, all->err))
		return false;
	for (int64_t i = 0; whole && i < count; i++) {
		memcpy(&element, &c->elements[i], sizeof(element));
		c->elements[i] = (double)element;
		/* The ends of int64 stand for the ends of a dimension. */
		if (element == INT64_MAX || element == INT64_MIN)
			continue;
		if (element > INT64_C(1) << 53 || element < -(INT64_C(1) << 53)) {
			gt_err_set(all->err, GT_EINVAL, "a constant with the element %lld",
			    (long long)element);
			return false;
		}
	}
	return true;
}

/* Elements that take as much room in the file are no small file's. */
static void allow_elements(struct gt_constants *all, const struct gt_tree_tensor *tensor)
{
	const size_t in_file = tensor->storage->size_bytes / gt_dtype_size(tensor->dtype);
	const int64_t count = gt_ckpt_tensor_count(tensor);
	const int64_t more = in_file < (size_t)count ? (int64_t)in_file : count;

	all->most +=
	    more < GT_CONSTANT_ELEMENTS - all->most ? more : GT_CONSTANT_ELEMENTS - all->most;
}

struct gt_constant *gt_constant_read(struct gt_constants *all, const struct gt_tree_tensor *tensor)
{
	struct gt_constant *c;

	if (tensor->ndim > GT_MAX_DIMS) {
		gt_err_set(all->err, GT_EINVAL, "a constant with %d dimensions", tensor->ndim);
		return NULL;
	}
	allow_elements(all, tensor);
	c = gt_constant_new(all, tensor->dtype, tensor->ndim, tensor->shape);
	return c && read_elements(all, c, tensor) ? c : NULL;
}

/* ---- views ---- */

struct gt_constant *gt_constant_view(struct gt_constants *all, const struct gt_constant *c)
{
	struct gt_constant *view = gt_arena_alloc(&all->arena, sizeof(*view), all->err);

	if (view)
		*view = *c;
	return view;
}

struct gt_constant *gt_constant_expand(
    struct gt_constants *all, const struct gt_constant *c, int ndim, const int64_t *shape)
{
	struct gt_constant *view = gt_constant_view(all, c);
	int64_t count = 1;
	int more = ndim - c->ndim;

	if (!view || more < 0)
		return NULL;
	view->ndim = ndim;
	for (int i = 0; i < ndim; i++) {
		int64_t size = i < more ? 1 : c->shape[i - more];

		if ((size != shape[i] && size != 1) || shape[i] < 0 ||
		    __builtin_mul_overflow(count, shape[i], &count) ||
		    count > 16 * (int64_t)GT_CONSTANT_ELEMENTS)
			return NULL;
		view->shape[i] = shape[i];
		view->stride[i] = i < more || size == 1 ? 0 : c->stride[i - more];
	}
	return view;
}

bool gt_constant_index(const struct gt_constant *ids, const int64_t *at, int64_t size, int64_t *out)
{
	double x = *gt_constant_at(ids, at);

	if (!(x >= (double)-size && x < (double)size))
		return false;
	*out = (int64_t)x;
	*out += *out < 0 ? size : 0;
	return *out >= 0 && *out < size;
}

bool gt_constant_next(int ndim, const int64_t *shape, int64_t *index)
{
	for (int i = ndim; i-- > 0;) {
		if (++index[i] < shape[i])
			return true;
		index[i] = 0;
	}
	return false;
}

bool gt_constant_write(
    struct gt_constants *all, struct gt_constant *to, const struct gt_constant *from)
{
	const struct gt_constant *wide = gt_constant_expand(all, from, to->ndim, to->shape);
	int64_t index[GT_MAX_DIMS] = { 0 };

	if (!wide)
		return false;
	if (!gt_constant_count(to))
		return true;
	do {
		*gt_constant_at(to, index) =
		    gt_constant_round(to->dtype, *gt_constant_at(wide, index));
	} while (gt_constant_next(to->ndim, to->shape, index));
	return true;
}

static bool is_contiguous(const struct gt_constant *c)
{
	int64_t stride = 1;

	for (int i = c->ndim; i-- > 0; stride *= c->shape[i])
		if (c->shape[i] != 1 && c->stride[i] != stride)
			return false;
	return true;
}

/* Compute the size that is -1. */
static bool complete_shape(int64_t elements, int ndim, int64_t *shape)
{
	int64_t known = 1;
	int open = -1;

	for (int i = 0; i < ndim; i++) {
		if (shape[i] == -1 && open < 0)
			open = i;
		else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known))
			return false;
	}
	if (open < 0)
		return known == elements;
	if (!known || elements % known)
		return false;
	shape[open] = elements / known;
	return true;
}

struct gt_constant *gt_constant_reshape(
    struct gt_constants *all, const struct gt_constant *c, int ndim, const int64_t *shape)
{
	int64_t sizes[GT_MAX_DIMS], stride = 1;
	struct gt_constant *view, *copy;

	memcpy(sizes, shape, (size_t)ndim * sizeof(*sizes));
	if (!complete_shape(gt_constant_count(c), ndim, sizes))
		return NULL;
	if (!is_contiguous(c)) {
		copy = gt_constant_new(all, c->dtype, c->ndim, c->shape);
		if (!copy || !gt_constant_write(all, copy, c))
			return NULL;
		c = copy;
	}
	view = gt_constant_view(all, c);
	if (!view)
		return NULL;
	view->ndim = ndim;
	for (int i = ndim; i-- > 0; stride *= sizes[i]) {
		view->shape[i] = sizes[i];
		view->stride[i] = stride;
	}
	return view;
}

/* ---- functions ---- */

#define NUM(x)      (x)
#define F_EXP(x)    exp(x)
#define F_LOG(x)    log(x)
#define F_TANH(x)   tanh(x)
#define F_ERF(x)    erf(x)
#define F_SQRT(x)   sqrt(x)
#define F_EXPM1(x)  expm1(x)
#define F_LOG1P(x)  log1p(x)
#define F_SIN(x)    sin(x)
#define F_COS(x)    cos(x)
#define F_POW(x, y) pow(x, y)
#define F_ABS(x)    fabs(x)
#define F_FLOOR(x)  floor(x)

static double compute(enum gt_function f, double a, double b, double c)
{
	switch (f) {
#define GT_FUNCTION(name, arguments, flops, formula)                                               \
	case GT_F_##name:                                                                          \
		return formula;
#include "lib/graph/ops/functions.inc"
	default:
		return NAN;
	}
}

/* Broadcast the shapes of the arguments. A dimension along which no argument changes has one
 * element in memory: its size in `distinct` is 1. */
static bool broadcast(
    int count, const struct gt_constant *const *in, int *ndim, int64_t *shape, int64_t *distinct)
{
	*ndim = 0;
	for (int k = 0; k < count; k++)
		*ndim = in[k]->ndim > *ndim ? in[k]->ndim : *ndim;
	for (int i = 0; i < *ndim; i++) {
		bool varies = false;

		shape[i] = 1;
		for (int k = 0; k < count; k++) {
			int at = i - (*ndim - in[k]->ndim);
			int64_t size = at < 0 ? 1 : in[k]->shape[at];

			if (size != 1 && shape[i] != 1 && shape[i] != size)
				return false;
			shape[i] = size != 1 ? size : shape[i];
			varies |= size != 1 && in[k]->stride[at];
		}
		distinct[i] = varies || !shape[i] ? shape[i] : 1;
	}
	return true;
}

struct gt_constant *gt_constant_apply(struct gt_constants *all, enum gt_function f,
    enum gt_dtype dtype, int count, const struct gt_constant *const *in)
{
	int64_t shape[GT_MAX_DIMS], distinct[GT_MAX_DIMS], index[GT_MAX_DIMS] = { 0 };
	struct gt_constant *wide[3] = { NULL }, *out;
	int ndim;

	if (!broadcast(count, in, &ndim, shape, distinct))
		return NULL;
	for (int k = 0; k < count; k++) {
		wide[k] = gt_constant_expand(all, in[k], ndim, shape);
		if (!wide[k])
			return NULL;
	}
	out = gt_constant_new(all, dtype, ndim, distinct);
	if (!out || !gt_constant_count(out))
		return out ? gt_constant_expand(all, out, ndim, shape) : NULL;
	do {
		double x[3] = { 0 };

		for (int k = 0; k < count; k++)
			x[k] = *gt_constant_at(wide[k], index);
		*gt_constant_at(out, index) =
		    gt_constant_round(dtype, compute(f, x[0], x[1], x[2]));
	} while (gt_constant_next(ndim, distinct, index));
	return gt_constant_expand(all, out, ndim, shape);
}
