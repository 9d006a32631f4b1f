/* modernbert.c - classifiers of texts with rotary positions and windows: ModernBERT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/encoder.h"

/*
 * Warner et al., "Smarter, better, faster, longer", arXiv 2412.13663. Norms come before the layers,
 * whose first has none; most layers see a window of tokens on both sides, with a theta of their
 * own; the MLP is gated by its own half, GeGLU. Names are those of transformers'
 * ModernBertForSequenceClassification.
 */

enum { NAME = 96 };

static int64_t hidden_of(const struct gt_arch_config *c)
{
	return c->hidden ? c->hidden : 3 * (int64_t)c->width / 2;
}

/* torch.nn.LayerNorm, with a bias only if norms have one. */
static struct gt_value *norm(
    struct gt_graph *g, const struct gt_arch_config *c, const char *name, struct gt_value *x)
{
	const int64_t width = c->width;
	struct gt_value *weight;
	char leaf[NAME];

	if (c->bias)
		return gt_layer_layer_norm(g, name, x, c->eps);
	gt_graph_scope(g, "%s", name);
	snprintf(leaf, sizeof(leaf), "%s.weight", name);
	weight = gt_parameter(g, leaf, GT_F32, 1, &width, gt_init_ones, false);
	return gt_layer_norm(g, x, weight, NULL, c->eps);
}

/* ---- attention ---- */

/* Return whether layer i has a window; the letters repeat. */
static bool is_windowed(const struct gt_arch_config *c, int i)
{
	return c->window && (!*c->windowed || c->windowed[(size_t)i % strlen(c->windowed)] == 'y');
}

/* Return [T, T]: 1 where a token, a row, sees a column, which is at most `reach` away. */
static struct gt_value *make_window(struct gt_graph *g, int64_t T, int64_t reach)
{
	int32_t *sees = gt_calloc((size_t)(T * T), sizeof(*sees), &g->err);
	struct gt_value *window = NULL;

	for (int64_t i = 0; sees && i < T; i++)
		for (int64_t j = 0; j < T; j++)
			sees[i * T + j] = llabs(i - j) <= reach;
	if (sees)
		window = gt_constant(g, GT_I32, 2, (int64_t[]){ T, T }, sees);
	free(sees);
	return window;
}

/* Hide padding in a window. A token always sees itself: padding whose window has no token has to
 * have finite features, too, which no token sees. */
static struct gt_value *hide_padding(
    struct gt_graph *g, struct gt_value *window, struct gt_value *mask)
{
	struct gt_value *self = make_window(g, window->shape[0], 0);
	struct gt_value *sees = gt_binary(g, GT_F_MUL, window, mask);

	return gt_cast_to(g, gt_binary(g, GT_F_MAX, sees, self), GT_I32);
}

/* The masks of both kinds of layers; NULL: a token sees all. */
struct masks {
	struct gt_value *full, *windowed;
};

static struct masks make_masks(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_encoder_pass *p)
{
	const int64_t B = p->ids->shape[0], T = p->ids->shape[1], reach = c->window / 2;
	struct masks m = { 0 };

	gt_graph_scope(g, "model");
	if (p->mask)
		m.full = gt_reshape(g, p->mask, 4, (int64_t[]){ B, 1, 1, T });
	m.windowed = m.full;
	/* Also for texts that a window spans: a file of ONNX may be given longer ones. */
	if (c->window && reach < c->block - 1) {
		m.windowed = make_window(g, T, reach);
		if (m.windowed && m.full)
			m.windowed = hide_padding(g, m.windowed, m.full);
	}
	return m;
}

/* Emit attention of packed queries, keys and values [B, T, 3 * C]. */
static struct gt_value *attend(struct gt_graph *g, const struct gt_arch_config *c, int i,
    struct gt_value *packed, const struct masks *m, const struct gt_encoder_pass *p)
{
	const bool windowed = is_windowed(c, i);
	struct gt_value *mask = windowed ? m->windowed : m->full, *part[3];
	double theta = windowed && c->local_theta > 0 ? c->local_theta : c->theta;

