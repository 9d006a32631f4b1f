/* export.c - the weights of a model for a GGUF file, and the settings that llama.cpp reads. */
#include "lib/model/gguf/export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/graph/graph.h"
#include "lib/model/gguf/families.h"
#include "lib/model/hugging_face_tables.h"

/* The state of an export. */
struct exporter {
	struct gt_gguf *g;
	const struct gt_gguf_source *source;
	const struct gt_gguf_family *family;
	const struct gt_gguf_type *type;
};

/* ---- settings that llama.cpp does not compute ---- */

static int fail_setting(
    const struct gt_model *m, const char *setting, const char *needs, struct gt_err *err)
{
	char value[GT_MODEL_VALUE] = "";
	struct gt_setting s;

	for (int i = 0; gt_model_setting(m, i, &s, value); i++)
		if (s.key && !strcmp(s.key, setting))
			break;
	gt_err_set(err, GT_ENOTSUP, "llama.cpp does not compute '%s' with %s=%s",
	    gt_gguf_family_of(m)->arch, setting, value);
	return gt_err_hint(err, "it needs %s", needs);
}

static bool fits(enum gt_gguf_biases allowed, bool on)
{
	return allowed == GT_GGUF_BIASES_ANY || (allowed == GT_GGUF_BIASES_ON) == on;
}

static int check_biases(
    const struct gt_model *m, const struct gt_gguf_family *f, struct gt_err *err)
{
	const struct gt_arch_config *c = &m->config;
	const struct gt_decoder *d = c->decoder;

	if (!d)
		return c->bias ? 0 : fail_setting(m, "bias", "bias=yes", err);
	if (d->attention_biases && !fits(f->attention_bias, c->attention_bias))
		return fail_setting(m, "attention_bias",
		    c->attention_bias ? "attention_bias=no" : "attention_bias=yes", err);
	if (d->mlp_biases && !fits(f->mlp_bias, c->mlp_bias))
		return fail_setting(
		    m, "mlp_bias", c->mlp_bias ? "mlp_bias=no" : "mlp_bias=yes", err);
	return 0;
}

static char letter_of(const char *pattern, int i, char otherwise)
{
	return pattern && *pattern ? pattern[(size_t)i % strlen(pattern)] : otherwise;
}

/* Check the layers with windows and with positions, which llama.cpp knows by their number. */
static int check_layers(
    const struct gt_model *m, const struct gt_gguf_family *f, struct gt_err *err)
{
	const struct gt_arch_config *c = &m->config;
	char needs[80];

	if (!f->windowed && c->window && c->window < c->block)
		return fail_setting(m, "window", "window=0, or one as long as `block`", err);
	if (f->windowed && !c->window)
		return fail_setting(m, "window", "a window", err);
	for (int i = 0; i < c->layers; i++) {
		if (f->windowed &&
		    letter_of(c->windowed, i, 'y') != letter_of(f->windowed, i, 'n')) {
			snprintf(needs, sizeof(needs), "windowed=%s", f->windowed);
			return fail_setting(m, "windowed", needs, err);
		}
		if (letter_of(c->positions, i, 'y') != letter_of(f->positions, i, 'y')) {
			snprintf(needs, sizeof(needs), "positions=%s", f->positions);
			return fail_setting(m, "positions", needs, err);
		}
	}
	return 0;
}

static int64_t head_size(const struct gt_arch_config *c)
{
	return c->head_dim ? c->head_dim : c->width / c->heads;
}

static int check_scores(
    const struct gt_model *m, const struct gt_gguf_family *f, struct gt_err *err)
{
	const struct gt_arch_config *c = &m->config;
	const bool wide = f->wide_scores && c->layers == f->wide_scores;
	const int64_t divisor = wide ? c->width / c->heads : head_size(c);
	char needs[80];

	if ((c->score_cap != 0) != f->caps)
		return fail_setting(m, "score_cap", f->caps ? "a cap" : "score_cap=0", err);
	if ((c->logit_cap != 0) != f->caps)
		return fail_setting(m, "logit_cap", f->caps ? "a cap" : "logit_cap=0", err);
	if ((c->score_dim ? c->score_dim : head_size(c)) == divisor)
		return 0;
	snprintf(needs, sizeof(needs), "score_dim=%lld", (long long)divisor);
	return fail_setting(m, "score_dim", needs, err);
}

