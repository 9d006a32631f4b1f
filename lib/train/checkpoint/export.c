/* export.c - a trained model as a folder that Hugging Face's transformers opens. */
#include "lib/train/checkpoint/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/new_folder.h"
#include "lib/base/opt_json.h"
#include "lib/base/text.h"
#include "lib/data/text/config.h"
#include "lib/model/hugging_face.h"
#include "lib/model/names.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/export_source.h"
#include "lib/train/checkpoint/processor.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/run/about.h"

struct export
{
	const struct gt_export_options *o;
	struct gt_buf *note;
	struct gt_export_source source;
	struct gt_arena arena;
	struct gt_tree *tree; /* the weights under their names */
	json_t *config;
	struct gt_folder there;         /* `to`, if it was there before */
	struct gt_new_folder new;       /* otherwise: it appears when it is whole */
	const struct gt_folder *folder; /* the one of these that is open */
};

/* ---- the run's files ---- */

/* Only a tokenizer of byte pairs has a file that transformers reads. */
static int open_tokenizer(struct export *x, struct gt_err *err)
{
	struct gt_export_source *s = &x->source;
	int rc = gt_export_open_tokenizer(s, err);

	if (!rc && s->tokenizer && !*gt_tokenizer_digest(s->tokenizer)) {
		gt_tokenizer_close(s->tokenizer);
		s->tokenizer = NULL;
	}
	return rc;
}

/* Whether transformers has such a model, before anything is read of the weights. */
static int check_model(struct export *x, struct gt_err *err)
{
	json_t *config;
	int rc;

	gt_model_preferred_input(x->source.model, &x->source.input);
	rc = gt_hf_from_model(&config, x->source.model, &x->source.input, err);
	json_decref(config);
	return rc;
}

static int open_source(struct export *x, struct gt_err *err)
{
	int rc = gt_run_ckpt_open(&x->source.run, x->o->from, GT_RUN_LATEST, err);

	if (rc)
		return rc;
	if (x->source.run.names == GT_NAMES_HUGGINGFACE) {
		gt_err_set(
		    err, GT_EINVAL, "'%s' is a folder of Hugging Face's already", x->o->from);
		return gt_err_hint(err, "{to} safetensors converts its weights");
	}
	rc = gt_export_open_model(&x->source, err);
	if (!rc)
		rc = check_model(x, err);
	return rc ? rc : gt_export_open_weights(&x->source, err);
}

/* ---- the weights ---- */

/* Part `place` of a tensor, by its first dimension; its bytes stay where they are. */
static struct gt_tree *cut_tensor_part(struct export *x, const struct gt_tree_tensor *t,
    const struct gt_names_place *place, struct gt_err *err)
{
	struct gt_tree *node = gt_arena_alloc(&x->arena, sizeof(*node), err);
	int part = place->part;
	int64_t *shape =
	    node ? gt_arena_alloc(&x->arena, ((size_t)t->ndim + 1) * sizeof(*shape), err) : NULL;

	if (!shape)
		return NULL;
	node->kind = GT_TREE_TENSOR;
	node->tensor = *t;
	node->tensor.attributes = NULL;
	node->tensor.parameter = node->tensor.requires_grad = false;
	if (place->stacked) {
		node->tensor.offset += part / place->parts * t->stride[0];
		node->tensor.ndim--;
		node->tensor.shape++;
		node->tensor.stride++;
		part %= place->parts;
	}
	if (node->tensor.ndim)
		memcpy(shape, node->tensor.shape, (size_t)node->tensor.ndim * sizeof(*shape));
	node->tensor.shape = shape;
	if (place->parts > 1) {
		shape[0] /= place->parts;
		node->tensor.offset += part * shape[0] * node->tensor.stride[0];
	}
	return node;
}

