/* hugging_face_decoder.c - positions and windows of decoders in config.json, there and back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/hugging_face_reader.h"

/* ---- scaled positions ---- */

enum { MOST_NUMBERS = 6 };

/* The kinds of scaled positions, and their keys in the order of the setting `rope`. A key whose
 * default is NAN must be there; 0: the longest text of the model. */
static const struct {
	const char *kind, *keys[MOST_NUMBERS];
	double initial[MOST_NUMBERS];
} kinds[] = {
	{ "linear", { "factor" }, { NAN } },
	{ "dynamic", { "factor" }, { NAN } },
	{ "llama3",
	    { "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings" },
	    { NAN, NAN, NAN, 0 } },
	{ "yarn",
	    { "factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
	        "attention_factor", "truncate" },
	    { NAN, 0, 32, 1, 0, 1 } },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds), YARN_FACTOR = 4 };

/* An object with positions. */
struct rope {
	const char *key;        /* its name, for messages */
	const char *theta_name; /* that of its rope_theta */
	const char *theta;      /* the setting for rope_theta */
	const json_t *json;
};

/* Return the index of a kind, or -1: plain angles. `type` must be one of the family's kinds. "type"
 * is the older name of "rope_type", and a file may have both. */
static int find_kind(
    int *kind, const struct gt_hf_reader *r, const struct rope *rope, struct gt_err *err)
{
	static const char *const names[] = { "rope_type", "type" };
	const char *type = NULL;

	*kind = -1;
	for (int i = 0; i < 2; i++) {
		const json_t *value = json_object_get(rope->json, names[i]);
		const char *word = json_string_value(value);

		if (value && !word)
			return gt_err_set(
			    err, GT_EFORMAT, "'%s.%s' must be a string", rope->key, names[i]);
		if (word && type && strcmp(word, type) != 0)
			return gt_err_set(err, GT_EFORMAT,
			    "'%s': positions of type '%.40s' and of type '%.40s'", rope->key, type,
			    word);
		type = word ? word : type;
	}
	if (type && (!gt_hf_in_list(r->family->rope_kinds, type) || strchr(type, ' '))) {
		gt_err_set(err, GT_ENOTSUP, "'%s': positions of type '%.80s' are not supported",
		    rope->key, type);
		return gt_err_hint(err, "gtrain rotates by angles of these types alone: %s",
		    r->family->rope_kinds);
	}
	for (int i = 0; type && i < KINDS; i++)
		if (!strcmp(kinds[i].kind, type))
			*kind = i;
	return 0;
}

static bool has_key(int kind, const char *name)
{
	bool yarn = !strcmp(kinds[kind].kind, "yarn");

	for (int i = 0; i < MOST_NUMBERS && kinds[kind].keys[i]; i++)
		if (!strcmp(kinds[kind].keys[i], name))
			return true;
	return yarn && (!strcmp(name, "mscale") || !strcmp(name, "mscale_all_dim"));
}

/* Return a positive number of the object, or `missing` if there is none, or null. */
static int read_number(
    double *out, const struct rope *rope, const char *name, double missing, struct gt_err *err)
{
	const json_t *json = json_object_get(rope->json, name);

	*out = json_is_boolean(json) ? json_is_true(json) : json_number_value(json);
	if (!json || (json_is_null(json) && !isnan(missing))) {
		*out = missing;
		return isnan(missing)
		           ? gt_err_set(err, GT_EFORMAT, "'%s': '%s' is missing", rope->key, name)
		           : 0;
	}
	if (json_is_boolean(json) || (json_is_number(json) && *out > 0 && *out < 1e12))
		return 0;
	return gt_err_set(
	    err, GT_ENOTSUP, "'%s': the value of '%s' is not supported", rope->key, name);
}

