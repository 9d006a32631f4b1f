/* inputs.c - the tensors that a network takes, bound to the samples and targets of the data. */
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/import/network.h"

/* ---- what the file says ---- */

static bool is_fixed(const json_t *sizes, size_t i)
{
	return json_object_get(json_array_get(sizes, i), "as_int") != NULL;
}

static int fixed_size(const json_t *sizes, size_t i)
{
	return (int)json_integer_value(json_object_get(json_array_get(sizes, i), "as_int"));
}

/* A size that is left open has that of the example which the network was exported with. */
static int example_size(const json_t *sizes, size_t i)
{
	const json_t *open = json_object_get(json_array_get(sizes, i), "as_expr");
	const json_t *hint = json_object_get(json_object_get(open, "hint"), "as_int");

	return hint ? (int)json_integer_value(hint) : fixed_size(sizes, i);
}

static enum gt_field_type field_type(int number)
{
	enum gt_dtype dtype = GT_F32;

	gt_exported_dtype(number, &dtype);
	if (dtype == GT_I64 || dtype == GT_I32)
		return GT_FIELD_INT;
	return dtype == GT_BOOL ? GT_FIELD_BOOL : GT_FIELD_FLOAT;
}

static void describe_field(
    const struct gt_network *n, const char *name, struct gt_sample_field *out)
{
	int dtype;
	const json_t *sizes = gt_network_value(n, name, &dtype);

	memcpy(out->name, name, strlen(name) + 1);
	out->type = field_type(dtype);
	for (size_t i = 1; i < json_array_size(sizes) && i <= GT_FIELD_DIMS; i++) {
		int size = example_size(sizes, i);

		out->open |= is_fixed(sizes, i) ? 0 : 1u << (i - 1);
		out->shape[out->ndim++] = size > 0 ? size : 0;
	}
}

/* Sizes that the network leaves open are 0, the data tell them; but for the length of texts. A
 * network with one target for a sample of whole numbers is no language model. */
static void describe_inputs(const struct gt_network *n, struct gt_sample_form *out)
{
	int dtype;
	const char *target = gt_network_input(n, GT_NETWORK_TARGET);
	const json_t *scores = gt_network_value(n, n->output, &dtype);
	size_t targets = target ? json_array_size(gt_network_value(n, target, &dtype))
	                        : json_array_size(scores) - 1;
	const json_t *sizes = gt_network_value(n, gt_network_input(n, GT_NETWORK_SAMPLE), &dtype);

	if (field_type(dtype) == GT_FIELD_INT && targets != 1) {
		out->kind = GT_SAMPLE_TOKENS;
		out->block = example_size(sizes, 1);
	} else if (json_array_size(sizes) == 4) {
		out->kind = GT_SAMPLE_IMAGE;
		out->channels = fixed_size(sizes, 1);
		out->height = fixed_size(sizes, 2);
		out->width = fixed_size(sizes, 3);
	} else {
		out->kind = GT_SAMPLE_VECTOR;
		out->features = fixed_size(sizes, 1);
	}
	if (json_array_size(scores))
		out->classes = fixed_size(scores, json_array_size(scores) - 1);
	for (int i = 0; i < n->input_count; i++)
		if (n->inputs[i].role == GT_NETWORK_SAMPLE)
			describe_field(n, n->inputs[i].name, &out->fields[out->field_count++]);
}

/* A network with one input takes it in the form of its kind, unless rows have whole numbers. */
void gt_network_describe_inputs(const struct gt_network *n, struct gt_sample_form *out)
{
	describe_inputs(n, out);
	if (out->field_count == 1 &&
	    (out->fields[0].type == GT_FIELD_FLOAT || out->kind == GT_SAMPLE_TOKENS))
		out->field_count = 0;
}

/* ---- binding ---- */

/* Hold the sizes that the network was exported for against those of the data. */
static bool take_sizes(struct gt_import *im, const char *name, const struct gt_value *x)
{
	int dtype;
	const json_t *sizes = gt_network_value(im->network, name, &dtype);

	if (!x->ndim || json_array_size(sizes) != (size_t)x->ndim)
		return false;
	for (int i = 0; i < x->ndim; i++) {
		const json_t *size = json_array_get(sizes, (size_t)i);
		const char *symbol = json_string_value(
		    json_object_get(json_object_get(size, "as_expr"), "expr_str"));
		int64_t fixed = json_integer_value(json_object_get(size, "as_int"));

		if (symbol && !gt_symbols_set(&im->symbols, symbol, x->shape[i]))
			return false;
		if (!symbol && i == 0)
			im->exported_batch = fixed;
		else if (!symbol && fixed != x->shape[i])
			return false;
	}
	return true;
}

