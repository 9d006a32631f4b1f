/* convnext.c - ConvNeXt and its second version, with transformers' names. */
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * Liu et al., "A ConvNet for the 2020s", CVPR 2022; Woo et al., "ConvNeXt V2", CVPR 2023. A block
 * is a convolution of each channel by itself, then a norm and an MLP over the channels of each
 * pixel, and a residual sum. Names are those of transformers' class ConvNextForImageClassification:
 * convnext.encoder.stages.0.layers.0.dwconv, and so on. Initial values are the papers': N(0, 0.02)
 * for convolutions and matrices, zeros for biases, 1e-6 for the scale of a block's output. The
 * second version has no such scale, and a norm of responses inside the MLP.
 */

enum { IMAGE = 224, LEAST_IMAGE = 32, CLASSES = 1000, PATCH = 4, KERNEL = 7 };

static const struct gt_init normal = { GT_INIT_NORMAL, 0.02 };
static const double eps = 1e-6; /* of all norms but the last one, whose is a setting */

static void describe_convnext_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_IMAGE;
	out->form.height = out->form.width = c->image ? c->image : IMAGE;
	out->form.channels = 3;
	out->form.classes = c->classes ? c->classes : CLASSES;
}

/* ---- layers; names are those of modules, without the model's ---- */

struct convnext {
	struct gt_graph *g;
	const char *model; /* "convnext" */
	bool second;       /* the second version */
};

static const char *name_of(char name[128], const struct convnext *m, const char *module)
{
	snprintf(name, 128, "%s.%s", m->model, module);
	return name;
}

/* Move the channels of [B, C, H, W] behind the pixels, or back. */
static struct gt_value *channels_last(struct gt_graph *g, struct gt_value *x)
{
	return gt_permute_dims(g, x, (const int[]){ 0, 2, 3, 1 });
}

static struct gt_value *channels_first(struct gt_graph *g, struct gt_value *x)
{
	return gt_permute_dims(g, x, (const int[]){ 0, 3, 1, 2 });
}

/* Normalize the channels of each pixel. */
static struct gt_value *norm(const struct convnext *m, const char *module, struct gt_value *x)
{
	char name[128];

	return gt_layer_layer_norm(m->g, name_of(name, m, module), x, eps);
}

static struct gt_value *dense(
    const struct convnext *m, const char *module, struct gt_value *x, int64_t out)
{
	char name[128];

	return gt_layer_dense(m->g, name_of(name, m, module), x, out, normal, &gt_init_zeros);
}

static struct gt_value *declare(const struct convnext *m, const char *module, const char *leaf,
    int ndim, const int64_t *shape, struct gt_init init, bool decay)
{
	char name[160];

	snprintf(name, sizeof(name), "%s.%s%s", m->model, module, leaf);
	return gt_parameter(m->g, name, GT_F32, ndim, shape, init, decay);
}

/* A convolution with a bias, of squares of `kernel` pixels; with groups, of each channel by
 * itself. */
static struct gt_value *conv(const struct convnext *m, const char *module, struct gt_value *x,
    int64_t out, int kernel, struct gt_conv_form form)
{
	struct gt_value *weight, *bias;

	if (!x)
		return NULL;
	gt_graph_scope(m->g, "%s.%s", m->model, module);
	weight = declare(m, module, ".weight", 4,
	    (int64_t[]){ out, form.groups ? 1 : x->shape[1], kernel, kernel }, normal, true);
	bias = declare(m, module, ".bias", 1, &out, gt_init_zeros, false);
	return gt_conv2d(m->g, x, weight, bias, form);
}

/* Global response normalization of x [B, H, W, C]: with the norm n of a channel over all pixels and
 * the mean of n over the channels, y = weight * x * n / (mean + eps) + bias + x. */
