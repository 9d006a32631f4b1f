/* hugging_face.c - config.json of Hugging Face to a model's spec, and back. */
#include "lib/model/hugging_face.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/arch.h"

/*
 * A key of config.json. `words` are the values that it may have, with spaces between; strings are
 * in single quotes, "#" is any number. WORD=VALUE: this value of the setting; "@heads" is that of
 * another setting. The first word is written where no setting decides.
 */
struct row {
	const char *key;
	const char *setting; /* of the spec; NULL: none, the value must be one of the words */
	const char *words;
	const char *initial; /* the value where the key is missing */
};

/* The network of transformers that an architecture is. */
struct family {
	const char *model_type;
	const char *architectures; /* classes whose weights are those of the architecture */
	const char *base;          /* the model in specs; NULL: one of `resnets` */
	const struct row *rows;
	const char *free;  /* more keys that change no result */
	const char *given; /* settings that no key has: NAME, or NAME=VALUE, the only one */
};

/* ---- the tables ---- */

/* clang-format off */
static const struct row common_rows[] = {
	{ "is_encoder_decoder", NULL, "false", "false" },
	{ "is_decoder", NULL, "false true", "false" }, /* these models are what they are */
	{ "add_cross_attention", NULL, "false", "false" },
	{ "cross_attention_hidden_size", NULL, "null", "null" },
	{ "tie_encoder_decoder", NULL, "false", "false" },
	{ "pruned_heads", NULL, "{} null", "{}" },
	{ "problem_type", NULL, "null 'single_label_classification'", "null" },
	{ 0 }
};

static const char *const common_free[] = {
	/* where the file comes from, and how Python code loads it */
	"model_type architectures _name_or_path transformers_version tokenizer_class prefix "
	"finetuning_task torchscript _commit_hash",
	/* the type of the weights in the file, which tensors say themselves, and ways to compute */
	"torch_dtype dtype use_bfloat16 tf_legacy_loss use_cache gradient_checkpointing "
	"chunk_size_feed_forward _attn_implementation_autoset attn_implementation",
	/* the form of results in Python */
	"return_dict output_hidden_states output_attentions output_scores return_dict_in_generate",
	/* initial values: those here are gtrain's own */
	"initializer_range initializer_factor",
	/* classes, and ids of tokens: read with the tokenizer and the images' settings */
	"id2label label2id num_labels bos_token_id eos_token_id pad_token_id sep_token_id "
	"decoder_start_token_id",
	/* how a text is drawn: options of generate */
	"task_specific_params max_length min_length do_sample early_stopping num_beams "
	"num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty "
	"length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids "
	"num_return_sequences forced_bos_token_id forced_eos_token_id remove_invalid_values "
	"exponential_decay_length_penalty suppress_tokens begin_suppress_tokens",
	NULL
};

static const struct row gpt2_rows[] = {
	{ "vocab_size", "vocab", "#", "50257" },
	{ "n_positions", "block", "#", "1024" },
	{ "n_embd", "width", "#", "768" },
	{ "n_layer", "layers", "#", "12" },
	{ "n_head", "heads", "#", "12" },
	{ "n_inner", "hidden", "null= #", "null" },
	{ "activation_function", "gelu", "'gelu_new'=tanh 'gelu_pytorch_tanh'=tanh 'gelu'=erf",
	    "'gelu_new'" },
	{ "layer_norm_epsilon", "eps", "#", "1e-05" },
	{ "resid_pdrop", "dropout", "#", "0.1" },
	{ "embd_pdrop", "dropout", "#", "0.1" },
	{ "attn_pdrop", "dropout", "#", "0.1" },
	{ "scale_attn_weights", NULL, "true", "true" },
	{ "scale_attn_by_inverse_layer_idx", NULL, "false", "false" },
	{ "reorder_and_upcast_attn", NULL, "false", "false" },
	{ "tie_word_embeddings", NULL, "true", "true" },
	{ 0 }
};

