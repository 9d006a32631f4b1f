/* model.c - the table of architectures, and specs. */
#include "lib/model/model.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/suggest.h"
#include "lib/model/arch.h"
#include "lib/model/decoder.h"
#include "lib/model/encoder.h"
#include "lib/model/import/import.h"
#include "lib/model/lora.h"
#include "lib/model/sequence/sequence.h"

const struct gt_arch *const gt_archs[] = {
	&gt_arch_mlp,
	&gt_arch_lenet,
	&gt_arch_resnet20,
	&gt_arch_resnet32,
	&gt_arch_resnet44,
	&gt_arch_resnet56,
	&gt_arch_resnet110,
	&gt_arch_resnet18,
	&gt_arch_resnet34,
	&gt_arch_resnet50,
	&gt_arch_resnet101,
	&gt_arch_resnet152,
	&gt_arch_gpt,
	&gt_arch_gpt2,
	&gt_arch_gpt2_medium,
	&gt_arch_gpt2_large,
	&gt_arch_gpt2_xl,
	&gt_arch_vit,
	&gt_arch_vit_tiny,
	&gt_arch_vit_small,
	&gt_arch_vit_base,
	&gt_arch_vit_large,
	&gt_arch_llama,
	&gt_arch_tinyllama,
	&gt_arch_llama2_7b,
	&gt_arch_llama3_8b,
	&gt_arch_mistral,
	&gt_arch_qwen2,
	&gt_arch_qwen3,
	&gt_arch_gemma2,
	&gt_arch_gemma3,
	&gt_arch_phi3,
	&gt_arch_olmo2,
	&gt_arch_gpt_neox,
	&gt_arch_smollm3,
	&gt_arch_mixtral,
	&gt_arch_qwen3_moe,
	&gt_arch_olmoe,
	&gt_arch_bert,
	&gt_arch_roberta,
	&gt_arch_distilbert,
	&gt_arch_modernbert,
	&gt_arch_convnext,
	&gt_arch_convnext_tiny,
	&gt_arch_convnext_small,
	&gt_arch_convnext_base,
	&gt_arch_convnext_large,
	&gt_arch_convnextv2,
	&gt_arch_convnextv2_tiny,
	&gt_arch_convnextv2_base,
	&gt_arch_mobilenet_v2,
	NULL,
};

/* ---- NAME[:key=value,...] ---- */

enum key_type {
	KEY_INT,
	KEY_POSITIVE,
	KEY_PROBABILITY,
	KEY_SHARE, /* 0 to 1, but not 0 */
	KEY_YES_NO,
	KEY_GELU,
	KEY_ROPE,
	KEY_PATTERN,
	KEY_STAGES
};

#define EXPERTS  "mixtral qwen3_moe olmoe"
#define GATED    "llama mistral qwen2 qwen3 gemma2 gemma3_text phi3 olmo2 smollm3 " EXPERTS
#define DECODERS GATED " gpt_neox"
#define ENCODERS "bert roberta distilbert modernbert"

#define AT(field) offsetof(struct gt_arch_config, field)