static const char *const rope_kinds[GT_ROPE_KINDS] = {
	[GT_ROPE_LINEAR] = "linear", [GT_ROPE_LLAMA3] = "llama3", [GT_ROPE_YARN] = "yarn"
};

/* Up to the longest text of the model, dynamic angles are plain ones. llama.cpp computes YaRN with
 * the factor of attention that the paper suggests. */
static int check_rope(const struct gt_model *m, const struct gt_gguf_family *f, struct gt_err *err)
{
	const struct gt_rope_scaling *rope = &m->config.rope;
	const char *kind = rope_kinds[rope->kind];
	double factor = 1;

	if (!kind)
		return 0;
	if (!gt_hf_in_list(f->rope, kind))
		return fail_setting(m, "rope", *f->rope ? f->rope : "plain positions", err);
	if (rope->kind != GT_ROPE_YARN)
		return 0;
	if (rope->number[0] > 1)
		factor += 0.1 * log(rope->number[0]);
	if (fabs(rope->number[4] - factor) > 1e-6 || rope->number[5] == 0)
		return fail_setting(
		    m, "rope", "yarn with the factor 0.1 ln(s) + 1, truncated", err);
	return 0;
}

int gt_gguf_check(const struct gt_model *m, struct gt_err *err)
{
	const struct gt_gguf_family *f = gt_gguf_family_of(m);
	int rc;

	if (!f) {
		gt_err_set(err, GT_ENOTSUP, "llama.cpp has no model '%s'", gt_model_name(m));
		return gt_err_hint(err,
		    "it has llama, mistral, qwen2, qwen3, gemma2, gemma3, phi3, "
		    "olmo2, gpt-neox, smollm3 and gpt2");
	}
	rc = check_biases(m, f, err);
	if (!rc && m->config.decoder)
		rc = check_layers(m, f, err);
	if (!rc && m->config.decoder)
		rc = check_scores(m, f, err);
	return rc ? rc : check_rope(m, f, err);
}

/* ---- settings ---- */

/* Keys of a family begin with its name. */
struct keys {
	struct gt_gguf *g;
	const char *arch;
	char key[96];
};

static const char *key_of(struct keys *k, const char *name)
{
	snprintf(k->key, sizeof(k->key), "%s.%s", k->arch, name);
	return k->key;
}

static void add_number(struct keys *k, const char *name, int64_t value)
{
	gt_gguf_add_u32(k->g, key_of(k, name), (uint32_t)value);
}

static void add_real(struct keys *k, const char *name, double value)
{
	gt_gguf_add_f32(k->g, key_of(k, name), value);
}

static void add_rope(struct keys *k, const struct gt_arch_config *c)
{
	const double *number = c->rope.number;

	add_number(k, "rope.dimension_count", 2 * gt_decoder_pairs(c));
	add_real(k, "rope.freq_base", c->theta);
	if (c->local_theta > 0)
		add_real(k, "rope.freq_base_swa", c->local_theta);
	/* the angles of llama3 are a tensor */
	if (c->rope.kind != GT_ROPE_LINEAR && c->rope.kind != GT_ROPE_YARN)
		return;
	gt_gguf_add_text(k->g, key_of(k, "rope.scaling.type"), rope_kinds[c->rope.kind]);
	add_real(k, "rope.scaling.factor", number[0]);
	if (c->rope.kind == GT_ROPE_LINEAR)
		return;
	add_number(k, "rope.scaling.original_context_length", (int64_t)number[1]);
	add_real(k, "rope.scaling.yarn_beta_fast", number[2]);
	add_real(k, "rope.scaling.yarn_beta_slow", number[3]);
}

static void add_decoder(
    struct keys *k, const struct gt_arch_config *c, const struct gt_gguf_family *f)
{
	const bool layer_norm = c->decoder->norms == GT_NORM_LAYER;

	add_number(k, "attention.head_count_kv", c->kv_heads ? c->kv_heads : c->heads);
	add_number(k, "attention.key_length", head_size(c));
	add_number(k, "attention.value_length", head_size(c));
	add_real(k,
	    layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
	    c->eps);
	add_rope(k, c);
	if (f->windowed)
		add_number(k, "attention.sliding_window", c->window);
	if (c->score_cap != 0)
		add_real(k, "attn_logit_softcapping", c->score_cap);
	if (c->logit_cap != 0)
		add_real(k, "final_logit_softcapping", c->logit_cap);
	if (c->decoder->interleaved)
		gt_gguf_add_bool(k->g, key_of(k, "use_parallel_residual"), c->parallel);
}

