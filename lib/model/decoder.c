/* decoder.c - decoder-only transformers: one network, whose variations are fields of a row. */
#include "lib/model/decoder.h"

#include <math.h>
#include <stdio.h>

/*
 * Sources: Touvron et al., "LLaMA", arXiv 2302.13971; Jiang et al., "Mistral 7B", arXiv 2310.06825;
 * Gemma Team, "Gemma 2", arXiv 2408.00118; OLMo Team, "2 OLMo 2 Furious", arXiv 2501.00656; Black
 * et al., "GPT-NeoX-20B", arXiv 2204.06745 (attention and MLP of the same input). Names and initial
 * values are those of Hugging Face's transformers: N(0, 0.02) for matrices and embeddings, ones for
 * factors of norms, zeros for biases. Weight decay applies to matrices and embeddings.
 */

static const struct gt_init normal = { GT_INIT_NORMAL, 0.02 };

void gt_decoder_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_TOKENS;
	out->form.block = c->block;
	out->form.classes = c->vocab;
}

static bool has_part(const struct gt_decoder *d, enum gt_decoder_part part)
{
	for (const struct gt_decoder_leaf *leaf = d->leaves; leaf->name; leaf++)
		if (leaf->part == part)
			return true;
	return false;
}

/* Return two thirds of four times the width, as in LLaMA, in multiples of 32; without a gate, four
 * times the width. */
int64_t gt_decoder_hidden(const struct gt_arch_config *c)
{
	if (c->hidden)
		return c->hidden;
	return has_part(c->decoder, GT_PART_GATE) || has_part(c->decoder, GT_PART_GATE_UP) ||
	               has_part(c->decoder, GT_PART_ROUTER)
	           ? ((int64_t)c->width * 8 / 3 + 31) / 32 * 32
	           : (int64_t)c->width * 4;
}

/* ---- parameters ---- */

struct layer {
	char name[64];
	struct gt_decoder_attention attention;
	const char *leaf[GT_DECODER_PARTS];
	/* NULL: the layer has no such part, or no such bias */
	struct gt_value *weight[GT_DECODER_PARTS], *bias[GT_DECODER_PARTS];
};

/* Set the shape of a part's weight: [out, in], or [out, 0] for a norm. */
static void find_shape(
    int64_t shape[2], const struct gt_arch_config *c, int64_t size, enum gt_decoder_part part)
{
	const int64_t width = c->width, hidden = gt_decoder_hidden(c);
	const int64_t q = c->heads * size, kv = c->kv_heads * size;
	const bool whole = c->decoder->whole_norms;
	const int64_t shapes[GT_DECODER_PARTS][2] = {
		[GT_PART_Q] = { q, width },
		[GT_PART_K] = { kv, width },
		[GT_PART_V] = { kv, width },
		[GT_PART_QKV] = { q + 2 * kv, width },
		[GT_PART_O] = { width, q },
		[GT_PART_Q_NORM] = { whole ? q : size, 0 },
		[GT_PART_K_NORM] = { whole ? kv : size, 0 },
		[GT_PART_GATE] = { hidden, width },
		[GT_PART_UP] = { hidden, width },
		[GT_PART_GATE_UP] = { 2 * hidden, width },
		[GT_PART_DOWN] = { width, hidden },
		[GT_PART_ROUTER] = { c->experts, width },
		[GT_PART_EXPERT_GATES] = { hidden, width },
		[GT_PART_EXPERT_UPS] = { hidden, width },
		[GT_PART_EXPERT_DOWNS] = { width, hidden },
		[GT_PART_ATTENTION_IN] = { width, 0 },
		[GT_PART_ATTENTION_OUT] = { width, 0 },
		[GT_PART_MLP_IN] = { width, 0 },
		[GT_PART_MLP_OUT] = { width, 0 },
	};

	shape[0] = shapes[part][0];
	shape[1] = shapes[part][1];
}

/* Return whether a part has a bias beside its weight. */
static bool has_bias(const struct gt_arch_config *c, enum gt_decoder_part part, bool matrix)
{
	const struct gt_decoder *d = c->decoder;

	if (!matrix)
		return d->norms == GT_NORM_LAYER;
	return (c->attention_bias && d->attention_biases >> part & 1) ||
	       (c->mlp_bias && d->mlp_biases >> part & 1);
}

