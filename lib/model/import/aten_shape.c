/* aten_shape.c - functions of PyTorch that view or move elements. */
#include <string.h>

#include "lib/model/import/aten.h"

/* ---- shapes ---- */

/* Sizes in the file are those of the export. A batch that was fixed there is the first size of a
 * tensor whose first dimension is the batch; other readings are errors. */
static bool free_batch(struct gt_import *im, const struct gt_value *x, int64_t *size, int count)
{
	int64_t elements = gt_value_elements(x), known = 1, open = -1;

	if (count && im->exported_batch && im->exported_batch != im->batch && size[0] >= 0 &&
	    x->ndim && x->shape[0] == im->batch && size[0] == im->exported_batch)
		size[0] = im->batch;
	for (int i = 0; i < count; i++) {
		if (size[i] < 0)
			open = i;
		else if (__builtin_mul_overflow(known, size[i], &known))
			return false;
	}
	/* [2 samples x 4 heads, ...] to [2 samples, 4 heads, ...] with another batch */
	if (open < 0 && known != elements && count && size[0] > 0 &&
	    size[0] == im->exported_batch && known / size[0] * im->batch == elements) {
		size[0] = im->batch;
		known = elements;
	}
	if (open >= 0 && known > 0 && elements % known == 0) {
		size[open] = elements / known;
		return true;
	}
	return open < 0 && known == elements;
}

static void fail_fixed_sizes(struct gt_import *im)
{
	gt_import_fail(
	    im, "to sizes of the %lld samples of the export", (long long)im->exported_batch);
	gt_err_hint(&im->g->err, "export it with dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)");
}

static void view_as(struct gt_import *im, const char *argument)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, argument, size, 0, 0);

	if (!x || im->g->err.code)
		return;
	if (free_batch(im, x, size, count))
		gt_import_view(im, gt_reshape(im->g, x, count, size));
	else
		fail_fixed_sizes(im);
}

void gt_aten_view(struct gt_import *im)
{
	view_as(im, "size");
}

void gt_aten_reshape(struct gt_import *im)
{
	view_as(im, "shape");
}

/* View x with the dimensions from `first` to `last` replaced by `count` sizes. */
static void replace_dims(
    struct gt_import *im, struct gt_value *x, int first, int last, const int64_t *size, int count)
{
	int64_t shape[2 * GT_MAX_DIMS];
	int ndim = 0;

	for (int i = 0; i < first; i++)
		shape[ndim++] = x->shape[i];
	for (int i = 0; i < count; i++)
		shape[ndim++] = size[i];
	for (int i = last + 1; i < x->ndim; i++)
		shape[ndim++] = x->shape[i];
	gt_import_view(im, gt_reshape(im->g, x, ndim, shape));
}

void gt_aten_flatten(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size = 1;
	int first, last;

	if (!x || !x->ndim)
		return;
	first = gt_import_dim(im, "start_dim", 0, x->ndim);
	last = gt_import_dim(im, "end_dim", -1, x->ndim);
	for (int i = first; i <= last; i++)
		size *= x->shape[i];
	replace_dims(im, x, first, last, &size, 1);
}

void gt_aten_unflatten(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS], known = 1;
	int dim, open = -1, count = gt_import_ints(im, "sizes", size, 0, 0);

	if (!x || im->g->err.code)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	for (int i = 0; i < count; i++) {
		if (size[i] == -1)
			open = i;
		else if (size[i] < 1 || __builtin_mul_overflow(known, size[i], &known))
			gt_import_fail(im, "to sizes that are not positive");
	}
	if (open >= 0)
		size[open] = x->shape[dim] / known;
	if (!im->g->err.code)
		replace_dims(im, x, dim, dim, size, count);
}

void gt_aten_unsqueeze(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	const int64_t one = 1;
	int dim;

	if (!x)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim + 1);
	replace_dims(im, x, dim, dim - 1, &one, 1);
}

