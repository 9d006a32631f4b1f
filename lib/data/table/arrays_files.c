/* arrays_files.c - the kinds npy and npz: which arrays of which files are inputs and targets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/fields.h"
#include "lib/data/table/arrays.h"

static const struct gt_tree_tensor *tensor_of(const struct gt_tree *file, const char *name)
{
	const struct gt_tree *node = gt_tree_get(file, name);

	return node && node->kind == GT_TREE_TENSOR ? &node->tensor : NULL;
}

/* The only array of an .npy file. */
static int open_npy_file(struct gt_ckpt **file, const struct gt_tree_tensor **array,
    const char *path, struct gt_err *err)
{
	int rc = gt_ckpt_open_arrays(file, path, "npy", NULL, err);

	if (rc)
		return rc;
	*array =
	    strcmp(gt_ckpt_format(*file), "npy") ? NULL : tensor_of(gt_ckpt_root(*file), "arr_0");
	if (*array)
		return 0;
	gt_err_set(err, GT_EFORMAT, "'%s': not an .npy file, but %s", path, gt_ckpt_format(*file));
	return !strcmp(gt_ckpt_format(*file), "npz") ? gt_err_hint(err, "write npz:%s", path)
	                                             : err->code;
}

static int open_npy_files(struct gt_arrays *a, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_tree_tensor *inputs, *targets;
	const char *path = gt_spec_value(spec, "target");
	int rc;

	if (!path || !*path) {
		gt_err_set(err, GT_EINVAL, "data 'npy' have no targets");
		return gt_err_hint(err, "write npy:X.npy,target=Y.npy");
	}
	a->inputs_name = gt_arena_strdup(&a->source.names, spec->path, err);
	a->targets_name = gt_arena_strdup(&a->source.names, path, err);
	if (!a->inputs_name || !a->targets_name)
		return GT_ENOMEM;
	rc = open_npy_file(&a->inputs_file, &inputs, spec->path, err);
	if (!rc)
		rc = open_npy_file(&a->targets_file, &targets, path, err);
	return rc ? rc : gt_arrays_take(a, inputs, targets, spec, request, err);
}

/* ---- which arrays of an archive ---- */

/* Names that people give to inputs and their targets; the last are numpy's for those without. */
static const char *const pairs[][2] = { { "x", "y" }, { "X", "y" }, { "X", "Y" },
	{ "images", "labels" }, { "image", "label" }, { "data", "labels" }, { "data", "target" },
	{ "data", "targets" }, { "inputs", "targets" }, { "features", "labels" },
	{ "features", "targets" }, { "arr_0", "arr_1" } };

enum { PAIRS = sizeof(pairs) / sizeof(*pairs), NAME_BYTES = 2 * GT_FIELD_NAME + 2 };

/* "x", "x_train" or "train_x". */
static void put_name(char out[NAME_BYTES], const char *name, const char *split, int form)
{
	if (!split)
		snprintf(out, NAME_BYTES, "%s", name);
	else
		snprintf(out, NAME_BYTES, "%s_%s", form ? split : name, form ? name : split);
}

/* The choice of two arrays from the names in an archive. */
struct choice {
	struct gt_arrays *arrays; /* its names are set, or NULL: find a pair of the table */
	const struct gt_spec *spec;
	const struct gt_data_request *request;
	const char *path, *split;
	char found[2][NAME_BYTES];
	/* the split in the names that were found, or NULL, and its place (put_name()) */
	const char *found_split;
	int found_form;
	char fields[GT_MAX_FIELDS][NAME_BYTES]; /* names for further inputs */
	const char *const *names;               /* [count] those in the archive */
	size_t count;
};

static bool has_name(const struct choice *c, const char *name)
{
	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(c->names[i], name))
			return true;
	return false;
}

