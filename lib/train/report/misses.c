/* misses.c - find the worst predictions of an evaluation, and encode their images. */
#include "lib/train/report/misses.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Return whether a sample was taken for another class than its own. */
static bool is_miss(const struct gt_predictions *p, int64_t sample)
{
	int32_t best = p->predicted[sample * p->top];

	return p->target[sample] != GT_DATA_IGNORE && best >= 0 && best != p->target[sample];
}

static void insert_miss(struct gt_misses *m, const struct gt_predictions *p, int64_t sample)
{
	int at = m->count;

	while (
	    at > 0 && p->probability[sample * p->top] > p->probability[m->samples[at - 1] * p->top])
		at--;
	if (at == GT_MISSES_MAX)
		return;
	m->count += m->count < GT_MISSES_MAX;
	memmove(&m->samples[at + 1], &m->samples[at],
	    (size_t)(m->count - 1 - at) * sizeof(*m->samples));
	m->samples[at] = sample;
}

struct gt_misses gt_misses_find(const struct gt_predictions *p)
{
	struct gt_misses m = { .count = 0 };

	for (int64_t i = 0; !p->labels && p->top && i < p->count; i++)
		if (is_miss(p, i))
			insert_miss(&m, p, i);
	return m;
}

bool gt_misses_are_images(const struct gt_dataset *data)
{
	const struct gt_sample_form *form = &gt_dataset_info(data)->form;

	return form->kind == GT_SAMPLE_IMAGE && !form->field_count;
}

static int encode_png(
    struct gt_buf *out, const struct gt_sample_form *form, const void *pixels, struct gt_err *err)
{
	static const png_uint_32 formats[GT_MAX_CHANNELS + 1] = { 0, PNG_FORMAT_GRAY, PNG_FORMAT_GA,
		PNG_FORMAT_RGB, PNG_FORMAT_RGBA };
	png_image image = { .version = PNG_IMAGE_VERSION,
		.width = (png_uint_32)form->width,
		.height = (png_uint_32)form->height,
		.format = formats[form->channels] };
	png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
	void *memory = gt_calloc(1, size, err);

	if (!memory)
		return GT_ENOMEM;
	if (png_image_write_to_memory(&image, memory, &size, 0, pixels, 0, NULL))
		gt_buf_add(out, memory, size);
	else
		out->failed = true;
	png_image_free(&image);
	free(memory);
	return gt_buf_check(out, err);
}

int gt_misses_png(struct gt_buf *out, struct gt_dataset *data, int64_t sample, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	const struct gt_draw draw = { .train = false };
	void *pixels = gt_calloc(1, info->input_bytes, err);
	int32_t target;
	int rc = pixels ? gt_dataset_read(data, sample, &draw, pixels, &target, err) : GT_ENOMEM;

	if (!rc)
		rc = encode_png(out, &info->form, pixels, err);
	free(pixels);
	return rc;
}