/* Declare MODULE.weight and perhaps MODULE.bias. */
static struct gt_value *declare_pair(struct gt_graph *g, const struct gt_decoder *d,
    const char *module, const int64_t shape[2], struct gt_value **bias)
{
	const bool matrix = shape[1];
	char name[160];
	struct gt_value *weight;

	snprintf(name, sizeof(name), "%s.weight", module);
	weight = gt_parameter(g, name, GT_F32, matrix ? 2 : 1, shape,
	    matrix                             ? normal
	    : d->norms == GT_NORM_RMS_PLUS_ONE ? gt_init_zeros
	                                       : gt_init_ones,
	    matrix);
	snprintf(name, sizeof(name), "%s.bias", module);
	if (bias)
		*bias = gt_parameter(g, name, GT_F32, 1, shape, gt_init_zeros, false);
	return weight;
}

/* Declare the matrices of all experts. */
static struct gt_value *declare_stack(
    struct gt_graph *g, const struct gt_arch_config *c, const char *name, const int64_t shape[2])
{
	return gt_parameter(
	    g, name, GT_F32, 3, (int64_t[]){ c->experts, shape[0], shape[1] }, normal, true);
}

static void declare_layer(
    struct gt_graph *g, const struct gt_arch_config *c, int number, struct layer *l)
{
	*l = (struct layer){ .attention = gt_decoder_attention_of(c, number) };
	snprintf(l->name, sizeof(l->name), "%s.%d", c->decoder->layers, number);
	for (const struct gt_decoder_leaf *leaf = c->decoder->leaves; leaf->name; leaf++) {
		int64_t shape[2];
		char module[128];

		find_shape(shape, c, l->attention.size, leaf->part);
		snprintf(module, sizeof(module), "%s.%s", l->name, leaf->name);
		l->leaf[leaf->part] = leaf->name;
		if (leaf->part >= GT_PART_EXPERT_GATES && leaf->part <= GT_PART_EXPERT_DOWNS) {
			l->weight[leaf->part] = declare_stack(g, c, module, shape);
			continue;
		}
		l->weight[leaf->part] = declare_pair(g, c->decoder, module, shape,
		    has_bias(c, leaf->part, shape[1]) ? &l->bias[leaf->part] : NULL);
	}
}

/* ---- parts of a layer ---- */

static struct gt_value *project(
    struct gt_graph *g, const struct layer *l, enum gt_decoder_part part, struct gt_value *x)
{
	gt_graph_scope(g, "%s.%s", l->name, l->leaf[part]);
	return gt_matmul(g, x, l->weight[part], l->bias[part], false, true);
}

/* Return x * number. */
static struct gt_value *multiply(struct gt_graph *g, struct gt_value *x, double number)
{
	return gt_apply(
	    g, GT_F_MUL, (struct gt_map_operand[]){ { .value = x }, { true, number, NULL } });
}

static struct gt_value *normalize(struct gt_graph *g, const struct gt_arch_config *c,
    struct gt_value *x, struct gt_value *weight, struct gt_value *bias)
{
	switch (c->decoder->norms) {
	case GT_NORM_LAYER:
		return gt_layer_norm(g, x, weight, bias, c->eps);
	case GT_NORM_RMS_PLUS_ONE:
		weight = gt_apply(g, GT_F_ADD,
		    (struct gt_map_operand[]){ { .value = weight }, { true, 1, NULL } });
		break;
	case GT_NORM_RMS:
		break;
	}
	return gt_rms_norm(g, x, weight, c->eps);
}

/* Normalize x if the layer has this norm. */
static struct gt_value *norm(struct gt_graph *g, const struct gt_arch_config *c,
    const struct layer *l, enum gt_decoder_part part, struct gt_value *x)
{
	if (!l->leaf[part])
		return x;
	gt_graph_scope(g, "%s.%s", l->name, l->leaf[part]);
	return normalize(g, c, x, l->weight[part], l->bias[part]);
}

/* Normalize queries or keys, all heads of a token together or each one by itself. */
static struct gt_value *norm_heads(struct gt_graph *g, const struct gt_arch_config *c,
    const struct layer *l, enum gt_decoder_part part, struct gt_value *x)
{
	const int64_t size = l->attention.size;
	struct gt_value *heads;

	if (!l->leaf[part] || c->decoder->whole_norms || !x)
		return norm(g, c, l, part, x);
	gt_graph_scope(g, "%s.%s", l->name, l->leaf[part]);
	heads =
	    gt_reshape(g, x, 4, (int64_t[]){ x->shape[0], x->shape[1], x->shape[2] / size, size });
	heads = norm(g, c, l, part, heads);
	return gt_reshape(g, heads, 3, x->shape);
}

/* Divide the product QKV into its three parts. */
static void split_qkv(struct gt_graph *g, const struct gt_arch_config *c, int64_t size,
    struct gt_value *x, struct gt_value *qkv[3])
{
	const int64_t q = c->heads * size, kv = c->kv_heads * size;
	const int64_t begin[] = { 0, q, q + kv, q + 2 * kv };
	const int64_t B = x ? x->shape[0] : 0, T = x ? x->shape[1] : 0;