	for (int k = 0; k < 3; k++)
		part[k] = gt_slice_dim(
		    g, packed, 2, k * (int64_t)c->width, (k + 1) * (int64_t)c->width, 1);
	packed = gt_rope(g, part, NULL, NULL, c->heads, c->heads, theta);
	if (!mask)
		return gt_attention_full(g, packed, p->rng, c->heads, p->dropout);
	for (int k = 0; k < 3; k++)
		part[k] = gt_encoder_heads(g, c,
		    gt_slice_dim(
		        g, packed, 2, k * (int64_t)c->width, (k + 1) * (int64_t)c->width, 1));
	return gt_encoder_attention(g, c, part, mask, p);
}

/* ---- layers ---- */

static struct gt_value *add_mlp(struct gt_graph *g, const struct gt_arch_config *c,
    const char *layer, struct gt_value *x, const struct gt_encoder_pass *p)
{
	const int64_t hidden = hidden_of(c);
	struct gt_value *y, *both;
	char name[NAME];

	snprintf(name, sizeof(name), "%smlp_norm", layer);
	both = gt_encoder_dense(g, layer, "mlp.Wi", norm(g, c, name, x), 2 * hidden, c->mlp_bias);
	gt_graph_scope(g, "%smlp.act", layer);
	y = gt_gelu(g, gt_slice_dim(g, both, 2, 0, hidden, 1), c->gelu);
	y = gt_binary(g, GT_F_MUL, y, gt_slice_dim(g, both, 2, hidden, 2 * hidden, 1));
	y = gt_dropout(g, y, p->rng, p->dropout);
	return gt_add(g, gt_encoder_dense(g, layer, "mlp.Wo", y, c->width, c->mlp_bias), x);
}

static struct gt_value *modernbert_layer(struct gt_graph *g, const struct gt_arch_config *c, int i,
    struct gt_value *x, const struct masks *m, const struct gt_encoder_pass *p)
{
	struct gt_value *y = x;
	char layer[64], name[NAME];

	snprintf(layer, sizeof(layer), "model.layers.%d.", i);
	snprintf(name, sizeof(name), "%sattn_norm", layer);
	if (i)
		y = norm(g, c, name, x);
	y = gt_encoder_dense(g, layer, "attn.Wqkv", y, 3 * (int64_t)c->width, c->attention_bias);
	gt_graph_scope(g, "%sattn", layer);
	y = attend(g, c, i, y, m, p);
	y = gt_encoder_dense(g, layer, "attn.Wo", y, c->width, c->attention_bias);
	x = gt_add(g, gt_dropout(g, y, p->rng, p->dropout), x);
	return add_mlp(g, c, layer, x, p);
}

/* ---- the class ---- */

/* Return the mean of the tokens that are no padding: [B, width]. */
static struct gt_value *average(
    struct gt_graph *g, struct gt_value *x, const struct gt_encoder_pass *p)
{
	const int64_t B = x->shape[0], T = x->shape[1];
	struct gt_value *sum, *mask;

	if (!p->mask)
		return gt_apply(g, GT_F_MUL,
		    (struct gt_map_operand[]){ { .value = gt_sum(g, x, 1u << 1, false) },
		        { .is_number = true, .number = 1 / (double)T } });
	mask = gt_reshape(g, p->mask, 3, (int64_t[]){ B, T, 1 });
	sum = gt_sum(g, gt_binary(g, GT_F_MUL, x, mask), 1u << 1, false);
	/* Whole numbers become float32, whatever type the features have. */
	return gt_binary(g, GT_F_DIV, sum, gt_sum(g, gt_unary(g, GT_F_COPY, mask), 1u << 1, false));
}