static const struct row llama_rows[] = {
	{ "vocab_size", "vocab", "#", "32000" },
	{ "max_position_embeddings", "block", "#", "2048" },
	{ "hidden_size", "width", "#", "4096" },
	{ "intermediate_size", "hidden", "#", "11008" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "null" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_bias", NULL, "false", "false" },
	{ "attention_dropout", NULL, "0", "0" },
	{ "mlp_bias", NULL, "false", "false" },
	{ "pretraining_tp", NULL, "1", "1" }, /* slices of products, which round otherwise */
	{ 0 }
};

static const struct row vit_rows[] = {
	{ "image_size", "image", "#", "224" },
	{ "patch_size", "patch", "#", "16" },
	{ "num_channels", NULL, "3 1", "3" },
	{ "hidden_size", "width", "#", "768" },
	{ "num_hidden_layers", "layers", "#", "12" },
	{ "num_attention_heads", "heads", "#", "12" },
	{ "intermediate_size", "hidden", "#", "3072" },
	{ "layer_norm_eps", "eps", "#", "1e-12" },
	{ "hidden_dropout_prob", "dropout", "#", "0" },
	{ "attention_probs_dropout_prob", NULL, "0", "0" },
	{ "hidden_act", NULL, "'gelu'", "'gelu'" },
	{ "qkv_bias", NULL, "true", "true" },
	{ 0 }
};

static const struct row resnet_rows[] = {
	{ "num_channels", NULL, "3 1", "3" },
	{ "embedding_size", NULL, "64", "64" },
	{ "hidden_act", NULL, "'relu'", "'relu'" },
	{ "downsample_in_first_stage", NULL, "false", "false" },
	{ "downsample_in_bottleneck", NULL, "false", "false" },
	{ 0 }
};

static const struct family families[] = {
	/* n_ctx is n_positions once more; summary_* belong to a head that is not loaded */
	{ "gpt2", "GPT2LMHeadModel GPT2Model", "gpt2", gpt2_rows,
	    "n_ctx summary_type summary_use_proj summary_activation summary_proj_to_labels "
	    "summary_first_dropout", "bias=yes" },
	{ "llama", "LlamaForCausalLM LlamaModel", "llama", llama_rows, /* read by read_rope() */
	    "rope_parameters rope_scaling head_dim", "" },
	/* encoder_stride is that of another head; the pooler is no part of the classifier */
	{ "vit", "ViTForImageClassification ViTModel", "vit-base", vit_rows,
	    "encoder_stride pooler_act pooler_output_size", "classes" },
	/* which stages a backbone hands out */
	{ "resnet", "ResNetForImageClassification ResNetModel", NULL, resnet_rows,
	    "depths hidden_sizes layer_type out_features out_indices stage_names",
	    "image classes" },
};

static const struct variant {
	const char *base, *layer_type, *depths, *hidden_sizes;
} resnets[] = {
	{ "resnet50", "bottleneck", "[3,4,6,3]", "[256,512,1024,2048]" }, /* the default */
	{ "resnet18", "basic", "[2,2,2,2]", "[64,128,256,512]" },
	{ "resnet34", "basic", "[3,4,6,3]", "[64,128,256,512]" },
	{ "resnet101", "bottleneck", "[3,4,23,3]", "[256,512,1024,2048]" },
	{ "resnet152", "bottleneck", "[3,8,36,3]", "[256,512,1024,2048]" },
};
/* clang-format on */

enum {
	FAMILIES = sizeof(families) / sizeof(*families),
	RESNETS = sizeof(resnets) / sizeof(*resnets),
	TEXT = 64, /* bytes of a value as a word */
	MOST_SETTINGS = 16
};

/* ---- words ---- */

/* The next of a list of words: its length; 0 at the end. */
static size_t next_word(const char **list)
{
	*list += strspn(*list, " ");
	return strcspn(*list, " ");
}

static bool in_list(const char *list, const char *word)
{
	size_t n;

	for (; (n = next_word(&list)); list += n)
		if (n == strlen(word) && !strncmp(list, word, n))
			return true;
	return false;
}

/* A value as words write it; "?" for one that no word can be. */
static void text_of(char text[TEXT], const json_t *value)
{
	const char *s = json_string_value(value);

	strcpy(text, "?");
	if (s && strlen(s) < TEXT - 3 && strlen(s) == json_string_length(value) &&
	    !strpbrk(s, " '="))
		snprintf(text, TEXT, "'%s'", s);
	else if (json_is_integer(value))
		snprintf(text, TEXT, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, TEXT, "%.15g", json_real_value(value));
	else if (json_is_boolean(value))
		strcpy(text, json_is_true(value) ? "true" : "false");
	else if (json_is_null(value))
		strcpy(text, "null");
	else if (json_is_object(value) && !json_object_size(value))
		strcpy(text, "{}");
}

/* The value that a word of config.json means: its VALUE, or `text` itself. false: it is none. */
static bool find_value(char value[TEXT], const char *words, const char *text, bool number)
{
	size_t n;

	for (; (n = next_word(&words)); words += n) {
		size_t word = strcspn(words, " =");

		if (word == 1 && *words == '#' && number) {
			snprintf(value, TEXT, "%s", text);
			return true;
		}
		if (word != strlen(text) || strncmp(words, text, word) != 0)
			continue;
		snprintf(value, TEXT, "%.*s", (int)(word < n ? n - word - 1 : word),
		    words + (word < n ? word + 1 : 0));
		return true;
	}
	return false;
}

/* The word for a value of a setting, as text; the number itself where words have "#". */
static void find_word(char text[TEXT], const char *words, const char *value)
{
	snprintf(text, TEXT, "%s", value ? value : "");
	for (size_t n; (n = next_word(&words)); words += n) {
		size_t word = strcspn(words, " =");

		if (value && (word == n || strncmp(words + word + 1, value, n - word - 1) != 0 ||
		                 strlen(value) != n - word - 1))
			continue;
		snprintf(text, TEXT, "%.*s", (int)word, words);
		return;
	}
}

/* ---- config.json to a spec ---- */

struct reader {
	const json_t *config;
	const struct family *family;
	const char *base;
	int count;
	struct {
		const char *key, *setting;
		char value[TEXT];
	} settings[MOST_SETTINGS];
};

static const char *setting_of(const struct reader *r, const char *setting)
{
	for (int i = 0; i < r->count; i++)
		if (!strcmp(r->settings[i].setting, setting))
			return r->settings[i].value;
	return "";
}

/* Take a setting. Another key may have given it: then both must agree, unless this one `overrides`
 * it. */
static int set(struct reader *r, const char *key, const char *setting, const char *value,
    bool overrides, struct gt_err *err)
{
	int i = 0;

	while (i < r->count && strcmp(r->settings[i].setting, setting) != 0)
		i++;
	if (i < r->count && !overrides && strtod(r->settings[i].value, NULL) != strtod(value, NULL))
		return gt_err_set(err, GT_ENOTSUP,
		    "'%s' is %s, but '%s' is %s: gtrain has one setting, '%s', for both", key,
		    value, r->settings[i].key, r->settings[i].value, setting);
	r->settings[i].key = key;
	r->settings[i].setting = setting;
	snprintf(
	    r->settings[i].value, TEXT, "%s", *value == '@' ? setting_of(r, value + 1) : value);
	r->count += i == r->count;
	return 0;
}

static int refuse(const char *key, const json_t *value, const char *words, struct gt_err *err)
{
	char text[TEXT];

	text_of(text, value);
	if (strcmp(text, "?"))
		gt_err_set(err, GT_ENOTSUP, "'%s' is %s, which is not supported", key, text);
	else
		gt_err_set(err, GT_ENOTSUP, "'%s' has a value that is not supported", key);
	return *words == '#' ? gt_err_hint(err, "it is a number")
	                     : gt_err_hint(err, "gtrain computes with %s alone", words);
}

static int read_row(struct reader *r, const struct row *row, struct gt_err *err)
{
	const json_t *json = json_object_get(r->config, row->key);
	char text[TEXT], value[TEXT];
	bool number = !json || json_is_number(json);

	if (json)
		text_of(text, json);
	else
		snprintf(text, TEXT, "%s", row->initial);
	if (!find_value(value, row->words, text, number))
		return refuse(row->key, json, row->words, err);
	return row->setting ? set(r, row->key, row->setting, value, false, err) : 0;
}

static int read_rows(struct reader *r, const struct row *rows, struct gt_err *err)
{
	int rc = 0;

	for (; !rc && rows->key; rows++)
		rc = read_row(r, rows, err);
	return rc;
}

static bool has_row(const struct row *rows, const char *key)
{
	while (rows->key && strcmp(rows->key, key) != 0)
		rows++;
	return rows->key != NULL;
}

static bool is_known(const struct family *f, const char *key)
{
	if (has_row(f->rows, key) || has_row(common_rows, key) || in_list(f->free, key))
		return true;
	for (int i = 0; common_free[i]; i++)
		if (in_list(common_free[i], key))
			return true;
	return false;
}

static int check_keys(const struct reader *r, struct gt_err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)r->config, key, value)
	{
		if (is_known(r->family, key))
			continue;
		gt_err_set(err, GT_ENOTSUP, "'%.80s' is a setting that gtrain does not know", key);
		return gt_err_hint(
		    err, "it may change the results; no setting of a model is ignored");
	}
	return 0;
}

