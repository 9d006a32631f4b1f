/* augment.c - random crops and mirror images. */
#include <string.h>

#include "lib/base/philox.h"
#include "lib/data/source.h"

static const struct {
	const char *name;
	unsigned bits;
} augmentations[] = {
	{ "crop", GT_AUGMENT_CROP },
	{ "flip", GT_AUGMENT_FLIP },
	{ "none", 0 },
};

enum { AUGMENTATIONS = sizeof(augmentations) / sizeof(*augmentations) };

int gt_augment_parse(unsigned *out, const char *list, struct gt_err *err)
{
	*out = 0;
	while (*list) {
		size_t length = strcspn(list, ",");
		int i = 0;

		while (i < AUGMENTATIONS && (strlen(augmentations[i].name) != length ||
		                                memcmp(augmentations[i].name, list, length)))
			i++;
		if (i == AUGMENTATIONS) {
			gt_err_set(
			    err, GT_EINVAL, "unknown augmentation '%.*s'", (int)length, list);
			return gt_err_hint(err, "known: crop, flip, none; divided by commas");
		}
		*out |= augmentations[i].bits;
		list += length;
		list += *list == ',';
	}
	return 0;
}

/*
 * Pixel (y, x) becomes what was at (y + down, x + right); what comes from outside is 0. Rows are
 * taken in the order in which none is overwritten before it has been read.
 */
static void shift_image(uint8_t *pixels, int height, int width, int channels, int down, int right)
{
	size_t row = (size_t)width * channels;
	int skip = right < 0 ? -right : 0, from = right > 0 ? right : 0;
	int kept = width - skip - from;

	if (kept < 0)
		kept = 0;
	for (int i = 0; i < height; i++) {
		int y = down >= 0 ? i : height - 1 - i;
		uint8_t *to = pixels + y * row;

		if (y + down < 0 || y + down >= height || !kept) {
			memset(to, 0, row);
			continue;
		}
		memmove(to + (size_t)skip * channels,
		    pixels + (y + down) * row + (size_t)from * channels, (size_t)kept * channels);
		memset(to, 0, (size_t)skip * channels);
		memset(to + (size_t)(skip + kept) * channels, 0,
		    (size_t)(width - skip - kept) * channels);
	}
}

static void mirror_image(uint8_t *pixels, int height, int width, int channels)
{
	uint8_t pixel[GT_DATA_MAX_CHANNELS];

	for (int y = 0; y < height; y++) {
		uint8_t *left = pixels + (size_t)y * width * channels;
		uint8_t *right = left + (size_t)(width - 1) * channels;

		for (; left < right; left += channels, right -= channels) {
			memcpy(pixel, left, channels);
			memcpy(left, right, channels);
			memcpy(right, pixel, channels);
		}
	}
}

/* A number from -limit to limit. */
static int draw_offset(uint32_t bits, int limit)
{
	return (int)((uint64_t)bits * (2 * (uint32_t)limit + 1) >> 32) - limit;
}

void gt_augment_image(
    uint8_t *pixels, const struct gt_data_info *info, int64_t sample, const struct gt_draw *draw)
{
	const uint32_t counter[4] = { (uint32_t)sample, (uint32_t)((uint64_t)sample >> 32),
		GT_RNG_AUGMENT, draw->epoch };
	int pad = info->width >= 64 ? info->width / 8 : 4;
	uint32_t bits[4];

	gt_philox(draw->seed, counter, bits);
	if (draw->augment & GT_AUGMENT_CROP)
		shift_image(pixels, info->height, info->width, info->channels,
		    draw_offset(bits[0], pad), draw_offset(bits[1], pad));
	if (draw->augment & GT_AUGMENT_FLIP && bits[2] >> 31)
		mirror_image(pixels, info->height, info->width, info->channels);
}
