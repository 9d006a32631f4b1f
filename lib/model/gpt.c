/* gpt.c - decoder-only transformers with GPT-2's architecture, at any size. */
#include <math.h>
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * Radford et al., "Language models are unsupervised multitask learners", 2019. Parameter names, the
 * layout of weights ([in, out], Conv1D) and the tied head are those of Hugging Face's
 * GPT2LMHeadModel. Initial values: N(0, 0.02), the projections back into the residual stream
 * N(0, 0.02 / sqrt(2 layers)), biases zero, as there and in nanoGPT. Weight decay applies to
 * matrices and embeddings, not to biases and norms, as in nanoGPT.
 */

static const double deviation = 0.02;

static int64_t hidden_of(const struct gt_arch_config *c)
{
	return c->hidden ? c->hidden : 4 * (int64_t)c->width;
}

static void describe_gpt_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_TOKENS;
	out->form.block = c->block;
	out->form.classes = c->vocab;
}

/* Declare the parameter BLOCK.LEAF. */
static struct gt_value *parameter(struct gt_graph *g, const char *block, const char *leaf, int ndim,
    const int64_t *shape, struct gt_init init)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", block, leaf);
	return gt_parameter(g, name, GT_F32, ndim, shape, init, ndim > 1);
}

static struct gt_value *norm(struct gt_graph *g, const struct gt_arch_config *c, const char *block,
    const char *leaf, struct gt_value *x)
{
	const int64_t width = c->width;
	struct gt_value *weight, *bias = NULL;
	char name[64];

	gt_graph_scope(g, "%s%s", block, leaf);
	snprintf(name, sizeof(name), "%s.weight", leaf);
	weight = parameter(g, block, name, 1, &width, gt_init_ones);
	snprintf(name, sizeof(name), "%s.bias", leaf);
	if (c->bias)
		bias = parameter(g, block, name, 1, &width, gt_init_zeros);
	return gt_layer_norm(g, x, weight, bias, c->eps);
}

/* Emit Hugging Face's Conv1D, whose weight is [in, out]. */
static struct gt_value *project(struct gt_graph *g, const struct gt_arch_config *c,
    const char *block, const char *leaf, struct gt_value *x, int64_t out, double std)
{
	struct gt_value *weight, *bias = NULL;
	char name[64];

	if (!x)
		return NULL;
	gt_graph_scope(g, "%s%s", block, leaf);
	snprintf(name, sizeof(name), "%s.weight", leaf);
	weight = parameter(g, block, name, 2, (int64_t[]){ x->shape[2], out },
	    (struct gt_init){ GT_INIT_NORMAL, std });
	snprintf(name, sizeof(name), "%s.bias", leaf);
	if (c->bias)
		bias = parameter(g, block, name, 1, &out, gt_init_zeros);
	return gt_matmul(g, x, weight, bias, false, false);
}

/* The arguments of the layers, besides the architecture. */
struct pass {
	struct gt_value *rng;
	double dropout;
	struct gt_value *past;      /* not NULL: keys and values of earlier tokens are in caches */
	struct gt_value *positions; /* places of tokens in documents; NULL: a row is one document */
};

/* Declare the cache of a layer's keys or values: [B, heads, block, width / heads]. */
static struct gt_value *cache(struct gt_graph *g, const struct gt_arch_config *c, const char *block,
    const char *leaf, const struct gt_value *x)
{
	char name[128];

	if (!x)
		return NULL;
	snprintf(name, sizeof(name), "%s%s", block, leaf);
	return gt_cache(g, name, GT_F32, 4,
	    (int64_t[]){ x->shape[0], c->heads, c->block, c->width / c->heads });
}

static struct gt_value *add_gpt_attention(struct gt_graph *g, const struct gt_arch_config *c,
    const char *block, struct gt_value *qkv, const struct pass *p)
{
	struct gt_value *keys, *values;

	gt_graph_scope(g, "%sattn", block);
	if (!p->past)
		return gt_attention(g, qkv, p->positions, p->rng, c->heads, p->dropout);
	keys = cache(g, c, block, "attn.keys", qkv);
	values = cache(g, c, block, "attn.values", qkv);
	return gt_attention_cached(g, qkv, p->past, keys, values, c->heads, c->heads, NULL);
}

static struct gt_value *transformer_block(struct gt_graph *g, const struct gt_arch_config *c,
    int layer, struct gt_value *x, const struct pass *p)
{
	const int64_t hidden = hidden_of(c);
	double residual_std = deviation / sqrt(2.0 * c->layers);
	struct gt_value *y;
	char block[64];

	snprintf(block, sizeof(block), "transformer.h.%d.", layer);
	y = norm(g, c, block, "ln_1", x);
	y = project(g, c, block, "attn.c_attn", y, 3 * (int64_t)c->width, deviation);
	y = add_gpt_attention(g, c, block, y, p);
	y = project(g, c, block, "attn.c_proj", y, c->width, residual_std);
	x = gt_add(g, gt_dropout(g, y, p->rng, p->dropout), x);
	y = norm(g, c, block, "ln_2", x);
	y = project(g, c, block, "mlp.c_fc", y, hidden, deviation);
	gt_graph_scope(g, "%smlp.act", block);
	y = gt_gelu(g, y, c->gelu);
	y = project(g, c, block, "mlp.c_proj", y, c->width, residual_std);
	return gt_add(g, gt_dropout(g, y, p->rng, p->dropout), x);
}