/* Any class whose weights are the family's, some perhaps without a head. */
static int check_architectures(const struct reader *r, struct gt_err *err)
{
	const json_t *list = json_object_get(r->config, "architectures");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name || !in_list(r->family->architectures, name)) {
			gt_err_set(err, GT_ENOTSUP, "'architectures': '%.80s' is not supported",
			    name ? name : "?");
			return gt_err_hint(err, "it may be: %s", r->family->architectures);
		}
	}
	if (!list || json_is_null(list) || json_is_array(list))
		return 0;
	return gt_err_set(err, GT_EFORMAT, "'architectures' must be a list");
}

static int find_family(struct reader *r, struct gt_err *err)
{
	const char *type = json_string_value(json_object_get(r->config, "model_type"));

	if (!json_is_object(r->config) || !type) {
		gt_err_set(err, GT_EFORMAT, "there is no 'model_type'");
		return gt_err_hint(err, "a config.json of Hugging Face's transformers has one");
	}
	for (int i = 0; i < FAMILIES; i++)
		if (!strcmp(families[i].model_type, type))
			r->family = &families[i];
	if (r->family)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "'model_type': '%.80s' is not supported", type);
	return gt_err_hint(err, "it may be gpt2, llama, vit or resnet");
}

/* ---- what no row can say ---- */

