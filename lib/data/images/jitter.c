/* jitter.c - other brightness, contrast, saturation and hue, as Pillow computes them. */
#include <math.h>

#include "lib/base/philox.h"
#include "lib/data/core/source.h"
#include "lib/data/images/images.h"

/*
 * torchvision's ColorJitter of a PIL image: four adjustments in a random order, each of which reads
 * and writes bytes. Images as tensors of floats get nearly the same numbers; bytes are those that
 * most training scripts see, where the transform stands before ToTensor().
 *
 * Sources: torchvision, transforms.ColorJitter and _functional_pil.py; Pillow, ImageEnhance.py
 * (each enhancer blends the image with a degenerate one), Blend.c, and Convert.c for HSV, which
 * takes its formulas from Smith, "Color Gamut Transform Pairs", SIGGRAPH 1978.
 */

/* An image's pixels, one after the other. */
struct picture {
	uint8_t *pixels; /* [count, channels] */
	size_t count;
	int channels; /* 1 or 3 */
};

/* Return a value between the degenerate one (factor 0) and the own one (factor 1), or beyond it. */
static uint8_t blend(int degenerate, int own, float factor)
{
	float value = (float)degenerate + factor * (float)(own - degenerate);

	return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : value);
}

/* Degenerate: black. */
static void change_brightness(const struct picture *p, float factor)
{
	for (size_t i = 0; i < p->count * (size_t)p->channels; i++)
		p->pixels[i] = blend(0, p->pixels[i], factor);
}

static uint8_t grey(const struct picture *p, size_t i)
{
	return p->channels == 1 ? p->pixels[i] : gt_image_grey(p->pixels + 3 * i);
}

/* Degenerate: the mean grey of the whole image, rounded. */
static void change_contrast(const struct picture *p, float factor)
{
	uint64_t sum = 0;
	int mean;

	for (size_t i = 0; i < p->count; i++)
		sum += grey(p, i);
	mean = (int)((double)sum / (double)p->count + 0.5);
	for (size_t i = 0; i < p->count * (size_t)p->channels; i++)
		p->pixels[i] = blend(mean, p->pixels[i], factor);
}

/* Degenerate: the grey image. */
static void change_saturation(const struct picture *p, float factor)
{
	for (size_t i = 0; i < p->count && p->channels == 3; i++) {
		uint8_t *rgb = p->pixels + 3 * i;
		int own = gt_image_grey(rgb);

		for (int c = 0; c < 3; c++)
			rgb[c] = blend(own, rgb[c], factor);
	}
}

struct hsv {
	uint8_t h, s, v; /* the circle of hues and the two shares in 255 parts */
};

static struct hsv rgb_to_hsv(const uint8_t rgb[3])
{
	int r = rgb[0], g = rgb[1], b = rgb[2];
	int max = r > g ? r : g, min = r < g ? r : g;
	float span, hue;
	double sixths;

	max = b > max ? b : max;
	min = b < min ? b : min;
	if (max == min)
		return (struct hsv){ 0, 0, (uint8_t)max };
	span = (float)(max - min);
	/* Sixths of the circle from the largest color, by how far the others are from it. */
	if (r == max)
		sixths = (double)((float)(max - b) / span - (float)(max - g) / span);
	else if (g == max)
		sixths =
		    2.0 + (double)((float)(max - r) / span) - (double)((float)(max - b) / span);
	else
		sixths =
		    4.0 + (double)((float)(max - g) / span) - (double)((float)(max - r) / span);
	hue = (float)sixths;
	hue = (float)fmod((double)hue / 6.0 + 1.0, 1.0);
	return (struct hsv){ (uint8_t)((double)hue * 255.0),
		(uint8_t)((double)(span / (float)max) * 255.0), (uint8_t)max };
}

static void hsv_to_rgb(uint8_t rgb[3], struct hsv in)
{
	/* The places of the largest, smallest, falling and rising color in each sixth. */
	enum { V, P, Q, T };
	static const uint8_t order[6][3] = { { V, T, P }, { Q, V, P }, { P, V, T }, { P, Q, V },
		{ T, P, V }, { V, P, Q } };
	double sixths = (double)in.h * 6.0 / 255.0;
	int sixth = (int)sixths;
	float rest = (float)(sixths - sixth), s = (float)in.s / 255.0f, v = in.v;
	const uint8_t value[] = { [V] = in.v,
		[P] = (uint8_t)lround((double)v * (1.0 - (double)s)),
		[Q] = (uint8_t)lround((double)v * (1.0 - (double)(s * rest))),
		[T] = (uint8_t)lround((double)v * (1.0 - (double)s * (1.0 - (double)rest))) };

	for (int c = 0; c < 3; c++)
		rgb[c] = value[order[sixth % 6][c]];
}

static void shift_hue(const struct picture *p, float shift)
{
	uint8_t step = (uint8_t)(int)((double)shift * 255);

	for (size_t i = 0; i < p->count && p->channels == 3; i++) {
		struct hsv pixel = rgb_to_hsv(p->pixels + 3 * i);

		pixel.h = (uint8_t)(pixel.h + step);
		hsv_to_rgb(p->pixels + 3 * i, pixel);
	}
}

/* Permutation number `n` below 24 of 0 .. 3, taken apart in base 4, 3, 2. */
static void choose_order(int order[4], unsigned n)
{
	for (int i = 0; i < 4; i++)
		order[i] = i;
	for (unsigned left = 4; left > 1; n /= left--) {
		int k = (int)(n % left), last = order[left - 1];

		order[left - 1] = order[k];
		order[k] = last;
	}
}

/*
 * jitter.c: vary the colors of an image of 1 or 3 channels in place.
 *
 *   settings  four numbers: brightness b, contrast c, saturation s, hue h. Brightness is multiplied
 *             by a random factor from max(0, 1 - b) to 1 + b. Contrast and saturation have factors
 *             from the same formula, with c and s in place of b. The hue is shifted by a random
 *             part of its circle, from -h to h. A setting of 0 changes nothing.
 *   bits      Four random words. The upper 24 bits of word k give the factor or shift of setting k.
 *             The lower 8 bits of all words together choose one of the 24 orders of the four
 *             adjustments.
 */
int gt_augment_jitter(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err)
{
	static void (*const change[4])(const struct picture *, float) = { change_brightness,
		change_contrast, change_saturation, shift_hue };
	enum { HUE = 3 };
	const struct picture p = { pixels, (size_t)info->form.height * (size_t)info->form.width,
		info->form.channels };
	uint32_t rest = 0;
	int order[4];

	(void)err;
	for (int k = 0; k < 4; k++)
		rest = rest << 8 | (bits[k] & 0xFF);
	choose_order(order, (unsigned)((uint64_t)rest * 24 >> 32));
	for (int i = 0; i < 4; i++) {
		int k = order[i];
		double centre = k == HUE ? 0 : 1, low = centre - settings[k];
		double high = centre + settings[k];

		if (!(settings[k] > 0))
			continue;
		low = k != HUE && low < 0 ? 0 : low;
		change[k](&p, (float)(low + (high - low) * (double)gt_philox_float(bits[k])));
	}
	return 0;
}