static int check_gpt_input(
    const struct gt_arch_config *c, const struct gt_model_input *in, struct gt_graph *g)
{
	int vocab = c->vocab ? c->vocab : in->form.classes;

	if (in->form.kind != GT_SAMPLE_TOKENS)
		gt_model_fail_input(g, in, false, "a GPT takes text or tokens");
	else if (in->form.classes > vocab || in->form.block > c->block)
		gt_graph_fail(g, GT_EINVAL,
		    "%d tokens in windows of %d for a model of %d tokens and %d positions",
		    in->form.classes, in->form.block, vocab, c->block);
	else if (c->width % c->heads)
		gt_model_fail_heads(g, c, 1);
	return gt_graph_status(g, NULL);
}

/* Return the output of the last block, [B, T, width], and set *wte to the table of the
 * embedding. */
static struct gt_value *blocks(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *input, struct pass *p, struct gt_value **wte)
{
	const struct gt_init normal = { GT_INIT_NORMAL, deviation };
	int vocab = c->vocab ? c->vocab : in->form.classes;
	struct gt_value *wpe, *x, *ids;

	if (check_gpt_input(c, in, g))
		return NULL;
	ids = gt_model_tokens(g, &in->form, input, &p->positions);
	gt_graph_scope(g, "transformer.wte");
	*wte =
	    parameter(g, "transformer.wte.", "weight", 2, (int64_t[]){ vocab, c->width }, normal);
	wpe = parameter(
	    g, "transformer.wpe.", "weight", 2, (int64_t[]){ c->block, c->width }, normal);
	x = p->positions ? gt_embedding_placed(g, *wte, ids, wpe, p->positions)
	                 : gt_embedding(g, *wte, ids, wpe, p->past);
	x = gt_dropout(g, x, p->rng, p->dropout);
	for (int i = 0; i < c->layers; i++)
		x = transformer_block(g, c, i, x, p);
	return x;
}

/* Emit the last norm and the head, whose weight is that of the embedding. */
static struct gt_value *head(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x, struct gt_value *wte)
{
	x = norm(g, c, "transformer.", "ln_f", x);
	gt_graph_scope(g, "lm_head");
	return gt_matmul(g, x, wte, NULL, false, true);
}

static struct gt_value *build_gpt_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *rng, bool train)
{
	struct pass p = { .rng = rng, .dropout = train ? c->dropout : 0 };
	struct gt_value *wte = NULL, *x = blocks(g, c, in, ids, &p, &wte);

	return head(g, c, x, wte);
}

static struct gt_value *next(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *past,
    struct gt_value *at)
{
	struct pass p = { .past = past };
	struct gt_value *wte = NULL, *x = blocks(g, c, in, ids, &p, &wte);

	return head(g, c, gt_last_position(g, x, at), wte);
}

/* The head has the weight of the embedding. Older files of Hugging Face have causal masks as
 * buffers. */
static const struct gt_model_alias aliases[] = {
	{ "lm_head.weight", "transformer.wte.weight", true },
	{ "transformer.h.*.attn.bias", NULL, false },
	{ "transformer.h.*.attn.masked_bias", NULL, false },
	{ NULL, NULL, false },
};

#define ROW(ID, NAME, SUMMARY, LAYERS, HEADS, WIDTH, BLOCK, VOCAB, LR)                             \
	const struct gt_arch gt_arch_##ID = {                                                      \
		.name = NAME,                                                                      \
		.summary = SUMMARY,                                                                \
		.keys = "layers heads width eps hidden block vocab dropout bias gelu",             \
		.defaults = { .layers = (LAYERS),                                                  \
		    .heads = (HEADS),                                                              \
		    .width = (WIDTH),                                                              \
		    .block = (BLOCK),                                                              \
		    .vocab = (VOCAB),                                                              \
		    .eps = 1e-5,                                                                   \
		    .bias = true },                                                                \
		.preferred_input = describe_gpt_input,                                             \
		.logits = build_gpt_logits,                                                        \
		.next = next,                                                                      \
		.caches = true,                                                                    \
		.packs = true,                                                                     \
		.aliases = aliases,                                                                \
		.lr_adam = (LR),                                                                   \
		.lr_sgd = 0.1,                                                                     \
		.family = "gpt2",                                                                  \
		.hidden = hidden_of,                                                               \
	}

ROW(gpt, "gpt", "a small GPT, for characters or bytes", 4, 4, 128, 64, 0, 1e-3);
ROW(gpt2, "gpt2", "GPT-2, 124M parameters", 12, 12, 768, 1024, 50257, 6e-4);
ROW(gpt2_medium, "gpt2-medium", "GPT-2, 355M parameters", 24, 16, 1024, 1024, 50257, 3e-4);
ROW(gpt2_large, "gpt2-large", "GPT-2, 774M parameters", 36, 20, 1280, 1024, 50257, 2.5e-4);
ROW(gpt2_xl, "gpt2-xl", "GPT-2, 1.6B parameters", 48, 25, 1600, 1024, 50257, 2e-4);