/* The type of most tensors, as llama.cpp numbers it in its enum llama_ftype. */
static uint32_t file_type_of(const struct gt_gguf_type *type)
{
	static const struct {
		const char *name;
		uint32_t number;
	} types[] = { { "f32", 0 }, { "f16", 1 }, { "q4_0", 2 }, { "q8_0", 7 }, { "bf16", 32 } };

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(types[i].name, type->name))
			return types[i].number;
	return 0;
}

/* There is no general.name: llama.cpp expects certain tokens of a model that is called phi3. */
static void add_settings(struct exporter *x, struct gt_buf *note)
{
	const struct gt_model *m = x->source->model;
	const struct gt_arch_config *c = &m->config;
	struct keys k = { .g = x->g, .arch = x->family->arch };

	gt_gguf_add_text(x->g, "general.architecture", k.arch);
	gt_gguf_add_text(x->g, "general.type", "model");
	gt_gguf_add_u32(x->g, "general.file_type", file_type_of(x->type));
	gt_gguf_add_u32(x->g, "general.quantization_version", 2);
	add_number(&k, "vocab_size", x->source->input->form.classes);
	add_number(&k, "context_length", c->block);
	add_number(&k, "embedding_length", c->width);
	add_number(&k, "block_count", c->layers);
	add_number(&k, "feed_forward_length", gt_model_mlp_width(m));
	add_number(&k, "attention.head_count", c->heads);
	if (c->decoder)
		add_decoder(&k, c, x->family);
	else
		add_real(&k, "attention.layer_norm_epsilon", c->eps);
	if (!(c->decoder && c->decoder->silu) && c->gelu == GT_GELU_ERF)
		gt_buf_puts(note, "llama.cpp computes GELU by tanh, not by erf\n");
}

/* ---- weights ---- */

/* Files without the head lack the first word of the names. */
static const struct gt_tree_tensor *find_weight(const struct exporter *x, const char *name)
{
	const struct gt_tree_tensor *t = gt_state_dict_get(x->source->weights, name);
	const char *dot = strchr(name, '.');

	return t || !dot ? t : gt_state_dict_get(x->source->weights, dot + 1);
}

static int check_weight(const struct exporter *x, const struct gt_value *v,
    const struct gt_tree_tensor *t, struct gt_err *err)
{
	bool same = t && t->ndim == v->ndim;

	for (int i = 0; same && i < v->ndim; i++)
		same = t->shape[i] == v->shape[i];
	if (same && gt_dtype_is_float(t->dtype))
		return 0;
	gt_err_set(err, GT_EINVAL, "'%s': '%s' %s", x->source->from, v->name,
	    !t     ? "is missing"
	    : same ? "is of a type without fractions"
	           : "has another shape than the model's");
	return gt_err_hint(err, "is it a checkpoint of this model, with these settings?");
}

/* A view of a tensor as blocks of rows, [dim[0], ..., dim[n - 1], columns], in which a step in
 * dimension i is step[i] rows. */
struct view {
	int64_t shape[8], stride[8];
	int ndim;
};

static void view_rows(
    struct view *v, const struct gt_tree_tensor *t, int n, const int64_t *dim, const int64_t *step)
{
	v->ndim = n;
	for (int i = 0; i < n; i++) {
		v->shape[i] = dim[i];
		v->stride[i] = step[i] * t->stride[0];
	}
	for (int i = 1; i < t->ndim; i++) {
		v->shape[v->ndim] = t->shape[i];
		v->stride[v->ndim++] = t->stride[i];
	}
}

static void arrange(struct view *v, const struct gt_tree_tensor *t, const struct gt_gguf_place *p)
{
	const int64_t size =
	    p->heads ? t->shape[0] / p->heads / (p->order == GT_GGUF_PARTS_FIRST ? 3 : 1) : 0;

	v->ndim = t->ndim;
	for (int i = 0; i < t->ndim; i++) {
		const int from = p->order == GT_GGUF_TRANSPOSED ? t->ndim - 1 - i : i;

		v->shape[i] = t->shape[from];
		v->stride[i] = t->stride[from];
	}
	/* heads, pairs, both of a pair */
	if (p->order == GT_GGUF_NEIGHBOURS)
		view_rows(v, t, 3, (int64_t[]){ p->heads, size / 2, 2 },
		    (int64_t[]){ size, 1, size / 2 });
	/* query, key and value; heads; features */
	if (p->order == GT_GGUF_PARTS_FIRST)
		view_rows(
		    v, t, 3, (int64_t[]){ 3, p->heads, size }, (int64_t[]){ size, 3 * size, 1 });
}

