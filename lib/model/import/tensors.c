/* tensors.c - arguments and results of a network's nodes that are tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/import/network.h"

/* ---- tensors ---- */

static const char *tensor_argument(struct gt_import *im, const char *name)
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind);

	return value && !strcmp(kind, "as_tensor")
	           ? json_string_value(json_object_get(value, "name"))
	           : NULL;
}

static struct gt_binding *binding_of(struct gt_import *im, const char *argument, const char *tensor)
{
	struct gt_binding *b = tensor ? gt_index_find(&im->bindings, &tensor) : NULL;

	if (!b)
		return gt_import_fail(
		    im, ": the argument '%s' is no tensor that is known", argument);
	if (!gt_import_refresh(im, b) && !im->g->err.code)
		gt_import_fail(im, "reads '%s', which %s has overwritten", tensor,
		    b->owner ? b->owner->overwritten : b->overwritten);
	return im->g->err.code ? NULL : b;
}

enum { MASK_SIDE = 4096 }; /* most tokens of a mask in a buffer */

/* Return whether a tensor has the shape of a mask of later tokens, [..., T, T]. */
static bool has_mask_shape(const struct gt_tree_tensor *t)
{
	int64_t side = t->ndim < 2 ? 0 : t->shape[t->ndim - 1], elements = 1;

	for (int i = 0; i < t->ndim; i++)
		elements *= t->shape[i] > 1 && i < t->ndim - 2 ? 0 : t->shape[i];
	return side > 1 && side <= MASK_SIDE && elements == side * side;
}

/* Return whether a matrix has one number above its diagonal, and another one elsewhere. */
static bool is_triangle(const struct gt_constant *c)
{
	int64_t index[GT_MAX_DIMS] = { 0 };
	double below, above;

	below = *gt_constant_at(c, index);
	index[c->ndim - 1] = 1;
	above = *gt_constant_at(c, index);
	index[c->ndim - 1] = 0;
	do {
		bool later = index[c->ndim - 1] > index[c->ndim - 2];

		if (*gt_constant_at(c, index) != (later ? above : below))
			return false;
	} while (gt_constant_next(c->ndim, c->shape, index));
	return above != below;
}

/* Read a buffer of floating-point numbers if it is a mask of later tokens, which networks keep in
 * buffers, and never change. */
static struct gt_constant *read_mask_buffer(struct gt_import *im, const struct gt_network_tensor *t)
{
	struct gt_constant *c;

	if (!has_mask_shape(t->tensor))
		return NULL;
	c = gt_constant_read(&im->constants, t->tensor);
	return c && is_triangle(c) ? c : NULL;
}

/* Read a constant of the archive when it is needed. A buffer of whole numbers is a constant, too,
 * but for the counter of batches, which has a meaning of its own. */
static struct gt_constant *constant_of(struct gt_import *im, struct gt_binding *b)
{
	const struct gt_network_tensor *t = b->tensor;
	bool counts = t && strstr(t->name, "num_batches_tracked");

	if (b->constant || !t || counts || t->kind == GT_NETWORK_PARAMETER)
		return b->constant;
	if (b->is_no_mask)
		return NULL;
	if (t->kind == GT_NETWORK_BUFFER && gt_dtype_is_float(t->tensor->dtype)) {
		b->constant = read_mask_buffer(im, t);
		b->is_no_mask = !b->constant;
	} else {
		b->constant = gt_constant_read(&im->constants, t->tensor);
	}
	if (b->constant)
		b->constant->stored = true;
	return b->constant;
}

/* Whether all entries along the first dimension are equal. */
static bool repeats_first(const struct gt_constant *c)
{
	int64_t index[GT_MAX_DIMS] = { 0 };

	if (!gt_constant_count(c))
		return false;
	do {
		const double *x = gt_constant_at(c, index);

		if (*x != x[-index[0] * c->stride[0]])
			return false;
	} while (gt_constant_next(c->ndim, c->shape, index));
	return true;
}

/* Write element i of a value of this type. */
static bool put_element(void *out, enum gt_dtype dtype, int64_t i, double x)
{
	if (dtype == GT_F32)
		((float *)out)[i] = (float)x;
	else if (dtype == GT_BOOL)
		((uint8_t *)out)[i] = x != 0;
	else if (x >= INT32_MIN && x <= INT32_MAX)
		((int32_t *)out)[i] = (int32_t)x;
	else
		return false;
	return true;
}

/* The elements of constants that may still become values of the graph, which keeps equal ones
 * once. */
