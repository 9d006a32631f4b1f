/* lower_shape.c - operators of ONNX that view or move elements, and those that compute shapes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/import/lower.h"

/* ---- shapes ---- */

/* 0 keeps a size of the input, unless allowzero says that it is a size. */
void gt_lower_reshape(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], size[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), count = gt_lower_sizes(im, 1, "shape", size);
	bool zeros = gt_import_int(im, "allowzero", 0) != 0;

	if (count < 0 && gt_lower_need(im, 1))
		return;
	for (int i = 0; i < count && !zeros; i++)
		if (!size[i] && i < ndim)
			size[i] = shape[i];
	gt_lower_call(im, "reshape.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "shape", gt_lower_ints(count, size), NULL);
}

/* A matrix: the dimensions before `axis` are its rows. */
void gt_lower_flatten(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], size[] = { 1, 1 };
	int ndim = gt_lower_shape(im, 0, shape), axis;

	if (ndim < 0)
		return;
	axis = gt_import_dim(im, "axis", 1, ndim + 1);
	for (int i = 0; i < ndim; i++)
		size[i >= axis] *= shape[i];
	gt_lower_call(im, "reshape.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "shape", gt_lower_ints(2, size), NULL);
}

/* Read axes as bits of the `ndim` dimensions of a result. */
static unsigned read_axes(struct gt_import *im, int ndim)
{
	int64_t axes[GT_MAX_DIMS];
	int count = gt_lower_sizes(im, 1, "axes", axes);
	unsigned bits = 0;

	for (int i = 0; i < count; i++) {
		int64_t axis = axes[i] + (axes[i] < 0 ? ndim : 0);

		if (axis < 0 || axis >= ndim)
			gt_import_fail(im, ": the axis %lld is none of %d dimensions",
			    (long long)axes[i], ndim);
		else
			bits |= 1u << axis;
	}
	return bits;
}

/* Call a function of one dimension for each bit, in an order that leaves the others in place. */
static void change_dims(struct gt_import *im, const char *target, unsigned bits, bool upwards)
{
	const char *x = gt_lower_need(im, 0), *out = gt_lower_output(im, 0);

	if (!bits)
		gt_lower_alias(im, x, out);
	while (bits && !im->g->err.code) {
		int dim = upwards ? __builtin_ctz(bits) : 31 - __builtin_clz(bits);

		bits &= ~(1u << dim);
		x = gt_lower_call(im, target, gt_lower_type(im, 0),
		    bits ? gt_lower_make_name(im) : out, "self", gt_lower_tensor(x), "dim",
		    gt_lower_int(dim), NULL);
	}
}

void gt_lower_squeeze(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape);
	unsigned bits = ndim >= 0 ? read_axes(im, ndim) : 0;

	if (!gt_lower_input(im, 1))
		for (int i = 0; i < ndim; i++)
			bits |= shape[i] == 1 ? 1u << i : 0;
	for (int i = 0; i < ndim; i++)
		if (bits >> i & 1 && shape[i] != 1)
			gt_import_fail(
			    im, "of dimension %d, which has %lld elements", i, (long long)shape[i]);
	change_dims(im, "squeeze.dim", bits, false);
}

void gt_lower_unsqueeze(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], axes[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), count = gt_lower_sizes(im, 1, "axes", axes);

	if (ndim < 0 || count < 0 || ndim + count > GT_MAX_DIMS)
		gt_import_fail(im, "to more than %d dimensions", GT_MAX_DIMS);
	else
		change_dims(im, "unsqueeze.default", read_axes(im, ndim + count), true);
}

/* The result has the larger of two sizes. */
void gt_lower_expand(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], size[GT_MAX_DIMS], wide[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), count = gt_lower_sizes(im, 1, "shape", size);
	int most = ndim > count ? ndim : count;

	if (ndim < 0 || count < 0)
		return;
	for (int i = 0; i < most; i++) {
		int64_t a = i < most - ndim ? 1 : shape[i - (most - ndim)];
		int64_t b = i < most - count ? 1 : size[i - (most - count)];

		wide[i] = b == 1 ? a : b;
	}
	gt_lower_call(im, "expand.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "size", gt_lower_ints(most, wide), NULL);
}

