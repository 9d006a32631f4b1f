/* hugging_face.c - config.json of Hugging Face to a model's spec. */
#include "lib/model/hugging_face.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/model/hugging_face_reader.h"

/* ---- words ---- */

/* 12.0 stays a real number: it is an error for an integer, as in transformers. */
static void text_of_real(char text[GT_HF_TEXT], double value)
{
	int n = snprintf(text, GT_HF_TEXT, "%.15g", value);

	if (n == (int)strspn(text, "-0123456789"))
		strcpy(text + n, ".0");
}

static bool is_whole_list(const json_t *value)
{
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)value, i, item)
	{
		if (!json_is_integer(item))
			return false;
	}
	return json_array_size(value) > 0;
}

/* Write [3,3,9,3], or leave "?" if it is too long. */
static void text_of_list(char text[GT_HF_TEXT], const json_t *value)
{
	char *made = gt_json_dumps(value, JSON_COMPACT);

	if (made && strlen(made) < GT_HF_TEXT)
		strcpy(text, made);
	free(made);
}

void gt_hf_text_of(char text[GT_HF_TEXT], const json_t *value)
{
	const char *s = json_string_value(value);

	strcpy(text, "?");
	if (s && strlen(s) < GT_HF_TEXT - 3 && strlen(s) == json_string_length(value) &&
	    !strpbrk(s, " '="))
		snprintf(text, GT_HF_TEXT, "'%s'", s);
	else if (json_is_integer(value))
		snprintf(text, GT_HF_TEXT, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		text_of_real(text, json_real_value(value));
	else if (json_is_boolean(value))
		strcpy(text, json_is_true(value) ? "true" : "false");
	else if (json_is_null(value))
		strcpy(text, "null");
	else if (json_is_object(value) && !json_object_size(value))
		strcpy(text, "{}");
	else if (json_is_array(value) && !json_array_size(value))
		strcpy(text, "[]");
	else if (is_whole_list(value))
		text_of_list(text, value);
}

/* Make 3-3-9-3 of [3,3,9,3]. */
static void list_to_setting(char text[GT_HF_TEXT])
{
	memmove(text, text + 1, strlen(text));
	for (char *at = text; *at; at++)
		*at = *at == ',' ? '-' : *at;
	text[strlen(text) - 1] = '\0';
}

/* Find the setting's value for a word of config.json: VALUE, or `text` itself. `any` is the word
 * for all values of its kind, or "". Returns false if the word is another one. */
static bool find_value(char value[GT_HF_TEXT], const char *words, const char *text, const char *any)
{
	size_t n;

	for (; (n = gt_hf_next_word(&words)); words += n) {
		size_t word = strcspn(words, " =");

		if (*words == '#' && word == strlen(any)) {
			snprintf(value, GT_HF_TEXT, "%s", text);
			if (*text == '[')
				list_to_setting(value);
			return true;
		}
		if (word != strlen(text) || strncmp(words, text, word) != 0)
			continue;
		snprintf(value, GT_HF_TEXT, "%.*s", (int)(word < n ? n - word - 1 : word),
		    words + (word < n ? word + 1 : 0));
		return true;
	}
	return false;
}

/* ---- config.json to a spec ---- */

const char *gt_hf_setting_of(const struct gt_hf_reader *r, const char *setting)
{
	for (int i = 0; i < r->count; i++)
		if (!strcmp(r->settings[i].setting, setting))
			return r->settings[i].value;
	return "";
}

void gt_hf_unset(struct gt_hf_reader *r, const char *setting)
{
	for (int i = 0; i < r->count; i++)
		if (!strcmp(r->settings[i].setting, setting))
			r->settings[i].value[0] = '\0';
}

int gt_hf_set(struct gt_hf_reader *r, const char *key, const char *setting, const char *value,
    bool overrides, struct gt_err *err)
{
	int i = 0;

	if (*value == '@')
		value = gt_hf_setting_of(r, value + 1);
	while (i < r->count && strcmp(r->settings[i].setting, setting) != 0)
		i++;
	if (i < r->count && !overrides && strtod(r->settings[i].value, NULL) != strtod(value, NULL))
		return gt_err_set(err, GT_ENOTSUP,
		    "'%s' is %s, but '%s' is %s: gtrain has one setting, '%s', for both", key,
		    value, r->settings[i].key, r->settings[i].value, setting);
	r->settings[i].key = key;
	r->settings[i].setting = setting;
	snprintf(r->settings[i].value, GT_HF_TEXT, "%s", value);
	r->count += i == r->count;
	return 0;
}

struct word {
	const char *text;
	size_t length;
};

/* Return whether both texts are the same value, such as 0 and 0.0. */
static bool same_value(const struct word *a, const struct word *b)
{
	char *end_a, *end_b;
	double x = strtod(a->text, &end_a), y = strtod(b->text, &end_b);

	return end_a == a->text + a->length && end_b == b->text + b->length && x == y;
}

enum { MOST_WORDS = 8 };

/* Write the allowed values of a key, each once: "'gelu_new' or 'gelu'". */
static void list_values(char *out, size_t size, const char *words)
{
	struct word list[MOST_WORDS];
	size_t count = 0, used = 0;

	for (size_t n; count < MOST_WORDS && (n = gt_hf_next_word(&words)); words += n) {
		const size_t length = strcspn(words, " =");

		list[count] = *words == '#' ? (struct word){ "a number", strlen("a number") }
		                            : (struct word){ words, length };
		count += !count || !same_value(&list[count - 1], &list[count]);
	}
	*out = '\0';
	for (size_t i = 0; i < count && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%.*s",
		    !i              ? ""
		    : i + 1 < count ? ", "
		                    : " or ",
		    (int)list[i].length, list[i].text);
}

static int fail_on_config_value(
    const char *key, const json_t *value, const char *words, struct gt_err *err)
{
	char text[GT_HF_TEXT], values[160];

	gt_hf_text_of(text, value);
	list_values(values, sizeof(values), words);
	if (strcmp(text, "?"))
		gt_err_set(err, GT_ENOTSUP, "'%s' is %s, which is not supported", key, text);
	else
		gt_err_set(err, GT_ENOTSUP, "'%s' has a value that is not supported", key);
	return *words == '#' ? gt_err_hint(err, words[1] == '#' ? "it is a list of whole numbers"
	                                                        : "it is a number")
	                     : gt_err_hint(err, "gtrain computes with %s alone", values);
}

/* Return the name that a file has for the key of a row, borrowed from the file if it is there; NULL
 * with err set: it has two names with different values. */
static const char *find_key(
    const struct gt_hf_reader *r, const struct gt_hf_row *row, struct gt_err *err)
{
	const char *words = row->key, *found = NULL;

	for (size_t n; (n = gt_hf_next_word(&words)); words += n) {
		char word[GT_HF_TEXT];
		void *at;

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		at = json_object_iter_at((json_t *)r->config, word);
		if (at && found &&
		    !json_equal(json_object_iter_value(at), json_object_get(r->config, found))) {
			gt_err_set(err, GT_EFORMAT, "'%s' and '%s', which mean the same, differ",
			    found, word);
			return NULL;
		}
		found = at && !found ? json_object_iter_key(at) : found;
	}
	return found ? found : row->key;
}

/* Return the word that stands for all values of this kind (struct gt_hf_row), or "". */
static const char *find_kind(const struct gt_hf_row *row, const json_t *json)
{
	if (!json)
		return strcmp(row->words, "##") ? "#" : "##";
	return json_is_number(json) ? "#" : is_whole_list(json) ? "##" : "";
}

static int read_row(struct gt_hf_reader *r, const struct gt_hf_row *row, struct gt_err *err)
{
	const char *key = find_key(r, row, err);
	const json_t *json = key ? json_object_get(r->config, key) : NULL;
	char text[GT_HF_TEXT], value[GT_HF_TEXT];

	if (!key)
		return err->code;
	if (json)
		gt_hf_text_of(text, json);
	else
		snprintf(text, GT_HF_TEXT, "%s", row->initial);
	if (!find_value(value, row->words, text, find_kind(row, json)))
		return fail_on_config_value(key, json, row->words, err);
	return row->setting ? gt_hf_set(r, key, row->setting, value, false, err) : 0;
}

static int read_rows(struct gt_hf_reader *r, const struct gt_hf_row *rows, struct gt_err *err)
{
	int rc = 0;

	for (; !rc && rows->key; rows++)
		rc = read_row(r, rows, err);
	return rc;
}

static bool has_row(const struct gt_hf_row *rows, const char *key)
{
	while (rows->key && !gt_hf_in_list(rows->key, key))
		rows++;
	return rows->key != NULL;
}

static bool is_known(const struct gt_hf_family *f, const char *key)
{
	if (has_row(f->rows, key) || has_row(gt_hf_common_rows, key) ||
	    gt_hf_in_list(f->accepted_keys, key))
		return true;
	for (int i = 0; gt_hf_common_accepted[i]; i++)
		if (gt_hf_in_list(gt_hf_common_accepted[i], key))
			return true;
	return false;
}

static int check_keys(const struct gt_hf_reader *r, struct gt_err *err)
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

/* Check that the file names a class with the weights of this family, perhaps without a head. */
static int check_architectures(const struct gt_hf_reader *r, struct gt_err *err)
{
	const json_t *list = json_object_get(r->config, "architectures");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name || !gt_hf_in_list(r->family->architectures, name)) {
			gt_err_set(err, GT_ENOTSUP, "'architectures': '%.80s' is not supported",
			    name ? name : "?");
			return gt_err_hint(err, "it may be: %s", r->family->architectures);
		}
	}
	if (!list || json_is_null(list) || json_is_array(list))
		return 0;
	return gt_err_set(err, GT_EFORMAT, "'architectures' must be a list");
}

