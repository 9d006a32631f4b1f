/* fit.c - errors of models that do not fit the data or their own settings. */
#include <stdarg.h>
#include <stdio.h>

#include "lib/model/arch.h"

/* Set the hint: models that take data of this kind. */
static void hint_model(struct gt_err *err, enum gt_sample_kind kind)
{
	switch (kind) {
	case GT_SAMPLE_IMAGE:
		gt_err_hint(err, "the data are images: {model} lenet, resnet20 or vit takes them");
		break;
	case GT_SAMPLE_VECTOR:
		gt_err_hint(err, "the data are rows of numbers: {model} mlp takes them");
		break;
	case GT_SAMPLE_TOKENS:
		gt_err_hint(err, "the data are text: {model} gpt or llama takes them");
		break;
	}
}

void *gt_model_fail_input(
    struct gt_graph *g, const struct gt_model_input *in, bool sized, const char *format, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (g->err.code)
		return NULL;
	gt_graph_fail(g, GT_EINVAL, "%s", text);
	if (sized && in->form.kind == GT_SAMPLE_IMAGE)
		gt_err_hint(&g->err,
		    "the data have %dx%d pixels: {model} mlp takes images of any size, and size=N with "
		    "data of the kinds images and webdataset makes other squares",
		    in->form.height, in->form.width);
	else
		hint_model(&g->err, in->form.kind);
	return NULL;
}

void gt_model_fail_heads(struct gt_graph *g, const struct gt_arch_config *c, int even)
{
	int unit = c->heads * even;
	int width = (c->width + unit - 1) / unit * unit;

	if (g->err.code)
		return;
	gt_graph_fail(g, GT_EINVAL, "width=%d does not divide into heads=%d%s", c->width, c->heads,
	    even == 2 ? " of an even size" : "");
	gt_err_hint(&g->err, "the width has to be a multiple of %d, such as width=%d", unit, width);
}
