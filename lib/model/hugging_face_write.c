/* hugging_face_write.c - a model as config.json of Hugging Face. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/hugging_face_reader.h"

/* Write the word for a value of a setting, as text; the number itself if words have "#". */
static void find_setting_word(char text[GT_HF_TEXT], const char *words, const char *value)
{
	snprintf(text, GT_HF_TEXT, "%s", value ? value : "");
	for (size_t n; (n = gt_hf_next_word(&words)); words += n) {
		size_t word = strcspn(words, " =");

		if (value && (word == n || strncmp(words + word + 1, value, n - word - 1) != 0 ||
		                 strlen(value) != n - word - 1))
			continue;
		snprintf(text, GT_HF_TEXT, "%.*s", (int)word, words);
		return;
	}
}

/* Write the value of a setting, including one that the data decided. Returns false if the model has
 * no such setting. */
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
		snprintf(value, GT_MODEL_VALUE, "%d", in->form.classes);
	if (!*value && !strcmp(setting, "image"))
		snprintf(value, GT_MODEL_VALUE, "%d", in->form.height);
	if (!*value && !strcmp(setting, "hidden"))
		snprintf(value, GT_MODEL_VALUE, "%lld", (long long)gt_model_mlp_width(m));
	if (!*value && (!strcmp(setting, "head_dim") || !strcmp(setting, "score_dim")))
		snprintf(value, GT_MODEL_VALUE, "%lld", (long long)gt_model_head_size(m));
	if (!*value)
		snprintf(value, GT_MODEL_VALUE, "%s", *s.form == 'y' ? "no" : "0");
	return true;
}

/* Return 3-3-9-3 as a list. */
static json_t *list_to_json(const char *text)
{
	json_t *list = json_array();

	for (const char *at = text; list && *at; at += strcspn(at, "-"), at += *at == '-')
		if (json_array_append_new(list, json_integer(atoll(at)))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* Return a word as JSON. 'x' is a string. */
static json_t *word_to_json(const char *text, bool real)
{
	size_t n = strlen(text);

	if (*text == '\'')
		return json_stringn(text + 1, n - 2);
	if (!real || !strcmp(text, "null"))
		return json_loads(text, JSON_DECODE_ANY, NULL);
	return json_real(strtod(text, NULL));
}

static int write_row(json_t *config, const struct gt_hf_row *row, const struct gt_model *m,
    const struct gt_model_input *in, struct gt_err *err)
{
	char value[GT_MODEL_VALUE] = "", text[GT_HF_TEXT], key[GT_HF_TEXT];
	const char *form = "";
	bool has = row->setting && resolved(value, &form, m, in, row->setting);

	find_setting_word(text, row->words, has ? value : NULL);
	snprintf(key, sizeof(key), "%.*s", (int)strcspn(row->key, " "), row->key);
	if (json_object_set_new(config, key,
	        strcmp(row->words, "##") ? word_to_json(text, *form == 'X' || *form == 'P')
	                                 : list_to_json(text)))
		return gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
	return 0;
}

/* Check that keys of config.json can express all settings of the spec. */
static int check_settings(
    const struct gt_hf_family *f, const struct gt_model *m, struct gt_err *err)
{
	char value[GT_MODEL_VALUE], pair[GT_MODEL_VALUE + 64];
	struct gt_setting s;

	for (int i = 0; gt_model_setting(m, i, &s, value); i++) {
		const struct gt_hf_row *row = f->rows;

		while (row->key && (!row->setting || strcmp(row->setting, s.key) != 0))
			row++;
		snprintf(pair, sizeof(pair), "%s=%s", s.key, value);
		if (row->key || gt_hf_in_list(f->settings_without_key, s.key) ||
		    gt_hf_in_list(f->settings_without_key, pair))
			continue;
		return gt_err_set(err, GT_ENOTSUP,
		    "a model with %s has no counterpart among Hugging Face's '%s'", pair,
		    f->model_type);
	}
	return 0;
}

static int write_resnet(json_t *config, const struct gt_model *m)
{
	const struct gt_hf_resnet *v = gt_hf_resnets;

	while (strcmp(v->base, gt_model_name(m)) != 0)
		v++;
	return json_object_set_new(config, "layer_type", json_string(v->layer_type)) ||
	       json_object_set_new(config, "depths", json_loads(v->depths, 0, NULL)) ||
	       json_object_set_new(config, "hidden_sizes", json_loads(v->hidden_sizes, 0, NULL));
}

/* Return the class that computes what the model does, of those of the family. */
static const char *find_class(const struct gt_hf_family *f, const struct gt_model_input *in)
{
	const char *ending = "ForMaskedLM", *class = f->architectures;

	for (size_t n; in->form.masks && (n = gt_hf_next_word(&class)); class += n)
		if (n > strlen(ending) &&
		    !strncmp(class + n - strlen(ending), ending, strlen(ending)))
			break;
	return class;
}

static int write_config(json_t *config, const struct gt_hf_family *f, const struct gt_model *m,
    const struct gt_model_input *in, struct gt_err *err)
{
	const char *class = find_class(f, in);
	int rc = check_settings(f, m, err);

	for (const struct gt_hf_row *row = f->rows; !rc && row->key; row++)
		rc = write_row(config, row, m, in, err);
	if (rc)
		return rc;
	if (json_object_set_new(config, "model_type", json_string(f->model_type)) ||
	    json_object_set_new(
	        config, "architectures", json_pack("[s%]", class, strcspn(class, " "))) ||
	    (f->special == GT_HF_DEPTHS && write_resnet(config, m)) ||
	    (f->special == GT_HF_DECODER && gt_hf_write_decoder(config, f, m, err)) ||
	    (in->form.kind == GT_SAMPLE_IMAGE &&
	        json_object_set_new(config, "num_channels", json_integer(in->form.channels))))
		return gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
	return 0;
}

int gt_hf_from_model(
    json_t **out, const struct gt_model *m, const struct gt_model_input *in, struct gt_err *err)
{
	const char *type = gt_model_family(m);
	const struct gt_hf_family *f = gt_hf_families;
	int rc;

	*out = NULL;
	while (f < gt_hf_families + GT_HF_FAMILIES && (!type || strcmp(f->model_type, type) != 0))
		f++;
	if (f == gt_hf_families + GT_HF_FAMILIES) {
		gt_err_set(err, GT_ENOTSUP, "model '%s' has no counterpart among Hugging Face's",
		    gt_model_name(m));
		return gt_err_hint(
		    err, "the models of texts, vit, resnet18 to resnet152 and convnext have one");
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