/* clang-format off */
static const struct {
	const char *name;
	enum key_type type;
	size_t offset;
	const char *help;
	const char *unset;    /* help for the value 0, no or "" */
	const char *families; /* architectures that the row is for; NULL: all */
	bool is_none;         /* such a value means that there is none, not one of the data */
} keys[] = {
	{ "layers", KEY_INT, AT(layers), "number of transformer blocks", NULL, NULL, false },
	{ "heads", KEY_INT, AT(heads), "attention heads of a block; must divide the width", NULL,
	    "gpt2 vit qwen2 phi3 olmo2 gpt_neox smollm3 olmoe " ENCODERS, false },
	{ "heads", KEY_INT, AT(heads),
	    "attention heads of a block; must divide the width, unless head_dim is set", NULL,
	    "llama mistral qwen3 gemma2 gemma3_text mixtral qwen3_moe", false },
	{ "width", KEY_INT, AT(width), "features of a patch between the blocks", NULL, "vit",
	    false },
	{ "width", KEY_INT, AT(width), "features of a token between the blocks", NULL,
	    "gpt2 " DECODERS " " ENCODERS, false },
	{ "kv_heads", KEY_INT, AT(kv_heads), "heads of keys and values", NULL, NULL, false },
	{ "theta", KEY_POSITIVE, AT(theta), "base of the angles of rotary position embeddings",
	    NULL, NULL, false },
	{ "eps", KEY_POSITIVE, AT(eps), "added to the variance, or mean square, in norms", NULL,
	    NULL, false },
	{ "tied", KEY_YES_NO, AT(tied), "whether the last layer shares the embedding's weights",
	    NULL, NULL, false },
	{ "head_dim", KEY_INT, AT(head_dim), "features of a head", "width / heads", NULL, false },
	{ "rope", KEY_ROPE, AT(rope), "scaled angles of rotary position embeddings", "none", NULL,
	    true },
	{ "rotated", KEY_SHARE, AT(rotated), "part of a head's features with rotary positions",
	    NULL, NULL, false },
	{ "local_theta", KEY_POSITIVE, AT(local_theta), "theta of the blocks with a window",
	    "theta", NULL, true },
	{ "window", KEY_INT, AT(window), "tokens that a token attends to",
	    "all before it", DECODERS, true },
	{ "window", KEY_INT, AT(window), "tokens that a token attends to, half on each side",
	    "all", "modernbert", true },
	{ "windowed", KEY_PATTERN, AT(windowed), "blocks with a window, such as yyn, repeated",
	    "all", NULL, true },
	{ "positions", KEY_PATTERN, AT(positions),
	    "blocks with rotary positions, such as yyyn, repeated", "all", NULL, true },
	{ "score_dim", KEY_INT, AT(score_dim), "attention scores are divided by its square root",
	    "features of a head", NULL, false },
	{ "score_cap", KEY_POSITIVE, AT(score_cap), "bound of attention scores, by tanh", "none",
	    NULL, true },
	{ "logit_cap", KEY_POSITIVE, AT(logit_cap), "bound of logits, by tanh", "none", NULL,
	    true },
	{ "attention_bias", KEY_YES_NO, AT(attention_bias),
	    "whether the products of attention have a bias", "no", NULL, true },
	{ "mlp_bias", KEY_YES_NO, AT(mlp_bias), "whether the products of the MLP have a bias",
	    "no", NULL, true },
	{ "parallel", KEY_YES_NO, AT(parallel),
	    "whether attention and MLP of a block have the same input", NULL, NULL, false },
	{ "experts", KEY_INT, AT(experts), "MLPs of a block", NULL, NULL, false },
	{ "active", KEY_INT, AT(active), "experts that a token has", NULL, NULL, false },
	{ "renormalize", KEY_YES_NO, AT(renormalize),
	    "whether the weights of a token's experts add up to 1", NULL, NULL, false },
	{ "patch", KEY_INT, AT(patch), "height and width of a patch", NULL, NULL, false },
	{ "hidden", KEY_INT, AT(hidden), "features inside the MLP of a block",
	    "4 times the width", "gpt2 vit gpt_neox bert roberta distilbert", false },
	{ "hidden", KEY_INT, AT(hidden), "features inside the MLP of a block",
	    "1.5 times the width", "modernbert", false },
	{ "hidden", KEY_INT, AT(hidden), "features inside the MLP of a block",
	    "8/3 of the width, rounded up to a multiple of 32", GATED, false },
	{ "block", KEY_INT, AT(block), "tokens that the model sees at once", NULL, NULL, false },
	{ "vocab", KEY_INT, AT(vocab), "number of different tokens", "below, or from the data",
	    "gpt2 " DECODERS, false },
	{ "vocab", KEY_INT, AT(vocab), "number of different tokens", NULL, ENCODERS, false },
	{ "types", KEY_INT, AT(types), "rows of the table of types of tokens",
	    NULL, NULL, false },
	{ "image", KEY_INT, AT(image), "height and width of images", "size= of the data, else 224",
	    "resnet", false },
	{ "image", KEY_INT, AT(image), "height and width of images",
	    "size= of the data, else 224, or 8 patches if patch is below 14", "vit", false },
	{ "image", KEY_INT, AT(image), "height and width of images", "any",
	    "convnext convnextv2 mobilenet_v2", false },
	{ "multiplier", KEY_POSITIVE, AT(multiplier), "factor of the channels of all layers", NULL,
	    NULL, false },
	{ "fine", KEY_YES_NO, AT(fine), "whether a multiplier below 1 leaves the last channels",
	    NULL, NULL, false },
	{ "same", KEY_YES_NO, AT(same), "whether borders are padded as by TensorFlow", NULL, NULL,
	    false },
	{ "depths", KEY_STAGES, AT(depths), "blocks of each stage", NULL, NULL, false },
	{ "widths", KEY_STAGES, AT(widths), "channels of each stage", NULL, NULL, false },
	{ "classes", KEY_INT, AT(classes), "number of classes; must be that of the data",
	    "from the data", NULL, false },
	{ "dropout", KEY_PROBABILITY, AT(dropout), "probability of dropping an activation", NULL,
	    NULL, false },
	{ "head_dropout", KEY_PROBABILITY, AT(head_dropout),
	    "probability of dropping an activation before the class", NULL, NULL, false },
	{ "masks", KEY_YES_NO, AT(masks), "whether hidden tokens are computed, not classes",
	    "from the data", NULL, false },
	{ "head_bias", KEY_YES_NO, AT(head_bias),
	    "whether the layer before the class has a bias", NULL, NULL, false },
	{ "norm_bias", KEY_YES_NO, AT(bias), "whether norms have a bias", NULL, NULL, false },
	{ "mean", KEY_YES_NO, AT(mean),
	    "whether the class is that of the mean of all tokens, not of the first", NULL, NULL,
	    false },
	{ "bias", KEY_YES_NO, AT(bias), "whether linear layers and norms have a bias", NULL, NULL,
	    false },
	{ "zero_init_residual", KEY_YES_NO, AT(zero_init_residual),
	    "initialize the weights of each block's last norm to 0", NULL, NULL, false },
	{ "gelu", KEY_GELU, AT(gelu), "activation: GELU, exact or approximated with tanh", NULL,
	    NULL, false },
};
/* clang-format on */