	if (c->decoder->interleaved)
		x = gt_reshape(g, x, 5, (int64_t[]){ B, T, c->heads, 3, size });
	for (int i = 0; i < 3; i++)
		qkv[i] = c->decoder->interleaved
		             ? gt_reshape(g, gt_select(g, x, 3, i), 3, (int64_t[]){ B, T, q })
		             : gt_slice_dim(g, x, 2, begin[i], begin[i + 1], 1);
}

static struct gt_value *add_decoder_attention(struct gt_graph *g, const struct gt_arch_config *c,
    const struct layer *l, struct gt_value *x, const struct gt_decoder_place *at)
{
	const double score = c->score_dim ? sqrt((double)l->attention.size / c->score_dim) : 1;
	struct gt_value *qkv[3];
	char scope[96];

	if (l->leaf[GT_PART_QKV]) {
		split_qkv(g, c, l->attention.size, project(g, l, GT_PART_QKV, x), qkv);
	} else {
		qkv[0] = project(g, l, GT_PART_Q, x);
		qkv[1] = project(g, l, GT_PART_K, x);
		qkv[2] = project(g, l, GT_PART_V, x);
	}
	qkv[0] = norm_heads(g, c, l, GT_PART_Q_NORM, qkv[0]);
	qkv[1] = norm_heads(g, c, l, GT_PART_K_NORM, qkv[1]);
	snprintf(scope, sizeof(scope), "%s.%s", l->name, c->decoder->attention);
	gt_graph_scope(g, "%s", scope);
	if (score != 1)
		qkv[0] = multiply(g, qkv[0], score);
	x = gt_decoder_attend(g, c, &l->attention, scope, qkv, at);
	return project(g, l, GT_PART_O, x);
}

static struct gt_value *add_decoder_mlp(
    struct gt_graph *g, const struct gt_arch_config *c, const struct layer *l, struct gt_value *x)
{
	const int64_t hidden = gt_decoder_hidden(c);
	struct gt_value *gate = NULL, *up;

	if (l->leaf[GT_PART_ROUTER]) {
		gt_graph_scope(g, "%s.%s", l->name, c->decoder->mlp);
		return gt_decoder_experts(g, c,
		    &(struct gt_decoder_experts){ l->weight[GT_PART_ROUTER],
		        l->weight[GT_PART_EXPERT_GATES], l->weight[GT_PART_EXPERT_UPS],
		        l->weight[GT_PART_EXPERT_DOWNS] },
		    x);
	}
	if (l->leaf[GT_PART_GATE_UP]) {
		x = project(g, l, GT_PART_GATE_UP, x);
		gate = gt_slice_dim(g, x, 2, 0, hidden, 1);
		up = gt_slice_dim(g, x, 2, hidden, 2 * hidden, 1);
	} else {
		if (l->leaf[GT_PART_GATE])
			gate = project(g, l, GT_PART_GATE, x);
		up = project(g, l, GT_PART_UP, x);
	}
	gt_graph_scope(g, "%s.%s.act_fn", l->name, c->decoder->mlp);
	if (c->decoder->silu)
		x = gt_swiglu(g, gate, up);
	else if (gate)
		x = gt_binary(g, GT_F_MUL, gt_gelu(g, gate, c->gelu), up);
	else
		x = gt_gelu(g, up, c->gelu);
	return project(g, l, GT_PART_DOWN, x);
}

static struct gt_value *add_layer(struct gt_graph *g, const struct gt_arch_config *c, int number,
    struct gt_value *x, const struct gt_decoder_place *at)
{
	struct gt_value *y, *z = NULL;
	struct layer l;

	declare_layer(g, c, number, &l);
	y = add_decoder_attention(g, c, &l, norm(g, c, &l, GT_PART_ATTENTION_IN, x), at);
	y = norm(g, c, &l, GT_PART_ATTENTION_OUT, y);
	if (c->parallel)
		z = add_decoder_mlp(g, c, &l, norm(g, c, &l, GT_PART_MLP_IN, x));
	x = gt_add(g, z ? gt_add(g, z, y) : y, x);
	if (z)
		return x;
	y = add_decoder_mlp(g, c, &l, norm(g, c, &l, GT_PART_MLP_IN, x));
	return gt_add(g, norm(g, c, &l, GT_PART_MLP_OUT, y), x);
}

/* ---- the network ---- */