/* Shape and Size are known: the batch is. */
void gt_lower_shape_tensor(struct gt_import *im)
{
	bool size = !strcmp(im->lowering->op, "Size");
	int64_t shape[GT_MAX_DIMS], start, end, count = 1;
	int ndim = gt_lower_shape(im, 0, shape);
	struct gt_constant *c;

	if (ndim < 0)
		return;
	start = gt_import_clip(gt_import_int(im, "start", 0), ndim);
	end = gt_import_clip(gt_import_int(im, "end", ndim), ndim);
	for (int i = 0; i < ndim; i++)
		count *= shape[i];
	c = gt_constant_new(
	    &im->constants, GT_I64, size ? 0 : 1, (int64_t[]){ end > start ? end - start : 0 });
	if (c && size)
		*c->elements = (double)count;
	for (int64_t i = start; c && !size && i < end; i++)
		c->elements[i - start] = (double)shape[i];
	gt_lower_bind(im, c);
}

void gt_lower_constant_of_shape(struct gt_import *im)
{
	int64_t size[GT_MAX_DIMS];
	int count = gt_lower_sizes(im, 0, "shape", size);
	const char *kind;
	const struct gt_constant *value =
	    gt_import_find(im, "value", &kind) ? gt_import_constant(im, "value") : NULL;

	if (count < 0 && gt_lower_need(im, 0))
		return;
	gt_lower_call(im, "full.default", value ? value->dtype : GT_F32, gt_lower_output(im, 0),
	    "size", gt_lower_ints(count, size), "fill_value",
	    gt_lower_float(value && gt_constant_count(value) ? *value->elements : 0), NULL);
}

void gt_lower_range(struct gt_import *im)
{
	double start = gt_lower_number_of(im, 0, "start", 0);
	double end = gt_lower_number_of(im, 1, "limit", 0);
	double step = gt_lower_number_of(im, 2, "delta", 1);

	gt_lower_call(im, "arange.start_step", gt_lower_type(im, 0), gt_lower_output(im, 0),
	    "start", gt_lower_float(start), "end", gt_lower_float(end), "step",
	    gt_lower_float(step), NULL);
}

void gt_lower_triangle(struct gt_import *im)
{
	bool upper = gt_import_int(im, "upper", 1) != 0;
	double k = gt_lower_number_of(im, 1, "k", 0);

	gt_lower_call(im, upper ? "triu.default" : "tril.default", gt_lower_type(im, 0),
	    gt_lower_output(im, 0), "self", gt_lower_tensor(gt_lower_need(im, 0)), "diagonal",
	    gt_lower_int(gt_lower_whole(k)), NULL);
}

/* ---- moving data ---- */

void gt_lower_transpose(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], order[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), count = gt_import_ints(im, "perm", order, 0, 0);

	for (int i = 0; i < ndim && !count; i++)
		order[i] = ndim - 1 - i;
	if (count && count != ndim)
		gt_import_fail(
		    im, ": the attribute 'perm' has %d numbers for %d dimensions", count, ndim);
	if (ndim >= 0)
		gt_lower_call(im, "permute.default", gt_lower_type(im, 0), gt_lower_output(im, 0),
		    "self", gt_lower_tensor(gt_lower_need(im, 0)), "dims",
		    gt_lower_ints(ndim, order), NULL);
}

void gt_lower_concat(struct gt_import *im)
{
	const char *names[GT_IMPORT_TENSORS];
	int count = gt_lower_inputs(im);

	if (count > GT_IMPORT_TENSORS)
		gt_import_fail(im, "of more than %d tensors", GT_IMPORT_TENSORS);
	for (int i = 0; i < count && !im->g->err.code; i++)
		names[i] = gt_lower_need(im, i);
	if (!im->g->err.code)
		gt_lower_call(im, "cat.default", gt_lower_type(im, 0), gt_lower_output(im, 0),
		    "tensors", gt_lower_tensors(count, names), "dim",
		    gt_lower_int(gt_import_int(im, "axis", 0)), NULL);
}

