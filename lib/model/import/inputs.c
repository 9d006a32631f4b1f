/* inputs.c - the tensors that a network takes, bound to the samples and targets of the data. */
#include <stdio.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/import/network.h"

/* ---- what the network takes ---- */

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

enum { SCHEMA_INT = 4, SCHEMA_LONG = 5 };

/* Sizes that the network leaves open are 0, the data tell them; but for the length of texts. */
void gt_network_describe_sample(const struct gt_network *n, struct gt_model_input *out)
{
	int dtype;
	const json_t *sizes = gt_network_value(n, gt_network_input(n, GT_NETWORK_SAMPLE), &dtype);

	if (dtype == SCHEMA_INT || dtype == SCHEMA_LONG) {
		out->form.kind = GT_SAMPLE_TOKENS;
		out->form.block = example_size(sizes, 1);
	} else if (json_array_size(sizes) == 4) {
		out->form.kind = GT_SAMPLE_IMAGE;
		out->form.channels = fixed_size(sizes, 1);
		out->form.height = fixed_size(sizes, 2);
		out->form.width = fixed_size(sizes, 3);
	} else {
		out->form.kind = GT_SAMPLE_VECTOR;
		out->form.features = fixed_size(sizes, 1);
	}
	sizes = gt_network_value(n, n->output, &dtype);
	if (json_array_size(sizes))
		out->form.classes = fixed_size(sizes, json_array_size(sizes) - 1);
}

/* ---- the sample ---- */

/* Hold the sizes of an input in the file against those of the data. */
static bool take_sizes(struct gt_import *im, const char *input, const struct gt_value *x)
{
	int dtype;
	const json_t *sizes = gt_network_value(im->network, input, &dtype);

	if (json_array_size(sizes) != (size_t)x->ndim)
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

/* The sizes of a sample of an input in the file, as "[3, 224, 224]"; "?" stands for any size. */
static struct gt_shape_text sample_text(const struct gt_network *n, const char *input)
{
	struct gt_shape_text text = { "[" };
	const json_t *sizes, *size;
	size_t i, used = 1;
	int dtype;

	sizes = gt_network_value(n, input, &dtype);
	json_array_foreach(sizes, i, size)
	{
		const json_t *fixed = json_object_get(size, "as_int");

		if (!i || used + 24 > sizeof(text.s))
			continue;
		used +=
		    (size_t)(fixed ? snprintf(text.s + used, sizeof(text.s) - used, "%s%lld",
		                         i > 1 ? ", " : "", (long long)json_integer_value(fixed))
		                   : snprintf(text.s + used, sizeof(text.s) - used, "%s?",
		                         i > 1 ? ", " : ""));
	}
	snprintf(text.s + used, sizeof(text.s) - used, "]");
	return text;
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
	struct gt_model_input own = { 0 };

	gt_network_describe_sample(im->network, &own);
	if (in->form.kind == GT_SAMPLE_IMAGE && own.form.kind == GT_SAMPLE_IMAGE &&
	    own.form.height > 0 && own.form.height == own.form.width &&
	    (own.form.channels == 1 || own.form.channels == 3))
		gt_err_hint(&im->g->err,
		    "size=%d,channels=%d in {data} reads pictures so; or export the module with an "
		    "example of the shape [batch, %s",
		    own.form.height, own.form.channels, text.s + 1);
	else
		gt_err_hint(&im->g->err,
		    "export the module with an example of the shape [batch, %s", text.s + 1);
}

static bool bind_sample(struct gt_import *im, const struct gt_model_input *in, struct gt_value *x)
{
	const struct gt_network *n = im->network;
	const char *input = gt_network_input(n, GT_NETWORK_SAMPLE);
	struct gt_value sample = sample_of(x);

	im->batch = x->shape[0];
	if (take_sizes(im, input, x))
		return gt_import_bind(im, input, x);
	gt_graph_fail(im->g, GT_EINVAL,
	    "'%s' takes samples of the shape %s, and those of the data have %s", n->file,
	    sample_text(n, input).s, gt_shape_text(&sample).s);
	hint_shape(im, in, &sample);
	return false;
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
	gt_graph_fail(im->g, GT_EINVAL,
	    "'%s' takes targets '%s' of the shape %s, and those of the data have %s", n->file,
	    input, sample_text(n, input).s, gt_shape_text(&sample).s);
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

	if (im->network->input_count < 2)
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
	return check_sample_is_read(im) && bind_sample(im, in, x) && bind_target(im, in, target);
}
