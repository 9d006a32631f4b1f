/* misses.c - the worst predictions of an evaluation, as PNGs and as a table. */
#include "lib/train/tensorboard/misses.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/core/description.h"
#include "lib/train/tensorboard/markdown.h"

/* A tag has values of one kind. */
static const char *const images_tag = "misclassified/images";
static const char *const table_tag = "misclassified/table";

/* ---- the choice ---- */

/* The numbers of samples, those with the highest probability first. */
struct misses {
	int64_t samples[GT_MISSES_MAX];
	int count;
};

static bool is_miss(const struct gt_predictions *p, int64_t sample)
{
	int32_t best = p->predicted[sample * p->top];

	return p->target[sample] != GT_DATA_IGNORE && best >= 0 && best != p->target[sample];
}

static void insert_miss(struct misses *m, const struct gt_predictions *p, int64_t sample)
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

static struct misses find_misses(const struct gt_predictions *p)
{
	struct misses m = { .count = 0 };

	for (int64_t i = 0; i < p->count; i++)
		if (is_miss(p, i))
			insert_miss(&m, p, i);
	return m;
}

/* ---- the images ---- */

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

static int read_image(
    struct gt_buf *png, struct gt_dataset *data, int64_t sample, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	const struct gt_draw draw = { .train = false };
	void *pixels = gt_calloc(1, info->input_bytes, err);
	int32_t target;
	int rc = pixels ? gt_dataset_read(data, sample, &draw, pixels, &target, err) : GT_ENOMEM;

	if (!rc)
		rc = encode_png(png, &info->form, pixels, err);
	free(pixels);
	return rc;
}

static int write_images(struct gt_events *e, int64_t step, struct gt_dataset *data,
    const struct misses *m, struct gt_err *err)
{
	const struct gt_sample_form *form = &gt_dataset_info(data)->form;
	struct gt_buf pngs[GT_MISSES_MAX] = { 0 };
	int rc = 0;

	for (int i = 0; !rc && i < m->count; i++)
		rc = read_image(&pngs[i], data, m->samples[i], err);
	if (!rc)
		gt_events_images(e, step, images_tag, form->width, form->height, m->count, pngs);
	for (int i = 0; i < m->count; i++)
		gt_buf_release(&pngs[i]);
	return rc;
}

/* ---- the table ---- */

static void add_class(struct gt_buf *b, const struct gt_data_description *d, int32_t class)
{
	if (d->class_names && class < d->form.classes)
		gt_markdown_add(b, d->class_names[class]);
	else
		gt_buf_printf(b, "%d", class);
}

static int write_table(struct gt_events *e, int64_t step, const struct gt_dataset *data,
    const struct gt_predictions *p, const struct misses *m, struct gt_err *err)
{
	struct gt_buf b = { 0 };
	struct gt_data_description d;
	int rc;

	gt_data_describe(&d, data);
	gt_buf_puts(
	    &b, "| sample | class | predicted | probability |\n| --- | --- | --- | --- |\n");
	for (int i = 0; i < m->count; i++) {
		int64_t sample = m->samples[i];
		const char *name = gt_dataset_sample_name(data, sample);

		gt_buf_puts(&b, "| ");
		if (name)
			gt_markdown_add(&b, name);
		else
			gt_buf_printf(&b, "%lld", (long long)sample);
		gt_buf_puts(&b, " | ");
		add_class(&b, &d, p->target[sample]);
		gt_buf_puts(&b, " | ");
		add_class(&b, &d, p->predicted[sample * p->top]);
		gt_buf_printf(&b, " | %.4f |\n", (double)p->probability[sample * p->top]);
	}
	rc = gt_buf_check(&b, err);
	if (!rc)
		gt_events_text(e, step, table_tag, gt_buf_text(&b));
	gt_buf_release(&b);
	return rc;
}

int gt_misses_write(struct gt_events *e, int64_t step, struct gt_dataset *data,
    const struct gt_predictions *p, struct gt_err *err)
{
	const struct gt_sample_form *form = &gt_dataset_info(data)->form;
	struct misses m;
	int rc;

	if (form->kind != GT_SAMPLE_IMAGE || form->field_count || p->labels || !p->top)
		return 0;
	m = find_misses(p);
	rc = m.count ? write_images(e, step, data, &m, err) : 0;
	return rc || !m.count ? rc : write_table(e, step, data, p, &m, err);
}
