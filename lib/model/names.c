/* names.c - the names that other programs give to the parameters of a model: one table each. */
#include "lib/model/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/arch.h"

const char *const gt_names_words[] = { "auto", "torchvision", "timm", "huggingface", NULL };

/*
 * A rule for names. "*" is a number, the same in both names; "+" is that number plus one; "@" is
 * the rest of the name. "#", in the program's name alone, is the number of a matrix in a stack,
 * whose parts are numbered by `part`. Example:
 *
 *	resnet.encoder.stages.*.layers.*.layer.*.convolution.@    layer+.*.conv+.@
 *	resnet.encoder.stages.0.layers.1.layer.0.convolution.weight    layer1.1.conv1.weight
 *
 * If two rules match a name of the model, the first one gives the program's name.
 */
struct rule {
	const char *theirs, *own;
	int part, parts; /* 0, 0: the whole parameter */
};

struct gt_names_table {
	enum gt_names program;
	const char *family; /* gt_model_family() */
	const char *prefix; /* prefix that names lack in files of the network without its head */
	const struct rule *rules;
};

/* ---- the tables ---- */

/* clang-format off */
static const struct rule none[] = { { 0 } };

#define BLOCK "encoder.layers.encoder_layer_*."
#define LAYER "vit.encoder.layer.*."
#define MODULE "vit.layers.*."
#define STAGE "resnet.encoder.stages.*.layers.*."

/* ViTForImageClassification */
static const struct rule huggingface_vit[] = {
	{ "vit.embeddings.cls_token", "class_token", 0, 0 },
	{ "vit.embeddings.position_embeddings", "encoder.pos_embedding", 0, 0 },
	{ "vit.embeddings.patch_embeddings.projection.@", "conv_proj.@", 0, 0 },
	{ LAYER "attention.attention.query.@", BLOCK "self_attention.in_proj_@", 0, 3 },
	{ LAYER "attention.attention.key.@", BLOCK "self_attention.in_proj_@", 1, 3 },
	{ LAYER "attention.attention.value.@", BLOCK "self_attention.in_proj_@", 2, 3 },
	{ LAYER "attention.output.dense.@", BLOCK "self_attention.out_proj.@", 0, 0 },
	{ LAYER "layernorm_before.@", BLOCK "ln_1.@", 0, 0 },
	{ LAYER "layernorm_after.@", BLOCK "ln_2.@", 0, 0 },
	{ LAYER "intermediate.dense.@", BLOCK "mlp.0.@", 0, 0 },
	{ LAYER "output.dense.@", BLOCK "mlp.3.@", 0, 0 },
	{ "vit.layernorm.@", "encoder.ln.@", 0, 0 },
	{ "classifier.@", "heads.head.@", 0, 0 },
	/* names of state_dict() since transformers 5, whose files have the names above */
	{ MODULE "attention.q_proj.@", BLOCK "self_attention.in_proj_@", 0, 3 },
	{ MODULE "attention.k_proj.@", BLOCK "self_attention.in_proj_@", 1, 3 },
	{ MODULE "attention.v_proj.@", BLOCK "self_attention.in_proj_@", 2, 3 },
	{ MODULE "attention.o_proj.@", BLOCK "self_attention.out_proj.@", 0, 0 },
	{ MODULE "layernorm_before.@", BLOCK "ln_1.@", 0, 0 },
	{ MODULE "layernorm_after.@", BLOCK "ln_2.@", 0, 0 },
	{ MODULE "mlp.fc1.@", BLOCK "mlp.0.@", 0, 0 },
	{ MODULE "mlp.fc2.@", BLOCK "mlp.3.@", 0, 0 },
	{ 0 }
};

/* ResNetForImageClassification */
static const struct rule huggingface_resnet[] = {
	{ "resnet.embedder.embedder.convolution.@", "conv1.@", 0, 0 },
	{ "resnet.embedder.embedder.normalization.@", "bn1.@", 0, 0 },
	{ STAGE "shortcut.convolution.@", "layer+.*.downsample.0.@", 0, 0 },
	{ STAGE "shortcut.normalization.@", "layer+.*.downsample.1.@", 0, 0 },
	{ STAGE "layer.*.convolution.@", "layer+.*.conv+.@", 0, 0 },
	{ STAGE "layer.*.normalization.@", "layer+.*.bn+.@", 0, 0 },
	{ "classifier.1.@", "fc.@", 0, 0 },
	{ 0 }
};

/* timm's VisionTransformer; its ResNets have torchvision's names */
static const struct rule timm_vit[] = {
	{ "cls_token", "class_token", 0, 0 },
	{ "pos_embed", "encoder.pos_embedding", 0, 0 },
	{ "patch_embed.proj.@", "conv_proj.@", 0, 0 },
	{ "blocks.*.attn.qkv.@", BLOCK "self_attention.in_proj_@", 0, 0 },
	{ "blocks.*.attn.proj.@", BLOCK "self_attention.out_proj.@", 0, 0 },
	{ "blocks.*.norm1.@", BLOCK "ln_1.@", 0, 0 },
	{ "blocks.*.norm2.@", BLOCK "ln_2.@", 0, 0 },
	{ "blocks.*.mlp.fc1.@", BLOCK "mlp.0.@", 0, 0 },
	{ "blocks.*.mlp.fc2.@", BLOCK "mlp.3.@", 0, 0 },
	{ "norm.@", "encoder.ln.@", 0, 0 },
	{ "head.@", "heads.head.@", 0, 0 },
	{ 0 }
};

