/* augment.c - the table of augmentations: random parts, mirror images, other colors. */
#include "lib/data/images/augment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/philox.h"
#include "lib/base/suggest.h"
#include "lib/data/core/source.h"

/* ---- crop, flip ---- */

/*
 * Pixel (y, x) becomes the one at (y + down, x + right), or 0 if that lies outside. Rows are taken
 * in the order in which none is overwritten before it has been read.
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

enum { BLOCK = 256 }; /* pixels that are mirrored at once */

/* Write the pixels of from [n + 4] to [n] in reverse. They move as 4 bytes, whatever their size:
 * the bytes that are too many are replaced by the next pixel. */
static void reverse(uint8_t *to, const uint8_t *from, size_t n, size_t pixel)
{
	size_t at = 0;

	for (; at + 4 <= n; at += pixel)
		memcpy(to + at, from + (n - pixel - at), 4);
	for (; at < n; at += pixel)
		memcpy(to + at, from + (n - pixel - at), pixel);
}

/* Blocks from both ends change places, until the rest fits into two of them. */
static void mirror_row(uint8_t *row, size_t width, size_t pixel)
{
	uint8_t a[2 * BLOCK * GT_MAX_CHANNELS + 4] = { 0 };
	uint8_t b[BLOCK * GT_MAX_CHANNELS + 4] = { 0 };
	size_t left = 0, right = width * pixel, block = BLOCK * pixel;

	for (; right - left > 2 * block; left += block, right -= block) {
		memcpy(a, row + left, block);
		memcpy(b, row + right - block, block);
		reverse(row + left, b, block, pixel);
		reverse(row + right - block, a, block, pixel);
	}
	memcpy(a, row + left, right - left);
	reverse(row + left, a, right - left, pixel);
}

static void mirror_image(uint8_t *pixels, int height, int width, int channels)
{
	for (int y = 0; y < height; y++)
		mirror_row(pixels + (size_t)y * width * channels, (size_t)width, (size_t)channels);
}

/* A number from -limit to limit. */
static int draw_offset(uint32_t bits, int limit)
{
	return (int)((uint64_t)bits * (2 * (uint32_t)limit + 1) >> 32) - limit;
}

static int crop(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err)
{
	int pad = info->form.width >= 64 ? info->form.width / 8 : 4;

	(void)settings;
	(void)err;
	shift_image(pixels, info->form.height, info->form.width, info->form.channels,
	    draw_offset(bits[0], pad), draw_offset(bits[1], pad));
	return 0;
}

static int flip(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err)
{
	(void)settings;
	(void)err;
	if (bits[2] >> 31)
		mirror_image(pixels, info->form.height, info->form.width, info->form.channels);
	return 0;
}

/* ---- the table ---- */

static const struct gt_setting no_settings[] = { { 0 } };

static const struct gt_setting rrc_settings[] = { { "min-scale", "X", "0.08",
	                                              "the smallest share of the image's area" },
	{ "max-scale", "X", "1", "the largest share" },
	{ "min-ratio", "X", "0.75", "the smallest ratio of width to height" },
	{ "max-ratio", "X", "1.3333333333333333", "the largest ratio" }, { 0 } };

static const struct gt_setting jitter_settings[] = {
	{ "brightness", "X", "0.4", "the factor of the brightness is from max(0, 1 - X) to 1 + X" },
	{ "contrast", "X", "0.4", "the same for the contrast" },
	{ "saturation", "X", "0.4", "the same for the saturation" },
	{ "hue", "X", "0", "the shift of the hue is from -X to X of its circle; X is at most 0.5" },
	{ 0 }
};

static const struct gt_setting mixup_settings[] = {
	{ "alpha", "X", "0.2", "weights are drawn from Beta(X, X); X is above 0" }, { 0 }
};

enum { MOST_FACTOR = 10, MOST_ALPHA = 1000 };
enum { WORD = 48 }; /* for hints about longer names, their first letters count */