static int64_t spare_elements(const struct gt_import *im)
{
	const int64_t used = (int64_t)(im->g->interned_bytes / sizeof(float));

	return 2 * im->constants.most - used;
}

/* A constant as a value of the graph: float32, booleans or int32. Constants for a batch that was
 * fixed at the export are the same for each sample, and so for any batch. */
struct gt_value *gt_import_value(struct gt_import *im, const struct gt_constant *c)
{
	struct gt_constant all = *c;
	enum gt_dtype dtype = gt_dtype_is_float(c->dtype) ? GT_F32
	                      : c->dtype == GT_BOOL       ? GT_BOOL
	                                                  : GT_I32;
	int64_t index[GT_MAX_DIMS] = { 0 }, i = 0;
	struct gt_value *v;
	void *out;

	if (c->ndim && im->exported_batch && im->exported_batch != im->batch &&
	    c->shape[0] == im->exported_batch && repeats_first(c)) {
		all.shape[0] = im->batch;
		all.stride[0] = 0;
	}
	if (!gt_constant_count(c))
		return gt_import_fail(im, "reads a tensor without elements");
	if (gt_constant_count(&all) > spare_elements(im))
		return gt_import_fail(
		    im, "reads a constant of %lld elements", (long long)gt_constant_count(&all));
	if (!gt_constants_read(&im->constants, gt_constant_count(&all)))
		return NULL;
	out = gt_calloc((size_t)gt_constant_count(&all), gt_dtype_size(dtype), &im->g->err);
	if (!out)
		return NULL;
	do {
		if (!put_element(out, dtype, i++, *gt_constant_at(&all, index)))
			gt_import_fail(im, "reads a constant beyond 32 bits");
	} while (gt_constant_next(all.ndim, all.shape, index));
	v = im->g->err.code ? NULL : gt_constant(im->g, dtype, all.ndim, all.shape, out);
	free(out);
	return v;
}

static struct gt_value *value_of_tensor(
    struct gt_import *im, const char *argument, const char *tensor)
{
	struct gt_binding *b = binding_of(im, argument, tensor);
	struct gt_constant *c = b ? constant_of(im, b) : NULL;

	if (c)
		return gt_import_value(im, c);
	if (b && !b->value)
		return gt_import_fail(im, "reads '%s', which has no elements", b->name);
	return b ? b->value : NULL;
}

struct gt_binding *gt_import_binding(struct gt_import *im, const char *name)
{
	return binding_of(im, name, tensor_argument(im, name));
}

struct gt_constant *gt_import_constant(struct gt_import *im, const char *name)
{
	const char *tensor = tensor_argument(im, name);
	struct gt_binding *b = tensor ? binding_of(im, name, tensor) : NULL;

	return b ? constant_of(im, b) : NULL;
}

struct gt_value *gt_import_tensor(struct gt_import *im, const char *name)
{
	return value_of_tensor(im, name, tensor_argument(im, name));
}

/* Whole numbers that are computed from data are float32 in gtrain. */
struct gt_value *gt_import_ids(struct gt_import *im, const char *name)
{
	struct gt_value *ids = gt_import_tensor(im, name);

	return ids && !gt_dtype_is_float(gt_import_type(im, name)) ? gt_cast_to(im->g, ids, GT_I32)
	                                                           : ids;
}

struct gt_value *gt_import_optional(struct gt_import *im, const char *name)
{
	const char *kind;

	return gt_import_find(im, name, &kind) ? gt_import_tensor(im, name) : NULL;
}

struct gt_map_operand gt_import_operand(struct gt_import *im, const char *name)
{
	const char *kind;

	if (gt_import_find(im, name, &kind) && !strcmp(kind, "as_tensor"))
		return (struct gt_map_operand){ .value = gt_import_tensor(im, name) };
	return (
	    struct gt_map_operand){ .is_number = true, .number = gt_import_float(im, name, NAN) };
}

/* The name of a tensor in a list: {"name": "x"}, or, where entries may be None,
 * {"as_tensor": {"name": "x"}}. */
static const char *listed_name(const json_t *item)
{
	const json_t *tensor = json_object_get(item, "as_tensor");

	return json_string_value(json_object_get(tensor ? tensor : item, "name"));
}

static bool is_constant(struct gt_import *im, const char *argument, const char *tensor)
{
	struct gt_binding *b = tensor ? binding_of(im, argument, tensor) : NULL;

	return b && constant_of(im, b);
}

