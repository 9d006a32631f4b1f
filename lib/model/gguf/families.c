/* families.c - which models llama.cpp has, and its names of their weights. */
#include "lib/model/gguf/families.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sources: llama.cpp, gguf-py/gguf/constants.py (names), src/llama-model.cpp (settings in code
 * for families), convert_hf_to_gguf.py (order of rows). */

/* clang-format off */
static const struct gt_gguf_family families[] = {
	{ "llama", "llama", GT_GGUF_BIASES_ANY, GT_GGUF_BIASES_ANY, .rotates_neighbours = true,
	    .rope = "linear llama3 yarn" },
	{ "mistral", "llama", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .rotates_neighbours = true,
	    .rope = "linear llama3 yarn" },
	{ "qwen2", "qwen2", GT_GGUF_BIASES_ON, GT_GGUF_BIASES_OFF, .rope = "linear yarn" },
	{ "qwen3", "qwen3", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .rope = "linear yarn" },
	{ "gemma2", "gemma2", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .rope = "linear yarn",
	    .windowed = "yn", .caps = true, .wide_scores = 46 },
	{ "gemma3_text", "gemma3", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .rope = "linear",
	    .windowed = "yyyyyn", .wide_scores = 62 },
	{ "phi3", "phi3", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .needs_head = true, .rope = "" },
	{ "olmo2", "olmo2", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .needs_head = true,
	    .rope = "linear yarn" },
	{ "gpt_neox", "gptneox", GT_GGUF_BIASES_ON, GT_GGUF_BIASES_ON, .needs_head = true,
	    .rope = "linear yarn" },
	{ "smollm3", "smollm3", GT_GGUF_BIASES_OFF, GT_GGUF_BIASES_OFF, .rotates_neighbours = true,
	    .rope = "linear yarn", .positions = "yyyn" },
	{ "gpt2", "gpt2", GT_GGUF_BIASES_ON, GT_GGUF_BIASES_ON, .rope = "" },
};

/* Parts of a decoder's layer. */
static const char *const parts[GT_DECODER_PARTS] = {
	[GT_PART_Q] = "attn_q",
	[GT_PART_K] = "attn_k",
	[GT_PART_V] = "attn_v",
	[GT_PART_QKV] = "attn_qkv",
	[GT_PART_O] = "attn_output",
	[GT_PART_Q_NORM] = "attn_q_norm",
	[GT_PART_K_NORM] = "attn_k_norm",
	[GT_PART_GATE] = "ffn_gate",
	[GT_PART_UP] = "ffn_up",
	[GT_PART_GATE_UP] = "ffn_up",
	[GT_PART_DOWN] = "ffn_down",
	[GT_PART_ATTENTION_IN] = "attn_norm",
	[GT_PART_ATTENTION_OUT] = "post_attention_norm",
	[GT_PART_MLP_IN] = "ffn_norm",
	[GT_PART_MLP_OUT] = "post_ffw_norm",
};

/* Modules of GPT-2: in a layer, and others. */
static const struct {
	const char *module, *name;
	bool conv; /* its weight is transposed */
} gpt2_layer[] = {
	{ "ln_1", "attn_norm", false },
	{ "attn.c_attn", "attn_qkv", true },
	{ "attn.c_proj", "attn_output", true },
	{ "ln_2", "ffn_norm", false },
	{ "mlp.c_fc", "ffn_up", true },
	{ "mlp.c_proj", "ffn_down", true },
}, gpt2_model[] = {
	{ "transformer.wte", "token_embd", false },
	{ "transformer.wpe", "position_embd", false },
	{ "transformer.ln_f", "output_norm", false },
};
/* clang-format on */

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

const struct gt_gguf_family *gt_gguf_family_of(const struct gt_model *m)
{
	const char *type = gt_model_family(m);

	for (int i = 0; type && i < COUNT(families); i++)
		if (!strcmp(families[i].family, type))
			return &families[i];
	return NULL;
}

/* A parameter's name in parts: MODULE.LEAF, or LAYERS.NUMBER.MODULE.LEAF. */
struct name {
	char module[128];
	long layer;       /* -1: none */
	const char *leaf; /* "weight" or "bias" */
};