static int check_sizes(struct gt_graph *g, const struct gt_arch_config *c)
{
	const int64_t size = gt_decoder_attention_of(c, 0).size, pairs = gt_decoder_pairs(c);

	if (!c->head_dim && (c->width % c->heads || c->width / c->heads % 2))
		gt_model_fail_heads(g, c, 2);
	else if (size % 2)
		gt_graph_fail(g, GT_EINVAL, "head_dim=%d is not even", c->head_dim);
	else if (c->heads % c->kv_heads)
		gt_graph_fail(
		    g, GT_EINVAL, "heads=%d do not share kv_heads=%d", c->heads, c->kv_heads);
	else if (c->decoder->interleaved && c->kv_heads != c->heads)
		gt_graph_fail(g, GT_EINVAL, "heads=%d have keys of their own, not kv_heads=%d",
		    c->heads, c->kv_heads);
	else if ((int64_t)((double)size * c->rotated) % 2)
		gt_graph_fail(g, GT_EINVAL, "rotated=%g of %lld columns is not an even number",
		    c->rotated, (long long)size);
	else if (c->active > c->experts)
		gt_graph_fail(
		    g, GT_EINVAL, "a token has active=%d of experts=%d", c->active, c->experts);
	else if (pairs > GT_ROPE_PAIRS && (c->rope.kind || c->rotated < 1 || *c->positions))
		gt_graph_fail(g, GT_ENOTSUP, "%lld scaled positions in a head; at most %d",
		    (long long)pairs, GT_ROPE_PAIRS);
	return gt_graph_status(g, NULL);
}

static int check_decoder_input(
    struct gt_graph *g, const struct gt_arch_config *c, const struct gt_model_input *in)
{
	int vocab = c->vocab ? c->vocab : in->form.classes;

	if (in->form.kind != GT_SAMPLE_TOKENS)
		gt_model_fail_input(g, in, false, "%s takes text or tokens", c->decoder->title);
	else if (in->form.classes > vocab || in->form.block > c->block)
		gt_graph_fail(g, GT_EINVAL,
		    "%d tokens in windows of %d for a model of %d tokens and %d positions",
		    in->form.classes, in->form.block, vocab, c->block);
	else
		check_sizes(g, c);
	return gt_graph_status(g, NULL);
}

/* Return the output of the last layer, [B, T, width], and set *table to that of the embedding. */
static struct gt_value *add_layers(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *input, struct gt_value *past,
    struct gt_value **table)
{
	int vocab = c->vocab ? c->vocab : in->form.classes;
	struct gt_decoder_place at = { .past = past };
	struct gt_value *x, *ids;

	if (check_decoder_input(g, c, in))
		return NULL;
	ids = gt_model_tokens(g, &in->form, input, &at.positions);
	gt_graph_scope(g, "%s", c->decoder->embedding);
	*table = declare_pair(
	    g, c->decoder, c->decoder->embedding, (int64_t[]){ vocab, c->width }, NULL);
	x = gt_embedding(g, *table, ids, NULL, NULL);
	if (c->decoder->scaled_embedding)
		x = multiply(g, x, (float)sqrt((double)c->width));
	for (int i = 0; i < c->layers; i++)
		x = add_layer(g, c, i, x, &at);
	return x;
}

/* Return cap * tanh(x / cap). */
static struct gt_value *cap_logits(struct gt_graph *g, struct gt_value *x, double cap)
{
	return multiply(g, gt_unary(g, GT_F_TANH, multiply(g, x, 1 / cap)), cap);
}

/* Emit the last norm and the head, whose weight may be that of the embedding. */
static struct gt_value *add_head(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x, struct gt_value *table)
{
	const struct gt_decoder *d = c->decoder;
	struct gt_value *weight, *bias = NULL;

	if (!table)
		return NULL;
	gt_graph_scope(g, "%s", d->norm);
	weight = declare_pair(g, d, d->norm, (int64_t[]){ c->width, 0 },
	    has_bias(c, GT_DECODER_PARTS, false) ? &bias : NULL);
	x = normalize(g, c, x, weight, bias);
	if (c->tied) {
		gt_graph_scope(g, "%s", d->head);
		x = gt_matmul(g, x, table, NULL, false, true);
	} else {
		x = gt_layer_dense(g, d->head, x, table->shape[0], normal, NULL);
	}
	return c->logit_cap > 0 ? cap_logits(g, x, c->logit_cap) : x;
}

struct gt_value *gt_decoder_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *rng, bool train)
{
	struct gt_value *table = NULL, *x = add_layers(g, c, in, ids, NULL, &table);

	(void)rng;
	(void)train;
	return add_head(g, c, x, table);
}

struct gt_value *gt_decoder_next(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *past,
    struct gt_value *at)
{
	struct gt_value *table = NULL, *x = add_layers(g, c, in, ids, past, &table);

	return add_head(g, c, gt_last_position(g, x, at), table);
}
