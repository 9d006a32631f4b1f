/* webp.c - the pixels of a WebP. */
#include <stdlib.h>
#include <webp/decode.h>

#include "lib/data/images/codec.h"

struct gt_webp {
	const unsigned char *data;
	size_t size;
	int height, width;
};

static int fail_webp(VP8StatusCode status, struct gt_err *err)
{
	static const char *const texts[] = {
		[VP8_STATUS_INVALID_PARAM] = "wrong parameters",
		[VP8_STATUS_BITSTREAM_ERROR] = "wrong data",
		[VP8_STATUS_UNSUPPORTED_FEATURE] = "an unknown feature",
		[VP8_STATUS_SUSPENDED] = "the file is cut short",
		[VP8_STATUS_USER_ABORT] = "stopped",
		[VP8_STATUS_NOT_ENOUGH_DATA] = "the file is cut short",
	};

	if (status == VP8_STATUS_OUT_OF_MEMORY)
		return gt_err_set(err, GT_ENOMEM, "out of memory: decoding a WebP");
	gt_err_set(err, GT_EFORMAT, "corrupt WebP: %s", texts[status]);
	return gt_err_hint(err, "the image is damaged; replace or remove it");
}

int gt_webp_open(struct gt_webp **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err)
{
	WebPBitstreamFeatures features;
	VP8StatusCode status = WebPGetFeatures(data, size, &features);
	int rc;

	*out = NULL;
	if (status != VP8_STATUS_OK)
		return fail_webp(status, err);
	rc = gt_image_check_size((uint64_t)features.width, (uint64_t)features.height, err);
	if (rc)
		return rc;
	if (features.has_animation) {
		gt_err_set(err, GT_EFORMAT, "an animated WebP, which gtrain does not read");
		return gt_err_hint(err, "convert one of its frames to PNG");
	}
	*out = gt_calloc(1, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	**out = (struct gt_webp){ data, size, features.height, features.width };
	*height = features.height;
	*width = features.width;
	return 0;
}

/* The decoder writes RGB, without alpha, also for a picture of grays. */
int gt_webp_read(
    struct gt_webp *w, int channels, size_t slack, uint8_t **pixels, struct gt_err *err)
{
	size_t count = (size_t)w->height * (size_t)w->width;
	WebPDecoderConfig config;
	VP8StatusCode status;

	*pixels = NULL;
	if (!WebPInitDecoderConfig(&config))
		return gt_err_set(err, GT_ENOTSUP, "libwebp has another version than its headers");
	*pixels = gt_calloc(3 * count + slack, 1, err);
	if (!*pixels)
		return GT_ENOMEM;
	config.output.colorspace = MODE_RGB;
	config.output.is_external_memory = 1;
	config.output.u.RGBA.rgba = *pixels;
	config.output.u.RGBA.stride = 3 * w->width;
	config.output.u.RGBA.size = 3 * count;
	status = WebPDecode(w->data, w->size, &config);
	WebPFreeDecBuffer(&config.output);
	if (status == VP8_STATUS_OK) {
		gt_image_convert(*pixels, count, 3, channels);
		return 0;
	}
	free(*pixels);
	*pixels = NULL;
	return fail_webp(status, err);
}

void gt_webp_close(struct gt_webp *w)
{
	free(w);
}
