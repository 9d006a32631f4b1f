/* vit.c - vision transformers with torchvision's names, at any size. */
#include <math.h>
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021. Names (conv_proj, class_token,
 * encoder.pos_embedding, encoder.layers.encoder_layer_0.self_attention.in_proj_weight, ...,
 * heads.head) and initial values are those of torchvision's VisionTransformer: patches
 * N(0, 1 / fan-in), whose cut at 2 changes nothing from patches of 2x2 pixels on; positions
 * N(0, 0.02); xavier_uniform_ for the projections of attention and of the MLP, whose biases are
 * N(0, 1e-6); U(+-1/sqrt(width)) for attention's out_proj, as torch.nn.Linear has it; zeros for
 * the class token, the head and all other biases. Dropout is behind the positions, attention, and
 * both layers of an MLP, as there; probabilities of attention are not dropped (attention_dropout is
 * 0 there). Weight decay applies to matrices alone: not to biases, norms, positions or the token.
 *
 * The last norm sees the class token alone, which no other token changes from there on.
 */

static const struct gt_init tiny = { GT_INIT_NORMAL, 1e-6 }, positions = { GT_INIT_NORMAL, 0.02 };

/* Width of images for the presets: 224 pixels, or 8 small patches. */
enum { IMAGE = 224, LEAST_PATCH = 14, FEW_PATCHES = 8, CLASSES = 1000 };

static void describe_vit_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	int image = c->patch < LEAST_PATCH ? FEW_PATCHES * c->patch : IMAGE;

	out->form.kind = GT_SAMPLE_IMAGE;
	if (image % c->patch)
		image = c->patch;
	out->form.height = out->form.width = c->image ? c->image : image;
	out->form.channels = 3;
	out->form.classes = c->classes ? c->classes : CLASSES;
}

static int64_t hidden_of(const struct gt_arch_config *c)
{
	return c->hidden ? c->hidden : 4 * (int64_t)c->width;
}

static struct gt_init xavier(int64_t in, int64_t out)
{
	return (struct gt_init){ GT_INIT_UNIFORM, sqrt(6 / (double)(in + out)) };
}

/* The arguments of the layers, besides the architecture. */
struct pass {
	struct gt_value *rng;
	double dropout;
};

static struct gt_value *drop_activations(
    struct gt_graph *g, struct gt_value *x, const struct pass *p)
{
	return gt_dropout(g, x, p->rng, p->dropout);
}

/* Emit torch.nn.MultiheadAttention as self-attention. */
static struct gt_value *add_vit_attention(
    struct gt_graph *g, const struct gt_arch_config *c, const char *name, struct gt_value *x)
{
	const int64_t width = c->width, packed = 3 * width;
	struct gt_value *weight, *bias;
	char leaf[128];

	gt_graph_scope(g, "%s.in_proj", name);
	snprintf(leaf, sizeof(leaf), "%s.in_proj_weight", name);
	weight = gt_parameter(
	    g, leaf, GT_F32, 2, (int64_t[]){ packed, width }, xavier(width, packed), true);
	snprintf(leaf, sizeof(leaf), "%s.in_proj_bias", name);
	bias = gt_parameter(g, leaf, GT_F32, 1, &packed, gt_init_zeros, false);
	x = gt_matmul(g, x, weight, bias, false, true);
	gt_graph_scope(g, "%s", name);
	x = gt_attention_full(g, x, NULL, c->heads, 0);
	snprintf(leaf, sizeof(leaf), "%s.out_proj", name);
	return gt_layer_dense(g, leaf, x, width, gt_init_torch(width), &gt_init_zeros);
}

static struct gt_value *mlp(struct gt_graph *g, const struct gt_arch_config *c, const char *name,
    struct gt_value *x, const struct pass *p)
{
	const int64_t width = c->width, hidden = hidden_of(c);
	char leaf[128];

	snprintf(leaf, sizeof(leaf), "%s.0", name);
	x = gt_layer_dense(g, leaf, x, hidden, xavier(width, hidden), &tiny);
	gt_graph_scope(g, "%s.1", name);
	x = drop_activations(g, gt_gelu(g, x, GT_GELU_ERF), p);
	snprintf(leaf, sizeof(leaf), "%s.3", name);
	x = gt_layer_dense(g, leaf, x, width, xavier(hidden, width), &tiny);
	return drop_activations(g, x, p);
}

static struct gt_value *encoder_block(struct gt_graph *g, const struct gt_arch_config *c, int layer,
    struct gt_value *x, const struct pass *p)
{
	struct gt_value *y;
	char block[64], name[96];

	snprintf(block, sizeof(block), "encoder.layers.encoder_layer_%d", layer);
	snprintf(name, sizeof(name), "%s.ln_1", block);
	y = gt_layer_layer_norm(g, name, x, c->eps);
	snprintf(name, sizeof(name), "%s.self_attention", block);
	y = add_vit_attention(g, c, name, y);
	x = gt_add(g, drop_activations(g, y, p), x);
	snprintf(name, sizeof(name), "%s.ln_2", block);
	y = gt_layer_layer_norm(g, name, x, c->eps);
	snprintf(name, sizeof(name), "%s.mlp", block);
	return gt_add(g, mlp(g, c, name, y, p), x);
}

