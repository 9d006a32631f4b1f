/* mobilenet.c - MobileNet V2 with transformers' names. */
#include <math.h>
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * Sandler et al., "MobileNetV2: Inverted residuals and linear bottlenecks", CVPR 2018. A block
 * makes six times the channels, convolves each of them by itself, and makes few channels of them
 * again; a residual sum joins blocks of the same shape. Names, the momentum of the running
 * statistics and initial values are those of transformers' MobileNetV2ForImageClassification.
 */

enum { IMAGE = 224, LEAST_IMAGE = 32, CLASSES = 1000, BLOCKS = 16, EXPANSION = 6, DIVISOR = 8 };

/* Channels of the stem's output and of each block's, and strides, for a multiplier of 1. */
static const int channels[BLOCKS + 1] = { 16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160,
	160, 160, 320 };
static const int strides[BLOCKS] = { 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1 };
enum { STEM = 32, LAST = 1280 };

static const struct gt_init normal = { GT_INIT_NORMAL, 0.02 };
static const double momentum = 0.997; /* of the new statistics, as transformers has it */

static void describe_mobilenet_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_IMAGE;
	out->form.height = out->form.width = c->image ? c->image : IMAGE;
	out->form.channels = 3;
	out->form.classes = c->classes ? c->classes : CLASSES;
}

/* Return the multiple of 8 that is next to a number of channels, and not below 90 % of it. */
static int64_t make_divisible(double wanted)
{
	const int64_t value = (int64_t)rint(wanted); /* as Python's round() */
	int64_t next = (value + DIVISOR / 2) / DIVISOR * DIVISOR;

	next = next < DIVISOR ? DIVISOR : next;
	return (double)next < 0.9 * (double)value ? next + DIVISOR : next;
}

static int64_t count_channels(const struct gt_arch_config *c, int wanted)
{
	return make_divisible(wanted * c->multiplier);
}

/* ---- layers ---- */

struct mobilenet {
	struct gt_graph *g;
	const struct gt_arch_config *c;
	bool train;
};

/* Pad as TensorFlow does: the odd pixel is at the right, and at the bottom. */
static struct gt_value *pad_same(struct gt_graph *g, struct gt_value *x, int kernel, int stride)
{
	int64_t before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };

	for (int dim = 2; x && dim < 4; dim++) {
		const int64_t rest = x->shape[dim] % stride, covered = rest ? rest : stride,
		              all = kernel > covered ? kernel - covered : 0;

		before[dim] = all / 2;
		after[dim] = all - all / 2;
	}
	return kernel == 1 ? x : gt_pad(g, x, before, after);
}

static struct gt_value *norm(const struct mobilenet *m, const char *name, struct gt_value *x)
{
	struct gt_value *v[5];
	char leaf[160];
	const int64_t width = x ? x->shape[1] : 1;
	static const char *const leaves[] = { "weight", "bias", "running_mean", "running_var" };

	gt_graph_scope(m->g, "%s.normalization", name);
	for (int i = 0; i < 4; i++) {
		const struct gt_init init = i % 3 ? gt_init_zeros : gt_init_ones;

		snprintf(leaf, sizeof(leaf), "%s.normalization.%s", name, leaves[i]);
		v[i] = i < 2 ? gt_parameter(m->g, leaf, GT_F32, 1, &width, init, true)
		             : gt_buffer(m->g, leaf, GT_F32, 1, &width, init);
	}
	snprintf(leaf, sizeof(leaf), "%s.normalization.num_batches_tracked", name);
	v[4] = gt_buffer(m->g, leaf, GT_I64, 0, NULL, gt_init_zeros);
	return m->train ? gt_batch_norm(m->g, x, v[0], v[1], v[2], v[3], v[4], m->c->eps, momentum)
	                : gt_batch_norm_eval(m->g, x, v[0], v[1], v[2], v[3], m->c->eps);
}

/* How a layer convolves. */
struct form {
	int kernel, stride;
	bool each;   /* each channel by itself */
	bool linear; /* there is no activation */
};

static struct gt_value *layer(const struct mobilenet *m, const char *part, const char *leaf,
    struct gt_value *x, int64_t out, struct form f)
{
	struct gt_conv_form form = gt_conv_square(f.stride, m->c->same ? 0 : (f.kernel - 1) / 2);
	struct gt_value *weight;
	char name[96], parameter[160];