static int check_tensor(const struct export *x, const struct gt_value *v,
    const struct gt_tree_tensor *t, struct gt_err *err)
{
	bool same = t && t->ndim == v->ndim;

	for (int i = 0; same && i < v->ndim; i++)
		same = t->shape[i] == v->shape[i];
	if (same)
		return 0;
	gt_err_set(err, GT_EINVAL, "'%s': '%s' %s", x->source.run.path, v->name,
	    t ? "has another shape than the model's" : "is missing");
	return gt_err_hint(err, "is it a checkpoint of this model, with these settings?");
}

/* A parameter under its name, or the names of its parts. */
static int add_value(struct export *x, const struct gt_names_table *names, const struct gt_value *v,
    struct gt_err *err)
{
	const struct gt_tree_tensor *t = gt_state_dict_get(&x->source.sd, v->name);
	struct gt_names_place place;
	int rc = check_tensor(x, v, t, err), i;

	for (i = 0; !rc && gt_names_to_theirs(&place, names, v->name, i); i++) {
		if (place.stacked && i == place.parts * t->shape[0])
			break;
		rc = gt_tree_set(
		    x->tree, place.name, cut_tensor_part(x, t, &place, err), &x->arena, err);
	}
	if (!rc && !i)
		rc = gt_err_set(err, GT_ENOTSUP, "'%s' has no name in transformers", v->name);
	return rc;
}

/* The folder has no copies of tied tensors, so that they must be copies. */
static int check_copies(const struct export *x, struct gt_err *err)
{
	const struct gt_model_alias *alias = gt_model_aliases(x->source.model);
	int rc = 1;

	for (; rc > 0 && alias->name; alias++) {
		const struct gt_tree_tensor *own =
		    alias->own ? gt_state_dict_get(&x->source.sd, alias->own) : NULL;
		const struct gt_tree_tensor *copy = gt_state_dict_get(&x->source.sd, alias->name);

		if (own && copy)
			rc = gt_ckpt_tensor_same(own, copy, own->dtype, err);
		if (!rc)
			rc = gt_weights_differ(alias->own, alias->name, err);
	}
	return rc < 0 ? gt_err_prefix(err, "'%s'", x->source.run.path) : 0;
}

/* No file of transformers has a place for the scale of a target: the metadata of the weights say it
 * to gtrain (about.h). */
static int keep_target(struct export *x, struct gt_err *err)
{
	const struct gt_data_column *target = &x->source.data.target;
	const struct gt_about_run run = { .loss = gt_run_ckpt_loss(&x->source.run) };
	char mean[GT_TEXT_SIZE], std[GT_TEXT_SIZE], *text;
	int rc;

	if (x->source.data.form.target != GT_SAMPLE_NUMBER)
		return 0;
	text = gt_about_text(&run, &x->source.data, err);
	rc = text ? gt_tree_set_metadata(x->tree, GT_ABOUT_NAME, text, &x->arena, err) : GT_ENOMEM;
	free(text);
	if (target->mean || target->std != 1)
		gt_buf_printf(x->note,
		    "the network predicts (target - mean) / std, with mean %s and std %s: gtrain "
		    "reads these in the folder, transformers does not\n",
		    gt_text_number(mean, target->mean), gt_text_number(std, target->std));
	return rc;
}

/* All values that the model declares, in their order. */
static int make_tree(struct export *x, struct gt_err *err)
{
	const struct gt_names_table *names =
	    gt_names_find(x->source.model, GT_NAMES_HUGGINGFACE, err);
	struct gt_graph *g = NULL;
	struct gt_model_io io;
	int rc = names ? gt_graph_new(&g, err) : err->code;

	x->tree = gt_tree_dict(&x->arena, err);
	if (!rc && !x->tree)
		rc = GT_ENOMEM;
	if (!rc)
		rc = gt_model_build(
		    x->source.model, g, &x->source.input, 1, GT_MODEL_EVAL, &io, err);
	for (size_t i = 0; !rc && i < g->value_count; i++)
		if (g->values[i]->role == GT_PARAMETER || g->values[i]->role == GT_BUFFER)
			rc = add_value(x, names, g->values[i], err);
	gt_graph_free(g);
	if (!rc)
		rc = gt_export_note_others(x->note, &x->source, err);
	if (!rc)
		rc = check_copies(x, err);
	return rc ? rc : keep_target(x, err);
}