void gt_aten_squeeze(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	if (x->shape[dim] == 1)
		replace_dims(im, x, dim, dim, NULL, 0);
	else
		gt_import_view(im, x);
}

/* -1 keeps a size. New dimensions come first. */
void gt_aten_expand(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS];
	int count = gt_import_ints(im, "size", size, 0, 0);

	if (!x || im->g->err.code)
		return;
	if (count && im->exported_batch && size[0] == im->exported_batch)
		size[0] = im->batch;
	for (int i = 0; i < count; i++)
		if (size[i] == -1 && i >= count - x->ndim)
			size[i] = x->shape[i - (count - x->ndim)];
	gt_import_view(im, gt_expand(im->g, x, count, size));
}

void gt_aten_expand_as(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *like = gt_import_tensor(im, "other");

	if (x && like)
		gt_import_view(im, gt_expand(im->g, x, like->ndim, like->shape));
}

/* Broadcast tensors to a common shape, as in NumPy. */
void gt_aten_broadcast_tensors(struct gt_import *im)
{
	struct gt_value *list[GT_IMPORT_TENSORS];
	int count = gt_import_tensors(im, "tensors", list), ndim = 0;
	int64_t shape[GT_MAX_DIMS];

	for (int i = 0; i < count; i++)
		ndim = list[i]->ndim > ndim ? list[i]->ndim : ndim;
	for (int d = 0; d < ndim; d++) {
		shape[d] = 1;
		for (int i = 0; i < count; i++) {
			int at = d - (ndim - list[i]->ndim);

			if (at >= 0 && list[i]->shape[at] != 1)
				shape[d] = list[i]->shape[at];
		}
	}
	for (int i = 0; i < count; i++)
		gt_import_output(im, (size_t)i, gt_expand(im->g, list[i], ndim, shape));
}

void gt_aten_reshape_as(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *like = gt_import_tensor(im, "other");

	if (x && like)
		gt_import_view(im, gt_reshape(im->g, x, like->ndim, like->shape));
}

/* The tensor itself: nodes overwrite nothing, and layouts are the backend's. */
void gt_aten_same(struct gt_import *im)
{
	gt_import_view(im, gt_import_tensor(im, "self"));
}

void gt_aten_clone(struct gt_import *im)
{
	gt_import_result(im, gt_import_tensor(im, "self"));
}

/* ---- new elements in place of others: as copy_, fill_ and zero_ ---- */

/* Whole numbers that are computed from data are float32 in gtrain, so a copy to them must have no
 * fraction. */
void gt_aten_copy(struct gt_import *im)
{
	struct gt_value *to = gt_import_tensor(im, "self"), *x = gt_import_tensor(im, "src");
	bool whole = !gt_dtype_is_float(gt_import_type(im, "self"));

	if (!to || !x)
		return;
	if (whole && gt_dtype_is_float(gt_import_type(im, "src")))
		gt_import_fail(im, "of fractions to whole numbers");
	else
		gt_import_result(
		    im, gt_value_same_shape(to, x) ? x : gt_expand(im->g, x, to->ndim, to->shape));
}

void gt_aten_fill(struct gt_import *im)
{
	struct gt_value *to = gt_import_tensor(im, "self");
	struct gt_map_operand x = gt_import_operand(im, "value");

	if (!to || im->g->err.code)
		return;
	gt_import_result(im, x.is_number ? gt_fill(im->g, GT_F32, to->ndim, to->shape, x.number)
	                                 : gt_expand(im->g, x.value, to->ndim, to->shape));
}

void gt_aten_zero(struct gt_import *im)
{
	struct gt_value *to = gt_import_tensor(im, "self");

	if (to)
		gt_import_result(im, gt_fill(im->g, GT_F32, to->ndim, to->shape, 0));
}

/* ---- moving data ---- */