static struct gt_value *normalize_responses(
    const struct convnext *m, const char *module, struct gt_value *x)
{
	struct gt_graph *g = m->g;
	struct gt_value *weight, *bias, *norms, *mean, *y;
	int64_t shape[] = { 1, 1, 1, x ? x->shape[3] : 0 };

	gt_graph_scope(g, "%s.%s", m->model, module);
	weight = declare(m, module, ".weight", 4, shape, gt_init_zeros, false);
	bias = declare(m, module, ".bias", 4, shape, gt_init_zeros, false);
	norms = gt_unary(
	    g, GT_F_SQRT, gt_sum(g, gt_binary(g, GT_F_MUL, x, x), 1u << 1 | 1u << 2, true));
	mean = gt_apply(g, GT_F_DIV,
	    (struct gt_map_operand[]){
	        { .value = gt_sum(g, norms, 1u << 3, true) }, { true, (double)shape[3], NULL } });
	mean = gt_apply(
	    g, GT_F_ADD, (struct gt_map_operand[]){ { .value = mean }, { true, eps, NULL } });
	y = gt_binary(g, GT_F_MUL, x, gt_binary(g, GT_F_DIV, norms, mean));
	y = gt_binary(g, GT_F_ADD, gt_binary(g, GT_F_MUL, weight, y), bias);
	return gt_add(g, y, x);
}

static struct gt_value *convnext_block(
    const struct convnext *m, const char *block, struct gt_value *x)
{
	const int64_t width = x ? x->shape[1] : 0;
	const struct gt_conv_form form = { { 1, 1 }, { KERNEL / 2, KERNEL / 2 }, { 1, 1 },
		.groups = (int)width };
	struct gt_value *y, *scale;
	char module[96];

	snprintf(module, sizeof(module), "%s.dwconv", block);
	y = conv(m, module, x, width, KERNEL, form);
	snprintf(module, sizeof(module), "%s.layernorm", block);
	y = norm(m, module, channels_last(m->g, y));
	snprintf(module, sizeof(module), "%s.pwconv1", block);
	y = dense(m, module, y, 4 * width);
	gt_graph_scope(m->g, "%s.%s.act", m->model, block);
	y = gt_gelu(m->g, y, GT_GELU_ERF);
	if (m->second) {
		snprintf(module, sizeof(module), "%s.grn", block);
		y = normalize_responses(m, module, y);
	}
	snprintf(module, sizeof(module), "%s.pwconv2", block);
	y = dense(m, module, y, width);
	gt_graph_scope(m->g, "%s.%s", m->model, block);
	if (!m->second) {
		scale = declare(m, block, ".layer_scale_parameter", 1, &width,
		    (struct gt_init){ GT_INIT_CONSTANT, 1e-6 }, false);
		y = gt_binary(m->g, GT_F_MUL, scale, y);
	}
	return gt_add(m->g, x, channels_first(m->g, y));
}

/* Normalize the channels, and make one pixel of 2x2. */
static struct gt_value *downsample(
    const struct convnext *m, int stage, struct gt_value *x, int64_t out)
{
	char module[96];

	snprintf(module, sizeof(module), "encoder.stages.%d.downsampling_layer.0", stage);
	x = channels_first(m->g, norm(m, module, channels_last(m->g, x)));
	snprintf(module, sizeof(module), "encoder.stages.%d.downsampling_layer.1", stage);
	return conv(m, module, x, out, 2, gt_conv_square(2, 0));
}

/* ---- the network ---- */

static int check_convnext_input(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_model_input *in)
{
	if (in->form.kind != GT_SAMPLE_IMAGE || in->form.height < LEAST_IMAGE ||
	    in->form.width < LEAST_IMAGE)
		gt_model_fail_input(g, in, true, "a ConvNeXt takes images of %dx%d pixels or more",
		    LEAST_IMAGE, LEAST_IMAGE);
	else if ((c->image && (c->image != in->form.height || c->image != in->form.width)) ||
	         (c->classes && c->classes != in->form.classes))
		gt_graph_fail(g, GT_EINVAL,
		    "a ConvNeXt with image=%d and classes=%d: the data has %dx%d pixels and %d "
		    "classes",
		    c->image ? c->image : in->form.height,
		    c->classes ? c->classes : in->form.classes, in->form.height, in->form.width,
		    in->form.classes);
	return gt_graph_status(g, NULL);
}

