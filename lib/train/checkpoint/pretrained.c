/* pretrained.c - a folder with a model of Hugging Face's transformers is read. */
#include "lib/train/checkpoint/pretrained.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/base/opt_json.h"
#include "lib/base/python_json.h"
#include "lib/data/core/description.h"
#include "lib/data/text/config.h"
#include "lib/model/hugging_face.h"
#include "lib/train/checkpoint/processor.h"
#include "lib/train/run/about.h"
#include "lib/train/run/run_dir.h"

/* The largest files have the names of 22,000 classes twice. */
enum { MOST_BYTES = 4 << 20, MOST_CLASSES = 1 << 20, CHANNELS = 3 };

/* ---- files ---- */

static int parse_config_file(json_t **out, const char *path, struct gt_err *err)
{
	struct gt_mapping map;
	json_error_t where;
	int rc = gt_map(&map, path, err);

	if (rc)
		return rc;
	if (map.size > MOST_BYTES) {
		rc = gt_err_set(
		    err, GT_EFORMAT, "'%s': %zu bytes, more than %d", path, map.size, MOST_BYTES);
	} else {
		*out = gt_python_json_loadb(map.data ? (const char *)map.data : "", map.size,
		    JSON_REJECT_DUPLICATES, &where);
		if (!*out)
			rc = gt_err_set(
			    err, GT_EFORMAT, "'%s': line %d: %.160s", path, where.line, where.text);
	}
	gt_unmap(&map);
	return rc;
}

static bool has_file(const char *folder, const char *name)
{
	char *path = gt_asprintf(GT_ERR_IGNORED, "%s/%s", folder, name);
	bool found = path && gt_file_exists((struct gt_file_name){ .path = path });

	free(path);
	return found;
}

int gt_pretrained_read_file(json_t **out, const char *folder, const char *name, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/%s", folder, name);
	int rc = path ? 0 : GT_ENOMEM;

	*out = NULL;
	if (!rc && gt_file_exists((struct gt_file_name){ .path = path }))
		rc = parse_config_file(out, path, err);
	free(path);
	return rc;
}

int gt_pretrained_read_config(json_t **out, const char *folder, struct gt_err *err)
{
	return gt_pretrained_read_file(out, folder, "config.json", err);
}

bool gt_pretrained_is_folder(const char *path)
{
	json_t *config = NULL;
	struct stat st;
	bool is;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return false;
	(void)gt_pretrained_read_config(&config, path, GT_ERR_IGNORED);
	is = json_is_string(json_object_get(config, "model_type"));
	json_decref(config);
	return is;
}

/* ---- text: which tokens begin and end one ---- */

static bool is_id(const json_t *json)
{
	return json_is_integer(json) && json_integer_value(json) >= 0 &&
	       json_integer_value(json) <= INT32_MAX;
}

/* An id or a list of them; NULL where there is none. */
static int read_ends(json_t **out, const json_t *json, struct gt_err *err)
{
	*out = NULL;
	if (!json || json_is_null(json))
		return 0;
	*out = json_is_array(json) ? json_incref((json_t *)json) : json_pack("[O]", json);
	for (size_t i = 0; i < json_array_size(*out); i++)
		if (!is_id(json_array_get(*out, i))) {
			json_decref(*out);
			*out = NULL;
			break;
		}
	if (*out && json_array_size(*out) <= GT_DATA_MAX_ENDS)
		return 0;
	json_decref(*out);
	*out = NULL;
	return gt_err_set(err, GT_EFORMAT, "'eos_token_id' must be an id, or a list of at most %d",
	    GT_DATA_MAX_ENDS);
}

/* "bos": the id that tokenizer_config.json has put before a text, null where it says that none is.
 * Where it says nothing, the tokenizer does. */