bool gt_import_all_constant(struct gt_import *im, size_t count)
{
	const json_t *inputs = json_object_get(im->node, "inputs"), *item;
	size_t i;

	for (size_t k = 0; k < count && k < json_array_size(inputs); k++) {
		const char *name = gt_import_argument(im, k), *kind;
		const json_t *value = gt_import_find(im, name, &kind);

		if (value && !strcmp(kind, "as_tensor") &&
		    !is_constant(im, name, listed_name(value)))
			return false;
		if (value && (!strcmp(kind, "as_tensors") || !strcmp(kind, "as_optional_tensors")))
			json_array_foreach(value, i,
			    item) if (!json_object_get(item, "as_none") &&
			              !is_constant(im, name, listed_name(item))) return false;
	}
	return true;
}

int gt_import_list(
    struct gt_import *im, const char *name, struct gt_binding *out[GT_IMPORT_TENSORS])
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind), *item;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) > GT_IMPORT_TENSORS ||
	    !json_array_size(value)) {
		gt_import_fail(im, ": the argument '%s' is no list of up to %d tensors", name,
		    GT_IMPORT_TENSORS);
		return 0;
	}
	json_array_foreach(value, i, item)
	{
		out[i] = json_object_get(item, "as_none") ? NULL
		                                          : binding_of(im, name, listed_name(item));
		if (out[i])
			constant_of(im, out[i]);
	}
	return im->g->err.code ? 0 : (int)json_array_size(value);
}

int gt_import_indices(struct gt_import *im, int *first, struct gt_constant *out[GT_MAX_DIMS])
{
	struct gt_binding *list[GT_IMPORT_TENSORS];
	int listed = gt_import_list(im, "indices", list), count = 0;
	int64_t shape[GT_MAX_DIMS];
	int ndim = 0;

	for (*first = 0; *first < listed && !list[*first];)
		++*first;
	for (int i = *first; i < listed && count < GT_MAX_DIMS; i++) {
		struct gt_constant *c = list[i] ? list[i]->constant : NULL;

		if (!list[i] && count)
			continue;
		if (!c || c->dtype == GT_BOOL || gt_dtype_is_float(c->dtype) ||
		    i != *first + count) {
			gt_import_fail(im,
			    "by indices that are booleans or fractions, that are computed from "
			    "data, or of dimensions that are no neighbours");
			return 0;
		}
		out[count++] = c;
		ndim = c->ndim > ndim ? c->ndim : ndim;
	}
	for (int d = 0; d < ndim; d++) {
		shape[d] = 1;
		for (int k = 0; k < count; k++) {
			int at = d - (ndim - out[k]->ndim);

			if (at >= 0 && out[k]->shape[at] != 1)
				shape[d] = out[k]->shape[at];
		}
	}
	for (int k = 0; k < count; k++) {
		out[k] = gt_constant_expand(&im->constants, out[k], ndim, shape);
		if (!out[k])
			return gt_import_fail(im, "by indices whose shapes do not fit"), 0;
	}
	return count;
}

int64_t gt_import_clip(int64_t index, int64_t size)
{
	if (index < 0)
		index += size;
	return index < 0 ? 0 : index > size ? size : index;
}

int gt_import_tensors(
    struct gt_import *im, const char *name, struct gt_value *out[GT_IMPORT_TENSORS])
{
	struct gt_binding *list[GT_IMPORT_TENSORS];
	int listed = gt_import_list(im, name, list), count = 0;

	for (int i = 0; i < listed; i++) {
		const struct gt_constant *c = list[i] ? list[i]->constant : NULL;

		if (!list[i])
			gt_import_fail(im, ": the argument '%s' has None", name);
		else if (!c || gt_constant_count(c))
			out[count++] = value_of_tensor(im, name, list[i]->name);
	}
	if (listed && !count)
		gt_import_fail(im, ": the argument '%s' has no elements", name);
	return im->g->err.code ? 0 : count;
}

bool gt_import_same_shape(const struct gt_value *a, const struct gt_value *b)
{
	return a && b && a->dtype == b->dtype && gt_value_same_shape(a, b);
}

/* ---- results ---- */

/* The name of output i of the node, or of element i of its output that is a list. */
static const char *name_result(const struct gt_import *im, size_t i)
{
	const json_t *outputs = json_object_get(im->node, "outputs");
	const json_t *list = json_object_get(json_array_get(outputs, 0), "as_tensors");
	const json_t *tensor = list ? json_array_get(list, i)
	                            : json_object_get(json_array_get(outputs, i), "as_tensor");

	return json_string_value(json_object_get(tensor, "name"));
}

static struct gt_binding *bind_result(
    struct gt_import *im, size_t i, struct gt_value *v, struct gt_constant *c)
{
	const char *name = name_result(im, i);
	struct gt_binding *b;