#undef AT

/* The names are in the order of enum key_type. */
static const char *const forms[] = { "N", "X", "P", "X", "yes|no", "erf|tanh", "KIND:N:...",
	"PATTERN", "N-N-N-N" };

/* The words of scaled positions, and how many numbers follow each. */
static const struct {
	const char *word;
	int numbers;
} rope_kinds[GT_ROPE_KINDS] = {
	[GT_ROPE_PLAIN] = { "none", 0 },
	[GT_ROPE_LINEAR] = { "linear", 1 },   /* factor */
	[GT_ROPE_DYNAMIC] = { "dynamic", 1 }, /* factor */
	[GT_ROPE_LLAMA3] = { "llama3", 4 },   /* factor, low, high, original block */
	/* factor, original block, fast, slow, scale of attention, whole pairs (1) or not (0) */
	[GT_ROPE_YARN] = { "yarn", 6 },
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]), LARGEST = 1 << 24, MOST_LAYERS = 1000 };
static_assert(KEYS <= 64, "a bit for each row");

static const double MOST_REAL = 1e12; /* of theta */

static bool word_in(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	return false;
}

/* Return whether the architecture has the setting of row k. */
static bool row_is_for(int k, const struct gt_arch *arch)
{
	return word_in(arch->keys, keys[k].name) &&
	       (!keys[k].families || word_in(keys[k].families, arch->family));
}

static bool parse_int(const char *text, int *out)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 1 || n > LARGEST)
		return false;
	*out = (int)n;
	return true;
}