/* A slice along one axis. A step of -1 over the whole axis turns it around. */
static const char *slice(struct gt_import *im, const char *x, const char *out, int64_t axis,
    int64_t start, int64_t end, int64_t step)
{
	enum gt_dtype type = gt_lower_type(im, 0);
	int64_t shape[GT_MAX_DIMS], size;
	int ndim = gt_lower_shape_of(im, x, shape);

	axis += axis < 0 ? ndim : 0;
	if (ndim < 0 || axis < 0 || axis >= ndim)
		return gt_import_fail(im, "along an axis that is none of %d dimensions", ndim);
	if (step > 0)
		return gt_lower_call(im, "slice.Tensor", type, out, "self", gt_lower_tensor(x),
		    "dim", gt_lower_int(axis), "start", gt_lower_int(start), "end",
		    gt_lower_int(end), "step", gt_lower_int(step), NULL);
	size = shape[axis];
	if (step != -1 || (start != -1 && start < size - 1) || end > -size)
		return gt_import_fail(im, "with a step of %lld", (long long)step);
	return gt_lower_call(im, "flip.default", type, out, "self", gt_lower_tensor(x), "dims",
	    gt_lower_ints(1, &axis), NULL);
}

void gt_lower_slice(struct gt_import *im)
{
	int64_t start[GT_MAX_DIMS], end[GT_MAX_DIMS], axis[GT_MAX_DIMS], step[GT_MAX_DIMS];
	int64_t shape[GT_MAX_DIMS];
	const char *x = gt_lower_need(im, 0), *out = gt_lower_output(im, 0);
	int count = gt_lower_sizes(im, 1, "starts", start);
	int ends = gt_lower_sizes(im, 2, "ends", end), axes = gt_lower_sizes(im, 3, "axes", axis);
	int steps = gt_lower_sizes(im, 4, "steps", step);

	if (gt_lower_shape(im, 0, shape) < 0 || im->g->err.code)
		return;
	if (count < 1 || ends != count || (axes >= 0 && axes != count) ||
	    (steps >= 0 && steps != count)) {
		gt_import_fail(im, "with %d starts and %d ends", count, ends);
		return;
	}
	for (int i = 0; i < count && x; i++)
		x = slice(im, x, i + 1 == count ? out : gt_lower_make_name(im),
		    axes < 0 ? i : axis[i], start[i], end[i], steps < 0 ? 1 : step[i]);
}

/* The name of part i of a sequence. */
static const char *part_name(struct gt_import *im, const char *sequence, int64_t i)
{
	char *name = gt_asprintf(&im->g->err, "%s#%lld", sequence ? sequence : "", (long long)i);
	const char *kept = name ? gt_arena_strdup(&im->g->arena, name, &im->g->err) : NULL;

	free(name);
	return kept;
}

/* Split has an output for each part. SplitToSequence has one for all of them, whose parts
 * SequenceAt reads. */