/* A list of numbers as a variant has it. */
static bool is_list(const json_t *list, const char *text)
{
	json_t *wanted;
	bool same;

	if (json_array_size(list) != 4)
		return false;
	wanted = json_loads(text, 0, NULL);
	same = json_equal(list, wanted);
	json_decref(wanted);
	return same;
}

static int find_resnet(struct reader *r, struct gt_err *err)
{
	const json_t *type = json_object_get(r->config, "layer_type");
	const json_t *depths = json_object_get(r->config, "depths");
	const json_t *sizes = json_object_get(r->config, "hidden_sizes");
	const char *word = type ? json_string_value(type) : resnets[0].layer_type;

	for (int i = 0; i < RESNETS; i++) {
		const struct variant *v = &resnets[i];

		if (word && !strcmp(word, v->layer_type) &&
		    (depths ? is_list(depths, v->depths) : !strcmp(v->depths, resnets[0].depths)) &&
		    (sizes ? is_list(sizes, v->hidden_sizes)
		           : !strcmp(v->hidden_sizes, resnets[0].hidden_sizes))) {
			r->base = v->base;
			return 0;
		}
	}
	gt_err_set(err, GT_ENOTSUP,
	    "'depths', 'hidden_sizes' and 'layer_type' are of no ResNet "
	    "that gtrain has");
	return gt_err_hint(err, "it has those of 18, 34, 50, 101 and 152 layers");
}