/* ---- config.json and its companions ---- */

/* The id of the token before texts, or null. */
static json_t *begin_json(const struct export *x)
{
	int32_t id = gt_data_begin(&x->source.data.specials, x->source.tokenizer);

	return id < 0 ? json_null() : json_integer(id);
}

/* Return ids of tokens as JSON: an id, a list of ids, or null. */
static json_t *end_json(const struct export *x)
{
	const struct gt_data_specials *s = &x->source.data.specials;
	json_t *list;

	if (s->end_count < 2)
		return s->end_count ? json_integer(s->ends[0]) : json_null();
	list = json_array();
	for (int i = 0; i < s->end_count; i++)
		json_array_append_new(list, json_integer(s->ends[i]));
	return list;
}

/* {"0": "cat", ...} and {"cat": 0, ...}. */
static int add_labels(struct export *x, struct gt_err *err)
{
	json_t *names = json_object(), *ids = json_object();
	bool failed = !names || !ids;

	for (int i = 0; !failed && i < x->source.input.form.classes; i++) {
		bool known = x->source.data.class_names && i < x->source.data.form.classes;
		char number[16], made_up[32];
		const char *name = known ? x->source.data.class_names[i] : made_up;

		snprintf(number, sizeof(number), "%d", i);
		snprintf(made_up, sizeof(made_up), "LABEL_%d", i);
		failed = json_object_set_new(names, number, json_string(name)) ||
		         json_object_set_new(ids, name, json_integer(i));
		if (failed && known)
			gt_err_set(err, GT_ENOTSUP, "the name of class %d is not UTF-8", i);
	}
	failed |= json_object_set_new(x->config, "id2label", names) ||
	          json_object_set_new(x->config, "label2id", ids);
	return !failed || err->code ? err->code
	                            : gt_err_set(err, GT_ENOMEM, "out of memory: the classes");
}

/* transformers takes one label for a number to predict unless `problem_type` says otherwise. */
static int add_problem(struct export *x, struct gt_err *err)
{
	static const char *const types[] = { [GT_SAMPLE_CLASS] = "single_label_classification",
		[GT_SAMPLE_NUMBER] = "regression",
		[GT_SAMPLE_LABELS] = "multi_label_classification" };
	const char *type = types[x->source.data.form.target];

	if ((x->source.input.form.classes != 1 && x->source.data.form.target != GT_SAMPLE_LABELS) ||
	    !json_object_set_new(x->config, "problem_type", json_string(type)))
		return 0;
	return gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
}

/* The ids of an encoder's special tokens, where config.json has no others. */
static int add_token_ids(struct export *x, struct gt_err *err)
{
	static const struct {
		const char *id, *token;
	} ids[] = { { "cls_token_id", "cls_token" }, { "sep_token_id", "sep_token" },
		{ "bos_token_id", "cls_token" }, { "eos_token_id", "sep_token" },
		{ "pad_token_id", "pad_token" } };
	const struct gt_tokenizer *tok = x->source.tokenizer;
	json_t *config =
	    tok ? gt_tokenizer_encoder_config(tok, x->source.tokenizer_config) : json_object();
	bool failed = !config;

	for (size_t i = 0; !failed && i < sizeof(ids) / sizeof(*ids); i++) {
		const char *text = json_string_value(gt_tokenizer_special(config, ids[i].token));
		int32_t id = text ? gt_tokenizer_find(tok, text) : -1;

		if (id >= 0 && !json_is_integer(json_object_get(x->config, ids[i].id)))
			failed = json_object_set_new(x->config, ids[i].id, json_integer(id));
	}
	json_decref(config);
	return failed ? gt_err_set(err, GT_ENOMEM, "out of memory: config.json") : 0;
}

