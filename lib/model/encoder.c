/* encoder.c - classifiers of texts: BERT, RoBERTa, DistilBERT. */
#include <math.h>
#include <stdio.h>

#include "lib/model/arch.h"

/*
 * Devlin et al., "BERT: Pre-training of deep bidirectional transformers", NAACL 2019; Liu et al.,
 * "RoBERTa", arXiv 1907.11692; Sanh et al., "DistilBERT", arXiv 1910.01108. Each token sees all
 * tokens of its text, a norm follows each sum of a layer's input and output, and the class is that
 * of the first token. Names are those of transformers' classes ...ForSequenceClassification.
 * Initial values are those of BERT: N(0, 0.02), biases zero. Weight decay applies to matrices and
 * embeddings, not to biases and norms.
 *
 *   input_ids -> embeddings -> norm -> layers -> first token -> dense layer -> class
 *
 * A row with padding needs the input attention_mask, which hides it; without this input, a token
 * sees the padding, too.
 */

static const struct gt_init normal = { GT_INIT_NORMAL, 0.02 };

enum { EXAMPLE = 128, CLASSES = 2 }; /* of random data */

struct gt_encoder {
	const char *title;
	/* names of parts, without ".weight"; those of a layer follow `layers`.N */
	const char *embeddings, *layers;
	const char *q, *k, *v, *o, *attention_norm, *up, *down, *norm;
	bool types; /* a text has token_type_ids */
	/* positions are counted from this token's id + 1, and this token, which is padding, has its
	 * id; -1: they are 0, 1, ... */
	int padding;
	const char *dense, *classes; /* the two last layers */
	bool relu;                   /* between them; else tanh */
	bool drops_first;            /* also drop activations before them */
};

static int64_t hidden_of(const struct gt_arch_config *c)
{
	return c->hidden ? c->hidden : 4 * (int64_t)c->width;
}

static void add_field(struct gt_sample_form *form, const char *name, int length)
{
	struct gt_sample_field *f = &form->fields[form->field_count++];

	*f = (struct gt_sample_field){
		.type = GT_FIELD_INT, .ndim = 1, .shape = { length }, .open = 1
	};
	snprintf(f->name, sizeof(f->name), "%s", name);
}

/* Return the tokens of the longest text. */
static int longest_text(const struct gt_arch_config *c)
{
	return c->block - (c->encoder->padding + 1);
}

static void describe_encoder_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	int length = longest_text(c) < EXAMPLE ? longest_text(c) : EXAMPLE;

	out->form.kind = GT_SAMPLE_VECTOR;
	out->form.classes = CLASSES;
	add_field(&out->form, "input_ids", length);
	add_field(&out->form, "attention_mask", length);
	if (c->encoder->types)
		add_field(&out->form, "token_type_ids", length);
}

/* The arguments of the layers, besides the architecture. */
struct pass {
	struct gt_value *rng, *mask;
	double dropout, head_dropout;
};

static struct gt_value *drop_features(struct gt_graph *g, struct gt_value *x, const struct pass *p)
{
	return gt_dropout(g, x, p->rng, p->dropout);
}

/* ---- embeddings ---- */

static struct gt_value *embedding_table(
    struct gt_graph *g, const struct gt_arch_config *c, const char *leaf, int64_t rows)
{
	char name[96];

	snprintf(name, sizeof(name), "%s.%s.weight", c->encoder->embeddings, leaf);
	return gt_parameter(g, name, GT_F32, 2, (int64_t[]){ rows, c->width }, normal, true);
}

/* Number the tokens of texts that are no padding: 1, 2, ...; padding has 0. For ids 7 8 1 9 and the
 * padding 1: 1 2 0 3. Whole numbers are summed, as products may be computed in 16 bits. */
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

/* The tables of embeddings, in the order of transformers; no types: NULL. */
struct tables {
	struct gt_value *words, *positions, *types;
};

/* Return the places of tokens in the table of positions; NULL: they are 0, 1, ... */
static struct gt_value *find_places(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *ids)
{
	const int padding = c->encoder->padding;
	const struct gt_map_operand sum[] = { { .value = count_tokens(g, ids, padding) },
		{ .is_number = true, .number = padding } };

	return gt_cast_to(g, gt_apply(g, GT_F_ADD, sum), GT_I32);
}

/* Without the input, all tokens have type 0. */
static struct gt_value *embed_tokens(struct gt_graph *g, const struct gt_arch_config *c,
    struct gt_value *ids, struct gt_value *types, const struct pass *p)
{
	struct tables t = { .words = embedding_table(g, c, "word_embeddings", c->vocab) };
	struct gt_value *x;
	char name[96];

