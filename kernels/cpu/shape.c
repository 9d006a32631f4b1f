/* shape.c - subsample, image_normalize, and rows of tokens; with gradients. */
#define REAL_BITS 32
#include "kernels/cpu/shape.inc"
#define REAL_BITS 64
#include "kernels/cpu/shape.inc"

static int image_normalize_prepare(struct gt_call *call, struct gt_err *err)
{
	if (call->in[0].shape[3] > GT_MAX_CHANNELS)
		return gt_err_set(err, GT_ENOTSUP, "%lld channels, at most %d",
		    (long long)call->in[0].shape[3], GT_MAX_CHANNELS);
	return 0;
}

/* The float of each of the 256 values of a byte, for each channel. */
static void fill_levels(
    float levels[GT_MAX_CHANNELS][256], const union gt_attrs *attrs, int64_t channels)
{
	for (int64_t c = 0; c < channels; c++)
		for (int i = 0; i < 256; i++)
			levels[c][i] = ((float)i / 255.0f - attrs->normalize.mean[c]) /
			               attrs->normalize.std[c];
}

static int normalize_bytes(struct gt_call *call)
{
	const int64_t *shape = call->in[0].shape;
	int64_t channels = shape[3], area = shape[1] * shape[2], batch = shape[0];
	bool last = call->out[0].layout == GT_CHANNELS_LAST;
	const uint8_t *x = call->in[0].data;
	float *y = call->out[0].data, levels[GT_MAX_CHANNELS][256];
	int64_t pixel_step = last ? channels : 1, channel_step = last ? 1 : area;

	fill_levels(levels, &call->attrs, channels);
#pragma omp parallel for schedule(static) if (batch * area * channels >= GT_FORK_MIN)
	for (int64_t b = 0; b < batch; b++) {
		const uint8_t *from = x + b * area * channels;
		float *to = y + b * area * channels;

		for (int64_t p = 0; p < area; p++)
			for (int64_t c = 0; c < channels; c++)
				to[p * pixel_step + c * channel_step] =
				    levels[c][from[p * channels + c]];
	}
	return 0;
}

/* Of mixtures. */
static int normalize_floats(struct gt_call *call)
{
	const int64_t *shape = call->in[0].shape;
	int64_t channels = shape[3], area = shape[1] * shape[2], batch = shape[0];
	bool last = call->out[0].layout == GT_CHANNELS_LAST;
	const float *mean = call->attrs.normalize.mean, *std = call->attrs.normalize.std;
	const float *x = call->in[0].data;
	float *y = call->out[0].data;
	int64_t pixel_step = last ? channels : 1, channel_step = last ? 1 : area;

#pragma omp parallel for schedule(static) if (batch * area * channels >= GT_FORK_MIN)
	for (int64_t b = 0; b < batch; b++) {
		const float *from = x + b * area * channels;
		float *to = y + b * area * channels;

		for (int64_t c = 0; c < channels; c++)
			for (int64_t p = 0; p < area; p++)
				to[p * pixel_step + c * channel_step] =
				    (from[p * channels + c] / 255.0f - mean[c]) / std[c];
	}
	return 0;
}

static int image_normalize(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	return call->in[0].dtype == GT_U8 ? normalize_bytes(call) : normalize_floats(call);
}

const struct gt_kernel GT_ISA(gt_cpu_shape_kernels)[] = {
	GT_ROWS(subsample, .accepts = gt_accept_channels_last),
	GT_ROWS(subsample_grad, .accepts = gt_accept_channels_last),
	GT_ROWS(last_position),
	GT_ROWS(patch_tokens),
	GT_ROWS(patch_tokens_grad),
	{ .op = "image_normalize",
	    .dtype = GT_F32,
	    .prepare = image_normalize_prepare,
	    .run = image_normalize },
	{ .op = NULL },
};