static void add_tensor(
    struct exporter *x, const struct gt_tree_tensor *t, const struct gt_gguf_place *p)
{
	struct gt_gguf_tensor out = { .name = p->name, .ndim = t->ndim, .view = *t };
	const bool whole = t->ndim < 2 || p->whole;
	struct view view;

	arrange(&view, t, p);
	for (int i = 0; i < t->ndim; i++)
		out.shape[i] = t->shape[p->order == GT_GGUF_TRANSPOSED ? t->ndim - 1 - i : i];
	out.type =
	    whole ? gt_gguf_type_named("f32") : gt_gguf_type_for(x->type, out.shape[t->ndim - 1]);
	out.view.ndim = view.ndim;
	out.view.shape = view.shape;
	out.view.stride = view.stride;
	out.add = p->plus_one ? 1 : 0;
	gt_gguf_add_tensor(x->g, &out);
}

static int add_value(struct exporter *x, const struct gt_value *v, struct gt_err *err)
{
	const struct gt_tree_tensor *t = find_weight(x, v->name);
	struct gt_gguf_place place;
	int rc = check_weight(x, v, t, err);

	if (!rc && !gt_gguf_find_place(&place, x->source->model, v->name))
		rc = gt_err_set(err, GT_ENOTSUP, "'%s' has no name in llama.cpp", v->name);
	if (!rc)
		add_tensor(x, t, &place);
	return rc;
}

/* A tied head that llama.cpp does not tie is a copy of the embedding. */
static void add_head(struct exporter *x)
{
	const struct gt_arch_config *c = &x->source->model->config;
	char name[128];

	if (!x->family->needs_head || !c->tied)
		return;
	snprintf(name, sizeof(name), "%s.weight", c->decoder->embedding);
	add_tensor(x, find_weight(x, name), &(struct gt_gguf_place){ .name = "output.weight" });
}

/* The factors by which the angles of llama3 are divided are a tensor. */
static int add_angles(struct exporter *x, struct gt_err *err)
{
	const struct gt_arch_config *c = &x->source->model->config;
	const int64_t pairs = gt_decoder_pairs(c);
	float *factors;
	struct gt_tree *node;

	if (c->rope.kind != GT_ROPE_LLAMA3)
		return 0;
	factors = gt_arena_alloc(gt_gguf_arena(x->g), (size_t)pairs * sizeof(*factors), err);
	if (!factors)
		return GT_ENOMEM;
	for (int64_t i = 0; i < pairs; i++)
		factors[i] = (float)gt_decoder_stretch(c, i);
	node = gt_tree_tensor(gt_gguf_arena(x->g), GT_F32, 1, &pairs, factors, err);
	if (!node)
		return GT_ENOMEM;
	add_tensor(x, &node->tensor, &(struct gt_gguf_place){ .name = "rope_freqs.weight" });
	return 0;
}

static int add_weights(struct exporter *x, struct gt_err *err)
{
	struct gt_graph *g = NULL;
	struct gt_model_io io;
	int rc = gt_graph_new(&g, err);

	if (!rc)
		rc = gt_model_build(
		    x->source->model, g, x->source->input, 1, GT_MODEL_EVAL, &io, err);
	for (size_t i = 0; !rc && i < g->value_count; i++)
		if (g->values[i]->role == GT_PARAMETER)
			rc = add_value(x, g->values[i], err);
	gt_graph_free(g);
	if (!rc)
		add_head(x);
	return rc ? rc : add_angles(x, err);
}

int gt_gguf_export(struct gt_gguf *g, const struct gt_gguf_source *source,
    const struct gt_gguf_type *type, struct gt_buf *note, struct gt_err *err)
{
	struct exporter x = {
		.g = g, .source = source, .family = gt_gguf_family_of(source->model), .type = type
	};
	int rc = gt_gguf_check(source->model, err);

	if (!rc) {
		add_settings(&x, note);
		rc = add_weights(&x, err);
	}
	return rc;
}