void gt_aten_permute(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t dims[GT_MAX_DIMS];
	int order[GT_MAX_DIMS], count = gt_import_ints(im, "dims", dims, 0, 0);
	unsigned met = 0;

	if (!x || im->g->err.code)
		return;
	for (int i = 0; i < count; i++) {
		int64_t dim = dims[i] + (dims[i] < 0 ? x->ndim : 0);

		if (dim >= 0 && dim < x->ndim)
			met |= 1u << dim;
		order[i] = (int)dim;
	}
	if (count != x->ndim || met != (1u << count) - 1)
		gt_import_fail(im, ": the argument 'dims' is no order of %d dimensions", x->ndim);
	else
		gt_import_view(im, gt_permute_dims(im->g, x, order));
}

static void swap_dims(struct gt_import *im, const char *first, const char *second)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int order[GT_MAX_DIMS], a, b;

	if (!x)
		return;
	a = gt_import_dim(im, first, 0, x->ndim);
	b = gt_import_dim(im, second, 1, x->ndim);
	for (int i = 0; i < x->ndim; i++)
		order[i] = i == a ? b : i == b ? a : i;
	if (!im->g->err.code)
		gt_import_view(im, gt_permute_dims(im->g, x, order));
}

void gt_aten_transpose(struct gt_import *im)
{
	swap_dims(im, "dim0", "dim1");
}

void gt_aten_swapaxes(struct gt_import *im)
{
	swap_dims(im, "axis0", "axis1");
}

void gt_aten_t(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	const int order[] = { 1, 0 };

	if (x && x->ndim == 2)
		gt_import_view(im, gt_permute_dims(im->g, x, order));
	else if (x)
		gt_import_view(im, x);
}

/* Values of the graph have elements: a slice without any is a constant, which cat leaves out. */
static void bind_nothing(struct gt_import *im, const struct gt_value *x, int dim)
{
	int64_t shape[GT_MAX_DIMS];
	struct gt_constant *c;

	memcpy(shape, x->shape, sizeof(shape));
	shape[dim] = 0;
	c = gt_constant_new(&im->constants, gt_import_result_type(im), x->ndim, shape);
	if (c)
		gt_import_fold(im, 0, c);
}

void gt_aten_slice(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t start = gt_import_int(im, "start", 0), end = gt_import_int(im, "end", INT64_MAX);
	int64_t step = gt_import_int(im, "step", 1);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	start = gt_import_clip(start, x->shape[dim]);
	end = gt_import_clip(end, x->shape[dim]);
	if (step < 1)
		gt_import_fail(im, "with a negative step");
	else if (start >= end)
		bind_nothing(im, x, dim);
	else if (!im->g->err.code)
		gt_import_view(im, gt_slice_dim(im->g, x, dim, start, end, step));
}

void gt_aten_select(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t index = gt_import_int(im, "index", 0);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	if (index < 0)
		index += x->shape[dim];
	if (index < 0 || index >= x->shape[dim])
		gt_import_fail(im, ": there is no such index");
	else if (!im->g->err.code)
		gt_import_view(im, gt_select(im->g, x, dim, index));
}

/* Bind the parts of x, which have these sizes along a dimension. */
static void split(
    struct gt_import *im, struct gt_value *x, int dim, const int64_t *size, int64_t count)
{
	int64_t at = 0;

	for (int64_t i = 0; i < count && !im->g->err.code; i++) {
		if (size[i] < 1 || size[i] > x->shape[dim] - at)
			gt_import_fail(im, "into parts of other sizes than the tensor's");
		else
			gt_import_part(
			    im, (size_t)i, gt_slice_dim(im->g, x, dim, at, at + size[i], 1));
		at += size[i];
	}
}

/* Parts of `part` elements; the last one may be smaller. */
static void split_evenly(struct gt_import *im, struct gt_value *x, int dim, int64_t part)
{
	int64_t size[GT_IMPORT_TENSORS], left = x->shape[dim], count = 0;

	if (part < 1 || (left + part - 1) / part > GT_IMPORT_TENSORS) {
		gt_import_fail(im, "into no parts, or into more than %d", GT_IMPORT_TENSORS);
		return;
	}
	for (; left > 0; left -= part)
		size[count++] = left < part ? left : part;
	split(im, x, dim, size, count);
}

