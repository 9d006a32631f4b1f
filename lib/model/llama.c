/* llama.c - decoder-only transformers with LLaMA's architecture, at any size. */
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * Touvron et al., "LLaMA", arXiv 2302.13971, and "Llama 2", arXiv 2307.09288 (heads that share keys
 * and values). Names, the halves of rotary positions and initial values are those of Hugging Face's
 * LlamaForCausalLM: N(0, 0.02) for matrices and embeddings, ones for norms, no biases. Weight decay
 * applies to matrices and embeddings. Positions are rotated by theta alone: no scaling of
 * frequencies, as later files ask for it (rope_scaling).
 */

static const struct gt_init normal = { GT_INIT_NORMAL, 0.02 };

static void describe_llama_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_TOKENS;
	out->form.block = c->block;
	out->form.classes = c->vocab;
}

/* Return two thirds of four times the width, as in LLaMA, in multiples of 32. */
static int64_t hidden_of(const struct gt_arch_config *c)
{
	return c->hidden ? c->hidden : ((int64_t)c->width * 8 / 3 + 31) / 32 * 32;
}

/* The parameters of a layer, in the order of the reference code. */
enum { Q, K, V, O, GATE, UP, DOWN, NORM_IN, NORM_MLP, PARAMETERS };

static const char *const leaves[PARAMETERS] = { "self_attn.q_proj", "self_attn.k_proj",
	"self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
	"input_layernorm", "post_attention_layernorm" };

struct layer {
	char name[64];
	struct gt_value *weight[PARAMETERS];
};

static void declare(struct gt_graph *g, const struct gt_arch_config *c, int number, struct layer *l)
{
	const int64_t width = c->width, hidden = hidden_of(c);
	const int64_t shared = width / c->heads * c->kv_heads;
	/* shape [out, in], or [out] for a norm */
	const int64_t shape[PARAMETERS][2] = { { width, width }, { shared, width },
		{ shared, width }, { width, width }, { hidden, width }, { hidden, width },
		{ width, hidden }, { width, 0 }, { width, 0 } };

	snprintf(l->name, sizeof(l->name), "model.layers.%d", number);
	for (int i = 0; i < PARAMETERS; i++) {
		bool matrix = shape[i][1];
		char name[128];

		snprintf(name, sizeof(name), "%s.%s.weight", l->name, leaves[i]);
		l->weight[i] = gt_parameter(g, name, GT_F32, matrix ? 2 : 1, shape[i],
		    matrix ? normal : gt_init_ones, matrix);
	}
}

static struct gt_value *project(
    struct gt_graph *g, const struct layer *l, int which, struct gt_value *x)
{
	gt_graph_scope(g, "%s.%s", l->name, leaves[which]);
	return gt_matmul(g, x, l->weight[which], NULL, false, true);
}

static struct gt_value *norm(struct gt_graph *g, const struct gt_arch_config *c,
    const struct layer *l, int which, struct gt_value *x)
{
	gt_graph_scope(g, "%s.%s", l->name, leaves[which]);
	return gt_rms_norm(g, x, l->weight[which], c->eps);
}

/* Declare the cache of a layer's keys or values: [B, kv_heads, block, width / heads]. */
static struct gt_value *cache(struct gt_graph *g, const struct gt_arch_config *c, const char *block,
    const char *leaf, const struct gt_value *x)
{
	char name[96];

	if (!x)
		return NULL;
	snprintf(name, sizeof(name), "%s.self_attn.%s", block, leaf);
	return gt_cache(g, name, GT_F32, 4,
	    (int64_t[]){ x->shape[0], c->kv_heads, c->block, c->width / c->heads });
}

/* Emit the attention of a layer. If past is NULL, x is the whole text; otherwise earlier tokens are
 * in caches. */
static struct gt_value *add_llama_attention(struct gt_graph *g, const struct gt_arch_config *c,
    const struct layer *l, struct gt_value *x, struct gt_value *past)
{
	struct gt_value *q = project(g, l, Q, x), *k = project(g, l, K, x), *keys, *values;

	x = project(g, l, V, x);
	gt_graph_scope(g, "%s.self_attn", l->name);
	x = gt_rope(g, q, k, x, past, c->heads, c->kv_heads, c->theta);
	if (!past) {
		x = gt_attention_grouped(g, x, c->heads, c->kv_heads);
	} else {
		keys = cache(g, c, l->name, "keys", x);
		values = cache(g, c, l->name, "values", x);
		x = gt_attention_cached(
		    g, x, past, keys, values, c->heads, c->kv_heads, NULL);
	}
	return project(g, l, O, x);
}

static struct gt_value *mlp(struct gt_graph *g, const struct layer *l, struct gt_value *x)
{
	struct gt_value *gate = project(g, l, GATE, x), *up = project(g, l, UP, x);

	gt_graph_scope(g, "%s.mlp.act_fn", l->name);
	return project(g, l, DOWN, gt_swiglu(g, gate, up));
}