/* An augmentation, in the order in which they are applied. */
static const struct augmentation {
	struct gt_augment_form form;
	double max[GT_AUGMENT_SETTINGS]; /* settings are numbers from 0 to these */
	/* stream of `bits`; crop and flip use different words of one stream */
	enum gt_rng_stream stream;
	bool colors;  /* only for images of 1 or 3 channels */
	bool classes; /* only for images with classes */
	/* Whether the settings go together; NULL: they all do. */
	int (*check)(const double *settings, struct gt_err *err);
	/* Vary pixels [height, width, channels] in place. NULL: the loader varies batches. */
	int (*apply)(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
	    const uint32_t bits[4], struct gt_err *err);
} table[GT_AUGMENTATIONS] = {
	[GT_AUGMENT_RRC] = { .form = { .name = "rrc",
	                         .summary =
	                             "crop a random part and resize it, as torchvision's RandomResizedCrop",
	                         .settings = rrc_settings,
	                         .example = "rrc:min-scale=0.35,flip" },
	    .max = { 1, 1, MOST_FACTOR, MOST_FACTOR },
	    .stream = GT_RNG_RRC,
	    .check = gt_rrc_check,
	    .apply = gt_augment_rrc },
	[GT_AUGMENT_CROP] = { .form = { .name = "crop",
	                          .summary =
	                              "pad each side by 4 zeros (width/8 if 64 or wider), crop at a random place",
	                          .settings = no_settings,
	                          .example = "crop,flip" },
	    .stream = GT_RNG_AUGMENT,
	    .apply = crop },
	[GT_AUGMENT_FLIP] = { .form = { .name = "flip",
	                          .summary = "mirror left to right, with probability 1/2",
	                          .settings = no_settings,
	                          .example = "flip" },
	    .stream = GT_RNG_AUGMENT,
	    .apply = flip },
	[GT_AUGMENT_JITTER] = { .form = { .name = "jitter",
	                            .summary = "vary the colors, as torchvision's ColorJitter",
	                            .settings = jitter_settings,
	                            .example = "flip,jitter:brightness=0.2:hue=0.1" },
	    .max = { MOST_FACTOR, MOST_FACTOR, MOST_FACTOR, 0.5 },
	    .stream = GT_RNG_JITTER,
	    .colors = true,
	    .apply = gt_augment_jitter },
	[GT_AUGMENT_MIXUP] = { .form = { .name = "mixup",
	                           .summary =
	                               "mix each image with another one, as torchvision's RandomMixup",
	                           .settings = mixup_settings,
	                           .example = "crop,flip,mixup:alpha=0.4" },
	    .max = { MOST_ALPHA },
	    .classes = true,
	    .check = gt_mixup_check },
};

const struct gt_augment_form *gt_augment_form(int i)
{
	return i < GT_AUGMENTATIONS ? &table[i].form : NULL;
}

bool gt_augment_any(const struct gt_augment *a)
{
	for (int i = 0; i < GT_AUGMENTATIONS; i++)
		if (a->chosen[i])
			return true;
	return false;
}

bool gt_augment_mixes(const struct gt_augment *a)
{
	return a->chosen[GT_AUGMENT_MIXUP];
}

int gt_augment_check(
    const struct gt_augment *a, const struct gt_data_info *info, struct gt_err *err)
{
	if (info->form.kind != GT_SAMPLE_IMAGE && gt_augment_any(a)) {
		gt_err_set(err, GT_EINVAL, "only images can be augmented");
		return gt_err_hint(err, "leave {augment} away, or give none");
	}
	if (gt_augment_mixes(a) && info->form.field_count) {
		gt_err_set(err, GT_EINVAL, "samples with several inputs cannot be mixed");
		return gt_err_hint(err, "leave 'mixup' out of {augment}");
	}
	for (int i = 0; i < GT_AUGMENTATIONS; i++) {
		if (a->chosen[i] && table[i].colors && info->form.channels != 1 &&
		    info->form.channels != 3)
			return gt_err_set(err, GT_EINVAL,
			    "augmentation '%s' takes images of 1 or 3 channels, not %d",
			    table[i].form.name, info->form.channels);
		if (a->chosen[i] && table[i].classes && info->form.target != GT_SAMPLE_CLASS) {
			gt_err_set(err, GT_EINVAL,
			    "augmentation '%s' takes images with classes, not with numbers",
			    table[i].form.name);
			return gt_err_hint(err, "leave '%s' out of {augment}", table[i].form.name);
		}
	}
	return 0;
}

static void draw_bits(
    uint32_t bits[4], const struct gt_draw *draw, int64_t sample, enum gt_rng_stream stream)
{
	const uint32_t counter[4] = { (uint32_t)sample, (uint32_t)((uint64_t)sample >> 32), stream,
		draw->epoch };

	gt_philox(draw->seed, counter, bits);
}

bool gt_augment_part(
    struct gt_box *out, const struct gt_draw *draw, int64_t sample, int height, int width)
{
	uint32_t bits[4];

	if (!draw->train || !draw->augment.chosen[GT_AUGMENT_RRC])
		return false;
	draw_bits(bits, draw, sample, table[GT_AUGMENT_RRC].stream);
	*out = gt_rrc_box(height, width, draw->augment.value[GT_AUGMENT_RRC], bits);
	return true;
}

int gt_augment_image(uint8_t *pixels, const struct gt_data_info *info, int64_t sample,
    const struct gt_draw *draw, bool is_part, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < GT_AUGMENTATIONS; i++) {
		uint32_t bits[4];

		if (!draw->augment.chosen[i] || !table[i].apply || (i == GT_AUGMENT_RRC && is_part))
			continue;
		draw_bits(bits, draw, sample, table[i].stream);
		rc = table[i].apply(pixels, info, draw->augment.value[i], bits, err);
	}
	return rc;
}

/* ---- parsing ---- */

/* A stretch of the list. */
struct piece {
	const char *text;
	size_t length;
};

static bool is(const struct piece *p, const char *word)
{
	return strlen(word) == p->length && !memcmp(word, p->text, p->length);
}