static bool split_name(struct name *out, const char *name, const char *layers)
{
	const size_t n = strlen(layers);
	const char *dot = strrchr(name, '.');
	char *rest = (char *)name;

	out->layer = -1;
	if (!dot)
		return false;
	if (!strncmp(name, layers, n) && name[n] == '.') {
		out->layer = strtol(name + n + 1, &rest, 10);
		if (rest == name + n + 1 || *rest++ != '.' || dot < rest)
			return false;
	}
	out->leaf = dot + 1;
	snprintf(out->module, sizeof(out->module), "%.*s", (int)(dot - rest), rest);
	return true;
}

static void set_name(struct gt_gguf_place *out, const char *module, const struct name *name)
{
	if (name->layer < 0)
		snprintf(out->name, sizeof(out->name), "%s.%s", module, name->leaf);
	else
		snprintf(
		    out->name, sizeof(out->name), "blk.%ld.%s.%s", name->layer, module, name->leaf);
}

static bool find_gpt2(struct gt_gguf_place *out, const struct name *name)
{
	for (int i = 0; name->layer >= 0 && i < COUNT(gpt2_layer); i++) {
		if (strcmp(gpt2_layer[i].module, name->module) != 0)
			continue;
		set_name(out, gpt2_layer[i].name, name);
		if (gpt2_layer[i].conv && !strcmp(name->leaf, "weight"))
			out->order = GT_GGUF_TRANSPOSED;
		return true;
	}
	for (int i = 0; name->layer < 0 && i < COUNT(gpt2_model); i++) {
		if (strcmp(gpt2_model[i].module, name->module) != 0)
			continue;
		set_name(out, gpt2_model[i].name, name);
		out->whole = !strcmp(gpt2_model[i].name, "position_embd");
		return true;
	}
	return false;
}

/* The rows of a part are in another order for some families. */
static void set_order(struct gt_gguf_place *out, const struct gt_arch_config *c,
    const struct gt_gguf_family *f, enum gt_decoder_part part)
{
	if (f->rotates_neighbours && (part == GT_PART_Q || part == GT_PART_K)) {
		out->order = GT_GGUF_NEIGHBOURS;
		out->heads = part == GT_PART_Q ? c->heads : c->kv_heads;
	} else if (part == GT_PART_QKV && c->decoder->interleaved) {
		out->order = GT_GGUF_PARTS_FIRST;
		out->heads = c->heads;
	}
	out->plus_one =
	    c->decoder->norms == GT_NORM_RMS_PLUS_ONE &&
	    (part == GT_PART_Q_NORM || part == GT_PART_K_NORM || part >= GT_PART_ATTENTION_IN);
}

static bool find_decoder(struct gt_gguf_place *out, const struct gt_arch_config *c,
    const struct gt_gguf_family *f, const struct name *name)
{
	const struct gt_decoder *d = c->decoder;
	const char *const modules[][2] = { { d->embedding, "token_embd" },
		{ d->norm, "output_norm" }, { d->head, "output" } };

	for (const struct gt_decoder_leaf *leaf = d->leaves; name->layer >= 0 && leaf->name;
	     leaf++) {
		if (strcmp(leaf->name, name->module) != 0)
			continue;
		set_name(out, parts[leaf->part], name);
		set_order(out, c, f, leaf->part);
		return true;
	}
	for (int i = 0; name->layer < 0 && i < COUNT(modules); i++) {
		if (strcmp(modules[i][0], name->module) != 0)
			continue;
		set_name(out, modules[i][1], name);
		out->plus_one = i == 1 && d->norms == GT_NORM_RMS_PLUS_ONE;
		return true;
	}
	return false;
}

bool gt_gguf_find_place(struct gt_gguf_place *out, const struct gt_model *m, const char *name)
{
	const struct gt_gguf_family *f = gt_gguf_family_of(m);
	const struct gt_decoder *d = m->config.decoder;
	struct name split;

	*out = (struct gt_gguf_place){ 0 };
	if (!f || !split_name(&split, name, d ? d->layers : "transformer.h"))
		return false;
	return d ? find_decoder(out, &m->config, f, &split) : find_gpt2(out, &split);
}