/* The inputs' name of a pair; or that of the network's first input, if the file has it. */
static void put_inputs(struct choice *c, const char *name, const char *split, int form)
{
	if (gt_fields_wanted(c->request)) {
		put_name(c->found[0], c->request->form.fields[0].name, split, form);
		if (has_name(c, c->found[0]))
			return;
	}
	put_name(c->found[0], name, split, form);
}

/* Return whether the array of this name is an input of the network, and so not the targets. */
static bool is_input(const struct choice *c, const char *name)
{
	const struct gt_sample_form *form = &c->request->form;
	int i = gt_fields_wanted(c->request) ? gt_sample_field_find(form, name) : -1;

	return i >= 0 && !gt_field_value(c->spec, &form->fields[i]);
}

/* A pair of the table, its names with the split; false: the file has none. */
static bool find_pair(struct choice *c, const char *split)
{
	for (int form = 0; form < (split ? 2 : 1); form++)
		for (int i = 0; i < PAIRS; i++) {
			put_inputs(c, pairs[i][0], split, form);
			put_name(c->found[1], pairs[i][1], split, form);
			if (!has_name(c, c->found[0]) || !has_name(c, c->found[1]) ||
			    is_input(c, pairs[i][1]))
				continue;
			c->found_split = split;
			c->found_form = form;
			return true;
		}
	return false;
}

/* "'a', 'b' and 3 more" */
static void list_names(char *text, size_t size, const struct choice *c)
{
	size_t used = 0, i;

	*text = '\0';
	for (i = 0; i < c->count && used + strlen(c->names[i]) + 24 <= size; i++)
		used += (size_t)snprintf(
		    text + used, size - used, "%s'%s'", used ? ", " : "", c->names[i]);
	if (i < c->count)
		snprintf(text + used, size - used, " and %zu more", c->count - i);
}

static int no_arrays(const char *wanted, const struct choice *c, struct gt_err *err)
{
	char text[240];

	list_names(text, sizeof(text), c);
	gt_err_set(err, GT_EFORMAT, "there is no %s among the arrays %s", wanted, text);
	if (gt_fields_wanted(c->request))
		return gt_fields_hint(c->request,
		    "npz data give them by arrays of these names, or by "
		    "input.NAME=ARRAY,...,target=ARRAY",
		    err);
	return gt_err_hint(err, "name them: npz:%s,input=NAME,target=NAME", c->path);
}

/* The pair for no split. */
static bool find_default(struct choice *c)
{
	return (c->request->held_out && (find_pair(c, "val") || find_pair(c, "test"))) ||
	       find_pair(c, "train") || find_pair(c, NULL);
}

/* The pair of known names that the archive has. */
static int find_names(struct choice *c, struct gt_err *err)
{
	char wanted[60] = "pair of known names";
	struct gt_arrays *a = c->arrays;

	if (a->inputs_name)
		return 0;
	if (c->split)
		snprintf(wanted, sizeof(wanted), "pair of known names for split=%s", c->split);
	if (c->split ? !find_pair(c, c->split) : !find_default(c))
		return no_arrays(wanted, c, err);
	a->inputs_name = c->found[0];
	a->targets_name = c->found[1];
	return 0;
}

/* The array of a further input: the one that the spec names, or the one of the input's name. An
 * input that data may lack has none if the archive has none. */
static int find_field(struct choice *c, int i, struct gt_err *err)
{
	const struct gt_sample_field *field = &c->request->form.fields[i];
	const char *given = gt_field_value(c->spec, field);
	char text[GT_FIELD_NAME + 24];

	if (given)
		snprintf(c->fields[i], NAME_BYTES, "%s", given);
	else
		put_name(c->fields[i], field->name, c->found_split, c->found_form);
	if (has_name(c, given ? given : c->fields[i])) {
		c->arrays->field_names[i] = given ? given : c->fields[i];
		return 0;
	}
	if (!given && gt_field_may_lack(field))
		return 0;
	snprintf(text, sizeof(text), "'%.60s'", given ? given : c->fields[i]);
	return no_arrays(text, c, err);
}