static struct gt_value sample_of(const struct gt_value *x)
{
	struct gt_value sample = *x;

	sample.ndim--;
	memmove(sample.shape, x->shape + 1, sizeof(x->shape) - sizeof(*x->shape));
	return sample;
}

/* Set the hint: settings that give images the size of the network, or the example with which the
 * network takes the data. */
static void hint_shape(
    struct gt_import *im, const struct gt_model_input *in, const struct gt_value *sample)
{
	const struct gt_shape_text text = gt_shape_text(sample);
	struct gt_sample_form own = { 0 };

	gt_network_describe_inputs(im->network, &own);
	if (in->form.kind == GT_SAMPLE_IMAGE && own.kind == GT_SAMPLE_IMAGE && own.height > 0 &&
	    own.height == own.width && (own.channels == 1 || own.channels == 3))
		gt_err_hint(&im->g->err,
		    "size=%d,channels=%d in {data} reads pictures so; or export the module with an "
		    "example of the shape [batch, %s",
		    own.height, own.channels, text.s + 1);
	else
		gt_err_hint(&im->g->err,
		    "export the module with an example of the shape [batch, %s", text.s + 1);
}

static bool fail_shape(struct gt_import *im, const struct gt_model_input *in,
    const struct gt_sample_field *field, const struct gt_value *x)
{
	char wanted[GT_FIELD_SHAPE];
	struct gt_value sample = sample_of(x);

	gt_field_shape_text(wanted, field);
	if (in->form.field_count)
		gt_graph_fail(im->g, GT_EINVAL,
		    "'%s' takes '%s' of the shape %s, and that of the data has %s",
		    im->network->file, field->name, wanted, gt_shape_text(&sample).s);
	else
		gt_graph_fail(im->g, GT_EINVAL,
		    "'%s' takes samples of the shape %s, and those of the data have %s",
		    im->network->file, wanted, gt_shape_text(&sample).s);
	if (in->form.field_count && field->open)
		gt_err_hint(&im->g->err, "sizes that the network leaves open are equal in the "
		                         "inputs that share them");
	else
		hint_shape(im, in, &sample);
	return false;
}

/* Return the values that the samples have for an input of the network, or NULL. */
static struct gt_value *find_field(
    struct gt_import *im, const struct gt_model_input *in, struct gt_value *x, const char *name)
{
	const char *first = gt_network_input(im->network, GT_NETWORK_SAMPLE);
	int i = gt_sample_field_find(&in->form, name);

	if (!in->form.field_count)
		return strcmp(name, first) ? NULL : x;
	if (i < 0)
		return NULL;
	return i ? gt_model_field(im->g, &in->form, gt_graph_find(im->g, "input"), i) : x;
}

/* Set *out to a size of an input that no field gives, which is above 0. */
static bool compute_size(struct gt_import *im, const json_t *size, int64_t *out)
{
	const char *symbol =
	    json_string_value(json_object_get(json_object_get(size, "as_expr"), "expr_str"));

	*out = json_integer_value(json_object_get(size, "as_int"));
	return (!symbol || gt_symbols_compute(&im->symbols, symbol, out)) && *out > 0;
}

/* Bind an input whose values follow from the length of a text. */
static bool bind_constant(
    struct gt_import *im, const char *name, const struct gt_sample_field *field)
{
	static const enum gt_dtype types[] = {
		[GT_FIELD_FLOAT] = GT_F32, [GT_FIELD_INT] = GT_I64, [GT_FIELD_BOOL] = GT_BOOL
	};
	enum gt_field_meaning meaning = gt_field_meaning(field);
	int dtype, ndim = field->ndim + 1;
	const json_t *sizes = gt_network_value(im->network, name, &dtype);
	int64_t shape[GT_MAX_DIMS] = { 0 }, index[GT_MAX_DIMS] = { 0 };
	struct gt_constant *c;
	struct gt_binding *b;