/* Parse KIND:NUMBER:..., such as llama3:8:1:4:8192. */
static bool parse_rope(const char *text, struct gt_rope_scaling *out)
{
	const size_t n = strcspn(text, ":");

	for (int kind = 0; kind < GT_ROPE_KINDS; kind++) {
		const char *at = text + n;
		char *end;

		if (strncmp(rope_kinds[kind].word, text, n) != 0 || rope_kinds[kind].word[n])
			continue;
		*out = (struct gt_rope_scaling){ .kind = (enum gt_rope_kind)kind };
		for (int i = 0; i < rope_kinds[kind].numbers; i++, at = end) {
			if (*at != ':')
				return false;
			out->number[i] = strtod(at + 1, &end);
			if (end == at + 1 ||
			    !(out->number[i] >= (i == 5 ? 0 : 1e-6) && out->number[i] <= MOST_REAL))
				return false;
		}
		return !*at && (kind != GT_ROPE_LLAMA3 || out->number[1] < out->number[2]);
	}
	return false;
}

static bool parse_pattern(const char *text, char out[GT_MODEL_PATTERN])
{
	const size_t n = strlen(text);

	if (!n || n >= GT_MODEL_PATTERN || strspn(text, "yn") != n)
		return false;
	memcpy(out, text, n + 1);
	return true;
}

/* Parse 3-3-9-3. */
static bool parse_stages(const char *text, int out[GT_MODEL_STAGES])
{
	for (int i = 0; i < GT_MODEL_STAGES; i++) {
		const size_t n = strcspn(text, "-");
		char number[16] = "";

		if (n >= sizeof(number))
			return false;
		memcpy(number, text, n);
		if (!parse_int(number, &out[i]))
			return false;
		text += n;
		if (*text != (i + 1 < GT_MODEL_STAGES ? '-' : '\0'))
			return false;
		text += *text == '-';
	}
	return true;
}

static bool parse_value(enum key_type type, const char *text, void *out)
{
	char *end;
	double p;

	switch (type) {
	case KEY_INT:
		return parse_int(text, out);
	case KEY_POSITIVE:
		p = strtod(text, &end);
		if (end == text || *end || !(p > 0 && p <= MOST_REAL))
			return false;
		*(double *)out = p;
		return true;
	case KEY_PROBABILITY:
		p = strtod(text, &end);
		if (end == text || *end || !(p >= 0 && p < 1))
			return false;
		*(double *)out = p;
		return true;
	case KEY_SHARE:
		p = strtod(text, &end);
		if (end == text || *end || !(p > 0 && p <= 1))
			return false;
		*(double *)out = p;
		return true;
	case KEY_ROPE:
		return parse_rope(text, out);
	case KEY_PATTERN:
		return parse_pattern(text, out);
	case KEY_STAGES:
		return parse_stages(text, out);
	case KEY_YES_NO:
		*(bool *)out = !strcmp(text, "yes");
		return *(bool *)out || !strcmp(text, "no");
	case KEY_GELU:
		*(enum gt_gelu *)out = strcmp(text, "erf") ? GT_GELU_TANH : GT_GELU_ERF;
		return !strcmp(text, "erf") || !strcmp(text, "tanh");
	}
	return false;
}

/* Parse the value of row k. A setting of which there may be none takes 0, too. */
static bool parse_row(int k, const char *text, void *out)
{
	const enum key_type type = keys[k].type;

	if (!keys[k].is_none || strcmp(text, "0") != 0 || (type != KEY_INT && type != KEY_POSITIVE))
		return parse_value(type, text, out);
	if (type == KEY_INT)
		*(int *)out = 0;
	else
		*(double *)out = 0;
	return true;
}

static void print_rope(const struct gt_rope_scaling *rope, char text[GT_MODEL_VALUE])
{
	int n = snprintf(text, GT_MODEL_VALUE, "%s", rope->kind ? rope_kinds[rope->kind].word : "");

	for (int i = 0; i < rope_kinds[rope->kind].numbers; i++)
		n += snprintf(text + n, (size_t)(GT_MODEL_VALUE - n), ":%.15g", rope->number[i]);
}