/* Add the families as a hint: "it may be gpt2, llama or resnet". */
static int hint_families(struct gt_err *err)
{
	char list[200] = "";
	size_t used = 0;

	for (int i = 0; i < GT_HF_FAMILIES && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
		    !i                       ? ""
		    : i + 1 < GT_HF_FAMILIES ? ", "
		                             : " or ",
		    gt_hf_families[i].model_type);
	return gt_err_hint(err, "it may be %s", list);
}

static int find_family(struct gt_hf_reader *r, struct gt_err *err)
{
	const char *type = json_string_value(json_object_get(r->config, "model_type"));

	if (!json_is_object(r->config) || !type) {
		gt_err_set(err, GT_EFORMAT, "there is no 'model_type'");
		return gt_err_hint(err, "a config.json of Hugging Face's transformers has one");
	}
	for (int i = 0; i < GT_HF_FAMILIES; i++)
		if (!strcmp(gt_hf_families[i].model_type, type))
			r->family = &gt_hf_families[i];
	if (r->family)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "'model_type': '%.80s' is not supported", type);
	return hint_families(err);
}

/* ---- rules that no row can express ---- */

/* Return whether the list has the numbers of `text`, a list of struct gt_hf_resnet. */
static bool is_number_list(const json_t *list, const char *text)
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