static int add_begin(json_t *data, const json_t *config, const char *folder, struct gt_err *err)
{
	const json_t *bos = json_object_get(config, "bos_token_id"), *adds;
	json_t *tokenizer;
	int rc = gt_tokenizer_config_read(&tokenizer, (struct gt_file_name){ .path = folder }, err);

	adds = json_object_get(tokenizer, "add_bos_token");
	if (!rc && adds && !json_is_boolean(adds) && !json_is_null(adds))
		rc = gt_err_set(err, GT_EFORMAT,
		    "'%s/tokenizer_config.json': 'add_bos_token' must be true or false", folder);
	if (!rc && json_is_true(adds) && !is_id(bos))
		rc = gt_err_set(err, GT_EFORMAT,
		    "'%s/config.json': 'bos_token_id' must be an id, as 'add_bos_token' is true",
		    folder);
	if (!rc && json_is_boolean(adds) &&
	    json_object_set(data, "bos", json_is_true(adds) ? (json_t *)bos : json_null()))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: '%s'", folder);
	json_decref(tokenizer);
	return rc;
}

static int describe_text(json_t **out, const json_t *config, const char *folder, struct gt_err *err)
{
	json_t *generation, *ends = NULL,
	                    *data = json_pack("{s:s,s:i}", "kind", "tokens", "classes", 0);
	const json_t *id;
	int rc = gt_pretrained_read_file(&generation, folder, "generation_config.json", err);

	*out = data;
	id = json_object_get(generation, "eos_token_id");
	if (!rc && read_ends(&ends, id ? id : json_object_get(config, "eos_token_id"), err))
		rc = gt_err_prefix(
		    err, "'%s/%s'", folder, id ? "generation_config.json" : "config.json");
	if (!rc && (!data || (ends && json_object_set(data, "eos", ends))))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: '%s'", folder);
	if (!rc)
		rc = add_begin(data, config, folder, err);
	json_decref(ends);
	json_decref(generation);
	return rc;
}

/* ---- images: size and classes ---- */

/* The height and width that the model's positions are for; 0: any. */
static int side_of(const struct gt_model *m)
{
	char value[GT_MODEL_VALUE];
	struct gt_setting s;

	for (int i = 0; gt_model_setting(m, i, &s, value); i++)
		if (s.key && !strcmp(s.key, "image"))
			return atoi(value);
	return 0;
}

/* Whether names are those that transformers makes up: LABEL_0, LABEL_1, ... */
static bool is_made_up(const json_t *names)
{
	char text[32];
	size_t i;
	json_t *name;

	json_array_foreach(names, i, name)
	{
		snprintf(text, sizeof(text), "LABEL_%zu", i);
		if (strcmp(json_string_value(name), text) != 0)
			return false;
	}
	return true;
}

/* The number of labels as transformers decides it: that of their names, num_labels, or 2. */
static int count_labels(int *count, const json_t *config, struct gt_err *err)
{
	enum { LABELS = 2 };
	const json_t *names = json_object_get(config, "id2label"),
	             *number = json_object_get(config, "num_labels");
	bool named = names && !json_is_null(names);
	json_int_t labels = named || !number ? LABELS : json_integer_value(number);

	if (named && !json_is_object(names))
		return gt_err_set(err, GT_EFORMAT, "'id2label' must be an object");
	if (named)
		labels = (json_int_t)json_object_size(names);
	if (labels < 1 || labels > MOST_CLASSES)
		return gt_err_set(err, GT_EFORMAT, "'%s' must give 1 to %d classes",
		    named ? "id2label" : "num_labels", MOST_CLASSES);
	*count = (int)labels;
	return 0;
}

/* Whether the one label stands for a number to predict, as transformers decides it. */
static int find_regression(bool *regression, int labels, const json_t *config, struct gt_err *err)
{
	const char *type = json_string_value(json_object_get(config, "problem_type"));

	*regression = labels == 1 && (!type || !strcmp(type, "regression"));
	if (labels == 1 || !type || strcmp(type, "regression") != 0)
		return 0;
	return gt_err_set(err, GT_ENOTSUP,
	    "'problem_type' is 'regression' with %d labels, and gtrain predicts one number for "
	    "each sample",
	    labels);
}

