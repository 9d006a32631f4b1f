/* misclassified.c - the worst predictions of an evaluation, as images and as a table. */
#include "lib/train/tensorboard/misclassified.h"

#include "lib/data/core/description.h"
#include "lib/train/report/misses.h"
#include "lib/train/tensorboard/markdown.h"

/* A tag has values of one kind. */
static const char *const images_tag = "misclassified/images";
static const char *const table_tag = "misclassified/table";

static int write_images(struct gt_events *e, int64_t step, struct gt_dataset *data,
    const struct gt_misses *m, struct gt_err *err)
{
	const struct gt_sample_form *form = &gt_dataset_info(data)->form;
	struct gt_buf pngs[GT_MISSES_MAX] = { 0 };
	int rc = 0;

	for (int i = 0; !rc && i < m->count; i++)
		rc = gt_misses_png(&pngs[i], data, m->samples[i], err);
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
    const struct gt_predictions *p, const struct gt_misses *m, struct gt_err *err)
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

int gt_misclassified_write(struct gt_events *e, int64_t step, struct gt_dataset *data,
    const struct gt_predictions *p, struct gt_err *err)
{
	struct gt_misses m = { .count = 0 };
	int rc;

	if (gt_misses_are_images(data))
		m = gt_misses_find(p);
	if (!m.count)
		return 0;
	rc = write_images(e, step, data, &m, err);
	return rc ? rc : write_table(e, step, data, p, &m, err);
}