void gt_lower_split(struct gt_import *im)
{
	bool sequence = !strcmp(im->lowering->op, "SplitToSequence");
	int64_t shape[GT_MAX_DIMS], given[GT_MAX_DIMS], size, even, at = 0, parts = 1;
	int ndim = gt_lower_shape(im, 0, shape), axis,
	    count = gt_lower_sizes(im, 1, "split", given);
	const struct gt_constant *split = count < 0 ? NULL : gt_lower_constant(im, 1);

	if (ndim < 1 || im->g->err.code)
		return;
	axis = gt_import_dim(im, "axis", 0, ndim);
	size = shape[axis];
	if (sequence && !gt_import_int(im, "keepdims", 1) && !split)
		gt_import_fail(im, "without keepdims");
	if (!sequence)
		parts = (int64_t)json_array_size(json_object_get(im->origin, "outputs"));
	if (!sequence && gt_import_int(im, "num_outputs", parts) != parts)
		gt_import_fail(im, "with another number of outputs than 'num_outputs'");
	even = sequence ? 1 : parts > 0 ? (size + parts - 1) / parts : 0;
	if (split && !split->ndim)
		even = given[0];
	if (even < 1)
		gt_import_fail(im, "into parts without elements");
	for (int64_t i = 0; at < size && !im->g->err.code; i++) {
		int64_t part = split && split->ndim ? i < count ? given[i] : 0 : even;
		const char *out = sequence ? part_name(im, gt_lower_output(im, 0), i)
		                           : gt_lower_output(im, (int)i);

		if (part < 1 || i >= GT_IMPORT_TENSORS ||
		    (split && split->ndim && part > size - at))
			gt_import_fail(im, "into parts of other sizes than the tensor's");
		else if (out)
			slice(im, gt_lower_need(im, 0), out, axis, at,
			    at + part < size ? at + part : size, 1);
		at += part;
	}
}

void gt_lower_sequence_at(struct gt_import *im)
{
	double at = gt_lower_number_of(im, 1, "position", 0);
	const char *part = part_name(im, gt_lower_need(im, 0), gt_lower_whole(at));

	if (part && !gt_index_find(&im->bindings, &part))
		gt_import_fail(im, ": the sequence has no part %g", at);
	gt_lower_alias(im, part, gt_lower_output(im, 0));
}

void gt_lower_tile(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], repeats[GT_MAX_DIMS];
	const char *x = gt_lower_need(im, 0), *names[GT_IMPORT_TENSORS];
	int ndim = gt_lower_shape(im, 0, shape), count = gt_lower_sizes(im, 1, "repeats", repeats);

	if (ndim < 0 || im->g->err.code)
		return;
	if (count != ndim)
		gt_import_fail(im, "with %d repeats of %d dimensions", count, ndim);
	for (int d = 0; d < ndim && !im->g->err.code; d++) {
		if (repeats[d] < 1 || repeats[d] > GT_IMPORT_TENSORS) {
			gt_import_fail(im, "by %lld", (long long)repeats[d]);
			return;
		}
		for (int64_t i = 0; i < repeats[d]; i++)
			names[i] = x;
		if (repeats[d] > 1)
			x = gt_lower_call(im, "cat.default", gt_lower_type(im, 0),
			    gt_lower_make_name(im), "tensors",
			    gt_lower_tensors((int)repeats[d], names), "dim", gt_lower_int(d), NULL);
	}
	gt_lower_alias(im, x, gt_lower_output(im, 0));
}

void gt_lower_pad(struct gt_import *im)
{
	const char *mode = gt_import_string(im, "mode", "constant");
	int64_t shape[GT_MAX_DIMS], axes[GT_MAX_DIMS], pads[GT_MAX_DIMS],
	    list[2 * GT_MAX_DIMS] = { 0 };
	int ndim = gt_lower_shape(im, 0, shape), count = gt_lower_sizes(im, 1, "pads", pads);
	int given = gt_lower_sizes(im, 3, "axes", axes), used = 0;
	double value = gt_lower_number_of(im, 2, "constant_value", 0);

	if (ndim < 0 || im->g->err.code)
		return;
	if (count < 0 || count != 2 * (given < 0 ? ndim : given))
		gt_import_fail(im, "with %d pads of %d dimensions", count, ndim);
	for (int i = 0; i < count / 2 && !im->g->err.code; i++) {
		int64_t axis = given < 0 ? i : axes[i] + (axes[i] < 0 ? ndim : 0);

		if (axis < 0 || axis >= ndim) {
			gt_import_fail(im, "along an axis that is none of %d dimensions", ndim);
			return;
		}
		list[2 * (ndim - 1 - axis)] = pads[i];
		list[2 * (ndim - 1 - axis) + 1] = pads[count / 2 + i];
		if ((pads[i] || pads[count / 2 + i]) && used < 2 * (ndim - (int)axis))
			used = 2 * (ndim - (int)axis);
	}
	gt_lower_call(im, "pad.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "pad", gt_lower_ints(used, list), "mode",
	    gt_lower_string(mode), "value", gt_lower_float(value), NULL);
}