static int find_resnet(struct gt_hf_reader *r, struct gt_err *err)
{
	const json_t *type = json_object_get(r->config, "layer_type");
	const json_t *depths = json_object_get(r->config, "depths");
	const json_t *sizes = json_object_get(r->config, "hidden_sizes");
	const char *word = type ? json_string_value(type) : gt_hf_resnets[0].layer_type;

	for (int i = 0; i < GT_HF_RESNETS; i++) {
		const struct gt_hf_resnet *v = &gt_hf_resnets[i];

		if (word && !strcmp(word, v->layer_type) &&
		    (depths ? is_number_list(depths, v->depths)
		            : !strcmp(v->depths, gt_hf_resnets[0].depths)) &&
		    (sizes ? is_number_list(sizes, v->hidden_sizes)
		           : !strcmp(v->hidden_sizes, gt_hf_resnets[0].hidden_sizes))) {
			r->base = v->base;
			return 0;
		}
	}
	gt_err_set(err, GT_ENOTSUP,
	    "'depths', 'hidden_sizes' and 'layer_type' are of no ResNet "
	    "that gtrain has");
	return gt_err_hint(err, "it has those of 18, 34, 50, 101 and 152 layers");
}

/* ---- the spec ---- */

/* Change the code of an error: a value that no model accepts is a fault of the file, not of the
 * command line. */
