/* resnet_cifar.c - the ResNets for 32x32 images: 6 n + 2 layers, parameter-free shortcuts. */
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * He et al., "Deep residual learning", CVPR 2016, section 4.2, with the "option A" shortcut: every
 * second pixel, and zeros for the new channels, half before and half after. Names (conv1, bn1,
 * layer1.0.conv1, ..., linear) and initial values (kaiming_normal_ for all weights) as in Y.
 * Idelbayev's pytorch_resnet_cifar10, whose files load.
 */

static void describe_cifar_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	(void)c;
	out->form.kind = GT_SAMPLE_IMAGE;
	out->form.height = out->form.width = 32;
	out->form.channels = 3;
	out->form.classes = 10;
}

static struct gt_value *conv_norm(struct gt_graph *g, const char *block, int which,
    struct gt_value *x, int64_t out, int stride, bool train)
{
	char name[64];

	if (!x)
		return NULL;
	snprintf(name, sizeof(name), "%sconv%d", block, which);
	x = gt_layer_conv(g, name, x, out, 3, stride, 1, false, gt_init_kaiming(9 * x->shape[1]));
	snprintf(name, sizeof(name), "%sbn%d", block, which);
	return gt_layer_batch_norm(g, name, x, gt_init_ones, train);
}

static struct gt_value *basic_block(
    struct gt_graph *g, int stage, int index, struct gt_value *x, int64_t out, bool train)
{
	int stride = stage > 1 && index == 0 ? 2 : 1;
	struct gt_value *y, *shortcut = x;
	char block[32];

	if (!x)
		return NULL;
	snprintf(block, sizeof(block), "layer%d.%d.", stage, index);
	y = gt_relu(g, conv_norm(g, block, 1, x, out, stride, train));
	y = conv_norm(g, block, 2, y, out, 1, train);
	if (stride != 1 || x->shape[1] != out) {
		int64_t more = out - x->shape[1];

		gt_graph_scope(g, "%sshortcut", block);
		shortcut = gt_subsample(g, x, stride, more / 2, more - more / 2);
	}
	return gt_relu(g, gt_add(g, y, shortcut));
}

static struct gt_value *build_cifar_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	int blocks = (c->depth - 2) / 6;

	(void)rng;
	if (in->form.kind != GT_SAMPLE_IMAGE || in->form.height != in->form.width ||
	    in->form.height < 8)
		return gt_model_fail_input(g, in, true,
		    "model 'resnet%d' takes square images of 8x8 pixels or more", c->depth);
	x = gt_relu(g, conv_norm(g, "", 1, x, 16, 1, train));
	for (int stage = 1; stage <= 3; stage++)
		for (int i = 0; i < blocks; i++)
			x = basic_block(g, stage, i, x, 8 << stage, train);
	if (!x)
		return NULL;
	gt_graph_scope(g, "pool");
	x = gt_avg_pool2d(g, x, gt_pool_square((int)x->shape[2], 1, 0));
	if (!x)
		return NULL;
	x = gt_reshape(g, x, 2, x->shape);
	return gt_layer_linear(g, "linear", x, in->form.classes, gt_init_kaiming(64));
}

#define ROW(DEPTH)                                                                                 \
	const struct gt_arch gt_arch_resnet##DEPTH = {                                             \
		.name = "resnet" #DEPTH,                                                           \
		.summary = "ResNet-" #DEPTH " for 32x32 images (CIFAR-10)",                        \
		.keys = "",                                                                        \
		.defaults = { .depth = DEPTH },                                                    \
		.preferred_input = describe_cifar_input,                                           \
		.logits = build_cifar_logits,                                                      \
		.lr_adam = 1e-3,                                                                   \
		.lr_sgd = 0.1,                                                                     \
	}

ROW(20);
ROW(32);
ROW(44);
ROW(56);
ROW(110);
