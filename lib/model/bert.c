/* bert.c - classifiers of texts: BERT, RoBERTa, DistilBERT. */
#include <stddef.h>
#include <stdio.h>

#include "lib/model/encoder.h"

/*
 * Devlin et al., "BERT: Pre-training of deep bidirectional transformers", NAACL 2019; Liu et al.,
 * "RoBERTa", arXiv 1907.11692; Sanh et al., "DistilBERT", arXiv 1910.01108. A norm follows each sum
 * of a layer's input and output, and the class is that of the first token. Names are those of
 * transformers' classes ...ForSequenceClassification.
 *
 *   input_ids -> embeddings -> norm -> layers -> first token -> dense layer -> class
 */

struct bert {
	struct gt_encoder encoder;
	/* names of parts, without ".weight"; those of a layer follow `layers`.N */
	const char *embeddings, *layers;
	const char *q, *k, *v, *o, *attention_norm, *up, *down, *norm;
	/* positions are counted from this token's id + 1, and this token, which is padding, has its
	 * id; -1: they are 0, 1, ... */
	int padding;
	const char *dense, *classes; /* the two last layers */
	/* hidden tokens: the layer behind the last block, and its norm */
	const char *transform, *transform_norm;
	bool bias_first;  /* the bias of the decoder comes before them in state_dicts */
	bool relu;        /* between them; else tanh */
	bool drops_first; /* also drop activations before them */
};

static const struct bert *bert_of(const struct gt_arch_config *c)
{
	return (const struct bert *)((const char *)c->encoder - offsetof(struct bert, encoder));
}

static int64_t hidden_of(const struct gt_arch_config *c)
{
	return c->hidden ? c->hidden : 4 * (int64_t)c->width;
}

static struct gt_value *drop_features(
    struct gt_graph *g, struct gt_value *x, const struct gt_encoder_pass *p)
{
	return gt_dropout(g, x, p->rng, p->dropout);
}

/* ---- embeddings ---- */

static struct gt_value *embedding_table(
    struct gt_graph *g, const struct gt_arch_config *c, const char *leaf, int64_t rows)
{
	char name[96];

	snprintf(name, sizeof(name), "%s.%s.weight", bert_of(c)->embeddings, leaf);
	return gt_parameter(
	    g, name, GT_F32, 2, (int64_t[]){ rows, c->width }, gt_encoder_init, true);
}

/* Number the tokens of texts that are no padding: 1, 2, ...; padding has 0. For ids 7 8 1 9 and the
 * padding 1: 1 2 0 3, a running sum by a triangle of ones. A matrix product might be computed in 16
 * bits, which do not hold numbers above 256. */
static struct gt_value *count_tokens(struct gt_graph *g, struct gt_value *ids, int padding)
{
	const int64_t n = ids->shape[1], line[] = { ids->shape[0], 1, n };
	const struct gt_map_operand other[] = { { .value = ids },
		{ .is_number = true, .number = padding } };
	struct gt_value *tokens = gt_apply(g, GT_F_NE, other), *before, *pairs;
	float *ones = gt_arena_alloc(&g->arena, (size_t)(n * n) * sizeof(*ones), &g->err);

	if (!tokens || !ones)
		return NULL;
	for (int64_t i = 0; i < n * n; i++)
		ones[i] = i % n <= i / n;
	before = gt_constant(g, GT_F32, 2, (int64_t[]){ n, n }, ones);
	pairs = gt_binary(g, GT_F_MUL, gt_reshape(g, tokens, 3, line), before);
	return gt_binary(g, GT_F_MUL, gt_sum(g, pairs, 1u << 2, false), tokens);
}

/* Return the places of tokens in the table of positions, which padding has, too. */
static struct gt_value *find_places(struct gt_graph *g, struct gt_value *ids, int padding)
{
	const struct gt_map_operand sum[] = { { .value = count_tokens(g, ids, padding) },
		{ .is_number = true, .number = padding } };

	return gt_cast_to(g, gt_apply(g, GT_F_ADD, sum), GT_I32);
}