	t.positions = embedding_table(g, c, "position_embeddings", c->block);
	if (c->types)
		t.types = embedding_table(g, c, "token_type_embeddings", c->types);
	gt_graph_scope(g, "%s", c->encoder->embeddings);
	if (c->encoder->padding < 0)
		x = gt_embedding(g, t.words, ids, t.positions, NULL);
	else
		x = gt_embedding_placed(g, t.words, ids, t.positions, find_places(g, c, ids));
	if (c->types)
		x = gt_binary(g, GT_F_ADD, x,
		    types ? gt_embedding(g, t.types, types, NULL, NULL)
		          : gt_select(g, t.types, 0, 0));
	snprintf(name, sizeof(name), "%s.LayerNorm", c->encoder->embeddings);
	return drop_features(g, gt_layer_layer_norm(g, name, x, c->eps), p);
}

/* ---- layers ---- */

static struct gt_value *encoder_dense(
    struct gt_graph *g, const char *layer, const char *leaf, struct gt_value *x, int64_t out)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", layer, leaf);
	return gt_layer_dense(g, name, x, out, normal, &gt_init_zeros);
}

/* Return heads [B, heads, T, D] of the output of a dense layer. */
static struct gt_value *project_heads(struct gt_graph *g, const struct gt_arch_config *c,
    const char *layer, const char *leaf, struct gt_value *x)
{
	struct gt_value *y = encoder_dense(g, layer, leaf, x, c->width);

	if (!y)
		return NULL;
	y = gt_reshape(
	    g, y, 4, (int64_t[]){ x->shape[0], x->shape[1], c->heads, c->width / c->heads });
	return gt_permute_dims(g, y, (const int[]){ 0, 2, 1, 3 });
}

static struct gt_value *encoder_attention(struct gt_graph *g, const struct gt_arch_config *c,
    const char *layer, struct gt_value *x, const struct pass *p)
{
	const struct gt_encoder *e = c->encoder;
	const struct gt_masked_attention a = { .scale = 1 / sqrt((double)c->width / c->heads),
		.mask = p->mask,
		.boolean = true,
		.rng = p->rng,
		.p = p->dropout };
	const char *const leaves[] = { e->q, e->k, e->v };
	struct gt_value *qkv[3], *y;

	for (int i = 0; i < 3; i++)
		qkv[i] = project_heads(g, c, layer, leaves[i], x);
	gt_graph_scope(g, "%sattention", layer);
	y = gt_permute_dims(g, gt_layer_attention(g, qkv, &a), (const int[]){ 0, 2, 1, 3 });
	if (!y)
		return NULL;
	return gt_reshape(g, y, 3, (int64_t[]){ y->shape[0], y->shape[1], c->width });
}

/* Emit the sum of a layer's input and output, and the norm behind it. */
static struct gt_value *add_and_norm(struct gt_graph *g, const struct gt_arch_config *c,
    const char *layer, const char *leaf, struct gt_value *x, struct gt_value *y,
    const struct pass *p)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", layer, leaf);
	return gt_layer_layer_norm(g, name, gt_add(g, drop_features(g, y, p), x), c->eps);
}

static struct gt_value *encoder_layer(struct gt_graph *g, const struct gt_arch_config *c, int i,
    struct gt_value *x, const struct pass *p)
{
	const struct gt_encoder *e = c->encoder;
	struct gt_value *y;
	char layer[64];

	snprintf(layer, sizeof(layer), "%s.%d.", e->layers, i);
	y = encoder_dense(g, layer, e->o, encoder_attention(g, c, layer, x, p), c->width);
	x = add_and_norm(g, c, layer, e->attention_norm, x, y, p);
	y = encoder_dense(g, layer, e->up, x, hidden_of(c));
	gt_graph_scope(g, "%sactivation", layer);
	y = gt_gelu(g, y, c->gelu);
	return add_and_norm(
	    g, c, layer, e->norm, x, encoder_dense(g, layer, e->down, y, c->width), p);
}

/* ---- the class ---- */

/* Emit the class of texts by their first tokens [B, width]. */
static struct gt_value *classify_texts(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, const struct pass *p)
{
	const struct gt_encoder *e = c->encoder;

	gt_graph_scope(g, "%s", e->dense);
	if (e->drops_first)
		x = gt_dropout(g, x, p->rng, p->head_dropout);
	x = encoder_dense(g, "", e->dense, x, c->width);
	x = e->relu ? gt_relu(g, x) : gt_unary(g, GT_F_TANH, x);
	x = gt_dropout(g, x, p->rng, p->head_dropout);
	return encoder_dense(g, "", e->classes, x, in->form.classes);
}