static int find_fields(struct choice *c, struct gt_err *err)
{
	int rc = gt_fields_check_keys(c->spec, c->request, err);

	for (int i = 1; i < c->request->form.field_count && !rc; i++)
		rc = find_field(c, i, err);
	return rc;
}

static int choose_array_names(
    void *self, const char *const *names, size_t count, bool *wanted, struct gt_err *err)
{
	struct choice *c = self;
	int rc;

	c->names = names;
	c->count = count;
	rc = find_names(c, err);
	for (int i = 0; i < 2 && !rc; i++) {
		const char *name = i ? c->arrays->targets_name : c->arrays->inputs_name;
		char text[80];

		snprintf(text, sizeof(text), "'%.60s'", name);
		if (!has_name(c, name))
			rc = no_arrays(text, c, err);
	}
	if (!rc && gt_fields_wanted(c->request))
		rc = find_fields(c, err);
	for (size_t i = 0; i < count && !rc; i++) {
		wanted[i] = !strcmp(names[i], c->arrays->inputs_name) ||
		            !strcmp(names[i], c->arrays->targets_name);
		for (int k = 1; k < GT_MAX_FIELDS && !wanted[i]; k++)
			wanted[i] = c->arrays->field_names[k] &&
			            !strcmp(names[i], c->arrays->field_names[k]);
	}
	return rc;
}

/* The names, and the split, that the spec gives. */
static int read_choice(struct choice *c, const struct gt_spec *spec, struct gt_err *err)
{
	static const char *const splits[] = { "train", "val", "test", NULL };
	struct gt_arrays *a = c->arrays;
	const struct gt_sample_field *first = c->request->form.fields;
	const char *given;
	int split = -1, rc = gt_spec_choice(spec, "split", splits, &split, err);

	c->path = spec->path;
	c->split = split < 0 ? NULL : splits[split];
	given = gt_fields_wanted(c->request) ? gt_field_value(spec, first) : NULL;
	a->inputs_name = gt_spec_value(spec, "input");
	if (!rc && given && a->inputs_name)
		return gt_err_set(err, GT_EINVAL,
		    "data 'npz': input= and input.%s= both name the array of the first input",
		    first->name);
	a->inputs_name = given ? given : a->inputs_name;
	a->targets_name = gt_spec_value(spec, "target");
	if (rc || !a->inputs_name == !a->targets_name)
		return rc;
	gt_err_set(err, GT_EINVAL, "data 'npz': input= and target= go together");
	return gt_err_hint(err, "npz:%s,input=NAME,target=NAME", spec->path);
}

/* Say which arrays they are, since their names may have been guessed. */
static int report_arrays(struct gt_arrays *a, const char *path, struct gt_err *err)
{
	struct gt_source *s = &a->source;
	char more[GT_FIELDS_TEXT] = "", *text;
	size_t used = 0;

	for (int i = 1; i < GT_MAX_FIELDS; i++) {
		if (!a->field_names[i])
			continue;
		a->field_names[i] = gt_arena_strdup(&s->names, a->field_names[i], err);
		if (!a->field_names[i])
			return GT_ENOMEM;
		used += (size_t)snprintf(
		    more + used, sizeof(more) - used, ", '%.60s'", a->field_names[i]);
		used = used < sizeof(more) ? used : sizeof(more) - 1;
	}
	text = gt_asprintf(
	    err, "inputs are '%s'%s, targets '%s'", a->inputs_name, more, a->targets_name);
	if (!text)
		return GT_ENOMEM;
	s->info.interpretation = gt_arena_strdup(&s->names, text, err);
	free(text);
	a->inputs_name = gt_arena_strdup(&s->names, a->inputs_name, err);
	a->targets_name = gt_arena_strdup(&s->names, a->targets_name, err);
	a->archive = gt_arena_strdup(&s->names, path, err);
	s->part = a->inputs_name;
	return s->info.interpretation && a->inputs_name && a->targets_name && a->archive
	           ? 0
	           : GT_ENOMEM;
}