static int wrong_value(const char *key, struct gt_err *err)
{
	char text[sizeof(err->text)];

	if (err->code != GT_EINVAL)
		return err->code;
	memcpy(text, err->text, sizeof(text));
	return gt_err_set(err, GT_EFORMAT, "'%s': %s", key, text);
}

/* Check each setting alone, so that an error names its key. */
static int check_setting(const struct gt_hf_reader *r, int i, struct gt_err *err)
{
	char *spec =
	    gt_asprintf(err, "%s:%s=%s", r->base, r->settings[i].setting, r->settings[i].value);
	struct gt_model *m = NULL;
	int rc = spec ? gt_model_open(&m, spec, err) : GT_ENOMEM;

	gt_model_close(m);
	free(spec);
	return rc ? wrong_value(r->settings[i].key, err) : 0;
}

/* Return the index of a setting that has a value, or -1. */
static int find_setting(const struct gt_hf_reader *r, const char *setting)
{
	for (int i = 0; i < r->count; i++)
		if (!strcmp(r->settings[i].setting, setting) && *r->settings[i].value)
			return i;
	return -1;
}

/* Check that the values of settings, which are valid each by itself, can be combined. */
static int check_divisors(const struct gt_hf_reader *r, struct gt_err *err)
{
	static const struct {
		const char *part, *whole;
	} pairs[] = { { "heads", "width" }, { "kv_heads", "heads" }, { "patch", "image" } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		int part = find_setting(r, pairs[i].part), whole = find_setting(r, pairs[i].whole);

		if (part < 0 || whole < 0 || (!i && find_setting(r, "head_dim") >= 0) ||
		    atoll(r->settings[whole].value) % atoll(r->settings[part].value) == 0)
			continue;
		return gt_err_set(err, GT_EFORMAT, "'%s' is %s, which does not divide '%s', %s",
		    r->settings[part].key, r->settings[part].value, r->settings[whole].key,
		    r->settings[whole].value);
	}
	return 0;
}

/* Check that a token has no more experts than there are. */
static int check_experts(const struct gt_hf_reader *r, struct gt_err *err)
{
	int active = find_setting(r, "active"), all = find_setting(r, "experts");

	if (active < 0 || all < 0 ||
	    atoll(r->settings[active].value) <= atoll(r->settings[all].value))
		return 0;
	return gt_err_set(err, GT_EFORMAT, "'%s' is %s, more than '%s', %s",
	    r->settings[active].key, r->settings[active].value, r->settings[all].key,
	    r->settings[all].value);
}

/* Check that heads have an even number of features, which are rotated in pairs. */
static int check_head_size(const struct gt_hf_reader *r, struct gt_err *err)
{
	const char *own = gt_hf_setting_of(r, "head_dim");
	long long size =
	    *own ? atoll(own)
	         : atoll(gt_hf_setting_of(r, "width")) / atoll(gt_hf_setting_of(r, "heads"));

	if (size % 2 == 0)
		return 0;
	return gt_err_set(err, GT_EFORMAT, "'%s' is %lld: it must be even to rotate positions",
	    *own ? "head_dim" : "hidden_size' / 'num_attention_heads", size);
}

static int write_spec(char **out, const struct gt_hf_reader *r, struct gt_err *err)
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
		rc = check_divisors(r, err);
	if (!rc)
		rc = check_experts(r, err);
	if (!rc && r->family->special == GT_HF_DECODER)
		rc = check_head_size(r, err);
	if (!rc && gt_model_open(&m, spec, err))
		rc = wrong_value("model_type", err);
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
	struct gt_hf_reader r = { .config = config };
	int rc = find_family(&r, err);

	*out = NULL;
	if (!rc)
		rc = check_architectures(&r, err);
	if (!rc)
		rc = check_keys(&r, err);
	if (!rc)
		rc = read_rows(&r, gt_hf_common_rows, err);
	if (!rc)
		rc = read_rows(&r, r.family->rows, err);
	if (rc)
		return rc;
	r.base = r.family->base;
	if (r.family->special == GT_HF_DEPTHS)
		rc = find_resnet(&r, err);
	else if (r.family->special == GT_HF_DECODER)
		rc = gt_hf_read_decoder(&r, err);
	return rc ? rc : write_spec(out, &r, err);
}
