/* resnet.c - the ResNets for ImageNet, with torchvision's names: 18, 34, 50, 101 and 152 layers. */
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * He et al., "Deep residual learning", CVPR 2016, table 1. A bottleneck has its stride in the 3x3
 * convolution, as torchvision has it ("v1.5"); the paper has it in the first 1x1. Names (conv1,
 * bn1, layer1.0.conv1, ..., layer1.0.downsample.0, fc) and initial values are torchvision's:
 * kaiming_normal_ with fan_out for convolutions, ones and zeros for norms, those of torch.nn.Linear
 * for the head. With zero_init_residual the weights of each block's last norm begin at zero, so
 * that each block begins as its shortcut (Goyal et al., "Accurate, large minibatch SGD", 2017,
 * 5.1).
 */

enum { IMAGE = 224, LEAST_IMAGE = 32, CLASSES = 1000, STAGES = 4 };

static const struct shape {
	int depth, blocks[STAGES];
	/* convolutions 1x1, 3x3, 1x1 with four times the channels; false: 3x3, 3x3 */
	bool bottleneck;
} shapes[] = {
	{ 18, { 2, 2, 2, 2 }, false },
	{ 34, { 3, 4, 6, 3 }, false },
	{ 50, { 3, 4, 6, 3 }, true },
	{ 101, { 3, 4, 23, 3 }, true },
	{ 152, { 3, 8, 36, 3 }, true },
};

static void describe_resnet_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_IMAGE;
	out->form.height = out->form.width = c->image ? c->image : IMAGE;
	out->form.channels = 3;
	out->form.classes = c->classes ? c->classes : CLASSES;
}

static struct gt_value *conv(struct gt_graph *g, const char *block, const char *leaf,
    struct gt_value *x, int64_t out, int kernel, int stride)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", block, leaf);
	return gt_layer_conv(g, name, x, out, kernel, stride, kernel / 2, false,
	    gt_init_kaiming(out * kernel * kernel));
}

static struct gt_value *norm(struct gt_graph *g, const char *block, const char *leaf,
    struct gt_value *x, struct gt_init weight, bool train)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", block, leaf);
	return gt_layer_batch_norm(g, name, x, weight, train);
}

/* Emit the shortcut: the block's input, converted to the shape of the output. */
static struct gt_value *shortcut(
    struct gt_graph *g, const char *block, struct gt_value *x, int64_t out, int stride, bool train)
{
	if (!x || (stride == 1 && x->shape[1] == out))
		return x;
	x = conv(g, block, "downsample.0", x, out, 1, stride);
	return norm(g, block, "downsample.1", x, gt_init_ones, train);
}

static struct gt_value *residual_block(struct gt_graph *g, const char *block, bool bottleneck,
    bool zero_init, struct gt_value *x, int64_t width, int stride, bool train)
{
	const struct gt_init last = zero_init ? gt_init_zeros : gt_init_ones;
	int64_t out = bottleneck ? 4 * width : width;
	struct gt_value *y;

	y = conv(g, block, "conv1", x, width, bottleneck ? 1 : 3, bottleneck ? 1 : stride);
	y = gt_relu(g, norm(g, block, "bn1", y, gt_init_ones, train));
	y = conv(g, block, "conv2", y, width, 3, bottleneck ? stride : 1);
	y = norm(g, block, "bn2", y, bottleneck ? gt_init_ones : last, train);
	if (bottleneck) {
		y = conv(g, block, "conv3", gt_relu(g, y), out, 1, 1);
		y = norm(g, block, "bn3", y, last, train);
	}
	return gt_relu(g, gt_add(g, y, shortcut(g, block, x, out, stride, train)));
}

static int check_resnet_input(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_model_input *in)
{
	if (in->form.kind != GT_SAMPLE_IMAGE || in->form.height != in->form.width ||
	    in->form.height < LEAST_IMAGE)
		gt_model_fail_input(g, in, true,
		    "model 'resnet%d' takes square images of %dx%d pixels or more", c->depth,
		    LEAST_IMAGE, LEAST_IMAGE);
	else if ((c->image && c->image != in->form.height) ||
	         (c->classes && c->classes != in->form.classes))
		gt_graph_fail(g, GT_EINVAL,
		    "model 'resnet%d' with image=%d and classes=%d: the data has %dx%d pixels and "
		    "%d classes",
		    c->depth, c->image ? c->image : in->form.height,
		    c->classes ? c->classes : in->form.classes, in->form.height, in->form.width,
		    in->form.classes);
	return gt_graph_status(g, NULL);
}

static struct gt_value *build_resnet_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	const struct shape *shape = shapes;

	(void)rng;
	if (check_resnet_input(g, c, in))
		return NULL;
	while (shape->depth != c->depth)
		shape++;
	x = conv(g, "", "conv1", x, 64, 7, 2);
	x = gt_relu(g, norm(g, "", "bn1", x, gt_init_ones, train));
	gt_graph_scope(g, "maxpool");
	x = gt_max_pool2d(g, x, gt_pool_square(3, 2, 1));
	for (int stage = 0; stage < STAGES; stage++)
		for (int i = 0; i < shape->blocks[stage]; i++) {
			char block[32];

			snprintf(block, sizeof(block), "layer%d.%d.", stage + 1, i);
			x = residual_block(g, block, shape->bottleneck, c->zero_init_residual, x,
			    64 << stage, stage && !i ? 2 : 1, train);
		}
	if (!x)
		return NULL;
	gt_graph_scope(g, "avgpool");
	x = gt_avg_pool2d(g, x, gt_pool_square((int)x->shape[2], 1, 0));
	if (!x)
		return NULL;
	x = gt_reshape(g, x, 2, x->shape);
	return x ? gt_layer_linear(g, "fc", x, in->form.classes, gt_init_torch(x->shape[1])) : NULL;
}

#define ROW(DEPTH)                                                                                 \
	const struct gt_arch gt_arch_resnet##DEPTH = {                                             \
		.name = "resnet" #DEPTH,                                                           \
		.summary = "ResNet-" #DEPTH " for larger images (ImageNet)",                       \
		.keys = "image classes zero_init_residual",                                        \
		.defaults = { .depth = DEPTH },                                                    \
		.preferred_input = describe_resnet_input,                                          \
		.logits = build_resnet_logits,                                                     \
		.lr_adam = 1e-3,                                                                   \
		.lr_sgd = 0.1,                                                                     \
		.family = "resnet",                                                                \
	}

ROW(18);
ROW(34);
ROW(50);
ROW(101);
ROW(152);