static int check_encoder_input(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, const struct gt_value *ids)
{
	const char *title = c->encoder->title;

	if (!ids || ids->dtype != GT_I32 || ids->ndim != 2) {
		gt_model_fail_input(g, in, false, "%s takes texts with a class each", title);
		if (g->err.code == GT_EINVAL)
			gt_err_hint(&g->err, "labelled:FILE.jsonl reads such texts");
	} else if (ids->shape[1] > longest_text(c)) {
		gt_graph_fail(g, GT_EINVAL, "texts of %lld tokens, but %s has %d positions",
		    (long long)ids->shape[1], title, longest_text(c));
		gt_err_hint(&g->err, "block=%d in {data} cuts longer texts", longest_text(c));
	} else if (c->width % c->heads) {
		gt_model_fail_heads(g, c, 1);
	}
	return gt_graph_status(g, NULL);
}

static struct gt_value *build_encoder_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	struct gt_value *ids = gt_model_find_field(g, &in->form, x, GT_FIELD_DATA);
	struct gt_value *token_types = gt_model_find_field(g, &in->form, x, GT_FIELD_TYPES);
	struct pass p = { .rng = rng,
		.mask = gt_model_find_field(g, &in->form, x, GT_FIELD_MASK),
		.dropout = train ? c->dropout : 0,
		.head_dropout = train ? c->head_dropout : 0 };

	if (check_encoder_input(g, c, in, ids))
		return NULL;
	if (p.mask)
		p.mask =
		    gt_reshape(g, p.mask, 4, (int64_t[]){ ids->shape[0], 1, 1, ids->shape[1] });
	x = embed_tokens(g, c, ids, token_types, &p);
	for (int i = 0; i < c->layers; i++)
		x = encoder_layer(g, c, i, x, &p);
	return x ? classify_texts(g, c, in, gt_select(g, x, 1, 0), &p) : NULL;
}

/* ---- the models ---- */

/* clang-format off */
#define BERT_LEAVES                                                                                \
	.q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",       \
	.o = "attention.output.dense", .attention_norm = "attention.output.LayerNorm",             \
	.up = "intermediate.dense", .down = "output.dense", .norm = "output.LayerNorm"
/* clang-format on */

static const struct gt_encoder bert = { "a BERT", "bert.embeddings", "bert.encoder.layer",
	BERT_LEAVES, .types = true, .padding = -1, .dense = "bert.pooler.dense",
	.classes = "classifier" };

static const struct gt_encoder roberta = { "a RoBERTa", "roberta.embeddings",
	"roberta.encoder.layer", BERT_LEAVES, .padding = 1, .dense = "classifier.dense",
	.classes = "classifier.out_proj", .drops_first = true };

static const struct gt_encoder distilbert = { "a DistilBERT", "distilbert.embeddings",
	"distilbert.transformer.layer", "attention.q_lin", "attention.k_lin", "attention.v_lin",
	"attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
	.padding = -1, .dense = "pre_classifier", .classes = "classifier", .relu = true };

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

static const struct gt_model_alias bert_aliases[] = {
	OLD_NORM("bert.embeddings.LayerNorm"),
	OLD_NORM("bert.encoder.layer.*.attention.output.LayerNorm"),
	OLD_NORM("bert.encoder.layer.*.output.LayerNorm"),
	{ "bert.embeddings.position_ids", NULL, false },
	{ "cls.predictions.bias", NULL, false },
	UNUSED("cls.predictions.decoder"),
	UNUSED("cls.predictions.transform.dense"),
	UNUSED_NORM("cls.predictions.transform.LayerNorm"),
	UNUSED("cls.seq_relationship"),
	{ NULL, NULL, false },
};

static const struct gt_model_alias roberta_aliases[] = {
	{ "roberta.embeddings.position_ids", NULL, false },
	UNUSED("roberta.pooler.dense"),
	{ "lm_head.bias", NULL, false },
	UNUSED("lm_head.decoder"),
	UNUSED("lm_head.dense"),
	UNUSED("lm_head.layer_norm"),
	{ NULL, NULL, false },
};

static const struct gt_model_alias distilbert_aliases[] = {
	{ "distilbert.embeddings.position_ids", NULL, false },
	UNUSED("vocab_transform"),
	UNUSED("vocab_layer_norm"),
	UNUSED("vocab_projector"),
	{ NULL, NULL, false },
};

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
		.keys = "layers heads width hidden block vocab eps dropout head_dropout" KEYS,     \
		.defaults = { .encoder = &(NAME),                                                  \
		    .layers = 4,                                                                   \
		    .heads = 4,                                                                    \
		    .width = 128,                                                                  \
		    .gelu = GT_GELU_ERF,                                                           \
		    __VA_ARGS__ },                                                                 \
		.preferred_input = describe_encoder_input,                                         \
		.logits = build_encoder_logits,                                                    \
		.fields = true,                                                                    \
		.aliases = NAME##_aliases,                                                         \
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