/* rope_parameters, in older files rope_scaling beside rope_theta: plain angles alone. */
static int read_rope(struct reader *r, const char *key, struct gt_err *err)
{
	json_t *rope = json_object_get(r->config, key), *value;
	const char *name, *type = "default";
	char text[TEXT];
	int rc = 0;

	if (!rope || json_is_null(rope))
		return 0;
	if (!json_is_object(rope))
		return gt_err_set(err, GT_EFORMAT, "'%s' must be an object", key);
	json_object_foreach(rope, name, value)
	{
		if (!strcmp(name, "rope_type") || !strcmp(name, "type"))
			type = json_is_string(value) ? json_string_value(value) : "?";
		else if (!strcmp(name, "rope_theta") && json_is_number(value)) {
			text_of(text, value);
			rc = set(
			    r, key, "theta", text, !json_object_get(r->config, "rope_theta"), err);
		} else {
			rc = gt_err_set(
			    err, GT_ENOTSUP, "'%s': '%.80s' is not supported", key, name);
		}
		if (rc)
			return rc;
	}
	if (!strcmp(type, "default"))
		return 0;
	gt_err_set(err, GT_ENOTSUP, "'%s': positions of type '%.80s' are not supported", key, type);
	return gt_err_hint(err, "gtrain rotates by 'default' angles alone");
}

static int read_llama(struct reader *r, struct gt_err *err)
{
	const json_t *head = json_object_get(r->config, "head_dim");
	long long width = atoll(setting_of(r, "width")), heads = atoll(setting_of(r, "heads"));
	int rc = read_rope(r, "rope_parameters", err);

	if (!rc)
		rc = read_rope(r, "rope_scaling", err);
	if (rc || !head || json_is_null(head))
		return rc;
	if (json_is_integer(head) && heads > 0 && json_integer_value(head) == width / heads)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "'head_dim' is not 'hidden_size' / 'num_attention_heads'");
	return gt_err_hint(err, "gtrain has no heads of another size");
}

/* ---- the spec ---- */

/* Check each setting alone, so that an error names its key. */
static int check_setting(const struct reader *r, int i, struct gt_err *err)
{
	char *spec =
	    gt_asprintf(err, "%s:%s=%s", r->base, r->settings[i].setting, r->settings[i].value);
	struct gt_model *m = NULL;
	int rc = spec ? gt_model_open(&m, spec, err) : GT_ENOMEM;

	gt_model_close(m);
	free(spec);
	return rc ? gt_err_prefix(err, "'%s'", r->settings[i].key) : 0;
}

static int write_spec(char **out, const struct reader *r, struct gt_err *err)
{
	struct gt_model *m;
	char *spec = gt_strdup(r->base, err);
	char joint = ':';
	int rc = spec ? 0 : GT_ENOMEM;

	for (int i = 0; !rc && i < r->count; i++) {
		char *longer;

		if (!*r->settings[i].value)
			continue;
		rc = check_setting(r, i, err);
		if (rc)
			break;
		longer = gt_asprintf(
		    err, "%s%c%s=%s", spec, joint, r->settings[i].setting, r->settings[i].value);
		free(spec);
		spec = longer;
		rc = spec ? 0 : GT_ENOMEM;
		joint = ',';
	}
	if (!rc)
		rc = gt_model_open(&m, spec, err);
	if (!rc) {
		*out = gt_model_spec(m, err);
		rc = *out ? 0 : GT_ENOMEM;
		gt_model_close(m);
	}
	free(spec);
	return rc;
}

int gt_hf_to_spec(char **out, const json_t *config, struct gt_err *err)
{
	struct reader r = { .config = config };
	int rc = find_family(&r, err);

	*out = NULL;
	if (!rc)
		rc = check_architectures(&r, err);
	if (!rc)
		rc = check_keys(&r, err);
	if (!rc)
		rc = read_rows(&r, common_rows, err);
	if (!rc)
		rc = read_rows(&r, r.family->rows, err);
	if (rc)
		return rc;
	r.base = r.family->base;
	if (!r.base)
		rc = find_resnet(&r, err);
	else if (r.family->rows == llama_rows)
		rc = read_llama(&r, err);
	return rc ? rc : write_spec(out, &r, err);
}

/* ---- a model to config.json ---- */

/* The value of a setting with what the data have decided; false: the model has no such setting. */
static bool resolved(char value[GT_MODEL_VALUE], const char **form, const struct gt_model *m,
    const struct gt_model_input *in, const char *setting)
{
	struct gt_setting s;
	int i = 0;

	while (gt_model_setting(m, i, &s, value) && (!s.key || strcmp(s.key, setting) != 0))
		i++;
	if (!gt_model_setting(m, i, &s, value))
		return false;
	*form = s.form;
	if (!*value && !strcmp(setting, "vocab"))
		snprintf(value, GT_MODEL_VALUE, "%d", in->classes);
	if (!*value && !strcmp(setting, "image"))
		snprintf(value, GT_MODEL_VALUE, "%d", in->height);
	if (!*value && !strcmp(setting, "hidden"))
		snprintf(value, GT_MODEL_VALUE, "%lld", (long long)gt_model_mlp_width(m));
	return true;
}

