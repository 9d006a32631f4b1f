/* conv_winograd.c - 3x3 convolutions by Winograd's algorithm, for nodes that are relaxed. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/parallel.h"

/*
 * F(4x4, 3x3) makes a tile of 16 outputs from 36 products per channel where the sum takes 144, at
 * the price of transforms on both sides and of some bits (Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2015). oneDNN's kernel for it, which needs AVX-512, wants images
 * in blocks of 16 channels: [B, C / 16, H, W, 16]. So one pass takes x there, and another brings y
 * back; that one adds the residual and takes max(0, .) too, since the only relu that oneDNN offers
 * here turns NaN into 0 (conv.c says why that will not do).
 *
 * How oneDNN cuts the work depends on the number of threads, and so may the last bits.
 */
enum {
	BLOCK = 16,
	/* Below either the passes and the transforms eat the gain: 32 channels come out even, 64
	 * take 0.7 of the time of the direct sum; 512 pixels take 1.3, 2048 take 0.8. */
	CHANNELS_MIN = 64,
	PIXELS_MIN = 1024
};

struct winograd_descs {
	gt_dnnl_md x, w, w_plain, y, bias;
};

static int describe_tensors(struct gt_call *call, struct winograd_descs *d, struct gt_err *err)
{
	const struct gt_tensor *bias = gt_optional_input(call, 2);
	int rc;

	*d = (struct winograd_descs){ 0 };
	if ((rc = gt_dnnl_describe(call, &call->in[0], dnnl_nChw16c, &d->x, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_describe(call, &call->in[1], dnnl_format_tag_any, &d->w, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_describe(call, &call->in[1], dnnl_oihw, &d->w_plain, err)) < 0)
		return rc;
	if (bias && (rc = gt_dnnl_describe(call, bias, dnnl_a, &d->bias, err)) < 0)
		return rc;
	return gt_dnnl_describe(call, &call->out[0], dnnl_nChw16c, &d->y, err);
}

/* Asked for training, oneDNN's kernel transforms the weights itself, by all threads; for inference
 * it wants that done by a reorder, once and for all, which takes as long as the convolution. Here
 * they are new in every run. */
static int describe_winograd(struct gt_call *call, const_dnnl_primitive_attr_t attr,
    struct winograd_descs *d, dnnl_primitive_desc_t *out, struct gt_err *err)
{
	struct gt_dnnl *dnnl = call->state;
	struct gt_dnnl_conv conv = { dnnl_convolution_winograd, .stride = { 1, 1 },
		.pad = { 1, 1 } };
	int rc = describe_tensors(call, d, err);

	if (rc < 0)
		return rc;
	conv.x = d->x;
	conv.w = d->w;
	conv.bias = d->bias;
	conv.y = d->y;
	return gt_dnnl_check(gt_dnnl_conv_forward(out, &conv, dnnl->engine, attr), call, dnnl->op,
	    "do this convolution by Winograd's algorithm", err);
}

/* ---- which calls ---- */

static bool is_offered(const struct gt_call *call)
{
	struct gt_call trial = *call;
	struct winograd_descs d;
	dnnl_primitive_desc_t desc = NULL;
	int rc;

	if (gt_dnnl_new(&trial, "conv2d", GT_ERR_IGNORED) < 0)
		return false; /* the direct sum, which takes every call, will say so */
	rc = describe_winograd(&trial, NULL, &d, &desc, GT_ERR_IGNORED);
	gt_dnnl_api->primitive_desc_destroy(desc);
	gt_dnnl_release(&trial);
	return rc == 0;
}

static bool is_winograd_window(const struct gt_window *w)
{
	for (int i = 0; i < 2; i++)
		if (w->kernel[i] != 3 || w->stride[i] != 1 || w->pad[i] != 1 || w->dilation[i] != 1)
			return false;
	return true;
}

static bool is_wide(int64_t channels)
{
	return channels % BLOCK == 0 && channels >= CHANNELS_MIN;
}

static bool accepts(const struct gt_call *call)
{
	const struct gt_tensor *x = &call->in[0], *y = &call->out[0];
	const union gt_attrs *a = &call->attrs;

	return a->conv.relaxed && a->conv.groups == 1 && is_winograd_window(&a->conv.window) &&
	       is_wide(x->shape[1]) && is_wide(y->shape[1]) &&
	       y->shape[0] * y->shape[2] * y->shape[3] >= PIXELS_MIN &&
	       x->layout == GT_CHANNELS_LAST && y->layout == GT_CHANNELS_LAST && is_offered(call);
}

/* ---- preparing ---- */

static size_t bytes_of(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * sizeof(float);
}

/* Steps: weights into blocks, the convolution. The workspace begins with x and y in blocks, where
 * run_winograd() expects them. */
static int add_steps(struct gt_call *call, const struct winograd_descs *d,
    const_dnnl_primitive_desc_t desc, struct gt_err *err)
{
	gt_dnnl_md w = gt_dnnl_api->primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
	const struct gt_dnnl_address w_plain = { GT_DNNL_IN, 1 }, bias = { GT_DNNL_IN, 2 };
	struct gt_dnnl_address x_address = gt_dnnl_workspace(call, bytes_of(&call->in[0]));
	struct gt_dnnl_address y_address = gt_dnnl_workspace(call, bytes_of(&call->out[0]));
	struct gt_dnnl_address w_address =
	    gt_dnnl_workspace(call, gt_dnnl_api->memory_desc_get_size(w));
	struct gt_dnnl_step *step;
	int rc;

	if ((rc = gt_dnnl_reorder_add(call, d->w_plain, w_plain, w, w_address, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_step_add(call, desc, &step, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, DNNL_ARG_SRC, d->x, x_address, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, DNNL_ARG_WEIGHTS, w, w_address, err)) < 0)
		return rc;
	if (d->bias && (rc = gt_dnnl_arg(call, step, DNNL_ARG_BIAS, d->bias, bias, err)) < 0)
		return rc;
	return gt_dnnl_arg(call, step, DNNL_ARG_DST, d->y, y_address, err);
}

static int prepare_winograd(struct gt_call *call, struct gt_err *err)
{
	struct winograd_descs d;
	dnnl_primitive_desc_t desc = NULL;
	dnnl_primitive_attr_t attr = NULL;
	int rc;

	if ((rc = gt_dnnl_new(call, "conv2d", err)) < 0)
		return rc;
	if ((rc = gt_dnnl_attr(call, "conv2d", &attr, err)) < 0)
		goto out;
	rc = describe_winograd(call, attr, &d, &desc, err);
	if (rc == 0)
		rc = add_steps(call, &d, desc, err);
out:
	gt_dnnl_api->primitive_desc_destroy(desc);
	gt_dnnl_api->primitive_attr_destroy(attr);
	if (rc < 0)
		gt_dnnl_release(call);
	return rc;
}

/* ---- running ---- */

/* Copy x [B, H W, C] to `to` [B, C / 16, H W, 16]. */
static void into_blocks(float *to, const struct gt_tensor *x)
{
	int64_t channels = x->shape[1], area = x->shape[2] * x->shape[3];
	const float *from = x->data;

#pragma omp parallel for collapse(2) schedule(static) if (gt_tensor_elements(x) >= GT_FORK_MIN)
	for (int64_t b = 0; b < x->shape[0]; b++)
		for (int64_t p = 0; p < area; p++) {
			const float *pixel = from + (b * area + p) * channels;
			float *block = to + b * area * channels + p * BLOCK;

			for (int64_t c = 0; c < channels; c += BLOCK)
				memcpy(block + c * area, pixel + c, BLOCK * sizeof(float));
		}
}

/* y = from + r, max(0, .) if relu, for one block; r may be y, or NULL. NaN stays NaN. */
static inline __attribute__((always_inline)) void finish(
    float *y, const float *from, const float *r, bool relu)
{
#pragma omp simd
	for (int64_t i = 0; i < BLOCK; i++) {
		float v = r ? from[i] + r[i] : from[i];

		y[i] = relu && v < 0 ? 0 : v;
	}
}

/* y [B, H W, C] = from [B, C / 16, H W, 16], finished. */
static void out_of_blocks(const struct gt_call *call, const float *from)
{
	const struct gt_tensor *y = &call->out[0], *residual = gt_optional_input(call, 3);
	int64_t channels = y->shape[1], area = y->shape[2] * y->shape[3];
	const float *r = residual ? residual->data : NULL;
	bool relu = call->attrs.conv.relu;
	float *to = y->data;

#pragma omp parallel for collapse(2) schedule(static) if (gt_tensor_elements(y) >= GT_FORK_MIN)
	for (int64_t b = 0; b < y->shape[0]; b++)
		for (int64_t p = 0; p < area; p++) {
			const float *block = from + b * area * channels + p * BLOCK;
			int64_t at = (b * area + p) * channels;

			for (int64_t c = 0; c < channels; c += BLOCK)
				finish(to + at + c, block + c * area, r ? r + at + c : NULL, relu);
		}
}

static int run_winograd(struct gt_call *call, struct gt_err *err)
{
	float *x = call->workspace, *y = x + gt_tensor_elements(&call->in[0]);
	int rc;

	into_blocks(x, &call->in[0]);
	if ((rc = gt_dnnl_run(call, err)) < 0)
		return rc;
	out_of_blocks(call, y);
	return 0;
}

const struct gt_kernel gt_cpu_conv_winograd_kernels[] = {
	{ "conv2d", GT_F32, accepts, prepare_winograd, gt_dnnl_bind, run_winograd,
	    gt_dnnl_release },
	{ 0 },
};
