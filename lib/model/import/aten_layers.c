/* aten_layers.c - functions of PyTorch that are layers: products, convolutions, lookups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/import/aten.h"

/* ---- products and convolutions ---- */

void gt_aten_linear(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");

	gt_import_result(im, gt_matmul(im->g, x, w, gt_import_optional(im, "bias"), false, true));
}

/* x * w + bias, with the factors 1. */
void gt_aten_addmm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "mat1"), *w = gt_import_tensor(im, "mat2");

	if (gt_import_float(im, "beta", 1) != 1 || gt_import_float(im, "alpha", 1) != 1)
		gt_import_fail(im, "with beta or alpha");
	gt_import_result(im, gt_matmul(im->g, x, w, gt_import_optional(im, "self"), false, false));
}

/* The graph takes 0 groups for 1, and fewer bits. */
static int read_groups(struct gt_import *im)
{
	int64_t groups = gt_import_int(im, "groups", 1);

	if (groups < 1 || groups > INT32_MAX)
		gt_import_fail(im, "with %lld groups", (long long)groups);
	return (int)groups;
}

void gt_aten_conv2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	struct gt_conv_form form = { .groups = read_groups(im) };

	gt_import_pair(im, "stride", 1, form.stride);
	gt_import_pair(im, "padding", 0, form.pad);
	gt_import_pair(im, "dilation", 1, form.dilation);
	gt_import_result(im, gt_conv2d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

void gt_aten_conv_transpose2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	struct gt_conv_form form = { .groups = read_groups(im) };

	gt_import_pair(im, "stride", 1, form.stride);
	gt_import_pair(im, "padding", 0, form.pad);
	gt_import_pair(im, "output_padding", 0, form.out_pad);
	gt_import_pair(im, "dilation", 1, form.dilation);
	gt_import_result(
	    im, gt_conv_transpose2d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

void gt_aten_conv1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	const struct gt_conv_form form = { .stride = { gt_import_single(im, "stride", 1) },
		.pad = { gt_import_single(im, "padding", 0) },
		.dilation = { gt_import_single(im, "dilation", 1) },
		.groups = read_groups(im) };

	gt_import_result(im, gt_conv1d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

void gt_aten_conv_transpose1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	const struct gt_conv_form form = { .stride = { gt_import_single(im, "stride", 1) },
		.pad = { gt_import_single(im, "padding", 0) },
		.out_pad = { gt_import_single(im, "output_padding", 0) },
		.dilation = { gt_import_single(im, "dilation", 1) },
		.groups = read_groups(im) };

	gt_import_result(
	    im, gt_conv_transpose1d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

/* Pad x for a convolution whose padding is a word, so that with "same" the size stays. PyTorch pads
 * an odd number of places with one more at the end. */
static struct gt_value *pad_by_word(struct gt_import *im, struct gt_value *x,
    const struct gt_value *w, const struct gt_conv_form *form)
{
	const char *word = gt_import_string(im, "padding", "valid");
	int64_t before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };

	if (!x || !w || !strcmp(word, "valid"))
		return x;
	if (strcmp(word, "same") != 0)
		return gt_import_fail(im, ": the argument 'padding' is '%s'", word);
	for (int i = 2; i < x->ndim && i < w->ndim; i++) {
		int64_t total = form->dilation[i - 2] * (w->shape[i] - 1);

		before[i] = total / 2;
		after[i] = total - before[i];
	}
	return gt_pad(im->g, x, before, after);
}

void gt_aten_conv2d_padding(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	struct gt_conv_form form = { .groups = read_groups(im) };

	gt_import_pair(im, "stride", 1, form.stride);
	gt_import_pair(im, "dilation", 1, form.dilation);
	x = pad_by_word(im, x, w, &form);
	gt_import_result(im, gt_conv2d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

void gt_aten_conv1d_padding(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "input"), *w = gt_import_tensor(im, "weight");
	const struct gt_conv_form form = { .stride = { gt_import_single(im, "stride", 1) },
		.dilation = { gt_import_single(im, "dilation", 1) },
		.groups = read_groups(im) };

	x = pad_by_word(im, x, w, &form);
	gt_import_result(im, gt_conv1d(im->g, x, w, gt_import_optional(im, "bias"), form));
}

/* ---- lookups ---- */

/* The op takes ids [B, T]; those of another shape are one sample. */
void gt_aten_embedding(struct gt_import *im)
{
	struct gt_value *table = gt_import_tensor(im, "weight"), *y;
	struct gt_value *ids = gt_import_ids(im, "indices"), *samples = ids;
	int64_t padding = gt_import_int(im, "padding_idx", -1), shape[GT_MAX_DIMS + 1];

	if (gt_import_bool(im, "scale_grad_by_freq", false))
		gt_import_fail(im, "with scale_grad_by_freq");
	if (!table || !ids || im->g->err.code)
		return;
	if (ids->ndim != 2)
		samples = gt_reshape(im->g, ids, 2, (int64_t[]){ 1, gt_value_elements(ids) });
	y = padding >= 0 ? gt_embedding_padded(im->g, table, samples, padding)
	                 : gt_embedding(im->g, table, samples, NULL, NULL);
	memcpy(shape, ids->shape, sizeof(ids->shape));
	shape[ids->ndim] = gt_value_last(table);
	gt_import_result(im, y && ids->ndim != 2 ? gt_reshape(im->g, y, ids->ndim + 1, shape) : y);
}

/* Rows by their indices, which are int32 in gtrain. */
void gt_aten_index_select(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *ids = gt_import_ids(im, "index");

	if (x && ids)
		gt_import_result(
		    im, gt_index_select(im->g, x, gt_import_dim(im, "dim", 0, x->ndim), ids));
}