static void print_config_value(enum key_type type, const void *value, char text[GT_MODEL_VALUE])
{
	switch (type) {
	case KEY_INT:
		snprintf(text, GT_MODEL_VALUE, "%d", *(const int *)value);
		break;
	case KEY_POSITIVE:
	case KEY_PROBABILITY:
	case KEY_SHARE:
		snprintf(text, GT_MODEL_VALUE, "%.15g", *(const double *)value);
		break;
	case KEY_YES_NO:
		snprintf(text, GT_MODEL_VALUE, "%s", *(const bool *)value ? "yes" : "no");
		break;
	case KEY_ROPE:
		print_rope(value, text);
		break;
	case KEY_PATTERN:
		snprintf(text, GT_MODEL_VALUE, "%s", (const char *)value);
		break;
	case KEY_STAGES:
		for (int i = 0, n = 0; i < GT_MODEL_STAGES; i++)
			n += snprintf(text + n, (size_t)(GT_MODEL_VALUE - n), "%s%d", i ? "-" : "",
			    ((const int *)value)[i]);
		break;
	case KEY_GELU:
		snprintf(text, GT_MODEL_VALUE, "%s",
		    *(const enum gt_gelu *)value == GT_GELU_ERF ? "erf" : "tanh");
		break;
	}
}

/* Set one key. `value` is NULL if there was no "=". */
static int fail_setting(
    const struct gt_model *m, const char *key, const char *value, struct gt_err *err)
{
	struct gt_suggest near = { .word = key };

	gt_err_set(err, GT_EINVAL, "model '%s': unknown setting '%s'", m->arch->name, key);
	for (int i = 0; i < KEYS; i++)
		if (row_is_for(i, m->arch))
			gt_suggest_offer(&near, keys[i].name);
	if (near.best && value)
		return gt_err_hint(
		    err, "did you mean '%s=%s'? It takes: %s", near.best, value, m->arch->keys);
	return gt_err_hint(err, *m->arch->keys ? "it takes: %s" : "it takes none%s", m->arch->keys);
}

/* Parse key=value. The key must not have its bit in *given, which is then set. */
static int parse_pair(struct gt_model *m, uint64_t *given, char *pair, struct gt_err *err)
{
	char *value = strchr(pair, '=');

	if (value)
		*value++ = '\0';
	for (int i = 0; value && i < KEYS; i++) {
		if (strcmp(keys[i].name, pair) || !row_is_for(i, m->arch))
			continue;
		if (*given >> i & 1)
			return gt_err_set(
			    err, GT_EINVAL, "model '%s': '%s' is given twice", m->arch->name, pair);
		*given |= UINT64_C(1) << i;
		if (parse_row(i, value, (char *)&m->config + keys[i].offset) &&
		    m->config.layers <= MOST_LAYERS)
			return 0;
		gt_err_set(err, GT_EINVAL, "model '%s': '%s' is not a value for '%s'",
		    m->arch->name, value, pair);
		return gt_err_hint(err, "write %s=%s; 'gtrain help models' describes the settings",
		    pair, forms[keys[i].type]);
	}
	return fail_setting(m, pair, value, err);
}

static int parse_size(struct gt_model *m, const char *text, struct gt_err *err)
{
	struct gt_arch_config *c = &m->config;

	if (c->size_count == GT_MODEL_MAX_LAYERS)
		return gt_err_set(err, GT_EINVAL, "model '%s': more than %d sizes", m->arch->name,
		    GT_MODEL_MAX_LAYERS);
	if (!parse_int(text, &c->sizes[c->size_count++]))
		return gt_err_set(
		    err, GT_EINVAL, "model '%s': '%s' is not a size", m->arch->name, text);
	return 0;
}

static int parse_settings(struct gt_model *m, char *settings, struct gt_err *err)
{
	bool sizes = !strcmp(m->arch->keys, "sizes");
	uint64_t given = 0; /* bits of rows of keys[] */
	char *p;
	int rc = 0;

	while (!rc && (p = strsep(&settings, ",")))
		rc = sizes ? parse_size(m, p, err) : parse_pair(m, &given, p, err);
	if (!rc && sizes && m->config.size_count < 2)
		rc = gt_err_set(err, GT_EINVAL, "model '%s': at least two sizes", m->arch->name);
	if (rc && sizes)
		gt_err_hint(err, "inputs, hidden layers and classes, as in mlp:784,256,10");
	return rc;
}

