/* lenet.c - LeNet-5 with rectified units and max pooling: conv1, conv2, fc1, fc2, fc3. */
#include "lib/model/arch.h"

/* Sizes: LeCun et al., Proc. IEEE 86(11), 1998; layer names and activations as in PyTorch's
 * tutorials. The paper pads 28x28 digits to 32x32; here conv1 does it. */
enum { PAPER_SIZE = 32 };

static void describe_lenet_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	(void)c;
	out->form.kind = GT_SAMPLE_IMAGE;
	out->form.height = out->form.width = 28;
	out->form.channels = 1;
	out->form.classes = 10;
}

static struct gt_value *build_lenet_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	int pad = in->form.height < PAPER_SIZE ? 2 : 0;

	(void)c;
	(void)rng;
	(void)train;
	if (in->form.kind != GT_SAMPLE_IMAGE || in->form.height < 12 || in->form.width < 12)
		return gt_model_fail_input(
		    g, in, true, "model 'lenet' takes images of 12x12 pixels or more");
	x = gt_layer_conv(g, "conv1", x, 6, 5, 1, pad, true, gt_init_torch(25 * in->form.channels));
	x = gt_max_pool2d(g, gt_relu(g, x), gt_pool_square(2, 2, 0));
	x = gt_layer_conv(g, "conv2", x, 16, 5, 1, 0, true, gt_init_torch(25 * 6));
	x = gt_max_pool2d(g, gt_relu(g, x), gt_pool_square(2, 2, 0));
	if (!x)
		return NULL;
	x = gt_reshape(g, x, 2, (int64_t[]){ x->shape[0], gt_value_elements(x) / x->shape[0] });
	if (!x)
		return NULL;
	x = gt_relu(g, gt_layer_linear(g, "fc1", x, 120, gt_init_torch(x->shape[1])));
	x = gt_relu(g, gt_layer_linear(g, "fc2", x, 84, gt_init_torch(120)));
	return gt_layer_linear(g, "fc3", x, in->form.classes, gt_init_torch(84));
}

const struct gt_arch gt_arch_lenet = {
	.name = "lenet",
	.summary = "LeNet-5 for small images",
	.keys = "",
	.preferred_input = describe_lenet_input,
	.logits = build_lenet_logits,
	.lr_adam = 2e-3,
	.lr_sgd = 0.05,
};
