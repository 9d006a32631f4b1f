/* topics.c - gtrain help models, data, augment, ...: tables of the library, as text and JSON. */
#include "cmd/topics.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ranks.h"
#include "cmd/recipes.h"
#include "lib/base/opt.h"
#include "lib/base/text.h"
#include "lib/data/core/data.h"
#include "lib/graph/op.h"
#include "lib/model/model.h"
#include "lib/train/option_table.h"

/* ---- settings ---- */

/* "    layers=N": returns its columns. */
static int print_key(FILE *out, const struct gt_setting *s)
{
	return fprintf(out, "      %s%s%s", s->key ? s->key : "", s->key ? "=" : "", s->form);
}

static void print_setting(FILE *out, const struct gt_setting *s, const char *initial)
{
	char ending[GT_MODEL_VALUE + 16] = "";

	if (initial)
		snprintf(ending, sizeof(ending), "(default: %s)", initial);
	gt_help_finish_row(out, print_key(out, s), s->help, ending);
}

static json_t *describe_setting(const struct gt_setting *s, const char *initial)
{
	return json_pack(
	    "{ss? ss ss? ss}", "key", s->key, "form", s->form, "default", initial, "help", s->help);
}

/* Rows that end with one without help. */
static json_t *describe_settings(const struct gt_setting *settings)
{
	json_t *list = json_array();

	for (const struct gt_setting *s = settings; s->help; s++)
		json_array_append_new(list, describe_setting(s, s->initial));
	return list;
}

/* ---- models ---- */

/* Tokens of a language model whose vocabulary is that of its text: as many as bytes. */
enum { VOCABULARY = 256 };

struct size {
	double parameters;
	double flops; /* work of the forward pass of one image, row or token */
};

static void measure_model(struct size *size, const struct gt_graph *g, int tokens)
{
	*size = (struct size){ 0 };
	for (size_t i = 0; i < g->value_count; i++)
		if (g->values[i]->role == GT_PARAMETER)
			size->parameters += (double)gt_value_elements(g->values[i]);
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_cost cost;

		gt_node_cost(g->nodes[i], &cost);
		size->flops += cost.flops / (tokens ? tokens : 1);
	}
}

/* The model for the input that it would like. */
static int size_of(struct size *size, const struct gt_model *m, struct gt_err *err)
{
	struct gt_model_input in;
	struct gt_model_io io;
	struct gt_graph *g;
	int rc = gt_graph_new(&g, err);

	if (rc)
		return rc;
	gt_model_preferred_input(m, &in);
	in.form.classes = in.form.classes ? in.form.classes : VOCABULARY;
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	rc = gt_model_build(m, g, &in, 1, GT_MODEL_EVAL, &io, err);
	if (!rc)
		measure_model(size, g, in.form.block);
	gt_graph_free(g);
	return rc;
}

static int print_model(FILE *out, const struct gt_model *m, struct gt_err *err)
{
	char parameters[GT_TEXT_SIZE], flops[GT_TEXT_SIZE];
	struct size size;
	int rc = size_of(&size, m, err);

	if (!rc)
		fprintf(out, "  %-13s %10s %7s  %s\n", gt_model_name(m),
		    gt_text_count(parameters, size.parameters), gt_text_count(flops, size.flops),
		    gt_model_summary(m));
	return rc;
}

/* Whether two models are of one family, or of none, and have the same settings. */
static bool same_settings(const struct gt_model *a, const struct gt_model *b)
{
	const char *fa = gt_model_family(a), *fb = gt_model_family(b);
	char va[GT_MODEL_VALUE], vb[GT_MODEL_VALUE];
	struct gt_setting sa, sb;

	if (fa && fb ? strcmp(fa, fb) != 0 : fa != fb)
		return false;
	for (int i = 0;; i++) {
		bool more = gt_model_setting(a, i, &sa, va);

		if (more != gt_model_setting(b, i, &sb, vb))
			return false;
		if (!more)
			return true;
		if (!sa.key || !sb.key ? sa.key != sb.key : strcmp(sa.key, sb.key))
			return false;
	}
}

/* Whether setting k has the same value in all of them. */
static bool same_value(struct gt_model *const *models, int count, int k)
{
	char a[GT_MODEL_VALUE], b[GT_MODEL_VALUE];
	struct gt_setting s;

	gt_model_setting(models[0], k, &s, a);
	for (int i = 1; i < count; i++) {
		gt_model_setting(models[i], k, &s, b);
		if (strcmp(a, b))
			return false;
	}
	return true;
}

/* The width of the text, and the column of these defaults. */
enum { WIDTH = 79, DEFAULTS = 18 };