static const struct gt_arch *find_arch(const char *name, struct gt_err *err)
{
	struct gt_suggest near = { .word = name };

	for (int i = 0; gt_archs[i]; i++) {
		if (!strcmp(gt_archs[i]->name, name))
			return gt_archs[i];
		gt_suggest_offer(&near, gt_archs[i]->name);
	}
	gt_suggest_offer(&near, gt_arch_sequence.name);
	gt_err_set(err, GT_EINVAL, "unknown model '%s'", name);
	if (near.best)
		gt_err_hint(err, "did you mean '%s'?", near.best);
	else
		gt_err_hint(err, "'gtrain help models' lists the models");
	return NULL;
}

static int read_spec(struct gt_model *m, char *spec, struct gt_err *err)
{
	char *settings = strchr(spec, ':');
	int rc;

	if (settings)
		*settings++ = '\0';
	m->arch = find_arch(spec, err);
	if (!m->arch)
		return err->code;
	m->config = m->arch->defaults;
	rc = settings ? parse_settings(m, settings, err) : 0;
	if (!m->config.kv_heads)
		m->config.kv_heads = m->config.heads;
	return rc;
}

/* Take over `path`. */
static int read_exported(struct gt_model *m, char *path, struct gt_err *err)
{
	m->arch = &gt_arch_exported;
	m->path = path;
	if (gt_network_open(&m->config.network, path, err))
		return gt_err_prefix(err, "{model}");
	m->config.dropout = gt_network_dropout(m->config.network);
	return 0;
}

/* Return the layers of a spec "seq:LAYER,..."; NULL: it names another model. */
static const char *find_layers(const char *spec)
{
	size_t n = strlen(gt_arch_sequence.name);

	if (strncmp(spec, gt_arch_sequence.name, n) || (spec[n] && spec[n] != ':'))
		return NULL;
	return spec + n + (spec[n] == ':');
}

static int read_sequence(struct gt_model *m, const char *layers, struct gt_err *err)
{
	m->arch = &gt_arch_sequence;
	if (gt_sequence_parse(&m->config.sequence, layers, err))
		return err->code;
	m->config.dropout = gt_sequence_dropout(m->config.sequence);
	return 0;
}

int gt_model_open(struct gt_model **out, const char *spec, struct gt_err *err)
{
	struct gt_model *m = gt_calloc(1, sizeof(*m), err);
	char *copy = gt_strdup(spec, err);
	int rc = m && copy ? 0 : GT_ENOMEM;

	*out = NULL;
	if (!rc && gt_network_is_path(spec)) {
		rc = read_exported(m, copy, err);
		copy = NULL;
	} else if (!rc && find_layers(spec)) {
		rc = read_sequence(m, find_layers(spec), err);
	} else if (!rc) {
		rc = read_spec(m, copy, err);
	}
	free(copy);
	if (rc)
		gt_model_close(m);
	else
		*out = m;
	return rc;
}

void gt_model_close(struct gt_model *m)
{
	if (!m)
		return;
	gt_network_close(m->config.network);
	gt_sequence_free(m->config.sequence);
	gt_tuning_free(m->tuning);
	if (m->lora)
		gt_lora_release(m->lora);
	free(m->lora);
	free(m->path);
	free(m);
}

int gt_model_tune(struct gt_model *m, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err)
{
	return gt_tuning_new(&m->tuning, freeze, lr_scale, err);
}

int gt_model_adapt(struct gt_model *m, const char *spec, struct gt_err *err)
{
	if (!spec)
		return 0;
	m->lora = gt_calloc(1, sizeof(*m->lora), err);
	return m->lora ? gt_lora_parse(m->lora, spec, err) : GT_ENOMEM;
}

const struct gt_lora *gt_model_lora(const struct gt_model *m)
{
	return m->lora;
}

void gt_model_keep_patterns(struct gt_model *m)
{
	if (m->path)
		gt_network_keep_patterns(m->config.network);
}

bool gt_model_is_file(const char *spec)
{
	return gt_network_is_path(spec);
}

const char *gt_model_name(const struct gt_model *m)
{
	return m->path ? gt_network_file(m->config.network) : m->arch->name;
}