/* The scale of the target, where gtrain wrote the weights; others predict the target itself. */
static int add_target(json_t *data, const char *folder, struct gt_err *err)
{
	json_t *about = NULL, *target;
	int rc = gt_about_open(&about, (struct gt_file_name){ .path = folder }, err);

	target = json_incref(json_object_get(
	    json_object_get(json_object_get(about, GT_OPT_ABOUT), "data"), "target"));
	if (!target)
		target = json_pack("{s:f,s:f}", "mean", 0.0, "std", 1.0);
	if (!rc && (json_object_set_new(data, "classes", json_integer(1)) ||
	               json_object_set(data, "target", target)))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the target");
	json_decref(target);
	json_decref(about);
	return rc;
}

/* id2label: {"0": "cat", "1": "dog"}. Without it the labels have the names that are made up. */
static int add_classes(json_t *data, int count, const json_t *config, struct gt_err *err)
{
	json_t *labels = json_object_get(config, "id2label"), *names = json_array();
	bool named = json_is_object(labels);
	int rc = 0;

	for (int i = 0; i < count && named && !rc; i++) {
		char key[32];
		json_t *name;

		snprintf(key, sizeof(key), "%d", i);
		name = json_object_get(labels, key);
		if (!json_is_string(name))
			rc = gt_err_set(err, GT_EFORMAT, "'id2label' has no name for '%s'", key);
		else if (json_array_append(names, name))
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the classes");
	}
	if (!rc && (json_object_set_new(data, "classes", json_integer(count)) ||
	               (!is_made_up(names) && json_object_set(data, "class-names", names))))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the classes");
	json_decref(names);
	return rc;
}

/* The classes, or the number to predict. */
static int describe_labels(
    json_t *data, const json_t *config, const char *folder, struct gt_err *err)
{
	const char *type = json_string_value(json_object_get(config, "problem_type"));
	bool regression = false;
	int labels = 0, rc = count_labels(&labels, config, err);

	if (!rc)
		rc = find_regression(&regression, labels, config, err);
	if (!rc && !regression)
		rc = add_classes(data, labels, config, err);
	if (!rc && type && !strcmp(type, "multi_label_classification") &&
	    json_object_set_new(data, "labels", json_true()))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the labels");
	if (rc)
		return gt_err_prefix(err, "'%s/config.json'", folder);
	return regression ? add_target(data, folder, err) : 0;
}

/* gt_hf_to_spec() has checked it. */
static int read_channels(const json_t *config)
{
	const json_t *channels = json_object_get(config, "num_channels");

	return channels ? (int)json_integer_value(channels) : CHANNELS;
}

static int describe_images(json_t **out, const struct gt_model *m, const json_t *config,
    const char *folder, struct gt_err *err)
{
	struct gt_data_description d = { .kind_known = true,
		.form = { .kind = GT_SAMPLE_IMAGE, .channels = read_channels(config) } };
	json_t *processor;
	int rc = gt_pretrained_read_file(&processor, folder, "preprocessor_config.json", err);

	if (!rc && gt_processor_read(&d, processor, side_of(m), err))
		rc = gt_err_prefix(err, "'%s/preprocessor_config.json'", folder);
	if (!rc) {
		*out = gt_data_description_to_json(&d, false, err);
		rc = *out ? 0 : GT_ENOMEM;
	}
	if (!rc && !d.normalization_known) { /* there is no such file */
		json_object_del(*out, "mean");
		json_object_del(*out, "std");
	}
	if (!rc)
		rc = describe_labels(*out, config, folder, err);
	json_decref(processor);
	return rc;
}

/* ---- texts with classes ---- */

/* The file does not say how many texts a sample has, nor how long they are. */
static int describe_classes(
    json_t **out, const json_t *config, const char *folder, struct gt_err *err)
{
	*out = json_pack("{s:s,s:i,s:[s]}", "kind", "vector", "features", 0, "texts", "text");
	if (!*out)
		return gt_err_set(err, GT_ENOMEM, "out of memory: '%s'", folder);
	return describe_labels(*out, config, folder, err);
}

/* ---- all of it ---- */

