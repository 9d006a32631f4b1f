/* export_source.c - a model that is exported: its weights, samples and tokenizer. */
#include "lib/train/checkpoint/export_source.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tools/digest.h"
#include "lib/data/text/config.h"
#include "lib/graph/graph.h"
#include "lib/train/session.h"

/* A network that takes several inputs has those of the example which it was exported with. */
static void take_example(struct gt_sample_form *out)
{
	if (!gt_sample_has_fields(out) || gt_sample_is_text(out))
		out->field_count = 0;
	else
		out->kind = GT_SAMPLE_VECTOR;
}

/* The inputs are those that the data had. Sizes stay open where the network takes any: `wish`. */
static void take_fields(struct gt_sample_form *out, const struct gt_sample_form *data,
    const struct gt_sample_form *wish)
{
	out->field_count = data->field_count;
	memcpy(out->fields, data->fields, sizeof(out->fields));
	for (int i = 0; i < out->field_count; i++) {
		int known = gt_sample_field_find(wish, out->fields[i].name);

		out->fields[i].open = known < 0 ? 0 : wish->fields[known].open;
	}
}

static void take_sizes(struct gt_sample_form *out, const struct gt_sample_form *data)
{
	if (data->height > 0) {
		out->height = data->height;
		out->width = data->width;
	}
	if (data->channels > 0)
		out->channels = data->channels;
	if (data->features > 0)
		out->features = data->features;
	if (data->classes > 0)
		out->classes = data->classes;
	out->target = data->target;
}

/* Members of the description that are known replace those of the model, but for the number of
 * tokens, which the description lacks. */
static void take_form(struct gt_sample_form *out, const struct gt_data_description *data)
{
	const struct gt_sample_form wish = *out;

	if (!data->kind_known) {
		take_example(out);
		return;
	}
	if (data->form.kind == out->kind) {
		take_sizes(out, &data->form);
	} else {
		*out = data->form;
		out->block = wish.block;
	}
	if (data->form.kind != GT_SAMPLE_VECTOR || gt_data_knows_inputs(data))
		take_fields(out, &data->form, &wish);
}

/* Find the dimensions of a model that others have, too, from the shapes of its weights: their files
 * have no description. */
static void take_shapes(struct gt_sample_form *out, const struct gt_state_dict *weights)
{
	/* Tables with a row for each class or token, filters for each channel. */
	static const char *const heads[] = { "transformer.wte.weight", "model.embed_tokens.weight",
		"gpt_neox.embed_in.weight", "heads.head.weight", "fc.weight", "classifier.weight",
		"classifier.out_proj.weight" };
	static const char *const filters[] = { "conv_proj.weight", "conv1.weight" };
	const struct gt_tree_tensor *t;

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		t = gt_state_dict_get(weights, heads[i]);
		if (t && t->ndim == 2 && t->shape[0] <= INT32_MAX)
			out->classes = (int)t->shape[0];
	}
	for (int i = 0; i < 2; i++) {
		t = gt_state_dict_get(weights, filters[i]);
		if (t && t->ndim == 4 && t->shape[1] > 0 && t->shape[1] <= GT_MAX_CHANNELS)
			out->channels = (int)t->shape[1];
	}
}

/* Return the model of a checkpoint, borrowed. */
static const char *find_model(struct gt_run_ckpt *ckpt, struct gt_err *err)
{
	const char *model = gt_run_ckpt_model(ckpt, NULL, GT_ERR_IGNORED);

	if (!model) {
		gt_err_set(err, GT_EINVAL,
		    "'%s' does not say its model, and lies in no run that does", ckpt->path);
		gt_err_hint(err,
		    "name a run directory, or a checkpoint in one; the run of an exported network "
		    "has its " GT_RUN_NETWORK);
	}
	return model;
}

int gt_export_open_model(struct gt_export_source *s, struct gt_err *err)
{
	const char *model = find_model(&s->run, err);
	int rc = model ? gt_model_open(&s->model, model, err) : err->code;

	return rc ? rc : gt_run_ckpt_describe(&s->data, &s->run, err);
}

static int find_input(struct gt_export_source *s, struct gt_err *err)
{
	struct gt_model_input *in = &s->input;

	gt_model_preferred_input(s->model, in);
	take_form(&in->form, &s->data);
	if (gt_model_family(s->model))
		take_shapes(&in->form, &s->sd);
	for (int i = 0; i < in->form.channels; i++)
		in->form.std[i] = 1;
	in->loss = gt_model_default_loss(s->model, &in->form);
	if (in->form.classes > 0 || in->loss.output)
		return 0;
	return gt_err_set(err, GT_EINVAL, "'%s': the file has no weights of model '%s'",
	    s->run.path, gt_model_name(s->model));
}

int gt_export_open_weights(struct gt_export_source *s, struct gt_err *err)
{
	int rc = gt_ckpt_open_at(&s->ckpt, s->run.file, err);

	if (rc) /* the message names the file already */
		return rc;
	rc = gt_digest_check(s->ckpt, false, NULL, err);
	if (!rc && !gt_run_ckpt_lora(&s->run))
		rc = gt_state_dict_find(&s->sd, gt_ckpt_root(s->ckpt), err);
	if (rc)
		return gt_err_prefix(err, "'%s'", s->run.path);
	if (find_input(s, err) || !gt_run_ckpt_lora(&s->run))
		return err->code;
	rc = gt_export_merge_adapter(s, err);
	return rc ? gt_err_prefix(err, "'%s'", s->run.path) : 0;
}

int gt_export_open_tokenizer(struct gt_export_source *s, struct gt_err *err)
{
	struct gt_file_name file;
	int rc = 0;

	gt_run_ckpt_choose_vocab(&s->data, &file, &s->run, NULL);
	if (file.path)
		rc = gt_tokenizer_open(&s->tokenizer, file, err);
	if (!rc)
		rc = gt_tokenizer_config_read(&s->tokenizer_config, file, err);
	return rc ? rc : gt_tokenizer_check(s->tokenizer, &s->data, file, err);
}

void gt_export_close(struct gt_export_source *s)
{
	gt_state_dict_release(&s->sd);
	if (s->session)
		gt_session_close(s->session);
	free(s->session);
	gt_arena_release(&s->arena);
	gt_ckpt_close(s->ckpt);
	gt_tokenizer_close(s->tokenizer);
	json_decref(s->tokenizer_config);
	gt_data_description_release(&s->data);
	gt_model_close(s->model);
	gt_run_ckpt_release(&s->run);
}

static bool is_alias(const struct gt_model *model, const char *name)
{
	const struct gt_model_alias *alias = gt_model_aliases(model);

	while (alias->name && strcmp(alias->name, name) != 0)
		alias++;
	return alias->name;
}

int gt_export_note_others(struct gt_buf *note, const struct gt_export_source *s, struct gt_err *err)
{
	const char *first = NULL;
	struct gt_graph *g;
	struct gt_model_io io;
	size_t others = 0;
	int rc = gt_graph_new(&g, err);

	if (!rc)
		rc = gt_model_build(s->model, g, &s->input, 1, GT_MODEL_EVAL, &io, err);
	for (size_t i = 0; i < s->sd.count && !rc; i++) {
		const char *name = s->sd.entries[i].name;

		if (gt_graph_find_stored(g, name) || is_alias(s->model, name))
			continue;
		first = others++ ? first : name;
	}
	if (others)
		gt_buf_printf(note,
		    "left out of '%s', as the model has no such weight: '%.200s'%s\n", s->run.path,
		    first, others > 1 ? " and others" : "");
	gt_graph_free(g);
	return rc;
}