/* YaRN: the factor of cosines and sines that the paper suggests, (0.1 m ln(factor) + 1). */
static double attention_scale(double factor, double m)
{
	return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static int find_yarn_factor(double *number, const struct rope *rope, struct gt_err *err)
{
	double scale, all;
	int rc = read_number(&scale, rope, "mscale", 0, err);

	if (!rc)
		rc = read_number(&all, rope, "mscale_all_dim", 0, err);
	if (rc || number[YARN_FACTOR] > 0)
		return rc;
	number[YARN_FACTOR] = attention_scale(number[0], scale > 0 && all > 0 ? scale : 1);
	if (scale > 0 && all > 0)
		number[YARN_FACTOR] /= attention_scale(number[0], all);
	return 0;
}

/* Set `rope` to KIND:NUMBER:... */
static int set_kind(struct gt_hf_reader *r, const struct rope *rope, int kind, struct gt_err *err)
{
	double number[MOST_NUMBERS] = { 0 };
	char text[GT_HF_TEXT];
	int n, rc = 0;

	for (int i = 0; !rc && i < MOST_NUMBERS && kinds[kind].keys[i]; i++) {
		rc =
		    read_number(&number[i], rope, kinds[kind].keys[i], kinds[kind].initial[i], err);
		if (!rc && !strncmp(kinds[kind].keys[i], "original", 8) && number[i] == 0)
			number[i] = strtod(gt_hf_setting_of(r, "block"), NULL);
	}
	if (!rc && !strcmp(kinds[kind].kind, "yarn"))
		rc = find_yarn_factor(number, rope, err);
	if (rc)
		return rc;
	n = snprintf(text, sizeof(text), "%s", kinds[kind].kind);
	for (int i = 0; i < MOST_NUMBERS && kinds[kind].keys[i] && n < GT_HF_TEXT; i++)
		n += snprintf(text + n, (size_t)(GT_HF_TEXT - n), ":%.10g", number[i]);
	if (n >= GT_HF_TEXT)
		return gt_err_set(err, GT_ENOTSUP, "'%s': numbers with too many digits", rope->key);
	return gt_hf_set(r, rope->key, "rope", text, true, err);
}

/* Return the key of config.json for a setting, or NULL. */
static const char *key_of(const struct gt_hf_reader *r, const char *setting)
{
	for (const struct gt_hf_row *row = r->family->rows; row->key; row++)
		if (row->setting && !strcmp(row->setting, setting))
			return row->key;
	return NULL;
}

/* Store a number whose key is also one of config.json itself; both must agree. */
static int set_number(struct gt_hf_reader *r, const char *name, const char *setting,
    const json_t *value, struct gt_err *err)
{
	const char *key = key_of(r, setting);
	char text[GT_HF_TEXT];

	gt_hf_text_of(text, value);
	return gt_hf_set(r, name, setting, text, !key || !json_object_get(r->config, key), err);
}

static int read_rope(struct gt_hf_reader *r, const struct rope *rope, struct gt_err *err)
{
	const char *name;
	json_t *value;
	int kind, rc = find_kind(&kind, r, rope, err);

	json_object_foreach((json_t *)rope->json, name, value)
	{
		const bool number = json_is_number(value);

		if (rc)
			return rc;
		if (!strcmp(name, "rope_type") || !strcmp(name, "type"))
			continue;
		if (!strcmp(name, "rope_theta") && number)
			rc = set_number(r, rope->theta_name, rope->theta, value, err);
		else if (!strcmp(name, "partial_rotary_factor") && number && key_of(r, "rotated"))
			rc = set_number(r, "partial_rotary_factor", "rotated", value, err);
		else if ((strcmp(name, "partial_rotary_factor") != 0 ||
		             json_number_value(value) != 1) &&
		         (kind < 0 || !has_key(kind, name)))
			return gt_err_set(
			    err, GT_ENOTSUP, "'%s': '%.80s' is not supported", rope->key, name);
	}
	return rc || kind < 0 ? rc : set_kind(r, rope, kind, err);
}

/* Read rope_parameters of two kinds of blocks: those with a window have plain angles. */
static int read_two_ropes(struct gt_hf_reader *r, const json_t *json, struct gt_err *err)
{
	const struct rope full = { "rope_parameters.full_attention",
		"rope_parameters.full_attention.rope_theta", "theta",
		json_object_get(json, "full_attention") };
	const struct rope local = { "rope_parameters.sliding_attention",
		"rope_parameters.sliding_attention.rope_theta", "local_theta",
		json_object_get(json, "sliding_attention") };
	const char *name;
	json_t *value;
	int kind, rc = 0;

	json_object_foreach((json_t *)json, name, value)
	{
		if (!json_is_null(value) &&
		    ((value != full.json && value != local.json) || !json_is_object(value)))
			return gt_err_set(
			    err, GT_ENOTSUP, "'rope_parameters': '%.80s' is not supported", name);
	}
	if (json_is_object(local.json)) {
		rc = find_kind(&kind, r, &local, err);
		if (!rc && kind >= 0)
			return gt_err_set(err, GT_ENOTSUP,
			    "'%s': positions of type '%s' are not supported", local.key,
			    kinds[kind].kind);
		if (!rc)
			rc = read_rope(r, &local, err);
	}
	return rc || !json_is_object(full.json) ? rc : read_rope(r, &full, err);
}

/* Read rope_parameters, in older files rope_scaling and rope_theta. */
static int read_positions(struct gt_hf_reader *r, struct gt_err *err)
{
	static const struct rope ropes[] = {
		{ "rope_parameters", "rope_parameters.rope_theta", "theta", NULL },
		{ "rope_scaling", "rope_scaling.rope_theta", "theta", NULL },
	};
	int rc = 0;

	for (int i = 0; !rc && i < 2; i++) {
		struct rope rope = ropes[i];

		rope.json = json_object_get(r->config, rope.key);
		if (!rope.json || json_is_null(rope.json))
			continue;
		if (!json_is_object(rope.json))
			return gt_err_set(err, GT_EFORMAT, "'%s' must be an object", rope.key);
		if (!i && key_of(r, "local_theta") &&
		    (json_object_get(rope.json, "full_attention") ||
		        json_object_get(rope.json, "sliding_attention")))
			rc = read_two_ropes(r, rope.json, err);
		else
			rc = read_rope(r, &rope, err);
	}
	return rc;
}

/* ---- blocks that differ ---- */

/* Set a pattern to the shortest one that makes these letters when it is repeated. */
static int set_pattern(struct gt_hf_reader *r, const char *key, const char *setting,
    const char *letters, int layers, struct gt_err *err)
{
	char text[GT_HF_TEXT];
	int period = 1;

	while (period < layers && memcmp(letters, letters + period, (size_t)(layers - period)) != 0)
		period++;
	if (period >= GT_HF_TEXT)
		return gt_err_set(err, GT_ENOTSUP,
		    "'%s': blocks that do not repeat after at most %d are not supported", key,
		    GT_HF_TEXT - 1);
	snprintf(text, sizeof(text), "%.*s", period, letters);
	return gt_hf_set(r, key, setting, text, true, err);
}

/* Read an integer of config.json. */
static int read_integer(
    int *out, const struct gt_hf_reader *r, const char *key, int missing, struct gt_err *err)
{
	const json_t *json = json_object_get(r->config, key);

	*out = missing;
	if (!json || json_is_null(json))
		return 0;
	if (!json_is_integer(json) || json_integer_value(json) < 0 ||
	    json_integer_value(json) > 1000000)
		return gt_err_set(err, GT_ENOTSUP, "'%s' has a value that is not supported", key);
	*out = (int)json_integer_value(json);
	return 0;
}

/* Read whether windows are used: a family with this key uses them only if it is true. */
static int read_switch(bool *out, const struct gt_hf_reader *r, struct gt_err *err)
{
	const char *key = "use_sliding_window";
	const json_t *json = json_object_get(r->config, key);

	*out = !gt_hf_in_list(r->family->accepted_keys, key) || json_is_true(json);
	if (!json || json_is_boolean(json))
		return 0;
	return gt_err_set(err, GT_ENOTSUP, "'%s' has a value that is not supported", key);
}

/* Find the blocks with rotary positions: no_rope_layers has 1 for them. */
static int find_rotated(char *letters, const struct gt_hf_reader *r, int layers, struct gt_err *err)
{
	const json_t *list = json_object_get(r->config, "no_rope_layers");
	int interval, rc = read_integer(&interval, r, "no_rope_layer_interval", 4, err);

	if (rc)
		return rc;
	if (list && !json_is_null(list) && json_array_size(list) < (size_t)layers)
		return gt_err_set(err, GT_EFORMAT,
		    "'no_rope_layers' must be a list with a number for each layer");
	for (int i = 0; i < layers; i++) {
		const json_t *item = json_array_get(list, (size_t)i);

		if (item && (!json_is_integer(item) || json_integer_value(item) < 0 ||
		                json_integer_value(item) > 1))
			return gt_err_set(err, GT_EFORMAT, "'no_rope_layers' must have 0 and 1");
		letters[i] =
		    (item ? json_integer_value(item) != 0 : !interval || (i + 1) % interval != 0)
		        ? 'y'
		        : 'n';
	}
	return 0;
}

/* Find the blocks with a window. `rotated` has the letters of the blocks with rotary positions. */
static int find_windowed(char *letters, const struct gt_hf_reader *r, const char *rotated,
    int layers, struct gt_err *err)
{
	const json_t *list = json_object_get(r->config, "layer_types");
	int period, from, rc;

	rc = read_integer(&period, r, "_sliding_window_pattern", r->family->window_period, err);
	if (!rc)
		rc = read_integer(&period, r, "global_attn_every_n_layers", period, err);
	if (!rc)
		rc = read_integer(&period, r, "sliding_window_pattern", period, err);
	if (!rc)
		rc = read_integer(&from, r, "max_window_layers", 28, err);
	if (rc)
		return rc;
	if (list && !json_is_null(list) && json_array_size(list) < (size_t)layers)
		return gt_err_set(
		    err, GT_EFORMAT, "'layer_types' must be a list with a word for each layer");
	for (int i = 0; i < layers; i++) {
		const char *word = json_string_value(json_array_get(list, (size_t)i));
		const bool windowed[] = {
			[GT_HF_WINDOWS_ALL] = true,
			[GT_HF_WINDOWS_EVERY] = period && (i + 1) % period != 0,
			[GT_HF_WINDOWS_BUT_FIRST] = period && i % period != 0,
			[GT_HF_WINDOWS_FROM] = i >= from,
			[GT_HF_WINDOWS_UNROTATED] = rotated[i] == 'n',
		};

		if (json_array_size(list) && (!word || (strcmp(word, "full_attention") != 0 &&
		                                           strcmp(word, "sliding_attention"))))
			return gt_err_set(err, GT_ENOTSUP,
			    "'layer_types': '%.40s' is not supported", word ? word : "?");
		letters[i] = (word ? *word == 's' : windowed[r->family->windows]) ? 'y' : 'n';
	}
	return 0;
}

static int read_windows(struct gt_hf_reader *r, const char *rotated, int layers, struct gt_err *err)
{
	const char *window = gt_hf_setting_of(r, "window");
	bool used, listed = json_array_size(json_object_get(r->config, "layer_types")) > 0;
	char letters[1000];
	int rc = read_switch(&used, r, err);

	if (rc || !*window)
		return rc;
	used = used && strcmp(window, "0") != 0;
	if (!used)
		rc = gt_hf_set(r, "sliding_window", "window", "0", true, err);
	if (rc || r->family->windows == GT_HF_WINDOWS_ALL || (!used && !listed))
		return rc;
	rc = find_windowed(letters, r, rotated, layers, err);
	if (rc)
		return rc;
	if (!memchr(letters, 'y', (size_t)layers))
		return gt_hf_set(r, "layer_types", "window", "0", true, err);
	if (!used)
		return gt_err_set(err, GT_EFORMAT,
		    "'layer_types' has 'sliding_attention', but 'sliding_window' is not used");
	return set_pattern(r, "layer_types", "windowed", letters, layers, err);
}

/* Drop the sizes of heads that are computed from others. */
static void drop_computed_sizes(struct gt_hf_reader *r)
{
	const long width = strtol(gt_hf_setting_of(r, "width"), NULL, 10);
	const long heads = strtol(gt_hf_setting_of(r, "heads"), NULL, 10);
	const char *own = gt_hf_setting_of(r, "head_dim");
	const bool divides = heads > 0 && width % heads == 0;
	const long size = *own ? strtol(own, NULL, 10) : divides ? width / heads : 0;

	if (divides && size == width / heads)
		gt_hf_unset(r, "head_dim");
	if (size == strtol(gt_hf_setting_of(r, "score_dim"), NULL, 10))
		gt_hf_unset(r, "score_dim");
}

int gt_hf_read_decoder(struct gt_hf_reader *r, struct gt_err *err)
{
	const long layers = strtol(gt_hf_setting_of(r, "layers"), NULL, 10);
	char rotated[1000];
	int rc = read_positions(r, err);

	if (!rc)
		drop_computed_sizes(r);
	/* The setting `layers` refuses other numbers later. */
	if (rc || layers < 1 || layers > (long)sizeof(rotated))
		return rc;
	memset(rotated, 'y', sizeof(rotated));
	if (gt_hf_in_list(r->family->accepted_keys, "no_rope_layers")) {
		rc = find_rotated(rotated, r, (int)layers, err);
		if (!rc)
			rc = set_pattern(
			    r, "no_rope_layers", "positions", rotated, (int)layers, err);
	}
	return rc ? rc : read_windows(r, rotated, (int)layers, err);
}

/* ---- to config.json ---- */

/* Write the value of a setting, or "" if it is not used. */
static void find_value(char value[GT_MODEL_VALUE], const struct gt_model *m, const char *setting)
{
	struct gt_setting s;

	for (int i = 0; gt_model_setting(m, i, &s, value); i++)
		if (s.key && !strcmp(s.key, setting))
			return;
	*value = '\0';
}

/* Return KIND:NUMBER:... as an object, or null. */
static json_t *rope_to_json(const char *value)
{
	const size_t n = strcspn(value, ":");
	json_t *rope = json_null();

	for (int kind = 0; kind < KINDS && *value; kind++) {
		const char *at = value + n;

		if (strncmp(kinds[kind].kind, value, n) != 0 || kinds[kind].kind[n])
			continue;
		rope = json_pack("{ss}", "rope_type", kinds[kind].kind);
		for (int i = 0; rope && i < MOST_NUMBERS && kinds[kind].keys[i]; i++) {
			const char *key = kinds[kind].keys[i];
			char *end;
			double number = strtod(at + (*at == ':'), &end);

			json_object_set_new(rope, key,
			    !strcmp(key, "truncate")       ? json_boolean(number != 0)
			    : !strncmp(key, "original", 8) ? json_integer((json_int_t)number)
			                                   : json_real(number));
			at = end;
		}
	}
	return rope;
}

/* Return a list with an item for each layer, by the letters of a pattern, which is not empty. */
static json_t *list_layers(const char *pattern, int layers, json_t *yes, json_t *no)
{
	json_t *list = json_array();

	for (int i = 0; list && i < layers; i++)
		json_array_append(list, pattern[(size_t)i % strlen(pattern)] == 'y' ? yes : no);
	json_decref(yes);
	json_decref(no);
	return list;
}

int gt_hf_write_decoder(
    json_t *config, const struct gt_hf_family *f, const struct gt_model *m, struct gt_err *err)
{
	char rope[GT_MODEL_VALUE], window[GT_MODEL_VALUE], windowed[GT_MODEL_VALUE];
	char positions[GT_MODEL_VALUE], layers[GT_MODEL_VALUE];
	bool used;
	int rc;

	find_value(rope, m, "rope");
	find_value(window, m, "window");
	find_value(windowed, m, "windowed");
	find_value(positions, m, "positions");
	find_value(layers, m, "layers");
	used = *window && strcmp(window, "0") != 0;
	rc = json_object_set_new(config, "rope_scaling", rope_to_json(rope));
	/* By default a family has a token for padding, which this vocabulary may lack. */
	if (!rc)
		rc = json_object_set_new(config, "pad_token_id", json_null());
	if (!rc && gt_hf_in_list(f->accepted_keys, "layer_types"))
		rc = json_object_set_new(config, "layer_types",
		    list_layers(!used       ? "n"
		                : *windowed ? windowed
		                            : "y",
		        atoi(layers), json_string("sliding_attention"),
		        json_string("full_attention")));
	if (!rc && gt_hf_in_list(f->accepted_keys, "use_sliding_window"))
		rc = json_object_set_new(config, "use_sliding_window", json_boolean(used));
	if (!rc && gt_hf_in_list(f->accepted_keys, "no_rope_layers"))
		rc = json_object_set_new(config, "no_rope_layers",
		    list_layers(*positions ? positions : "y", atoi(layers), json_integer(1),
		        json_integer(0)));
	return rc ? gt_err_set(err, GT_ENOMEM, "out of memory: config.json") : 0;
}