void gt_aten_split(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t part = gt_import_int(im, "split_size", 0);

	if (x && x->ndim)
		split_evenly(im, x, gt_import_dim(im, "dim", 0, x->ndim), part);
}

void gt_aten_chunk(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t chunks = gt_import_int(im, "chunks", 1);
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	if (chunks < 1 || chunks > x->shape[dim])
		gt_import_fail(im, "into no parts");
	else
		split_evenly(im, x, dim, (x->shape[dim] + chunks - 1) / chunks);
}

void gt_aten_split_with_sizes(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t size[GT_MAX_DIMS];
	int count = gt_import_ints(im, "split_sizes", size, 0, 0);

	if (x && x->ndim && !im->g->err.code)
		split(im, x, gt_import_dim(im, "dim", 0, x->ndim), size, count);
}

void gt_aten_unbind(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int dim;

	if (!x || !x->ndim)
		return;
	dim = gt_import_dim(im, "dim", 0, x->ndim);
	for (int64_t i = 0; i < x->shape[dim] && !im->g->err.code; i++)
		gt_import_part(im, (size_t)i, gt_select(im->g, x, dim, i));
}

void gt_aten_cat(struct gt_import *im)
{
	struct gt_value *in[GT_IMPORT_TENSORS];
	int count = gt_import_tensors(im, "tensors", in);

	if (count)
		gt_import_result(
		    im, gt_cat(im->g, count, in, gt_import_dim(im, "dim", 0, in[0]->ndim)));
}

void gt_aten_stack(struct gt_import *im)
{
	struct gt_value *in[GT_IMPORT_TENSORS];
	int count = gt_import_tensors(im, "tensors", in);

	if (count)
		gt_import_result(
		    im, gt_stack(im->g, count, in, gt_import_dim(im, "dim", 0, in[0]->ndim + 1)));
}

void gt_aten_flip(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t dims[GT_MAX_DIMS];
	int count = gt_import_ints(im, "dims", dims, 0, 0);
	unsigned bits = 0;

	for (int i = 0; x && i < count; i++)
		if (dims[i] >= -x->ndim && dims[i] < x->ndim)
			bits |= 1u << (dims[i] + (dims[i] < 0 ? x->ndim : 0));
	gt_import_result(im, gt_flip(im->g, x, bits));
}

void gt_aten_roll(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t shifts[GT_MAX_DIMS], dims[GT_MAX_DIMS], all[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, "shifts", shifts, 0, 0);

	if (gt_import_ints(im, "dims", dims, 0, 0) != count || !count)
		gt_import_fail(im, "without a dimension for each shift");
	if (!x || im->g->err.code)
		return;
	for (int i = 0; i < count; i++)
		if (dims[i] >= -x->ndim && dims[i] < x->ndim)
			all[dims[i] + (dims[i] < 0 ? x->ndim : 0)] += shifts[i];
	gt_import_result(im, gt_roll(im->g, x, all));
}

/* Pad x with a value. Other values than 0 take the places where ones, padded in the same way, have
 * zeros. */
static struct gt_value *pad_with(struct gt_import *im, struct gt_value *x, const int64_t *before,
    const int64_t *after, double value)
{
	struct gt_map_operand operands[3] = { { .value = NULL }, { .value = NULL },
		{ .is_number = true, .number = value } };
	int64_t shape[GT_MAX_DIMS];

	operands[1].value = gt_pad(im->g, x, before, after);
	if (value == 0)
		return operands[1].value;
	for (int i = 0; i < x->ndim; i++)
		shape[i] = before[i] || after[i] ? x->shape[i] : 1;
	operands[0].value = gt_pad(im->g, gt_fill(im->g, GT_F32, x->ndim, shape, 1), before, after);
	return gt_apply(im->g, GT_F_WHERE, operands);
}

