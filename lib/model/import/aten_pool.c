/* aten_pool.c - functions of PyTorch that change the size of images: pooling and interpolation. */
#include "lib/model/import/aten.h"

/* ---- pooling ---- */

static struct gt_pool_form read_pool(struct gt_import *im)
{
	struct gt_pool_form form = { .ceil_mode = gt_import_bool(im, "ceil_mode", false) };

	gt_import_pair(im, "kernel_size", 1, form.kernel);
	gt_import_pair(im, "stride", 0, form.stride);
	gt_import_pair(im, "padding", 0, form.pad);
	return form;
}

void gt_aten_max_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool(im);

	gt_import_pair(im, "dilation", 1, form.dilation);
	gt_import_result(im, gt_max_pool2d(im->g, x, form));
}

void gt_aten_avg_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool(im);

	form.exclude_pad = !gt_import_bool(im, "count_include_pad", true);
	if (gt_import_int(im, "divisor_override", 0))
		gt_import_fail(im, "with divisor_override");
	gt_import_result(im, gt_avg_pool2d(im->g, x, form));
}

void gt_aten_adaptive_avg_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int out[2] = { 0 };

	gt_import_pair(im, "output_size", 0, out);
	if (x && x->ndim == 4 && out[0] == x->shape[2] && out[1] == x->shape[3])
		gt_import_view(im, x);
	else
		gt_import_result(im, gt_adaptive_avg_pool2d(im->g, x, out[0], out[1]));
}

/* The second result, the places of the maxima, has no value. */
void gt_aten_adaptive_max_pool2d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int out[2] = { 0 };

	gt_import_pair(im, "output_size", 0, out);
	gt_import_result(im, gt_adaptive_max_pool2d(im->g, x, out[0], out[1]));
}

static struct gt_pool_form read_pool1d(struct gt_import *im)
{
	return (struct gt_pool_form){ .kernel = { gt_import_single(im, "kernel_size", 1) },
		.stride = { gt_import_single(im, "stride", 0) },
		.pad = { gt_import_single(im, "padding", 0) },
		.ceil_mode = gt_import_bool(im, "ceil_mode", false) };
}

void gt_aten_max_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool1d(im);

	form.dilation[0] = gt_import_single(im, "dilation", 1);
	gt_import_result(im, gt_max_pool1d(im->g, x, form));
}

void gt_aten_avg_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	struct gt_pool_form form = read_pool1d(im);

	form.exclude_pad = !gt_import_bool(im, "count_include_pad", true);
	gt_import_result(im, gt_avg_pool1d(im->g, x, form));
}

void gt_aten_adaptive_avg_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");

	gt_import_result(
	    im, gt_adaptive_avg_pool1d(im->g, x, gt_import_single(im, "output_size", 0)));
}

void gt_aten_adaptive_max_pool1d(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self");

	gt_import_result(
	    im, gt_adaptive_max_pool1d(im->g, x, gt_import_single(im, "output_size", 0)));
}

/* ---- interpolation ---- */

/* Read the size of the result, or the factors of which it is the whole part. */
static struct gt_resample_form read_resample(struct gt_import *im, const struct gt_value *x)
{
	struct gt_resample_form form = { .linear = false };
	double factors[GT_MAX_DIMS];
	int64_t sizes[GT_MAX_DIMS];
	int dims = x->ndim - 2, given = gt_import_floats(im, "scale_factors", factors);
	int count = gt_import_ints(im, "output_size", sizes, 0, 0);

	if (dims < 1 || dims > 2 || (count ? count : given) != dims)
		gt_import_fail(im, "of a tensor with %d dimensions", x->ndim);
	for (int i = 0; i < dims && !im->g->err.code; i++) {
		double size = count ? (double)sizes[i] : (double)x->shape[2 + i] * factors[i];

		if (!(size >= 1 && size <= INT32_MAX))
			gt_import_fail(im, "to %g pixels", size);
		else
			form.size[i] = (int)size;
		form.factor[i] = count ? 0 : factors[i];
	}
	return form;
}

static void resample(struct gt_import *im, bool linear, bool align_corners)
{
	struct gt_value *x = gt_import_tensor(im, "input");
	struct gt_resample_form form;

	if (!x)
		return;
	form = read_resample(im, x);
	form.linear = linear;
	form.align_corners = align_corners;
	if (!im->g->err.code)
		gt_import_result(im,
		    x->ndim == 3 ? gt_resample1d(im->g, x, form) : gt_resample2d(im->g, x, form));
}

void gt_aten_upsample_nearest(struct gt_import *im)
{
	resample(im, false, false);
}

void gt_aten_upsample_linear(struct gt_import *im)
{
	resample(im, true, gt_import_bool(im, "align_corners", false));
}