static int make_config(struct export *x, struct gt_err *err)
{
	const struct gt_tree_tensor *first = &x->tree->seq.items[0].value->tensor;
	enum gt_dtype type = x->o->write.cast ? x->o->write.dtype : first->dtype;
	int rc = gt_hf_from_model(&x->config, x->source.model, &x->source.input, err);

	if (rc)
		return rc;
	rc = json_object_set_new(x->config, "torch_dtype", json_string(gt_dtype_name(type)));
	if (!rc && gt_model_longest_text(x->source.model) && add_token_ids(x, err))
		return err->code;
	if (!rc && x->source.input.form.masks)
		return 0;
	if (!rc && x->source.input.form.kind != GT_SAMPLE_TOKENS)
		return add_labels(x, err) ? err->code : add_problem(x, err);
	if (rc || json_object_set_new(x->config, "bos_token_id", begin_json(x)) ||
	    json_object_set_new(x->config, "eos_token_id", end_json(x)))
		return gt_err_set(err, GT_ENOMEM, "out of memory: config.json");
	return 0;
}

/* Writes `json`, which it releases; NULL: there was no memory for it. */
static int write_json(struct export *x, const char *name, json_t *json, struct gt_err *err)
{
	char *path = gt_folder_path(x->folder, name, err);
	char *text = json ? gt_json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	struct gt_atomic_file file;
	int rc = path ? 0 : GT_ENOMEM;

	json_decref(json);
	if (!rc && !text)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: %s", name);
	if (!rc)
		rc = gt_atomic_open_at(&file, (struct gt_file_name){ x->folder, path }, err);
	if (!rc) {
		file.no_sync = x->o->write.no_sync;
		fprintf(file.stream, "%s\n", text);
		rc = gt_atomic_commit(&file, err);
	}
	free(text);
	free(path);
	return rc;
}

static int write_processor(struct export *x, struct gt_err *err)
{
	json_t *data = gt_data_description_to_json(&x->source.data, false, err), *config;

	if (!data)
		return GT_ENOMEM;
	config = gt_processor_write(
	    &x->source.data, json_object_get(data, "mean"), json_object_get(data, "std"));
	json_decref(data);
	return write_json(x, "preprocessor_config.json", config, err);
}

/* The text of a token as it stands in tokenizer.json. */
static void add_token(json_t *config, const char *key, const struct export *x, const json_t *id)
{
	size_t length;
	const char *text = json_is_integer(id) ? gt_tokenizer_first_text(x->source.tokenizer,
	                                             (int32_t)json_integer_value(id), &length)
	                                       : NULL;

	if (text)
		json_object_set_new(config, key, json_stringn(text, length));
}

/* PreTrainedTokenizerFast adds the tokens that the post_processor of tokenizer.json adds. Some
 * versions of transformers also read add_bos_token. The chat template is that of the run. */
static json_t *make_tokenizer_config(const struct export *x)
{
	const json_t *begin = json_object_get(x->config, "bos_token_id");
	json_t *config = gt_tokenizer_config_copy(x->source.tokenizer_config);

	if (!config)
		return NULL;
	json_object_set_new(config, "tokenizer_class", json_string("PreTrainedTokenizerFast"));
	if (x->source.data.specials.begin_known)
		json_object_set_new(config, "add_bos_token", json_boolean(json_is_integer(begin)));
	add_token(config, "bos_token", x, begin);
	add_token(config, "eos_token", x, json_object_get(x->config, "eos_token_id"));
	return config;
}

static int write_tokenizer(struct export *x, struct gt_err *err)
{
	char *path = gt_folder_path(x->folder, "tokenizer.json", err);
	const struct gt_file_name file = { x->folder, path };
	json_t *config = make_tokenizer_config(x);
	int rc = path ? gt_tokenizer_save_with_begin(x->source.tokenizer,
	                    gt_data_begin(&x->source.data.specials, x->source.tokenizer), file, err)
	              : GT_ENOMEM;

	if (!rc)
		rc = gt_tokenizer_config_write(config, file, x->o->write.no_sync, err);
	json_decref(config);
	free(path);
	return rc;
}