static int describe_pretrained(
    json_t **out, const char *spec, const json_t *config, const char *folder, struct gt_err *err)
{
	struct gt_model_input wish;
	struct gt_model *m;
	json_t *data = NULL;
	int rc = gt_model_open(&m, spec, err);

	if (rc)
		return rc;
	gt_model_preferred_input(m, &wish);
	switch (wish.form.kind) {
	case GT_SAMPLE_TOKENS:
		rc = describe_text(&data, config, folder, err);
		break;
	case GT_SAMPLE_VECTOR:
		rc = describe_classes(&data, config, folder, err);
		break;
	case GT_SAMPLE_IMAGE:
		rc = describe_images(&data, m, config, folder, err);
		break;
	}
	gt_model_close(m);
	if (!rc) {
		*out = json_pack("{s:s,s:{s:O}}", "model", spec, GT_OPT_ABOUT, "data", data);
		rc = *out ? 0 : gt_err_set(err, GT_ENOMEM, "out of memory: '%s'", folder);
	}
	json_decref(data);
	return rc;
}

static int find_tokenizer(char **out, const char *folder, struct gt_err *err)
{
	if (!has_file(folder, "tokenizer.json") && !has_file(folder, "merges.txt"))
		return 0;
	*out = gt_strdup(folder, err);
	return *out ? 0 : GT_ENOMEM;
}

static int read_wanted_config(json_t **out, const char *folder, struct gt_err *err)
{
	struct stat st;

	*out = NULL;
	if (stat(folder, &st))
		return gt_err_sys(err, "cannot open the folder '%s'", folder);
	if (!S_ISDIR(st.st_mode)) {
		gt_err_set(err, GT_EINVAL, "'%s' is a file, not a folder of transformers", folder);
		return gt_err_hint(
		    err, "weights of a checkpoint are taken with {init-from} %s", folder);
	}
	if (gt_pretrained_read_config(out, folder, err))
		return err->code;
	if (!*out)
		return gt_err_set(err, GT_EIO, "the folder '%s' has no config.json", folder);
	if (!gt_run_dir_is_config(*out))
		return 0;
	gt_err_set(err, GT_EINVAL, "'%s' is a run of gtrain, not a folder of transformers", folder);
	return gt_err_hint(err,
	    "{init-from} %s takes its model and weights for a new run, "
	    "{resume} auto {out} %s continues it",
	    folder, folder);
}

/*
 * The contents of a folder with a model of transformers. gtrain reads these files and fields:
 *
 *   config.json               the model (lib/model/hugging_face.h), id2label, ids of tokens. As in
 *                             transformers, a model with only one label predicts a number
 *                             (regression). But if problem_type is "single_label_classification",
 *                             the model predicts classes
 *   generation_config.json    eos_token_id; it replaces the eos_token_id in config.json
 *   tokenizer_config.json     add_bos_token
 *   preprocessor_config.json  images: how they are resized, cropped and normalized (processor.h)
 *   tokenizer.json            the tokenizer; or vocab.json and merges.txt
 *   model.safetensors         the weights; or pytorch_model.bin, or an index of several files. If
 *                             gtrain trained the model for regression, the file also has the mean
 *                             and standard deviation of the targets (about.h)
 *
 * Symbolic links are followed, because the files in the cache of Hugging Face's Hub are links.
 */
int gt_pretrained_open(struct gt_pretrained *out, const char *folder, struct gt_err *err)
{
	json_t *config = NULL;
	char *spec = NULL;
	int rc;

	*out = (struct gt_pretrained){ 0 };
	rc = read_wanted_config(&config, folder, err);
	if (!rc && gt_hf_to_spec(&spec, config, err))
		rc = gt_err_prefix(err, "'%s/config.json'", folder);
	if (!rc)
		rc = describe_pretrained(&out->about, spec, config, folder, err);
	if (!rc)
		rc = find_tokenizer(&out->vocab, folder, err);
	json_decref(config);
	free(spec);
	return rc;
}

void gt_pretrained_release(struct gt_pretrained *p)
{
	json_decref(p->about);
	free(p->vocab);
	*p = (struct gt_pretrained){ 0 };
}