static int open_npz_file(struct gt_arrays *a, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct choice choice = { .arrays = a, .spec = spec, .request = request };
	const struct gt_ckpt_choice chooses = { choose_array_names, &choice };
	const struct gt_tree *file;
	int rc = read_choice(&choice, spec, err);

	if (!rc)
		rc = gt_ckpt_open_arrays(&a->inputs_file, spec->path, "npz", &chooses, err);
	if (rc)
		return rc;
	a->targets_file = a->inputs_file;
	file = gt_ckpt_root(a->inputs_file);
	if (strcmp(gt_ckpt_format(a->inputs_file), "npz"))
		return gt_err_set(err, GT_EFORMAT, "'%s': not an .npz file, but %s", spec->path,
		    gt_ckpt_format(a->inputs_file));
	rc = report_arrays(a, spec->path, err);
	for (int i = 1; i < GT_MAX_FIELDS && !rc; i++)
		if (a->field_names[i])
			a->fields[i] = tensor_of(file, a->field_names[i]);
	if (!rc && gt_arrays_take(a, tensor_of(file, a->inputs_name),
	               tensor_of(file, a->targets_name), spec, request, err))
		rc = gt_err_prefix(err, "'%s'", spec->path);
	return rc;
}

static int open_arrays(struct gt_source **out,
    int (*open)(struct gt_arrays *a, const struct gt_spec *spec,
        const struct gt_data_request *request, struct gt_err *err),
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_arrays *a = gt_calloc(1, sizeof(*a), err);
	int rc;

	if (!a)
		return GT_ENOMEM;
	a->source.ops = &gt_arrays_ops;
	rc = open(a, spec, request, err);
	if (rc)
		gt_arrays_ops.close(&a->source);
	else
		*out = &a->source;
	return rc;
}

static int open_npy(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_arrays(out, open_npy_files, spec, request, err);
}

static int open_npz(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_arrays(out, open_npz_file, spec, request, err);
}

/* ---- the kinds ---- */

#define COMMON_SETTINGS                                                                            \
	{ "task", "auto|classification|regression|labels", "auto",                                 \
		"whether targets are classes, numbers or labels" },                                \
	    { "layout", "auto|hwc|chw", "auto",                                                    \
		    "where the channels of images are: last or first" },                           \
	    GT_NORMALIZATION_SETTINGS("0", "1"),                                                   \
	{                                                                                          \
		0                                                                                  \
	}

static const struct gt_setting npy_settings[] = {
	{ "target", "FILE", NULL, "the .npy file of the targets (required)" }, COMMON_SETTINGS
};

static const struct gt_setting npz_settings[] = { { "input", "NAME", "a usual name, such as x",
	                                              "the array of the inputs" },
	{ "target", "NAME", "a usual name, such as y", "the array of the targets" },
	{ "input.NAME", "ARRAY", "an array of this name",
	    "the array for the input NAME of a network that takes several" },
	{ "split", "train|val|test", "train if it exists",
	    "use the arrays of this split, such as x_train or train_images" },
	COMMON_SETTINGS };

const struct gt_source_kind gt_npy_kind = {
	.form = { .name = "npy",
	    .path = "FILE",
	    .summary = "a NumPy array of features or images, and one of targets",
	    .settings = npy_settings,
	    .example = "npy:x.npy,target=y.npy" },
	.open = open_npy,
};

const struct gt_source_kind gt_npz_kind = {
	.form = { .name = "npz",
	    .path = "FILE",
	    .summary = "an archive of NumPy arrays: features or images, and targets",
	    .settings = npz_settings,
	    .example = "npz:mnist.npz,split=test" },
	.open = open_npz,
};