/* `words` is the table of tokens. The others are declared in the order of transformers. */
static struct gt_value *embed_tokens(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_encoder_pass *p, struct gt_value *words)
{
	const struct bert *e = bert_of(c);
	struct gt_value *types = NULL;
	struct gt_value *positions = embedding_table(g, c, "position_embeddings", c->block), *x;
	char name[96];

	if (c->types)
		types = embedding_table(g, c, "token_type_embeddings", c->types);
	gt_graph_scope(g, "%s", e->embeddings);
	if (e->padding < 0)
		x = gt_embedding(g, words, p->ids, positions, NULL);
	else
		x = gt_embedding_placed(
		    g, words, p->ids, positions, find_places(g, p->ids, e->padding));
	if (types)
		x = gt_binary(g, GT_F_ADD, x,
		    p->types ? gt_embedding(g, types, p->types, NULL, NULL)
		             : gt_select(g, types, 0, 0));
	snprintf(name, sizeof(name), "%s.LayerNorm", e->embeddings);
	return drop_features(g, gt_layer_layer_norm(g, name, x, c->eps), p);
}

/* ---- layers ---- */

static struct gt_value *dense(
    struct gt_graph *g, const char *layer, const char *leaf, struct gt_value *x, int64_t out)
{
	return gt_encoder_dense(g, layer, leaf, x, out, true);
}

/* `mask` is [B, 1, 1, T], or NULL. */
static struct gt_value *self_attention(struct gt_graph *g, const struct gt_arch_config *c,
    const char *layer, struct gt_value *x, struct gt_value *mask, const struct gt_encoder_pass *p)
{
	const struct bert *e = bert_of(c);
	const char *const leaves[] = { e->q, e->k, e->v };
	struct gt_value *heads[3];

	for (int i = 0; i < 3; i++)
		heads[i] = gt_encoder_heads(g, c, dense(g, layer, leaves[i], x, c->width));
	gt_graph_scope(g, "%sattention", layer);
	return gt_encoder_attention(g, c, heads, mask, p);
}

/* Emit the sum of a layer's input and output, and the norm behind it. */
static struct gt_value *add_and_norm(struct gt_graph *g, const struct gt_arch_config *c,
    const char *layer, const char *leaf, struct gt_value *x, struct gt_value *y,
    const struct gt_encoder_pass *p)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", layer, leaf);
	return gt_layer_layer_norm(g, name, gt_add(g, drop_features(g, y, p), x), c->eps);
}

static struct gt_value *encoder_layer(struct gt_graph *g, const struct gt_arch_config *c, int i,
    struct gt_value *x, struct gt_value *mask, const struct gt_encoder_pass *p)
{
	const struct bert *e = bert_of(c);
	struct gt_value *y;
	char layer[64];

	snprintf(layer, sizeof(layer), "%s.%d.", e->layers, i);
	y = dense(g, layer, e->o, self_attention(g, c, layer, x, mask, p), c->width);
	x = add_and_norm(g, c, layer, e->attention_norm, x, y, p);
	y = dense(g, layer, e->up, x, hidden_of(c));
	gt_graph_scope(g, "%sactivation", layer);
	y = gt_gelu(g, y, c->gelu);
	return add_and_norm(g, c, layer, e->norm, x, dense(g, layer, e->down, y, c->width), p);
}

/* ---- the class ---- */

/* Emit the class of texts by their first tokens [B, width]. */
static struct gt_value *classify_texts(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, const struct gt_encoder_pass *p)
{
	const struct bert *e = bert_of(c);

	gt_graph_scope(g, "%s", e->dense);
	if (e->drops_first)
		x = gt_dropout(g, x, p->rng, p->head_dropout);
	x = dense(g, "", e->dense, x, c->width);
	x = e->relu ? gt_relu(g, x) : gt_unary(g, GT_F_TANH, x);
	x = gt_dropout(g, x, p->rng, p->head_dropout);
	return dense(g, "", e->classes, x, in->form.classes);
}