/* A word as JSON: 'x' is a string. */
static json_t *word_to_json(const char *text, bool real)
{
	size_t n = strlen(text);

	if (*text == '\'')
		return json_stringn(text + 1, n - 2);
	return real ? json_real(strtod(text, NULL)) : json_loads(text, JSON_DECODE_ANY, NULL);
}

static int write_row(json_t *config, const struct row *row, const struct gt_model *m,
    const struct gt_model_input *in, struct gt_err *err)
{
	char value[GT_MODEL_VALUE] = "", text[TEXT];
	const char *form = "";
	bool has = row->setting && resolved(value, &form, m, in, row->setting);

	find_word(text, row->words, has ? value : NULL);
	if (json_object_set_new(config, row->key, word_to_json(text, *form == 'X' || *form == 'P')))
		return gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
	return 0;
}

/* Whether keys of config.json can say all that the spec says. */
static int check_settings(const struct family *f, const struct gt_model *m, struct gt_err *err)
{
	char value[GT_MODEL_VALUE], pair[GT_MODEL_VALUE + 64];
	struct gt_setting s;

	for (int i = 0; gt_model_setting(m, i, &s, value); i++) {
		const struct row *row = f->rows;

		while (row->key && (!row->setting || strcmp(row->setting, s.key) != 0))
			row++;
		snprintf(pair, sizeof(pair), "%s=%s", s.key, value);
		if (row->key || in_list(f->given, s.key) || in_list(f->given, pair))
			continue;
		return gt_err_set(err, GT_ENOTSUP,
		    "a model with %s has no counterpart among Hugging Face's '%s'", pair,
		    f->model_type);
	}
	return 0;
}

static int write_resnet(json_t *config, const struct gt_model *m)
{
	const struct variant *v = resnets;

	while (strcmp(v->base, gt_model_name(m)) != 0)
		v++;
	return json_object_set_new(config, "layer_type", json_string(v->layer_type)) ||
	       json_object_set_new(config, "depths", json_loads(v->depths, 0, NULL)) ||
	       json_object_set_new(config, "hidden_sizes", json_loads(v->hidden_sizes, 0, NULL));
}

static int write_config(json_t *config, const struct family *f, const struct gt_model *m,
    const struct gt_model_input *in, struct gt_err *err)
{
	const char *class = f->architectures;
	int rc = check_settings(f, m, err);

	for (const struct row *row = f->rows; !rc && row->key; row++)
		rc = write_row(config, row, m, in, err);
	if (rc)
		return rc;
	if (json_object_set_new(config, "model_type", json_string(f->model_type)) ||
	    json_object_set_new(
	        config, "architectures", json_pack("[s%]", class, strcspn(class, " "))) ||
	    (f->rows == resnet_rows && write_resnet(config, m)) ||
	    (in->kind == GT_MODEL_IMAGE &&
	        json_object_set_new(config, "num_channels", json_integer(in->channels))))
		return gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
	return 0;
}

int gt_hf_from_model(
    json_t **out, const struct gt_model *m, const struct gt_model_input *in, struct gt_err *err)
{
	const char *type = gt_model_family(m);
	const struct family *f = families;
	int rc;

	*out = NULL;
	while (f < families + FAMILIES && (!type || strcmp(f->model_type, type) != 0))
		f++;
	if (f == families + FAMILIES) {
		gt_err_set(
		    err, GT_ENOTSUP, "model '%s' is none of Hugging Face's", gt_model_name(m));
		return gt_err_hint(err, "those of gpt, llama, vit, and resnet18 to resnet152 are");
	}
	*out = json_object();
	rc = *out ? write_config(*out, f, m, in, err)
	          : gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
	if (rc) {
		json_decref(*out);
		*out = NULL;
	}
	return rc;
}