	if ((!v && !c) || im->g->err.code)
		return NULL;
	if (!name)
		return gt_import_fail(im, ": its result is no tensor");
	b = gt_arena_alloc(&im->g->arena, sizeof(*b), &im->g->err);
	if (!b)
		return NULL;
	*b = (struct gt_binding){ .name = name, .value = v, .constant = c, .next = im->list };
	if (gt_index_add(&im->bindings, b, &im->g->err) != b)
		return gt_import_fail(im, ": its result '%s' has the name of another", name);
	im->list = b;
	return b;
}

/* Note that b is result i of a node that views `of`. */
static void bind_view(struct gt_import *im, size_t i, struct gt_binding *b, struct gt_binding *of)
{
	b->owner = of->owner ? of->owner : of;
	b->viewed = of;
	b->node = im->node;
	b->part = i;
	b->seen = b->owner->writes;
}

/* The tensor that is the node's first argument. */
static struct gt_binding *first_argument(struct gt_import *im)
{
	return gt_import_binding(im, gt_import_argument(im, 0));
}

struct gt_value *gt_import_first(struct gt_import *im)
{
	const struct gt_binding *b = first_argument(im);

	return b ? value_of_tensor(im, "first", b->name) : NULL;
}

/* Whether the node's function overwrites its first argument: "relu_" in "relu_.default", but not
 * "__and__". */
static bool overwrites(const struct gt_import *im)
{
	const char *target = gt_import_target(im), *dot = strchr(target, '.');

	return dot && dot > target + 1 && dot[-1] == '_' && dot[-2] != '_';
}

/* Nodes of gtrain's graph overwrite nothing, so the old names keep the old elements until they are
 * read. */
void gt_import_result(struct gt_import *im, struct gt_value *v)
{
	struct gt_binding *of = overwrites(im) ? first_argument(im) : NULL;
	struct gt_binding *b = bind_result(im, 0, v, NULL);

	if (b && of)
		gt_import_overwrite(im, of, b);
}

void gt_import_output(struct gt_import *im, size_t i, struct gt_value *v)
{
	if (name_result(im, i))
		bind_result(im, i, v, NULL);
}

void gt_import_part(struct gt_import *im, size_t i, struct gt_value *v)
{
	struct gt_binding *of = first_argument(im);
	struct gt_binding *b = bind_result(im, i, v, NULL);

	if (b && of)
		bind_view(im, i, b, of);
}

void gt_import_view(struct gt_import *im, struct gt_value *v)
{
	gt_import_part(im, 0, v);
}

/* ---- constants ---- */

enum gt_dtype gt_import_type_of(struct gt_import *im, const char *tensor)
{
	enum gt_dtype dtype = GT_F32;
	int number = 0;

	if (tensor)
		gt_network_value(im->network, tensor, &number);
	if (tensor && json_object_get(im->types, tensor))
		number = (int)json_integer_value(json_object_get(im->types, tensor));
	if (!gt_exported_dtype(number, &dtype))
		gt_import_fail(im, ": the type of '%s' is not known", tensor ? tensor : "");
	return dtype;
}

enum gt_dtype gt_import_result_type(struct gt_import *im)
{
	return gt_import_type_of(im, name_result(im, 0));
}

enum gt_dtype gt_import_type(struct gt_import *im, const char *argument)
{
	return gt_import_type_of(im, tensor_argument(im, argument));
}

/* Return whether a dimension has several places for one element in memory. */
static bool is_expanded(const struct gt_constant *c)
{
	for (int i = 0; i < c->ndim; i++)
		if (c->shape[i] > 1 && !c->stride[i])
			return true;
	return false;
}

void gt_import_fold(struct gt_import *im, size_t i, struct gt_constant *c)
{
	const char *first = tensor_argument(im, gt_import_argument(im, 0));
	struct gt_binding *of = first ? binding_of(im, "first", first) : NULL, *b;
	struct gt_constant *to = overwrites(im) && of ? of->constant : NULL;

	if (im->replay) {
		im->replay->found = i == im->replay->part ? c : im->replay->found;
		return;
	}
	if (to && (to->stored || is_expanded(to))) {
		gt_import_fail(im, to->stored ? "overwrites a buffer"
		                              : "overwrites elements that several places share");
		return;
	}
	if (to && !gt_constant_write(&im->constants, to, c)) {
		gt_import_fail(im, "overwrites elements of another shape");
		return;
	}
	b = bind_result(im, i, NULL, to ? to : c);
	if (b && of && of->constant && of->constant->storage == b->constant->storage)
		bind_view(im, i, b, of);
}