/* Return the mean of the pixels [B, C]. */
static struct gt_value *pool(struct gt_graph *g, struct gt_value *x)
{
	const struct gt_map_operand mean[] = { { .value = gt_sum(g, x, 1u << 2 | 1u << 3, false) },
		{ true, x ? (double)(x->shape[2] * x->shape[3]) : 1, NULL } };

	return gt_apply(g, GT_F_DIV, mean);
}

static struct gt_value *build_convnext_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	const struct convnext m = { g, c->second ? "convnextv2" : "convnext", c->second };
	char name[128];

	(void)rng;
	(void)train;
	if (check_convnext_input(g, c, in))
		return NULL;
	x = conv(
	    &m, "embeddings.patch_embeddings", x, c->widths[0], PATCH, gt_conv_square(PATCH, 0));
	x = channels_first(g, norm(&m, "embeddings.layernorm", channels_last(g, x)));
	for (int stage = 0; stage < GT_MODEL_STAGES; stage++) {
		if (stage)
			x = downsample(&m, stage, x, c->widths[stage]);
		for (int i = 0; i < c->depths[stage]; i++) {
			char block[64];

			snprintf(block, sizeof(block), "encoder.stages.%d.layers.%d", stage, i);
			x = convnext_block(&m, block, x);
		}
	}
	gt_graph_scope(g, "%s.pool", m.model);
	x = gt_layer_layer_norm(g, name_of(name, &m, "layernorm"), pool(g, x), c->eps);
	return gt_layer_dense(g, "classifier", x, in->form.classes, normal, &gt_init_zeros);
}

/* ---- the models ---- */

/* The arguments after SUMMARY are designated initializers of struct gt_arch_config. */
#define ROW(ID, NAME, FAMILY, SUMMARY, ...)                                                        \
	const struct gt_arch gt_arch_##ID = {                                                      \
		.name = NAME,                                                                      \
		.summary = SUMMARY,                                                                \
		.keys = "image depths widths eps classes",                                         \
		.defaults = { .eps = 1e-12, __VA_ARGS__ },                                         \
		.preferred_input = describe_convnext_input,                                        \
		.logits = build_convnext_logits,                                                   \
		.lr_adam = 1e-3,                                                                   \
		.lr_sgd = 0.05,                                                                    \
		.family = FAMILY,                                                                  \
	}

ROW(convnext, "convnext", "convnext", "a small ConvNeXt", .depths = { 1, 1, 2, 1 },
    .widths = { 32, 64, 128, 256 });
ROW(convnext_tiny, "convnext-tiny", "convnext", "ConvNeXt-T", .depths = { 3, 3, 9, 3 },
    .widths = { 96, 192, 384, 768 });
ROW(convnext_small, "convnext-small", "convnext", "ConvNeXt-S", .depths = { 3, 3, 27, 3 },
    .widths = { 96, 192, 384, 768 });
ROW(convnext_base, "convnext-base", "convnext", "ConvNeXt-B", .depths = { 3, 3, 27, 3 },
    .widths = { 128, 256, 512, 1024 });
ROW(convnext_large, "convnext-large", "convnext", "ConvNeXt-L", .depths = { 3, 3, 27, 3 },
    .widths = { 192, 384, 768, 1536 });
ROW(convnextv2, "convnextv2", "convnextv2", "a small ConvNeXt V2", .second = true,
    .depths = { 1, 1, 2, 1 }, .widths = { 32, 64, 128, 256 });
ROW(convnextv2_tiny, "convnextv2-tiny", "convnextv2", "ConvNeXt V2-T", .second = true,
    .depths = { 3, 3, 9, 3 }, .widths = { 96, 192, 384, 768 });
ROW(convnextv2_base, "convnextv2-base", "convnextv2", "ConvNeXt V2-B", .second = true,
    .depths = { 3, 3, 27, 3 }, .widths = { 128, 256, 512, 1024 });