	if ((size_t)ndim != json_array_size(sizes) || ndim > GT_MAX_DIMS)
		return false;
	for (int i = 0; i < ndim; i++)
		if (!compute_size(im, json_array_get(sizes, (size_t)i), &shape[i]))
			return false;
	c = gt_constant_new(&im->constants, types[field->type], ndim, shape);
	gt_import_blame_file(im);
	b = c ? gt_import_bind(im, name, NULL) : NULL;
	if (!b)
		return false;
	do {
		double x = meaning == GT_FIELD_MASK ? 1 : 0;

		if (meaning == GT_FIELD_POSITIONS)
			x = (double)index[ndim - 1];
		*gt_constant_at(c, index) = x;
	} while (gt_constant_next(ndim, shape, index));
	b->constant = c;
	return true;
}

static bool fail_missing(struct gt_import *im, const struct gt_sample_form *all, int i)
{
	char text[GT_FIELDS_TEXT];

	if (im->g->err.code)
		return false;
	gt_graph_fail(im->g, GT_EINVAL, "'%s' takes the input '%s', which the data do not have",
	    im->network->file, all->fields[i].name);
	gt_err_hint(&im->g->err,
	    "it takes %s: npz data give them by arrays of these names, csv data "
	    "by input.NAME=COLUMN/...",
	    gt_sample_fields_text(text, all));
	return false;
}

/* The names in the graph of the fields of samples. */
static int list_samples(const struct gt_network *n, const char *names[GT_MAX_FIELDS])
{
	int count = 0;

	for (int i = 0; i < n->input_count; i++)
		if (n->inputs[i].role == GT_NETWORK_SAMPLE)
			names[count++] = n->inputs[i].name;
	return count;
}

/* The sizes of the fields are known before those of constants are computed from them. */
static bool bind_samples(struct gt_import *im, const struct gt_model_input *in, struct gt_value *x)
{
	bool bound[GT_MAX_FIELDS] = { false };
	struct gt_sample_form all = { 0 };
	const char *names[GT_MAX_FIELDS];
	int count = list_samples(im->network, names);

	describe_inputs(im->network, &all);
	im->batch = x->shape[0];
	for (int i = 0; i < count && !im->g->err.code; i++) {
		struct gt_value *v = find_field(im, in, x, names[i]);

		if (!v)
			continue;
		if (!take_sizes(im, names[i], v))
			return fail_shape(im, in, &all.fields[i], v);
		bound[i] = gt_import_bind(im, names[i], v) != NULL;
	}
	for (int i = 0; i < count && !im->g->err.code; i++) {
		enum gt_field_meaning meaning = gt_field_meaning(&all.fields[i]);
		bool given = meaning == GT_FIELD_MASK && in->form.kind != GT_SAMPLE_TOKENS;

		if (bound[i])
			continue;
		if (meaning == GT_FIELD_DATA || given ||
		    !bind_constant(im, names[i], &all.fields[i]))
			return fail_missing(im, &all, i);
	}
	return !im->g->err.code;
}

/* ---- the target ---- */

/* The type of an input in PyTorch. */
static enum gt_dtype type_of_input(const struct gt_network *n, const char *input)
{
	enum gt_dtype dtype = GT_F32;
	int number;

	gt_network_value(n, input, &number);
	return gt_exported_dtype(number, &dtype) ? dtype : GT_F32;
}

/* Return the name of the tensor that is the first argument of a node, or NULL. */
static const char *first_tensor(const json_t *node)
{
	const json_t *first = json_array_get(json_object_get(node, "inputs"), 0);
	const json_t *tensor = json_object_get(json_object_get(first, "arg"), "as_tensor");

	return json_string_value(json_object_get(tensor, "name"));
}

/*
 * Return whether the network compares the scores of each token with the target of the next one, as
 * Hugging Face's language models do: it leaves the first target of a text out.
 *
 *   labels = pad(labels, (0, 1), value=-100)[..., 1:]     or     labels[..., 1:]
 */
static bool shifts_target(const struct gt_network *n, const char *name)
{
	const json_t *node;
	size_t i;

	json_array_foreach(n->nodes, i, node)
	{
		const char *target = json_string_value(json_object_get(node, "target"));
		const json_t *start = json_array_get(json_object_get(node, "inputs"), 2);
		const char *first = first_tensor(node);

		if (!target || !first || strcmp(first, name) != 0)
			continue;
		if (gt_aten_names(target, "pad.default"))
			return true;
		if (gt_aten_names(target, "slice.Tensor") &&
		    json_integer_value(json_object_get(json_object_get(start, "arg"), "as_int")) ==
		        1)
			return true;
	}
	return false;
}

/* Convert the targets of the data to the type and the dimensions that the network takes. NULL: they
 * cannot be. */