/* Emit the scores of all tokens in the place of each token. */
static struct gt_value *find_tokens(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x, struct gt_value *words)
{
	const struct bert *e = bert_of(c);
	struct gt_value *bias = e->bias_first ? gt_encoder_decoder_bias(g, c) : NULL;

	x = dense(g, "", e->transform, x, c->width);
	gt_graph_scope(g, "%s", e->transform);
	x = gt_layer_layer_norm(g, e->transform_norm, gt_gelu(g, x, c->gelu), c->eps);
	bias = bias ? bias : gt_encoder_decoder_bias(g, c);
	gt_graph_scope(g, "%s", c->encoder->decoder_bias);
	return gt_matmul(g, x, words, bias, false, true);
}

static struct gt_value *build_bert_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	struct gt_value *mask = NULL, *words;
	struct gt_encoder_pass p;

	if (gt_encoder_begin(&p, g, c, in, x, rng, train))
		return NULL;
	if (p.mask)
		mask =
		    gt_reshape(g, p.mask, 4, (int64_t[]){ p.ids->shape[0], 1, 1, p.ids->shape[1] });
	words = embedding_table(g, c, "word_embeddings", c->vocab);
	x = embed_tokens(g, c, &p, words);
	for (int i = 0; i < c->layers; i++)
		x = encoder_layer(g, c, i, x, mask, &p);
	if (c->masks)
		return find_tokens(g, c, x, words);
	return x ? classify_texts(g, c, in, gt_select(g, x, 1, 0), &p) : NULL;
}

/* ---- the models ---- */

/* clang-format off */
#define BERT_LEAVES                                                                                \
	.q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",       \
	.o = "attention.output.dense", .attention_norm = "attention.output.LayerNorm",             \
	.up = "intermediate.dense", .down = "output.dense", .norm = "output.LayerNorm"
/* clang-format on */

static const struct bert bert = { { "a BERT", "cls.predictions.bias", true, 0 }, "bert.embeddings",
	"bert.encoder.layer", BERT_LEAVES, .padding = -1, .dense = "bert.pooler.dense",
	.classes = "classifier", .transform = "cls.predictions.transform.dense",
	.transform_norm = "cls.predictions.transform.LayerNorm", .bias_first = true };

static const struct bert roberta = { { "a RoBERTa", "lm_head.bias", false, 2 },
	"roberta.embeddings", "roberta.encoder.layer", BERT_LEAVES, .padding = 1,
	.dense = "classifier.dense", .classes = "classifier.out_proj", .drops_first = true,
	.transform = "lm_head.dense", .transform_norm = "lm_head.layer_norm", .bias_first = true };

static const struct bert distilbert = { { "a DistilBERT", "vocab_projector.bias", false, 0 },
	"distilbert.embeddings", "distilbert.transformer.layer", "attention.q_lin",
	"attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm", "ffn.lin1",
	"ffn.lin2", "output_layer_norm", .padding = -1, .dense = "pre_classifier",
	.classes = "classifier", .relu = true, .transform = "vocab_transform",
	.transform_norm = "vocab_layer_norm" };

/* ---- other names ---- */

/* Files that were converted from TensorFlow call the parameters of norms gamma and beta. */
#define OLD_NORM(NAME)                                                                             \
	{ NAME ".gamma", NAME ".weight", false },                                                  \
	{                                                                                          \
		NAME ".beta", NAME ".bias", false                                                  \
	}

/* The layers of pre-training are no part of a classifier. */
#define UNUSED(NAME)                                                                               \
	{ NAME ".weight", NULL, false },                                                           \
	{                                                                                          \
		NAME ".bias", NULL, false                                                          \
	}
#define UNUSED_NORM(NAME)                                                                          \
	UNUSED(NAME), { NAME ".gamma", NULL, false },                                              \
	{                                                                                          \
		NAME ".beta", NULL, false                                                          \
	}

#define BERT_ALIASES                                                                               \
	OLD_NORM("bert.embeddings.LayerNorm"),                                                     \
	    OLD_NORM("bert.encoder.layer.*.attention.output.LayerNorm"),                           \
	    OLD_NORM("bert.encoder.layer.*.output.LayerNorm"),                                     \
	    { "bert.embeddings.position_ids", NULL, false }, UNUSED("cls.seq_relationship")