static int check_llama_input(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_model_input *in)
{
	int vocab = c->vocab ? c->vocab : in->form.classes;

	if (in->form.kind != GT_SAMPLE_TOKENS)
		gt_model_fail_input(g, in, false, "a LLaMA takes text or tokens");
	else if (in->form.classes > vocab || in->form.block > c->block)
		gt_graph_fail(g, GT_EINVAL,
		    "%d tokens in windows of %d for a model of %d tokens and %d positions",
		    in->form.classes, in->form.block, vocab, c->block);
	else if (c->width % c->heads || c->width / c->heads % 2)
		gt_model_fail_heads(g, c, 2);
	else if (c->heads % c->kv_heads)
		gt_graph_fail(
		    g, GT_EINVAL, "heads=%d do not share kv_heads=%d", c->heads, c->kv_heads);
	return gt_graph_status(g, NULL);
}

/* Return the output of the last block, [B, T, width], and set *table to that of the embedding. */
static struct gt_value *blocks(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *past,
    struct gt_value **table)
{
	int vocab = c->vocab ? c->vocab : in->form.classes;
	struct gt_value *x;

	if (check_llama_input(g, c, in))
		return NULL;
	gt_graph_scope(g, "model.embed_tokens");
	*table = gt_parameter(g, "model.embed_tokens.weight", GT_F32, 2,
	    (int64_t[]){ vocab, c->width }, normal, true);
	x = gt_embedding(g, *table, ids, NULL, NULL);
	for (int i = 0; i < c->layers; i++) {
		struct layer l;

		declare(g, c, i, &l);
		x = gt_add(g, add_llama_attention(g, c, &l, norm(g, c, &l, NORM_IN, x), past), x);
		x = gt_add(g, mlp(g, &l, norm(g, c, &l, NORM_MLP, x)), x);
	}
	return x;
}

/* Emit the last norm and the head, whose weight may be that of the embedding. */
static struct gt_value *head(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x, struct gt_value *table)
{
	const int64_t width = c->width;

	gt_graph_scope(g, "model.norm");
	x = gt_rms_norm(g, x,
	    gt_parameter(g, "model.norm.weight", GT_F32, 1, &width, gt_init_ones, false), c->eps);
	if (!c->tied)
		return table ? gt_layer_dense(g, "lm_head", x, table->shape[0], normal, NULL)
		             : NULL;
	gt_graph_scope(g, "lm_head");
	return gt_matmul(g, x, table, NULL, false, true);
}

static struct gt_value *build_llama_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *rng, bool train)
{
	struct gt_value *table = NULL, *x = blocks(g, c, in, ids, NULL, &table);

	(void)rng;
	(void)train;
	return head(g, c, x, table);
}

static struct gt_value *next(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *past,
    struct gt_value *at)
{
	struct gt_value *table = NULL, *x = blocks(g, c, in, ids, past, &table);

	return head(g, c, gt_last_position(g, x, at), table);
}

/* Older files of Hugging Face hold frequencies as buffers. */
#define FREQUENCIES                                                                                \
	{                                                                                          \
		"model.layers.*.self_attn.rotary_emb.inv_freq", NULL, false                        \
	}

static const struct gt_model_alias aliases[] = { FREQUENCIES, { NULL, NULL, false } };
static const struct gt_model_alias tied_aliases[] = {
	{ "lm_head.weight", "model.embed_tokens.weight", true },
	FREQUENCIES,
	{ NULL, NULL, false },
};

#define ROW(ID, NAME, SUMMARY, LAYERS, HEADS, KV_HEADS, WIDTH, HIDDEN, BLOCK, VOCAB, THETA, LR)    \
	const struct gt_arch gt_arch_##ID = {                                                      \
		.name = NAME,                                                                      \
		.summary = SUMMARY,                                                                \
		.keys = "layers heads kv_heads width hidden block vocab theta eps tied",           \
		.defaults = { .layers = (LAYERS),                                                  \
		    .heads = (HEADS),                                                              \
		    .kv_heads = (KV_HEADS),                                                        \
		    .width = (WIDTH),                                                              \
		    .hidden = (HIDDEN),                                                            \
		    .block = (BLOCK),                                                              \
		    .vocab = (VOCAB),                                                              \
		    .theta = (THETA),                                                              \
		    .eps = 1e-5 },                                                                 \
		.preferred_input = describe_llama_input,                                           \
		.logits = build_llama_logits,                                                      \
		.next = next,                                                                      \
		.caches = true,                                                                    \
		.aliases = aliases,                                                                \
		.tied_aliases = tied_aliases,                                                      \
		.lr_adam = (LR),                                                                   \
		.lr_sgd = 0.1,                                                                     \
		.family = "llama",                                                                 \
		.hidden = hidden_of,                                                               \
	}

ROW(llama, "llama", "a small LLaMA, for characters or bytes", 4, 4, 2, 128, 0, 64, 0, 1e4, 1e-3);
ROW(tinyllama, "tinyllama", "TinyLlama, 1.1B parameters", 22, 32, 4, 2048, 5632, 2048, 32000, 1e4,
    4e-4);
ROW(llama2_7b, "llama2-7b", "Llama 2, 6.7B parameters", 32, 32, 32, 4096, 11008, 4096, 32000, 1e4,
    3e-4);
ROW(llama3_8b, "llama3-8b", "Llama 3, 8.0B parameters", 32, 32, 8, 4096, 14336, 8192, 128256, 5e5,
    3e-4);