static struct gt_value *convert_target(
    struct gt_import *im, const struct gt_model_input *in, const char *name, struct gt_value *t)
{
	const struct gt_network *n = im->network;
	int dtype;
	size_t ndim = json_array_size(gt_network_value(n, name, &dtype));
	bool whole = !gt_dtype_is_float(type_of_input(n, name));
	int64_t shape[GT_MAX_DIMS];

	if (whole && in->form.target == GT_SAMPLE_NUMBER)
		return gt_graph_fail(im->g, GT_EINVAL,
		    "'%s' takes whole numbers as its target '%s', and the data have numbers with "
		    "fractions",
		    n->file, name);
	if (in->form.kind == GT_SAMPLE_TOKENS && shifts_target(n, name))
		t = gt_roll(im->g, t, (int64_t[]){ 0, 1 });
	if (!whole && t && t->dtype != GT_F32)
		t = gt_unary(im->g, GT_F_COPY, t);
	if (!t || ndim != (size_t)t->ndim + 1)
		return t;
	memcpy(shape, t->shape, sizeof(shape));
	shape[t->ndim] = 1;
	return gt_reshape(im->g, t, t->ndim + 1, shape);
}

static bool bind_target(
    struct gt_import *im, const struct gt_model_input *in, struct gt_value *target)
{
	const struct gt_network *n = im->network;
	const char *input = gt_network_input(n, GT_NETWORK_TARGET);
	struct gt_sample_field field = { .ndim = 0 };
	char wanted[GT_FIELD_SHAPE];
	struct gt_value *t, sample;

	if (!input)
		return true;
	if (!target) {
		gt_graph_fail(im->g, GT_ENOTSUP,
		    "'%s' takes the target '%s' beside the samples: it is for {loss} output",
		    n->file, input);
		gt_err_hint(&im->g->err, "export a module whose forward() takes one tensor");
		return false;
	}
	t = convert_target(im, in, input, target);
	if (!t || take_sizes(im, input, t))
		return t && gt_import_bind(im, input, t);
	sample = sample_of(target);
	describe_field(n, input, &field);
	gt_graph_fail(im->g, GT_EINVAL,
	    "'%s' takes targets '%s' of the shape %s, and those of the data have %s", n->file,
	    input, gt_field_shape_text(wanted, &field), gt_shape_text(&sample).s);
	return false;
}

/* Return whether an argument of a node has the name of a tensor in it. */
static bool mentions(const json_t *argument, const char *name)
{
	const char *own = json_string_value(json_object_get(argument, "name")), *key;
	const json_t *inner;
	size_t i;

	if (own && !strcmp(own, name))
		return true;
	json_object_foreach((json_t *)argument, key, inner) if (mentions(inner, name)) return true;
	json_array_foreach(argument, i, inner) if (mentions(inner, name)) return true;
	return false;
}

/* Check that a node reads the samples: one tensor that stands for both inputs at the export is the
 * second one alone in the file. */
static bool check_sample_is_read(struct gt_import *im)
{
	const char *name = gt_network_input(im->network, GT_NETWORK_SAMPLE);
	const json_t *node, *input;
	size_t i, k;

	if (!gt_network_input(im->network, GT_NETWORK_TARGET))
		return true;
	json_array_foreach(im->network->nodes, i, node)
	    json_array_foreach(json_object_get(node, "inputs"), k,
	        input) if (mentions(json_object_get(input, "arg"), name)) return true;
	gt_graph_fail(
	    im->g, GT_ENOTSUP, "'%s' does not read its input '%s'", im->network->file, name);
	gt_err_hint(&im->g->err, "give torch.export.export() a tensor of its own for each input");
	return false;
}

bool gt_import_bind_inputs(struct gt_import *im, const struct gt_model_input *in,
    struct gt_value *x, struct gt_value *target)
{
	return check_sample_is_read(im) && bind_samples(im, in, x) && bind_target(im, in, target);
}

void gt_network_choose_target(struct gt_network *n)
{
	static const char *const usual[] = { "labels", "label", "targets", "target", "y" };
	int found = n->input_count - 1;

	if (!n->loss || n->input_count < 2)
		return;
	for (int i = 0; i < n->input_count; i++)
		for (size_t k = 0; k < sizeof(usual) / sizeof(*usual); k++)
			if (!strcmp(n->inputs[i].name, usual[k]))
				found = i;
	n->inputs[found].role = GT_NETWORK_TARGET;
}