int gt_model_folded_norms(const struct gt_model *m)
{
	return m->path ? gt_network_folded_norms(m->config.network) : 0;
}

bool gt_model_was_evaluating(const struct gt_model *m)
{
	return m->path && gt_network_was_evaluating(m->config.network);
}

const char *gt_model_last_function(const struct gt_model *m)
{
	return m->path ? gt_network_last_function(m->config.network) : NULL;
}

bool gt_model_computes_loss(const struct gt_model *m)
{
	return m->path && gt_network_computes_loss(m->config.network);
}

int gt_model_check_loss(const struct gt_model *m, const struct gt_loss *loss, struct gt_err *err)
{
	if (!loss->output || gt_model_computes_loss(m))
		return 0;
	if (!m->path) {
		gt_err_set(err, GT_EINVAL, "{loss} output: model '%s' computes no loss itself",
		    gt_model_name(m));
		return gt_err_hint(
		    err, "it is for an exported network (.pt2) that returns its loss");
	}
	gt_err_set(err, GT_EINVAL,
	    "{loss} output: '%s' returns no loss, which is one number, or several of which none "
	    "is called loss",
	    gt_model_name(m));
	return gt_err_hint(
	    err, "leave {loss} out, or export a module whose forward() returns its loss");
}

struct gt_loss gt_model_default_loss(const struct gt_model *m, const struct gt_sample_form *form)
{
	return gt_model_computes_loss(m) ? (struct gt_loss){ .output = true }
	                                 : gt_loss_default(form);
}

bool gt_model_caches(const struct gt_model *m)
{
	return m->arch->caches;
}

const char *gt_model_family(const struct gt_model *m)
{
	return m->arch->family;
}

int64_t gt_model_mlp_width(const struct gt_model *m)
{
	return m->arch->hidden ? m->arch->hidden(&m->config) : 0;
}

int64_t gt_model_head_size(const struct gt_model *m)
{
	return m->config.decoder ? gt_decoder_attention_of(&m->config, 0).size : 0;
}

const char *gt_model_at(int i)
{
	return gt_archs[i] ? gt_archs[i]->name : NULL;
}

const char *gt_model_summary(const struct gt_model *m)
{
	return m->arch->summary;
}

static void print_sizes(const struct gt_arch_config *c, char text[GT_MODEL_VALUE])
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < c->size_count; i++)
		used += (size_t)snprintf(
		    text + used, GT_MODEL_VALUE - used, "%s%d", i ? "," : "", c->sizes[i]);
}

/* Return whether a value is that of a setting that is not used, if its row has `unset`. */
static bool is_unset(const char *value)
{
	return !*value || !strcmp(value, "0") || !strcmp(value, "no");
}

bool gt_model_setting(
    const struct gt_model *m, int i, struct gt_setting *out, char value[GT_MODEL_VALUE])
{
	char initial[GT_MODEL_VALUE];

	if (!strcmp(m->arch->keys, "sizes")) {
		*out = (struct gt_setting){ NULL, "N,N,...", "from the data",
			"sizes of inputs, hidden layers, outputs; else one hidden layer of 256" };
		print_sizes(&m->config, value);
		return i == 0;
	}
	for (int k = 0; k < KEYS; k++) {
		if (!row_is_for(k, m->arch) || i--)
			continue;
		*out =
		    (struct gt_setting){ keys[k].name, forms[keys[k].type], value, keys[k].help };
		print_config_value(keys[k].type, (const char *)&m->config + keys[k].offset, value);
		print_config_value(
		    keys[k].type, (const char *)&m->arch->defaults + keys[k].offset, initial);
		if (keys[k].unset && is_unset(value) && is_unset(initial)) {
			*value = '\0';
			out->initial = keys[k].unset;
		}
		return true;
	}
	return false;
}

char *gt_model_spec(const struct gt_model *m, struct gt_err *err)
{
	char *spec, value[GT_MODEL_VALUE];
	struct gt_setting s;
	char joint = ':';

	if (m->config.sequence)
		return gt_asprintf(err, "%s:%s", m->arch->name, m->config.sequence->text);
	spec = gt_strdup(m->path ? m->path : m->arch->name, err);
	for (int i = 0; spec && gt_model_setting(m, i, &s, value); i++) {
		char *longer;

		if (!*value)
			continue;
		longer = gt_asprintf(
		    err, "%s%c%s%s%s", spec, joint, s.key ? s.key : "", s.key ? "=" : "", value);
		free(spec);
		spec = longer;
		joint = ',';
	}
	return spec;
}