static int check_vit_input(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_model_input *in)
{
	if (in->form.kind != GT_SAMPLE_IMAGE || in->form.height != in->form.width)
		gt_model_fail_input(g, in, true, "a ViT takes square images");
	else if ((c->image && c->image != in->form.height) ||
	         (c->classes && c->classes != in->form.classes))
		gt_graph_fail(g, GT_EINVAL,
		    "a ViT with image=%d and classes=%d: the data has %dx%d pixels and %d classes",
		    c->image ? c->image : in->form.height,
		    c->classes ? c->classes : in->form.classes, in->form.height, in->form.width,
		    in->form.classes);
	else if (in->form.height % c->patch)
		gt_graph_fail(g, GT_EINVAL,
		    "images of %dx%d pixels do not divide into patches of patch=%d",
		    in->form.height, in->form.width, c->patch);
	else if (c->width % c->heads)
		gt_graph_fail(
		    g, GT_EINVAL, "width=%d does not divide into heads=%d", c->width, c->heads);
	return gt_graph_status(g, NULL);
}

/* Emit the class token and the patches: [B, tokens, width]. */
static struct gt_value *tokens(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x)
{
	const int64_t width = c->width, side = in->form.height / c->patch, count = 1 + side * side;
	const int64_t fan_in = (int64_t)in->form.channels * c->patch * c->patch;
	const struct gt_init normal = { GT_INIT_NORMAL, sqrt(1 / (double)fan_in) };
	struct gt_value *token, *weight, *bias, *position;

	token = gt_parameter(
	    g, "class_token", GT_F32, 3, (int64_t[]){ 1, 1, width }, gt_init_zeros, false);
	weight = gt_parameter(g, "conv_proj.weight", GT_F32, 4,
	    (int64_t[]){ width, in->form.channels, c->patch, c->patch }, normal, true);
	bias = gt_parameter(g, "conv_proj.bias", GT_F32, 1, &width, gt_init_zeros, false);
	position = gt_parameter(g, "encoder.pos_embedding", GT_F32, 3,
	    (int64_t[]){ 1, count, width }, positions, false);
	gt_graph_scope(g, "conv_proj");
	x = gt_conv2d(g, x, weight, bias, gt_conv_square(c->patch, 0));
	gt_graph_scope(g, "encoder.pos_embedding");
	return gt_patch_tokens(g, x, token, position);
}

static struct gt_value *build_vit_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	const struct pass p = { .rng = rng, .dropout = train ? c->dropout : 0 };

	if (check_vit_input(g, c, in))
		return NULL;
	x = drop_activations(g, tokens(g, c, in, x), &p);
	for (int i = 0; i < c->layers; i++)
		x = encoder_block(g, c, i, x, &p);
	gt_graph_scope(g, "encoder.ln");
	x = gt_layer_layer_norm(g, "encoder.ln", gt_select(g, x, 1, 0), c->eps);
	return gt_layer_dense(g, "heads.head", x, in->form.classes, gt_init_zeros, &gt_init_zeros);
}

#define BLOCK "encoder.layers.encoder_layer_*."

/* Names in files of torchvision before 0.13, which its published weights have, too. */
static const struct gt_model_alias aliases[] = {
	{ BLOCK "mlp.linear_1.weight", BLOCK "mlp.0.weight", false },
	{ BLOCK "mlp.linear_1.bias", BLOCK "mlp.0.bias", false },
	{ BLOCK "mlp.linear_2.weight", BLOCK "mlp.3.weight", false },
	{ BLOCK "mlp.linear_2.bias", BLOCK "mlp.3.bias", false },
	{ NULL, NULL, false },
};

#define ROW(ID, NAME, SUMMARY, PATCH, LAYERS, HEADS, WIDTH, LR)                                    \
	const struct gt_arch gt_arch_##ID = {                                                      \
		.name = NAME,                                                                      \
		.summary = SUMMARY,                                                                \
		.keys = "image patch layers heads width eps hidden classes dropout",               \
		.defaults = { .patch = (PATCH),                                                    \
		    .layers = (LAYERS),                                                            \
		    .heads = (HEADS),                                                              \
		    .width = (WIDTH),                                                              \
		    .eps = 1e-6 },                                                                 \
		.preferred_input = describe_vit_input,                                             \
		.logits = build_vit_logits,                                                        \
		.aliases = aliases,                                                                \
		.lr_adam = (LR),                                                                   \
		.lr_sgd = 0.03,                                                                    \
		.family = "vit",                                                                   \
		.hidden = hidden_of,                                                               \
	}

ROW(vit, "vit", "a small ViT, for images of 32x32 pixels", 4, 6, 4, 128, 1e-3);
ROW(vit_tiny, "vit-tiny", "ViT-Ti/16, 6M parameters", 16, 12, 3, 192, 1e-3);
ROW(vit_small, "vit-small", "ViT-S/16, 22M parameters", 16, 12, 6, 384, 5e-4);
ROW(vit_base, "vit-base", "ViT-B/16, 87M parameters", 16, 12, 12, 768, 3e-4);
ROW(vit_large, "vit-large", "ViT-L/16, 304M parameters", 16, 24, 16, 1024, 2e-4);