	if (!x)
		return NULL;
	snprintf(name, sizeof(name), "mobilenet_v2.%s%s", part, leaf);
	gt_graph_scope(m->g, "%s.convolution", name);
	snprintf(parameter, sizeof(parameter), "%s.convolution.weight", name);
	weight = gt_parameter(m->g, parameter, GT_F32, 4,
	    (int64_t[]){ out, f.each ? 1 : x->shape[1], f.kernel, f.kernel }, normal, true);
	form.groups = f.each ? (int)out : 1;
	if (m->c->same)
		x = pad_same(m->g, x, f.kernel, f.stride);
	x = norm(m, name, gt_conv2d(m->g, x, weight, NULL, form));
	gt_graph_scope(m->g, "%s.activation", name);
	return f.linear ? x : gt_clamp(m->g, x, 0, 6);
}

static const struct form point = { 1, 1, false, false }, narrow = { 1, 1, false, true };

static struct gt_value *add_stem(const struct mobilenet *m, struct gt_value *x)
{
	const int64_t width = count_channels(m->c, STEM);

	x = layer(m, "conv_stem.", "first_conv", x, width, (struct form){ 3, 2, false, false });
	x = layer(m, "conv_stem.", "conv_3x3", x, width, (struct form){ 3, 1, true, false });
	return layer(m, "conv_stem.", "reduce_1x1", x, count_channels(m->c, channels[0]), narrow);
}

static struct gt_value *inverted_residual(const struct mobilenet *m, int i, struct gt_value *x)
{
	const int64_t out = count_channels(m->c, channels[i + 1]), in = x ? x->shape[1] : 0,
	              wide = make_divisible((double)(in * EXPANSION));
	struct gt_value *y;
	char part[32];

	snprintf(part, sizeof(part), "layer.%d.", i);
	y = layer(m, part, "expand_1x1", x, wide, point);
	y = layer(m, part, "conv_3x3", y, wide, (struct form){ 3, strides[i], true, false });
	y = layer(m, part, "reduce_1x1", y, out, narrow);
	return strides[i] == 1 && in == out ? gt_add(m->g, x, y) : y;
}

/* ---- the network ---- */

static int check_mobilenet_input(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_model_input *in)
{
	if (in->form.kind != GT_SAMPLE_IMAGE || in->form.height < LEAST_IMAGE ||
	    in->form.width < LEAST_IMAGE)
		gt_model_fail_input(g, in, true, "a MobileNet takes images of %dx%d pixels or more",
		    LEAST_IMAGE, LEAST_IMAGE);
	else if ((c->image && (c->image != in->form.height || c->image != in->form.width)) ||
	         (c->classes && c->classes != in->form.classes))
		gt_graph_fail(g, GT_EINVAL,
		    "a MobileNet with image=%d and classes=%d: the data has %dx%d pixels and %d "
		    "classes",
		    c->image ? c->image : in->form.height,
		    c->classes ? c->classes : in->form.classes, in->form.height, in->form.width,
		    in->form.classes);
	return gt_graph_status(g, NULL);
}

static struct gt_value *build_mobilenet_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	const struct mobilenet m = { g, c, train };

	if (check_mobilenet_input(g, c, in))
		return NULL;
	x = add_stem(&m, x);
	for (int i = 0; i < BLOCKS; i++)
		x = inverted_residual(&m, i, x);
	x = layer(&m, "", "conv_1x1", x,
	    c->fine && c->multiplier < 1 ? LAST : count_channels(c, LAST), point);
	gt_graph_scope(g, "mobilenet_v2.pooler");
	x = gt_adaptive_avg_pool2d(g, x, 1, 1);
	if (!x)
		return NULL;
	x = gt_reshape(g, x, 2, x->shape);
	if (rng)
		x = gt_dropout(g, x, rng, c->dropout);
	return gt_layer_dense(g, "classifier", x, in->form.classes, normal, &gt_init_zeros);
}

const struct gt_arch gt_arch_mobilenet_v2 = {
	.name = "mobilenet-v2",
	.summary = "MobileNet V2",
	.keys = "image multiplier fine same dropout eps classes",
	.defaults = { .multiplier = 1, .fine = true, .same = true, .dropout = 0.2, .eps = 1e-3 },
	.preferred_input = describe_mobilenet_input,
	.logits = build_mobilenet_logits,
	.lr_adam = 1e-3,
	.lr_sgd = 0.05,
	.family = "mobilenet_v2",
};