/* The defaults of a model in which it differs from the others of its family. */
static void print_own_defaults(
    FILE *out, const struct gt_model *m, struct gt_model *const *models, int count)
{
	char value[GT_MODEL_VALUE];
	struct gt_setting s;
	int column = 0;

	for (int k = 0; gt_model_setting(m, k, &s, value); k++) {
		int length = (int)(strlen(s.key ? s.key : "") + strlen(value)) + 2;

		if (!*value || same_value(models, count, k))
			continue;
		if (!column)
			column = fprintf(out, "      %-12s", gt_model_name(m));
		else if (column + length > WIDTH)
			column = fprintf(out, ",\n%*s", DEFAULTS, "") - 2;
		else
			column += fprintf(out, ",");
		column += fprintf(out, "%s=%s", s.key, value);
	}
	if (column)
		fputc('\n', out);
}

/* The settings of models that have the same ones. */
static void print_family(FILE *out, struct gt_model *const *models, int count)
{
	char value[GT_MODEL_VALUE];
	struct gt_setting s;

	if (!gt_model_setting(models[0], 0, &s, value))
		return;
	for (int i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? ", " : "\n  ", gt_model_name(models[i]));
	fputc('\n', out);
	for (int k = 0; gt_model_setting(models[0], k, &s, value); k++)
		print_setting(out, &s, !*value || same_value(models, count, k) ? s.initial : NULL);
	for (int i = 0; i < count; i++)
		print_own_defaults(out, models[i], models, count);
}

static void print_families(FILE *out, struct gt_model *const *models, int count)
{
	int last;

	for (int first = 0; first < count; first = last) {
		for (last = first + 1; last < count; last++)
			if (!same_settings(models[first], models[last]))
				break;
		print_family(out, models + first, last - first);
	}
}

static const char model_examples[] =
    "\nExamples:\n"
    "  gtrain train --model lenet --data mnist:mnist\n"
    "  gtrain train --model mlp:4,16,3 --data csv:flowers.csv\n"
    "  gtrain train --model 'seq:Linear(4,9),ReLU,Linear(9,3)' --data csv:flowers.csv\n"
    "  gtrain train --model resnet18:image=64 --data images:photos\n"
    "  gtrain train --model gpt:layers=6,width=256 --data text:input.txt\n"
    "  gtrain train --model vit-tiny:image=64 --data images:photos\n"
    "  gtrain train --model llama:layers=6,block=256 --data text:input.txt\n";

enum { MOST_MODELS = 64 };

static int print_all(FILE *out, struct gt_model *const *models, int count, struct gt_err *err)
{
	int rc = 0;

	fputs(
	    "--model NAME[:key=value,...] names a model; --model DIR is a folder that\nHugging Face's transformers wrote.\n\n"
	    "Models:         PARAMETERS   FLOPs\n",
	    out);
	for (int i = 0; i < count && !rc; i++)
		rc = print_model(out, models[i], err);
	if (rc)
		return rc;
	fprintf(out,
	    "\nFLOPs are those of a forward pass of one image, row or token. Where the number\n"
	    "of different tokens depends on the data, it is %d here.\n\n"
	    "--model 'seq:LAYER,LAYER,...' is a stack of torch.nn's layers, written as in\n"
	    "Python; gtrain-models(7) lists them. --model FILE.pt2 is a network that\n"
	    "torch.export.save() wrote, and --model FILE.onnx one of ONNX.\n\n"
	    "Settings:",
	    VOCABULARY);
	print_families(out, models, count);
	fputs(model_examples, out);
	return 0;
}

static int print_models(FILE *out, struct gt_err *err)
{
	struct gt_model *models[MOST_MODELS] = { NULL };
	int count = 0, rc = 0;

	while (gt_model_at(count) && count < MOST_MODELS && !rc) {
		rc = gt_model_open(&models[count], gt_model_at(count), err);
		count += !rc;
	}
	if (!rc)
		rc = print_all(out, models, count, err);
	while (count)
		gt_model_close(models[--count]);
	return rc;
}

static json_t *describe_model(const char *name, struct gt_err *err)
{
	char value[GT_MODEL_VALUE];
	json_t *settings, *object = NULL;
	struct gt_setting s;
	struct size size;
	struct gt_model *m;

	if (gt_model_open(&m, name, err))
		return NULL;
	settings = json_array();
	for (int i = 0; gt_model_setting(m, i, &s, value); i++)
		json_array_append_new(settings, describe_setting(&s, *value ? value : NULL));
	if (size_of(&size, m, err))
		json_decref(settings);
	else
		object = json_pack("{ss ss sI sf so}", "name", name, "summary", gt_model_summary(m),
		    "parameters", (json_int_t)size.parameters, "flops_forward", size.flops,
		    "settings", settings);
	gt_model_close(m);
	return object;
}

static json_t *describe_models(struct gt_err *err)
{
	json_t *list = json_array();

	for (int i = 0; gt_model_at(i); i++) {
		json_t *model = describe_model(gt_model_at(i), err);

		if (!model) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, model);
	}
	return list;
}

/* ---- augmentations ---- */

/* The setting, with a default of thirds as a fraction. */
static void print_augment_setting(FILE *out, const struct gt_setting *s)
{
	double thirds = 3 * strtod(s->initial, NULL);
	char fraction[32];

	snprintf(fraction, sizeof(fraction), "%.0f/3", thirds);
	print_setting(
	    out, s, thirds == rint(thirds) && fmod(thirds, 3) != 0 ? fraction : s->initial);
}