/* The argument has pairs of numbers before and after each dimension, the last dimension first. */
void gt_aten_pad(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t pads[GT_MAX_DIMS], before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };
	int count = gt_import_ints(im, "pad", pads, 0, 0);

	if (strcmp(gt_import_string(im, "mode", "constant"), "constant") != 0)
		gt_import_fail(im, "with anything but a constant");
	if (!x || im->g->err.code)
		return;
	if (count % 2 || count / 2 > x->ndim) {
		gt_import_fail(im, ": the argument 'pad' has %d numbers", count);
		return;
	}
	for (int i = 0; i < count / 2; i++) {
		before[x->ndim - 1 - i] = pads[2 * i];
		after[x->ndim - 1 - i] = pads[2 * i + 1];
	}
	gt_import_result(im, pad_with(im, x, before, after, gt_import_float(im, "value", 0)));
}

/* ---- channels of images ---- */

/* The sizes of the images of a batch: samples, channels, height, width. */
static bool read_image(struct gt_import *im, struct gt_value *x, int64_t size[4])
{
	if (x && x->ndim != 4)
		gt_import_fail(im, "of a tensor with %d dimensions", x->ndim);
	if (!x || im->g->err.code)
		return false;
	memcpy(size, x->shape, 4 * sizeof(*size));
	return true;
}

/* Squares of channels become squares of pixels: [B, C r r, H, W] to [B, C, H r, W r]. */
void gt_aten_pixel_shuffle(struct gt_import *im)
{
	const int order[] = { 0, 1, 4, 2, 5, 3 };
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t r = gt_import_int(im, "upscale_factor", 1), n[4], c;

	if (!read_image(im, x, n))
		return;
	if (r < 1 || r > INT32_MAX || n[1] % (r * r) != 0) {
		gt_import_fail(im, "of %lld channels by %lld", (long long)n[1], (long long)r);
		return;
	}
	c = n[1] / (r * r);
	x = gt_reshape(im->g, x, 6, (int64_t[]){ n[0], c, r, r, n[2], n[3] });
	x = gt_permute_dims(im->g, x, order);
	gt_import_result(im, gt_reshape(im->g, x, 4, (int64_t[]){ n[0], c, n[2] * r, n[3] * r }));
}

/* The other way round. */
void gt_aten_pixel_unshuffle(struct gt_import *im)
{
	const int order[] = { 0, 1, 3, 5, 2, 4 };
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t r = gt_import_int(im, "downscale_factor", 1), n[4];

	if (!read_image(im, x, n))
		return;
	if (r < 1 || n[2] % r != 0 || n[3] % r != 0) {
		gt_import_fail(im, "of %lld x %lld pixels by %lld", (long long)n[2],
		    (long long)n[3], (long long)r);
		return;
	}
	x = gt_reshape(im->g, x, 6, (int64_t[]){ n[0], n[1], n[2] / r, r, n[3] / r, r });
	x = gt_permute_dims(im->g, x, order);
	gt_import_result(
	    im, gt_reshape(im->g, x, 4, (int64_t[]){ n[0], n[1] * r * r, n[2] / r, n[3] / r }));
}

/* Channel i of group g becomes channel g of group i. */
void gt_aten_channel_shuffle(struct gt_import *im)
{
	const int order[] = { 0, 2, 1, 3 };
	struct gt_value *x = gt_import_tensor(im, "self");
	int64_t groups = gt_import_int(im, "groups", 1), shape[4] = { 0 };

	if (!x || im->g->err.code)
		return;
	if (x->ndim < 3 || groups < 1 || x->shape[1] % groups != 0) {
		gt_import_fail(im, "of groups that do not divide the channels");
		return;
	}
	shape[0] = x->shape[0];
	shape[1] = groups;
	shape[2] = x->shape[1] / groups;
	shape[3] = gt_value_elements(x) / x->shape[0] / x->shape[1];
	gt_import_result(
	    im, gt_reshape(im->g, gt_permute_dims(im->g, gt_reshape(im->g, x, 4, shape), order),
	            x->ndim, x->shape));
}