void gt_lower_depth_to_space(struct gt_import *im)
{
	if (strcmp(gt_import_string(im, "mode", "DCR"), "CRD") != 0)
		gt_import_fail(im, "with another mode than 'CRD'");
	gt_lower_call(im, "pixel_shuffle.default", gt_lower_type(im, 0), gt_lower_output(im, 0),
	    "self", gt_lower_tensor(gt_lower_need(im, 0)), "upscale_factor",
	    gt_lower_int(gt_import_int(im, "blocksize", 1)), NULL);
}

/* ---- lookups ---- */

/* x[:, ids] for constant ids, in the form of index.Tensor. */
static void index_by(struct gt_import *im, int axis, const char *ids)
{
	json_t *list = json_array();

	for (int i = 0; i < axis; i++)
		json_array_append_new(list, gt_lower_none());
	json_array_append_new(list, gt_lower_tensor(ids));
	gt_lower_call(im, "index.Tensor", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "indices",
	    json_pack("{s:o}", "as_optional_tensors", list), NULL);
}

void gt_lower_gather(struct gt_import *im)
{
	int64_t shape[GT_MAX_DIMS], many[GT_MAX_DIMS];
	int ndim = gt_lower_shape(im, 0, shape), dims = gt_lower_shape(im, 1, many), axis;
	const char *x = gt_lower_need(im, 0), *ids = gt_lower_need(im, 1);
	const char *out = gt_lower_output(im, 0);
	const struct gt_constant *c, *at;

	if (ndim < 1 || dims < 0)
		return;
	axis = gt_import_dim(im, "axis", 0, ndim);
	c = gt_lower_constant(im, 0);
	at = gt_lower_constant(im, 1);
	if (at && !dims)
		gt_lower_call(im, "select.int", gt_lower_type(im, 0), out, "self",
		    gt_lower_tensor(x), "dim", gt_lower_int(axis), "index",
		    gt_lower_int(gt_lower_whole(*at->elements)), NULL);
	else if (!c && !axis && ndim == 2)
		gt_lower_call(im, "embedding.default", gt_lower_type(im, 0), out, "weight",
		    gt_lower_tensor(x), "indices", gt_lower_tensor(ids), NULL);
	else if (at)
		index_by(im, axis, ids);
	else
		gt_lower_call(im, "index_select.default", gt_lower_type(im, 0), out, "self",
		    gt_lower_tensor(x), "dim", gt_lower_int(axis), "index", gt_lower_tensor(ids),
		    NULL);
}

void gt_lower_gather_elements(struct gt_import *im)
{
	gt_lower_call(im, "gather.default", gt_lower_type(im, 0), gt_lower_output(im, 0), "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "dim",
	    gt_lower_int(gt_import_int(im, "axis", 0)), "index",
	    gt_lower_tensor(gt_lower_need(im, 1)), NULL);
}

/* The number of elements is an input. */
void gt_lower_topk(struct gt_import *im)
{
	const enum gt_dtype dtype[] = { gt_lower_type(im, 0), GT_I64 };
	const char *const out[] = { gt_lower_output(im, 0), gt_lower_output(im, 1) };
	int64_t k[GT_MAX_DIMS] = { 0 };

	if (gt_lower_sizes(im, 1, "K", k) != 1 && !im->g->err.code)
		gt_import_fail(im, "without a number of elements");
	gt_lower_call_pair(im, "topk.default", dtype, out, "self",
	    gt_lower_tensor(gt_lower_need(im, 0)), "k", gt_lower_int(k[0]), "dim",
	    gt_lower_int(gt_import_int(im, "axis", -1)), "largest",
	    gt_lower_bool(gt_import_int(im, "largest", 1) != 0), NULL);
}
