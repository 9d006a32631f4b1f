/* rrc.c - random parts of an image, resized: torchvision's RandomResizedCrop. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/data/core/source.h"
#include "lib/data/images/resize.h"

/*
 * The part has a share of the area that is drawn from [min-scale, max-scale], and an aspect whose
 * logarithm is drawn from those of [min-ratio, max-ratio]. Where ten of them do not fit into the
 * picture, the part is the middle, as large as these ratios allow.
 *
 * Source: torchvision, transforms.RandomResizedCrop.get_params().
 */
enum { MIN_SCALE, MAX_SCALE, MIN_RATIO, MAX_RATIO, ATTEMPTS = 10 };

static double uniform(uint32_t word, double low, double high)
{
	return low + (high - low) * ((double)word * 0x1p-32);
}

static int below(uint32_t word, int limit)
{
	return (int)((uint64_t)word * (uint64_t)limit >> 32);
}

/* The words of one attempt; `bits` are those of the sample. */
static void draw_attempt(uint32_t out[4], const uint32_t bits[4], uint32_t attempt)
{
	const uint32_t counter[4] = { attempt, 0, bits[2], bits[3] };

	gt_philox((uint64_t)bits[1] << 32 | bits[0], counter, out);
}

static struct gt_box middle_box(int height, int width, const double *settings)
{
	double ratio = (double)width / height;
	int h = height, w = width;

	if (ratio < settings[MIN_RATIO])
		h = (int)rint(width / settings[MIN_RATIO]);
	else if (ratio > settings[MAX_RATIO])
		w = (int)rint(height * settings[MAX_RATIO]);
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	return (struct gt_box){ (height - h) / 2, (width - w) / 2, h, w };
}

struct gt_box gt_rrc_box(int height, int width, const double *settings, const uint32_t bits[4])
{
	double area = (double)height * width;

	for (uint32_t i = 0; i < ATTEMPTS; i++) {
		uint32_t words[4];
		double part, ratio, w, h;

		draw_attempt(words, bits, i);
		part = area * uniform(words[0], settings[MIN_SCALE], settings[MAX_SCALE]);
		ratio = exp(uniform(words[1], log(settings[MIN_RATIO]), log(settings[MAX_RATIO])));
		w = rint(sqrt(part * ratio));
		h = rint(sqrt(part / ratio));
		if (w >= 1 && w <= width && h >= 1 && h <= height)
			return (struct gt_box){ below(words[2], height - (int)h + 1),
				below(words[3], width - (int)w + 1), (int)h, (int)w };
	}
	return middle_box(height, width, settings);
}

int gt_rrc_check(const double *settings, struct gt_err *err)
{
	if (settings[MIN_SCALE] > 0 && settings[MIN_SCALE] <= settings[MAX_SCALE] &&
	    settings[MIN_RATIO] > 0 && settings[MIN_RATIO] <= settings[MAX_RATIO])
		return 0;
	return gt_err_set(err, GT_EINVAL,
	    "augmentation 'rrc': scale from %g to %g, ratio from %g to %g: each is to be above 0, "
	    "and no maximum below its minimum",
	    settings[MIN_SCALE], settings[MAX_SCALE], settings[MIN_RATIO], settings[MAX_RATIO]);
}

int gt_augment_rrc(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err)
{
	const struct gt_box box = gt_rrc_box(info->form.height, info->form.width, settings, bits);
	const struct gt_view view = gt_view_box(&box, info->form.height, info->form.width);
	size_t c = (size_t)info->form.channels, row = (size_t)info->form.width * c;
	struct gt_resize r;
	int rc = gt_resize_init(&r, &view, info->form.channels, pixels, err);
	uint8_t *whole = rc ? NULL : gt_calloc((size_t)info->form.height * row + r.slack, 1, err);

	if (whole) {
		memcpy(whole, pixels, (size_t)info->form.height * row);
		for (int y = r.top; y < r.bottom; y++)
			gt_resize_put(&r, y, whole + (size_t)y * row + (size_t)r.left * c);
	}
	gt_resize_release(&r);
	free(whole);
	return rc ? rc : whole ? 0 : GT_ENOMEM;
}