static int write_text_files(struct export *x, struct gt_err *err)
{
	int rc = write_json(x, "generation_config.json",
	    json_pack("{s:O,s:O}", "bos_token_id", json_object_get(x->config, "bos_token_id"),
	        "eos_token_id", json_object_get(x->config, "eos_token_id")),
	    err);

	if (rc)
		return rc;
	if (x->source.tokenizer)
		return write_tokenizer(x, err);
	gt_buf_printf(x->note, "no tokenizer is written: %s\n",
	    x->source.data.tokenizer || x->source.run.vocab
	        ? "transformers has none for a vocabulary of characters or bytes"
	        : "the model was trained on ids of tokens");
	return 0;
}

/* The tokenizer of an encoder puts its special tokens around texts itself. */
static int write_encoder_tokenizer(struct export *x, struct gt_err *err)
{
	const struct gt_tokenizer *tok = x->source.tokenizer;
	char *path = gt_folder_path(x->folder, "tokenizer.json", err);
	const struct gt_file_name file = { x->folder, path };
	json_t *config = gt_tokenizer_encoder_config(tok, x->source.tokenizer_config);
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc && (!config ||
	               json_object_set_new(
	                   config, "tokenizer_class", json_string("PreTrainedTokenizerFast")) ||
	               json_object_set_new(config, "model_max_length",
	                   json_integer(gt_model_longest_text(x->source.model)))))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: tokenizer_config.json");
	if (!rc)
		rc = gt_tokenizer_save(tok, file, err);
	if (!rc)
		rc = gt_tokenizer_config_write(config, file, x->o->write.no_sync, err);
	json_decref(config);
	free(path);
	return rc;
}

static int write_encoder_files(struct export *x, struct gt_err *err)
{
	if (x->source.tokenizer)
		return write_encoder_tokenizer(x, err);
	gt_buf_printf(x->note, "no tokenizer is written: the model was trained on ids of tokens\n");
	return 0;
}

static int write_image_files(struct export *x, struct gt_err *err)
{
	if (x->source.data.normalization_known && x->source.data.form.height > 0 &&
	    x->source.data.form.channels > 0)
		return write_processor(x, err);
	gt_buf_printf(x->note,
	    "no preprocessor_config.json is written: '%s' does not say how its "
	    "images were normalized\n",
	    x->source.run.path);
	return 0;
}

/* ---- the folder ---- */

/* Set *first to a file of the folder, or to NULL. If `remove` is set, remove all files. */
static int look_in_folder(
    char **first, const struct gt_folder *folder, bool remove, struct gt_err *err)
{
	DIR *d = gt_folder_list(folder, err);
	const char *name = NULL;
	int rc = d ? gt_folder_next(&name, folder, d, err) : err->code;

	*first = NULL;
	while (!rc && name) {
		if (strcmp(name, ".") && strcmp(name, "..") && remove)
			unlinkat(folder->fd, name, 0);
		else if (strcmp(name, ".") && strcmp(name, "..") && !*first)
			*first = gt_strdup(name, err);
		rc = gt_folder_next(&name, folder, d, err);
	}
	if (d)
		closedir(d);
	return rc;
}

/* A folder that is there must be empty; files appear in it one by one. */
static int open_empty(struct export *x, struct gt_err *err)
{
	const char *path = x->o->to;
	char *name;
	int rc = gt_folder_open(&x->there, path, err);

	if (rc)
		return rc;
	rc = look_in_folder(&name, &x->there, false, err);
	if (!rc && name) {
		rc = gt_err_set(
		    err, GT_EINVAL, "the folder '%s' is not empty: it has '%.80s'", path, name);
		gt_err_hint(err, "name a new folder: files of two models do not mix");
	}
	free(name);
	return rc;
}