/* The next piece of *rest, which ends at one of `ends`; *rest moves there. */
static struct piece cut_piece(const char **rest, const char *ends)
{
	struct piece p = { *rest, strcspn(*rest, ends) };

	*rest += p.length;
	return p;
}

static int find_augmentation(const struct piece *name)
{
	int i = 0;

	while (i < GT_AUGMENTATIONS && !is(name, table[i].form.name))
		i++;
	return i;
}

/* Returns `word`, cut off where the piece is longer. */
static const char *copy_word(char word[WORD], const struct piece *p)
{
	snprintf(word, WORD, "%.*s", (int)p->length, p->text);
	return word;
}

static int unknown(const struct piece *name, struct gt_err *err)
{
	char list[120] = "", word[WORD];
	struct gt_suggest near = { .word = copy_word(word, name) };

	for (int i = 0; i < GT_AUGMENTATIONS; i++) {
		size_t used = strlen(list);

		snprintf(list + used, sizeof(list) - used, "%s, ", table[i].form.name);
		gt_suggest_offer(&near, table[i].form.name);
	}
	gt_err_set(err, GT_EINVAL, "unknown augmentation '%.*s'", (int)name->length, name->text);
	if (near.best)
		return gt_err_hint(err, "did you mean '%s'? Known: %snone", near.best, list);
	return gt_err_hint(err, "known: %snone; separated by commas", list);
}

static int unknown_setting(
    const struct augmentation *a, const struct piece *key, struct gt_err *err)
{
	char list[120] = "", word[WORD];
	struct gt_suggest near = { .word = copy_word(word, key) };

	gt_err_set(err, GT_EINVAL, "augmentation '%s' has no setting '%.*s'", a->form.name,
	    (int)key->length, key->text);
	for (const struct gt_setting *s = a->form.settings; s->help; s++) {
		size_t used = strlen(list);

		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", s->key);
		gt_suggest_offer(&near, s->key);
	}
	if (near.best)
		return gt_err_hint(err, "did you mean '%s'? Its settings: %s", near.best, list);
	return gt_err_hint(err, *list ? "its settings: %s" : "it has none, so write '%s' alone",
	    *list ? list : a->form.name);
}

/* Parse one "key=value" of an augmentation; `seen` has a bit for each key before it. */
static int parse_setting(double *values, unsigned *seen, const struct augmentation *a,
    const struct piece *setting, struct gt_err *err)
{
	const char *rest = setting->text;
	struct piece key = cut_piece(&rest, "=:,");
	char *end;
	double x;
	int k = 0;

	if (*rest != '=' || !key.length) {
		gt_err_set(err, GT_EINVAL,
		    "setting '%.*s' of augmentation '%s' is not of the form key=value",
		    (int)setting->length, setting->text, a->form.name);
		return gt_err_hint(err,
		    "write %s:key=value:key=value; a comma divides augmentations", a->form.name);
	}
	while (a->form.settings[k].help && !is(&key, a->form.settings[k].key))
		k++;
	if (!a->form.settings[k].help)
		return unknown_setting(a, &key, err);
	if (*seen & 1u << k)
		return gt_err_set(err, GT_EINVAL, "augmentation '%s': '%s' is given twice",
		    a->form.name, a->form.settings[k].key);
	*seen |= 1u << k;
	x = strtod(++rest, &end);
	if (end == rest || end != setting->text + setting->length || !(x >= 0 && x <= a->max[k]))
		return gt_err_set(err, GT_EINVAL,
		    "augmentation '%s': '%.*s' is not a number from 0 to %g", a->form.name,
		    (int)setting->length, setting->text, a->max[k]);
	values[k] = x;
	return 0;
}

/* Parse "NAME[:key=value...]" at *rest, and move *rest past it. */
static int parse_one(struct gt_augment *out, const char **rest, struct gt_err *err)
{
	const struct piece name = cut_piece(rest, ":,");
	int i = find_augmentation(&name), rc = 0;
	unsigned seen = 0;

	if (i == GT_AUGMENTATIONS)
		return is(&name, "none") && **rest != ':' ? 0 : unknown(&name, err);
	if (out->chosen[i])
		return gt_err_set(
		    err, GT_EINVAL, "augmentation '%s' is given twice", table[i].form.name);
	out->chosen[i] = true;
	for (int k = 0; table[i].form.settings[k].help; k++)
		out->value[i][k] = strtod(table[i].form.settings[k].initial, NULL);
	while (!rc && **rest == ':') {
		struct piece setting;

		++*rest;
		setting = cut_piece(rest, ":,");
		rc = parse_setting(out->value[i], &seen, &table[i], &setting, err);
	}
	return rc || !table[i].check ? rc : table[i].check(out->value[i], err);
}

int gt_augment_parse(struct gt_augment *out, const char *list, struct gt_err *err)
{
	int rc = 0;

	*out = (struct gt_augment){ 0 };
	while (!rc && *list) {
		rc = parse_one(out, &list, err);
		list += *list == ',';
	}
	return rc;
}