#define END                                                                                        \
	{                                                                                          \
		NULL, NULL, false                                                                  \
	}

static const struct gt_model_alias bert_aliases[] = {
	BERT_ALIASES,
	{ "cls.predictions.bias", NULL, false },
	UNUSED("cls.predictions.decoder"),
	UNUSED("cls.predictions.transform.dense"),
	UNUSED_NORM("cls.predictions.transform.LayerNorm"),
	END,
};

static const struct gt_model_alias bert_masked_aliases[] = {
	{ "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", true },
	{ "cls.predictions.decoder.bias", "cls.predictions.bias", true },
	BERT_ALIASES,
	OLD_NORM("cls.predictions.transform.LayerNorm"),
	UNUSED("bert.pooler.dense"),
	END,
};

static const struct gt_model_alias roberta_aliases[] = {
	{ "roberta.embeddings.position_ids", NULL, false },
	UNUSED("roberta.pooler.dense"),
	{ "lm_head.bias", NULL, false },
	UNUSED("lm_head.decoder"),
	UNUSED("lm_head.dense"),
	UNUSED("lm_head.layer_norm"),
	END,
};

static const struct gt_model_alias roberta_masked_aliases[] = {
	{ "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight", true },
	{ "lm_head.decoder.bias", "lm_head.bias", true },
	{ "roberta.embeddings.position_ids", NULL, false },
	UNUSED("roberta.pooler.dense"),
	END,
};

static const struct gt_model_alias distilbert_aliases[] = {
	{ "distilbert.embeddings.position_ids", NULL, false },
	UNUSED("vocab_transform"),
	UNUSED("vocab_layer_norm"),
	UNUSED("vocab_projector"),
	END,
};

static const struct gt_model_alias distilbert_masked_aliases[] = {
	{ "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight", true },
	{ "distilbert.embeddings.position_ids", NULL, false },
	END,
};

#undef END
#undef BERT_ALIASES
#undef OLD_NORM
#undef UNUSED
#undef UNUSED_NORM

static const char *const bert_task[] = { "bert.pooler.dense.weight", "bert.pooler.dense.bias",
	NULL };
static const char *const roberta_task[] = { "classifier.dense.weight", "classifier.dense.bias",
	NULL };
static const char *const distilbert_task[] = { "pre_classifier.weight", "pre_classifier.bias",
	NULL };

#define ROW(NAME, SUMMARY, KEYS, ...)                                                              \
	const struct gt_arch gt_arch_##NAME = {                                                    \
		.name = #NAME,                                                                     \
		.summary = SUMMARY,                                                                \
		.keys =                                                                            \
		    "layers heads width hidden block vocab eps dropout head_dropout masks" KEYS,   \
		.defaults = { .encoder = &(NAME).encoder,                                          \
		    .layers = 4,                                                                   \
		    .heads = 4,                                                                    \
		    .width = 128,                                                                  \
		    .gelu = GT_GELU_ERF,                                                           \
		    __VA_ARGS__ },                                                                 \
		.preferred_input = gt_encoder_input,                                               \
		.logits = build_bert_logits,                                                       \
		.fields = true,                                                                    \
		.aliases = NAME##_aliases,                                                         \
		.masked_aliases = NAME##_masked_aliases,                                           \
		.task_layers = NAME##_task,                                                        \
		.lr_adam = 5e-5,                                                                   \
		.lr_sgd = 0.01,                                                                    \
		.family = #NAME,                                                                   \
		.hidden = hidden_of,                                                               \
	}

ROW(bert, "a small BERT, for classes of texts", " types gelu", .types = 2, .vocab = 30522,
    .block = 512, .eps = 1e-12);
ROW(roberta, "a small RoBERTa, for classes of texts", " types gelu", .types = 1, .vocab = 50265,
    .block = 514, .eps = 1e-5);
ROW(distilbert, "a small DistilBERT, for classes of texts", " gelu", .vocab = 30522, .block = 512,
    .eps = 1e-12);