static int print_augmentations(FILE *out, struct gt_err *err)
{
	const struct gt_augment_form *form;

	(void)err;
	fputs(
	    "--augment NAME[:key=value[:key=value...]],... changes training images. The\naugmentations are applied in the order below, whatever the order of the list:\n",
	    out);
	for (int i = 0; (form = gt_augment_form(i)); i++) {
		fprintf(out, "\n  %s\n      %s\n", form->name, form->summary);
		for (const struct gt_setting *s = form->settings; s->help; s++)
			print_augment_setting(out, s);
		fprintf(out, "      for example --augment %s\n", form->example);
	}
	return 0;
}

static json_t *describe_augmentations(struct gt_err *err)
{
	const struct gt_augment_form *form;
	json_t *list = json_array();

	(void)err;
	for (int i = 0; (form = gt_augment_form(i)); i++)
		json_array_append_new(list,
		    json_pack("{ss ss ss so}", "name", form->name, "summary", form->summary,
		        "example", form->example, "settings", describe_settings(form->settings)));
	return list;
}

/* ---- data ---- */

static void print_example(FILE *out, const char *example)
{
	fputs("      for example ", out);
	gt_cmd_print_word(out, example);
	fputc('\n', out);
	if (strchr(example, '{'))
		fputs("      Quote the braces, because the shell would expand them.\n", out);
}

static int print_data(FILE *out, struct gt_err *err)
{
	const struct gt_data_form *form;

	fputs("--data KIND:PATH[,key=value...] names a data set. A comma inside PATH is '\\,'.\n"
	      "NAME replaces KIND:PATH if 'gtrain data get NAME' has fetched the data.\n",
	    out);
	for (int i = 0; (form = gt_data_form(i)); i++) {
		fprintf(out, "\n  %s:%s\n      %s\n", form->name, form->path, form->summary);
		for (const struct gt_setting *s = form->settings; s->help; s++)
			print_setting(out, s, s->initial);
		print_example(out, form->example);
	}
	fputs("\n'gtrain data ls' lists data sets that 'gtrain data get NAME' fetches.\n\n", out);
	return print_augmentations(out, err);
}

static json_t *describe_data(struct gt_err *err)
{
	const struct gt_data_form *form;
	json_t *list = json_array();

	(void)err;
	for (int i = 0; (form = gt_data_form(i)); i++)
		json_array_append_new(
		    list, json_pack("{ss ss ss ss so}", "name", form->name, "path", form->path,
		              "summary", form->summary, "example", form->example, "settings",
		              describe_settings(form->settings)));
	return list;
}

/* ---- resume ---- */

static int print_resume(FILE *out, struct gt_err *err)
{
	static const char *const headings[GT_RESUME_KINDS] = {
		[GT_RESUME_FREE] = "These options may change when a run is resumed",
		[GT_RESUME_FIXED] = "These options must not change",
		[GT_RESUME_UNUSED] = "These options have no effect on a resumed run",
	};

	const struct gt_opt *row;

	(void)err;
	for (int kind = GT_RESUME_FREE; kind < GT_RESUME_KINDS; kind++) {
		fprintf(out, "%s%s:\n", kind > GT_RESUME_FREE ? "\n" : "", headings[kind]);
		for (row = gt_train_option_table(); row->type != GT_OPT_END; row++)
			if ((int)row->resume.kind == kind)
				gt_help_finish_row(
				    out, fprintf(out, "  --%s", row->name), row->resume.text, "");
	}
	return 0;
}

static json_t *describe_resume(struct gt_err *err)
{
	json_t *list = json_array();

	(void)err;
	for (const struct gt_opt *row = gt_train_option_table(); row->type != GT_OPT_END; row++)
		if (row->resume.kind)
			json_array_append_new(list,
			    json_pack("{ss sb ss}", "option", row->name, "fixed",
			        row->resume.kind == GT_RESUME_FIXED, "text", row->resume.text));
	return list;
}

/* ---- the table ---- */

static const struct gt_cmd_topic topics[] = { { "models",
	                                          "networks that --model names, and their settings",
	                                          print_models, describe_models },
	{ "data", "kinds of data that --data names, and their settings", print_data,
	    describe_data },
	{ "augment", "augmentations that --augment names, and their settings", print_augmentations,
	    describe_augmentations },
	{ "resume", "options that may change with --resume", print_resume, describe_resume },
	{ "recipes", "complete sets of options for well-known runs", gt_cmd_recipes_print,
	    gt_cmd_recipes_describe },
	{ 0 } };

const struct gt_cmd_topic *gt_cmd_topics(void)
{
	return topics;
}

const struct gt_cmd_topic *gt_cmd_topic_find(const char *name)
{
	for (const struct gt_cmd_topic *topic = topics; topic->name; topic++)
		if (!strcmp(topic->name, name))
			return topic;
	return NULL;
}