/* Files have a matrix of each expert. */
#define MOE "model.layers.*.block_sparse_moe."
#define EXPERTS "model.layers.*.mlp.experts."

static const struct rule huggingface_mixtral[] = {
	{ MOE "gate.weight", "model.layers.*.mlp.gate.weight", 0, 0 },
	{ MOE "experts.#.w1.weight", EXPERTS "gate_proj", 0, 1 },
	{ MOE "experts.#.w3.weight", EXPERTS "up_proj", 0, 1 },
	{ MOE "experts.#.w2.weight", EXPERTS "down_proj", 0, 1 },
	{ "@", "@", 0, 0 },
	{ 0 }
};

static const struct rule huggingface_experts[] = {
	{ EXPERTS "#.gate_proj.weight", EXPERTS "gate_proj", 0, 1 },
	{ EXPERTS "#.up_proj.weight", EXPERTS "up_proj", 0, 1 },
	{ EXPERTS "#.down_proj.weight", EXPERTS "down_proj", 0, 1 },
	{ "@", "@", 0, 0 },
	{ 0 }
};

#define CONVNEXT_BLOCK "convnext.encoder.stages.*.layers.*."

/* timm's ConvNeXt */
static const struct rule timm_convnext[] = {
	{ "stem.0.@", "convnext.embeddings.patch_embeddings.@", 0, 0 },
	{ "stem.1.@", "convnext.embeddings.layernorm.@", 0, 0 },
	{ "stages.*.downsample.*.@", "convnext.encoder.stages.*.downsampling_layer.*.@", 0, 0 },
	{ "stages.*.blocks.*.conv_dw.@", CONVNEXT_BLOCK "dwconv.@", 0, 0 },
	{ "stages.*.blocks.*.norm.@", CONVNEXT_BLOCK "layernorm.@", 0, 0 },
	{ "stages.*.blocks.*.mlp.fc1.@", CONVNEXT_BLOCK "pwconv1.@", 0, 0 },
	{ "stages.*.blocks.*.mlp.fc2.@", CONVNEXT_BLOCK "pwconv2.@", 0, 0 },
	{ "stages.*.blocks.*.gamma", CONVNEXT_BLOCK "layer_scale_parameter", 0, 0 },
	{ "head.norm.@", "convnext.layernorm.@", 0, 0 },
	{ "head.fc.@", "classifier.@", 0, 0 },
	{ 0 }
};

#undef BLOCK
#undef CONVNEXT_BLOCK
#undef EXPERTS
#undef LAYER
#undef MODULE
#undef MOE
#undef STAGE

static const struct gt_names_table tables[] = {
	{ GT_NAMES_HUGGINGFACE, "gpt2", "transformer.", none },
	{ GT_NAMES_HUGGINGFACE, "llama", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "mistral", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "qwen2", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "qwen3", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "gemma2", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "gemma3_text", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "phi3", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "olmo2", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "gpt_neox", "gpt_neox.", none },
	{ GT_NAMES_HUGGINGFACE, "smollm3", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "mixtral", "model.", huggingface_mixtral },
	{ GT_NAMES_HUGGINGFACE, "qwen3_moe", "model.", huggingface_experts },
	{ GT_NAMES_HUGGINGFACE, "olmoe", "model.", huggingface_experts },
	{ GT_NAMES_HUGGINGFACE, "bert", "bert.", none },
	{ GT_NAMES_HUGGINGFACE, "roberta", "roberta.", none },
	{ GT_NAMES_HUGGINGFACE, "distilbert", "distilbert.", none },
	{ GT_NAMES_HUGGINGFACE, "modernbert", "model.", none },
	{ GT_NAMES_HUGGINGFACE, "vit", "vit.", huggingface_vit },
	{ GT_NAMES_HUGGINGFACE, "resnet", "resnet.", huggingface_resnet },
	{ GT_NAMES_HUGGINGFACE, "convnext", "convnext.", none },
	{ GT_NAMES_HUGGINGFACE, "convnextv2", "convnextv2.", none },
	{ GT_NAMES_HUGGINGFACE, "mobilenet_v2", "mobilenet_v2.", none },
	{ GT_NAMES_TIMM, "convnext", "", timm_convnext },
	{ GT_NAMES_TIMM, "vit", "", timm_vit },
	{ GT_NAMES_TIMM, "resnet", "", none },
	{ GT_NAMES_TORCHVISION, "vit", "", none },
	{ GT_NAMES_TORCHVISION, "resnet", "", none },
};
/* clang-format on */