/* Emit the head: a layer, its activation and norm. */
static struct gt_value *add_head(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x)
{
	x = gt_encoder_dense(g, "", "head.dense", x, c->width, c->head_bias);
	gt_graph_scope(g, "head.act");
	return norm(g, c, "head.norm", gt_gelu(g, x, c->gelu));
}

static struct gt_value *classify(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, const struct gt_encoder_pass *p)
{
	x = norm(g, c, "model.final_norm", c->mean ? x : gt_select(g, x, 1, 0));
	gt_graph_scope(g, "head");
	if (c->mean)
		x = average(g, x, p);
	x = gt_dropout(g, add_head(g, c, x), p->rng, p->head_dropout);
	return gt_encoder_dense(g, "", "classifier", x, in->form.classes, true);
}

/* Emit the scores of all tokens in the place of each token. */
static struct gt_value *find_tokens(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x, struct gt_value *words)
{
	struct gt_value *bias;

	x = add_head(g, c, norm(g, c, "model.final_norm", x));
	bias = gt_encoder_decoder_bias(g, c);
	gt_graph_scope(g, "decoder");
	return gt_matmul(g, x, words, bias, false, true);
}

static struct gt_value *build_modernbert_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	struct gt_encoder_pass p;
	struct gt_value *words;
	struct masks masks;

	if (c->width % (2 * c->heads))
		gt_model_fail_heads(g, c, 2);
	if (gt_encoder_begin(&p, g, c, in, x, rng, train))
		return NULL;
	words = gt_parameter(g, "model.embeddings.tok_embeddings.weight", GT_F32, 2,
	    (int64_t[]){ c->vocab, c->width }, gt_encoder_init, true);
	gt_graph_scope(g, "model.embeddings");
	x = norm(g, c, "model.embeddings.norm", gt_embedding(g, words, p.ids, NULL, NULL));
	x = gt_dropout(g, x, p.rng, p.dropout);
	masks = make_masks(g, c, &p);
	for (int i = 0; i < c->layers; i++)
		x = modernbert_layer(g, c, i, x, &masks, &p);
	if (c->masks)
		return find_tokens(g, c, x, words);
	return x ? classify(g, c, in, x, &p) : NULL;
}

/* ---- the model ---- */

static const struct gt_encoder modernbert = { .title = "a ModernBERT",
	.decoder_bias = "decoder.bias" };

/* The layer of pre-training is no part of a classifier. */
static const struct gt_model_alias aliases[] = {
	{ "decoder.weight", NULL, false },
	{ "decoder.bias", NULL, false },
	{ NULL, NULL, false },
};

static const struct gt_model_alias masked_aliases[] = {
	{ "decoder.weight", "model.embeddings.tok_embeddings.weight", true },
	{ NULL, NULL, false },
};

static const char *const task_layers[] = { "head.dense.weight", "head.dense.bias",
	"head.norm.weight", "head.norm.bias", NULL };

const struct gt_arch gt_arch_modernbert = {
	.name = "modernbert",
	.summary = "a small ModernBERT, for classes of texts",
	.keys =
	    "layers heads width hidden block vocab theta local_theta window windowed eps norm_bias "
	    "attention_bias mlp_bias head_bias mean dropout head_dropout masks gelu",
	.defaults = { .encoder = &modernbert,
	    .layers = 4,
	    .heads = 4,
	    .width = 128,
	    .vocab = 50368,
	    .block = 8192,
	    .theta = 160000,
	    .local_theta = 10000,
	    .window = 128,
	    .windowed = "nyy",
	    .eps = 1e-5,
	    .gelu = GT_GELU_ERF },
	.preferred_input = gt_encoder_input,
	.logits = build_modernbert_logits,
	.fields = true,
	.aliases = aliases,
	.masked_aliases = masked_aliases,
	.task_layers = task_layers,
	.lr_adam = 5e-5,
	.lr_sgd = 0.01,
	.family = "modernbert",
	.hidden = hidden_of,
};