static char *resolve(const char *spec)
{
	char *whole = NULL;
	struct gt_model *m;

	if (gt_model_open(&m, spec, GT_ERR_IGNORED))
		return NULL;
	whole = gt_model_spec(m, GT_ERR_IGNORED);
	gt_model_close(m);
	return whole;
}

bool gt_model_same(const char *a, const char *b)
{
	char *x, *y;
	bool same;

	if (gt_model_is_file(a) && gt_model_is_file(b))
		return !strcmp(a, b) || gt_model_same_network(a, b);
	x = resolve(a);
	y = resolve(b);
	same = x && y ? !strcmp(x, y) : !strcmp(a, b);
	free(x);
	free(y);
	return same;
}

static bool same_network(const struct gt_model *a, const struct gt_model *b)
{
	const char *x = a->arch->family, *y = b->arch->family;

	if (x && y ? strcmp(x, y) || a->config.depth != b->config.depth : a->arch != b->arch)
		return false;
	if (a->path)
		return gt_network_same(a->config.network, b->config.network);
	if (a->config.sequence)
		return gt_sequence_same(a->config.sequence, b->config.sequence);
	for (int k = 0; k < KEYS; k++) {
		char mine[GT_MODEL_VALUE], theirs[GT_MODEL_VALUE];

		if (!row_is_for(k, a->arch) || keys[k].type == KEY_PROBABILITY ||
		    keys[k].offset == offsetof(struct gt_arch_config, zero_init_residual))
			continue;
		print_config_value(keys[k].type, (const char *)&a->config + keys[k].offset, mine);
		print_config_value(keys[k].type, (const char *)&b->config + keys[k].offset, theirs);
		if (keys[k].unset && !keys[k].is_none && (is_unset(mine) || is_unset(theirs)))
			continue;
		if (strcmp(mine, theirs) != 0)
			return false;
	}
	return a->config.size_count == b->config.size_count &&
	       !memcmp(a->config.sizes, b->config.sizes, sizeof(a->config.sizes));
}

bool gt_model_same_network(const char *a, const char *b)
{
	struct gt_model *x = NULL, *y = NULL;
	bool same = !gt_model_open(&x, a, GT_ERR_IGNORED) &&
	            !gt_model_open(&y, b, GT_ERR_IGNORED) && same_network(x, y);

	gt_model_close(x);
	gt_model_close(y);
	return same;
}

void gt_model_preferred_input(const struct gt_model *m, struct gt_model_input *out)
{
	*out = (struct gt_model_input){ 0 };
	m->arch->preferred_input(&m->config, out);
	out->fixed_size =
	    m->config.image > 0 || (m->path && (out->form.height > 0 || out->form.block > 0));
}

int gt_model_longest_text(const struct gt_model *m)
{
	return m->config.encoder ? gt_encoder_longest_text(&m->config) : 0;
}

void gt_model_take_form(struct gt_model *m, const struct gt_sample_form *form)
{
	if (m->arch->masked_aliases)
		m->config.masks = form->masks;
}

double gt_model_default_lr(const struct gt_model *m, bool adaptive)
{
	return adaptive ? m->arch->lr_adam : m->arch->lr_sgd;
}

const char *const *gt_model_task_layers(const struct gt_model *m)
{
	return m->config.masks ? NULL : m->arch->task_layers;
}

const struct gt_model_alias *gt_model_aliases(const struct gt_model *m)
{
	static const struct gt_model_alias none[] = { { NULL, NULL, false } };

	if (m->path)
		return gt_network_aliases(m->config.network);
	if (m->config.masks)
		return m->arch->masked_aliases;
	if (m->config.tied && m->arch->tied_aliases)
		return m->arch->tied_aliases;
	return m->arch->aliases ? m->arch->aliases : none;
}