static int open_folder(struct export *x, struct gt_err *err)
{
	struct stat st;
	bool there = !lstat(x->o->to, &st);

	x->folder = there ? &x->there : &x->new.folder;
	return there ? open_empty(x, err) : gt_new_folder_open(&x->new, x->o->to, err);
}

static int write_weights(struct export *x, struct gt_err *err)
{
	struct gt_ckpt_write_options o = x->o->write;
	char *path = gt_folder_path(x->folder, "model.safetensors", err);
	int rc = GT_ENOMEM;

	o.inputs = &x->source.ckpt;
	o.input_count = 1;
	if (path)
		rc = gt_ckpt_write(path, "safetensors", x->tree, &o, err);
	free(path);
	return rc;
}

static int write_files(struct export *x, struct gt_err *err)
{
	int rc = write_weights(x, err);

	switch (x->source.input.form.kind) {
	case GT_SAMPLE_TOKENS:
		if (!rc)
			rc = x->source.input.form.masks ? write_encoder_files(x, err)
			                                : write_text_files(x, err);
		break;
	case GT_SAMPLE_VECTOR:
		rc = rc ? rc : write_encoder_files(x, err);
		break;
	case GT_SAMPLE_IMAGE:
		rc = rc ? rc : write_image_files(x, err);
		break;
	}
	return rc ? rc : write_json(x, "config.json", json_incref(x->config), err);
}

static int write_folder(struct export *x, struct gt_err *err)
{
	char *none;
	int rc = open_folder(x, err);

	if (rc)
		return rc;
	rc = write_files(x, err);
	if (!rc)
		return x->folder == &x->there
		           ? 0
		           : gt_new_folder_commit(&x->new, x->o->write.no_sync, err);
	if (x->folder == &x->there)
		(void)look_in_folder(&none, &x->there, true, GT_ERR_IGNORED);
	return rc;
}

static void release_export(struct export *x)
{
	gt_new_folder_abandon(&x->new);
	gt_folder_close(&x->there);
	json_decref(x->config);
	gt_arena_release(&x->arena);
	gt_export_close(&x->source);
}

/*
 * Write a folder for from_pretrained() of transformers. gtrain can read such a folder, too
 * (pretrained.h). The files of the folder are
 *
 *   model.safetensors         the weights of the latest checkpoint under transformers' names: one
 *                             file, or several files and their index (write.shard_bytes)
 *   tokenizer.json            the file of a byte-pair tokenizer. Its post_processor says which
 *                             token is put before every text; it is replaced if the model begins
 *                             texts with another token
 *   tokenizer_config.json     settings of a byte-pair tokenizer, and its chat template
 *   generation_config.json    for models that write text
 *   preprocessor_config.json  for models of images, if their normalization is known
 *   config.json               the model and the names of its classes
 *
 * If the folder is new, it appears with all its files or not at all (lib/base/new_folder.h). If the
 * folder exists, its files appear one by one, and config.json is written last, because a folder
 * without config.json is not a model. After an error the written files are removed. *tally is set
 * to the number and size of the tensors. For each file or value that is left out, a line is added
 * to `note`.
 *
 * Errors: GT_ENOTSUP for a model or setting that transformers does not have; GT_EINVAL for a folder
 * that is not empty, or a checkpoint that is not a complete model; GT_EFORMAT, GT_EIO, GT_ENOMEM.
 */
int gt_export_hugging_face(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err)
{
	struct export x = { .o = options, .note = note };
	int rc = open_source(&x, err);

	if (!rc && x.source.input.form.kind != GT_SAMPLE_IMAGE)
		rc = open_tokenizer(&x, err);
	if (!rc)
		rc = make_tree(&x, err);
	if (!rc)
		rc = make_config(&x, err);
	if (!rc)
		rc = gt_tally_make(tally, x.tree, err);
	if (!rc)
		rc = write_folder(&x, err);
	release_export(&x);
	return rc;
}