/* ---- adapters ---- */

/* llama.cpp divides alpha by the number of rows of A. */
static void add_adapter_settings(struct exporter *x, const struct gt_lora *lora)
{
	gt_gguf_add_text(x->g, "general.architecture", x->family->arch);
	gt_gguf_add_text(x->g, "general.type", "adapter");
	gt_gguf_add_u32(x->g, "general.file_type", file_type_of(x->type));
	gt_gguf_add_u32(x->g, "general.quantization_version", 2);
	gt_gguf_add_text(x->g, "adapter.type", "lora");
	gt_gguf_add_f32(x->g, "adapter.lora.alpha", gt_lora_scale(lora) * lora->rank);
}

/* Add A or B of the layer with the weight v. A is [rank, in] and B is [out, rank], also for layers
 * with weights [in, out]. B has its rows in the order of those of the weight in the file. */
static int add_half(struct exporter *x, const struct gt_value *v, const struct gt_gguf_place *place,
    const struct gt_lora *lora, bool is_b, struct gt_err *err)
{
	const bool flipped = place->order == GT_GGUF_TRANSPOSED;
	const int64_t in = v->shape[flipped ? 0 : 1], out = v->shape[flipped ? 1 : 0];
	struct gt_gguf_place half = { 0 };
	char module[GT_LORA_NAME], name[GT_LORA_WEIGHT_NAME];
	const struct gt_tree_tensor *t;
	int n;

	gt_lora_name_module(module, v->name);
	gt_lora_name_weight(name, module, is_b);
	t = gt_state_dict_get(x->source->weights, name);
	if (!t || t->ndim != 2 || !gt_dtype_is_float(t->dtype) ||
	    t->shape[0] != (is_b ? out : lora->rank) || t->shape[1] != (is_b ? lora->rank : in))
		return gt_err_set(err, GT_EFORMAT,
		    "'%s': '%s' is missing, or does not fit to the layer of the model",
		    x->source->from, name);
	if (is_b && !flipped) {
		half.order = place->order;
		half.heads = place->heads;
	}
	n = snprintf(half.name, sizeof(half.name), "%s.lora_%c", place->name, is_b ? 'b' : 'a');
	if (n >= (int)sizeof(half.name))
		return gt_err_set(err, GT_ENOTSUP, "the name of '%s' is too long", name);
	add_tensor(x, t, &half);
	return 0;
}

/* Add A and B of a layer, which is named by its A. */
static int add_layer(struct exporter *x, const struct gt_graph *g, const char *module,
    const struct gt_lora *lora, struct gt_err *err)
{
	char name[GT_LORA_NAME + sizeof(".weight")];
	const struct gt_value *v;
	struct gt_gguf_place place;
	int rc;

	snprintf(name, sizeof(name), "%s.weight", module);
	v = gt_graph_find_stored(g, name);
	if (!v || v->ndim != 2 || !gt_gguf_find_place(&place, x->source->model, name)) {
		gt_err_set(
		    err, GT_EFORMAT, "'%s': the model has no layer '%s'", x->source->from, module);
		return gt_err_hint(err, "is it the model that the adapter was trained for?");
	}
	rc = add_half(x, v, &place, lora, false, err);
	return rc ? rc : add_half(x, v, &place, lora, true, err);
}

int gt_gguf_export_adapter(struct gt_gguf *g, const struct gt_gguf_source *source,
    const struct gt_lora *lora, const struct gt_gguf_type *type, struct gt_err *err)
{
	struct exporter x = {
		.g = g, .source = source, .family = gt_gguf_family_of(source->model), .type = type
	};
	struct gt_graph *graph = NULL;
	struct gt_model_io io;
	int rc = gt_gguf_check(source->model, err);

	if (!rc)
		rc = gt_graph_new(&graph, err);
	if (!rc)
		rc =
		    gt_model_build(source->model, graph, source->input, 1, GT_MODEL_EVAL, &io, err);
	if (!rc)
		add_adapter_settings(&x, lora);
	for (size_t i = 0; !rc && i < source->weights->count; i++) {
		char module[GT_LORA_NAME];
		bool is_b;

		if (gt_lora_is_adapter(source->weights->entries[i].name, module, &is_b) && !is_b)
			rc = add_layer(&x, graph, module, lora, err);
	}
	gt_graph_free(graph);
	return rc;
}