enum { TABLES = sizeof(tables) / sizeof(*tables), NUMBERS = 4, MOST_DIGITS = 6 };

const struct gt_names_table *gt_names_find(
    const struct gt_model *m, enum gt_names program, struct gt_err *err)
{
	const char *family = gt_model_family(m);

	for (int i = 0; family && i < TABLES; i++)
		if (tables[i].program == program && !strcmp(tables[i].family, family))
			return &tables[i];
	gt_err_set(err, GT_EINVAL, "{names} %s: there is no model '%s'", gt_names_words[program],
	    gt_model_name(m));
	gt_err_hint(err, "leave it out for the model's own names, or rename keys by {map}");
	return NULL;
}

/* ---- matching ---- */

struct match {
	long numbers[NUMBERS];
	long matrix;      /* of a stack; -1: there is none */
	const char *rest; /* part of the name, borrowed */
};

/* Return the length of a number without leading zeros, or 0 if there is none. */
static size_t read_number(long *out, const char *text)
{
	size_t n = strspn(text, "0123456789");

	if (!n || n > MOST_DIGITS || (n > 1 && *text == '0'))
		return 0;
	*out = strtol(text, NULL, 10);
	return n;
}

static bool matches_name_pattern(struct match *m, const char *pattern, const char *name)
{
	int count = 0;

	for (; *pattern; pattern++) {
		long *number = &m->numbers[count];
		size_t n = 1;

		if (*pattern == '@') {
			m->rest = name;
			return *name != '\0';
		}
		if (*pattern == '#') {
			n = read_number(&m->matrix, name);
			if (!n)
				return false;
		} else if (*pattern == '*' || *pattern == '+') {
			n = read_number(number, name);
			*number -= *pattern == '+';
			count++;
			if (!n || *number < 0)
				return false;
		} else if (*pattern != *name) {
			return false;
		}
		name += n;
	}
	return !*name;
}

/* Write the name that a pattern makes of a match. Returns false if it is too long for a
 * parameter. */
static bool expand_name_pattern(char out[256], const char *pattern, const struct match *m)
{
	size_t used = 0;
	int count = 0;

	for (; *pattern && used < 256; pattern++) {
		size_t left = 256 - used;

		if (*pattern == '@')
			used += (size_t)snprintf(out + used, left, "%s", m->rest);
		else if (*pattern == '#')
			used += (size_t)snprintf(out + used, left, "%ld", m->matrix);
		else if (*pattern == '*' || *pattern == '+')
			used += (size_t)snprintf(
			    out + used, left, "%ld", m->numbers[count++] + (*pattern == '+'));
		else
			used += (size_t)snprintf(out + used, left, "%c", *pattern);
	}
	return used < 256;
}

/* `matrix`: that of a stack, if the name to be converted has none. */
static bool apply_name_rule(struct gt_names_place *out, const struct rule *r, const char *from,
    const char *to, const char *name, long matrix)
{
	struct match m = { .rest = "", .matrix = matrix };

	if (!matches_name_pattern(&m, from, name) || !expand_name_pattern(out->name, to, &m))
		return false;
	out->parts = r->parts ? r->parts : 1;
	out->stacked = strchr(r->theirs, '#');
	out->part = r->part + (out->stacked ? (int)m.matrix * out->parts : 0);
	return true;
}

/* Return whether part i of a parameter has the name that a rule makes, and set *matrix to that of a
 * stack which it belongs to. */
static bool makes_part(const struct rule *r, int i, long *matrix)
{
	const int parts = r->parts ? r->parts : 1;
	const bool stacked = strchr(r->theirs, '#');

	*matrix = i / parts;
	return r->part == (stacked ? i % parts : i);
}

bool gt_names_to_own(struct gt_names_place *out, const struct gt_names_table *t, const char *theirs,
    bool without_head)
{
	char whole[256];

	*out = (struct gt_names_place){ .parts = 1 };
	if ((size_t)snprintf(whole, sizeof(whole), "%s%s", without_head ? t->prefix : "", theirs) >=
	        sizeof(whole) ||
	    (without_head && !*t->prefix))
		return false;
	for (const struct rule *r = t->rules; r->theirs; r++)
		if (apply_name_rule(out, r, r->theirs, r->own, whole, -1))
			return true;
	out->parts = 1;
	memcpy(out->name, whole, sizeof(whole));
	return without_head && t->rules == none;
}

bool gt_names_to_theirs(
    struct gt_names_place *out, const struct gt_names_table *t, const char *own, int i)
{
	long matrix;

	for (const struct rule *r = t->rules; r->theirs; r++)
		if (makes_part(r, i, &matrix) &&
		    apply_name_rule(out, r, r->own, r->theirs, own, matrix))
			return true;
	*out = (struct gt_names_place){ .parts = 1 };
	if (i || t->rules != none)
		return false;
	return (size_t)snprintf(out->name, sizeof(out->name), "%s", own) < sizeof(out->name);
}
