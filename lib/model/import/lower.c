/* lower.c - the operators of ONNX that gtrain reads, one row each, and calls of functions. */
#include "lib/model/import/lower.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators and their defaults are those of onnx.ai/onnx/operators, opset 13 to 23. */
static const struct gt_lowering rows[] = {
	{ "Abs", gt_lower_plain, "abs.default", "self", false },
	{ "Add", gt_lower_plain, "add.Tensor", "self other", false },
	{ "And", gt_lower_plain, "__and__.Tensor", "self other", true },
	{ "Attention", gt_lower_attention, "scaled_dot_product_attention.default", NULL, false },
	{ "AveragePool", gt_lower_pool, "avg_pool", NULL, false },
	{ "BatchNormalization", gt_lower_batch_norm, "batch_norm.default", NULL, false },
	{ "Cast", gt_lower_cast, "to.dtype", NULL, false },
	{ "CastLike", gt_lower_cast, "to.dtype", NULL, false },
	{ "Celu", gt_lower_elu, "celu.default", NULL, false },
	{ "Clip", gt_lower_clip, "clamp.default", NULL, false },
	{ "Concat", gt_lower_concat, "cat.default", NULL, false },
	{ "ConstantOfShape", gt_lower_constant_of_shape, "full.default", NULL, false },
	{ "Conv", gt_lower_conv, "conv2d.default", NULL, false },
	{ "ConvTranspose", gt_lower_conv_transpose, "conv_transpose2d.input", NULL, false },
	{ "Cos", gt_lower_plain, "cos.default", "self", false },
	{ "CumSum", gt_lower_cumsum, "cumsum.default", NULL, false },
	{ "DepthToSpace", gt_lower_depth_to_space, "pixel_shuffle.default", NULL, false },
	{ "Div", gt_lower_divide, "div.Tensor", NULL, false },
	{ "Dropout", gt_lower_dropout, "dropout.default", NULL, false },
	{ "Einsum", gt_lower_einsum, "einsum.default", NULL, false },
	{ "Elu", gt_lower_elu, "elu.default", NULL, false },
	{ "Equal", gt_lower_plain, "eq.Tensor", "self other", true },
	{ "Erf", gt_lower_plain, "erf.default", "self", false },
	{ "Exp", gt_lower_plain, "exp.default", "self", false },
	{ "Expand", gt_lower_expand, "expand.default", NULL, false },
	{ "Flatten", gt_lower_flatten, "reshape.default", NULL, false },
	{ "Floor", gt_lower_plain, "floor.default", "self", false },
	{ "Gather", gt_lower_gather, "index_select.default", NULL, false },
	{ "GatherElements", gt_lower_gather_elements, "gather.default", NULL, false },
	{ "Gelu", gt_lower_gelu, "gelu.default", NULL, false },
	{ "Gemm", gt_lower_gemm, "linear.default", NULL, false },
	{ "GlobalAveragePool", gt_lower_global_pool, "adaptive_avg_pool", NULL, false },
	{ "GlobalMaxPool", gt_lower_global_pool, "adaptive_max_pool", NULL, false },
	{ "Greater", gt_lower_plain, "gt.Tensor", "self other", true },
	{ "GreaterOrEqual", gt_lower_plain, "ge.Tensor", "self other", true },
	{ "GroupNormalization", gt_lower_group_norm, "group_norm.default", NULL, false },
	{ "HardSigmoid", gt_lower_hard_sigmoid, "hardsigmoid.default", NULL, false },
	{ "HardSwish", gt_lower_plain, "hardswish.default", "self", false },
	{ "Identity", gt_lower_same, "alias.default", NULL, false },
	{ "InstanceNormalization", gt_lower_instance_norm, "instance_norm.default", NULL, false },
	{ "IsNaN", gt_lower_is_nan, "ne.Tensor", NULL, true },
	{ "LayerNormalization", gt_lower_layer_norm, "layer_norm.default", NULL, false },
	{ "LeakyRelu", gt_lower_leaky_relu, "leaky_relu.default", NULL, false },
	{ "Less", gt_lower_plain, "lt.Tensor", "self other", true },
	{ "LessOrEqual", gt_lower_plain, "le.Tensor", "self other", true },
	{ "Log", gt_lower_plain, "log.default", "self", false },
	{ "LogSoftmax", gt_lower_softmax, "log_softmax.int", NULL, false },
	{ "MatMul", gt_lower_plain, "matmul.default", "self other", false },
	{ "Max", gt_lower_chain, "maximum.default", NULL, false },
	{ "MaxPool", gt_lower_pool, "max_pool", NULL, false },
	{ "Mean", gt_lower_mean, "add.Tensor", NULL, false },
	{ "Min", gt_lower_chain, "minimum.default", NULL, false },
	{ "Mish", gt_lower_plain, "mish.default", "self", false },
	{ "Mod", gt_lower_plain, "remainder.Tensor", "self other", false },
	{ "Mul", gt_lower_plain, "mul.Tensor", "self other", false },
	{ "Neg", gt_lower_plain, "neg.default", "self", false },
	{ "Not", gt_lower_plain, "logical_not.default", "self", true },
	{ "Or", gt_lower_plain, "__or__.Tensor", "self other", true },
	{ "PRelu", gt_lower_plain, "prelu.default", "self weight", false },
	{ "Pad", gt_lower_pad, "pad.default", NULL, false },
	{ "Pow", gt_lower_plain, "pow.Tensor_Tensor", "self exponent", false },
	{ "RMSNormalization", gt_lower_layer_norm, "rms_norm.default", NULL, false },
	{ "Range", gt_lower_range, "arange.start_step", NULL, false },
	{ "Reciprocal", gt_lower_reciprocal, "div.Tensor", NULL, false },
	{ "ReduceL2", gt_lower_reduce_l2, "linalg_vector_norm.default", NULL, false },
	{ "ReduceMean", gt_lower_reduce, "mean.dim", NULL, false },
	{ "ReduceSum", gt_lower_reduce, "sum.dim_IntList", NULL, false },
	{ "ReduceSumSquare", gt_lower_reduce_square, "sum.dim_IntList", NULL, false },
	{ "Relu", gt_lower_plain, "relu.default", "self", false },
	{ "Reshape", gt_lower_reshape, "reshape.default", NULL, false },
	{ "Resize", gt_lower_resize, "upsample_nearest2d.vec", NULL, false },
	{ "Selu", gt_lower_elu, "selu.default", NULL, false },
	{ "SequenceAt", gt_lower_sequence_at, "alias.default", NULL, false },
	{ "Shape", gt_lower_shape_tensor, "shape", NULL, false },
	{ "Sigmoid", gt_lower_plain, "sigmoid.default", "self", false },
	{ "Sign", gt_lower_plain, "sign.default", "self", false },
	{ "Sin", gt_lower_plain, "sin.default", "self", false },
	{ "Size", gt_lower_shape_tensor, "size", NULL, false },
	{ "Slice", gt_lower_slice, "slice.Tensor", NULL, false },
	{ "Softmax", gt_lower_softmax, "softmax.int", NULL, false },
	{ "Softplus", gt_lower_plain, "softplus.default", "self", false },
	{ "Softsign", gt_lower_softsign, "div.Tensor", NULL, false },
	{ "Split", gt_lower_split, "slice.Tensor", NULL, false },
	{ "SplitToSequence", gt_lower_split, "slice.Tensor", NULL, false },
	{ "Sqrt", gt_lower_plain, "sqrt.default", "self", false },
	{ "Squeeze", gt_lower_squeeze, "squeeze.dim", NULL, false },
	{ "Sub", gt_lower_plain, "sub.Tensor", "self other", false },
	{ "Sum", gt_lower_chain, "add.Tensor", NULL, false },
	{ "Tanh", gt_lower_plain, "tanh.default", "self", false },
	{ "ThresholdedRelu", gt_lower_threshold, "threshold.default", NULL, false },
	{ "Tile", gt_lower_tile, "cat.default", NULL, false },
	{ "TopK", gt_lower_topk, "topk.default", NULL, false },
	{ "Transpose", gt_lower_transpose, "permute.default", NULL, false },
	{ "Trilu", gt_lower_triangle, "tril.default", NULL, false },
	{ "Unsqueeze", gt_lower_unsqueeze, "unsqueeze.default", NULL, false },
	{ "Where", gt_lower_plain, "where.self", "condition self other", false },
	{ NULL, NULL, NULL, NULL, false },
};

static const char onnx[] = "onnx.";

static const struct gt_lowering *find_lowering(const char *target)
{
	if (strncmp(target, onnx, strlen(onnx)) != 0)
		return NULL;
	for (const struct gt_lowering *row = rows; row->op; row++)
		if (!strcmp(row->op, target + strlen(onnx)))
			return row;
	return NULL;
}

const char *gt_lower_function(const char *target)
{
	const struct gt_lowering *row = find_lowering(target);

	return row ? row->target : NULL;
}

const char *gt_lower_op(const struct gt_import *im)
{
	const char *target = json_string_value(json_object_get(im->origin, "target"));

	if (!target)
		return "";
	return strncmp(target, onnx, strlen(onnx)) ? target : target + strlen(onnx);
}

const char *gt_lower_node_name(const struct gt_import *im)
{
	const json_t *metadata = json_object_get(im->origin, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	const json_t *output = json_array_get(json_object_get(im->origin, "outputs"), 0);

	if (name && *name)
		return name;
	name = json_string_value(json_object_get(json_object_get(output, "as_tensor"), "name"));
	return name ? name : "";
}

void gt_lower_begin(struct gt_import *im)
{
	im->types = json_object();
	im->calls = json_array();
	if (!im->types || !im->calls)
		gt_graph_fail(im->g, GT_ENOMEM, "no memory for the import");
}

void gt_lower_set_type(struct gt_import *im, const char *name, enum gt_dtype dtype)
{
	if (name && json_object_set_new(im->types, name, json_integer(gt_exported_number(dtype))))
		gt_graph_fail(im->g, GT_ENOMEM, "no memory for the import");
}

void gt_lower_node(struct gt_import *im, const char *target)
{
	im->origin = im->node;
	im->lowering = find_lowering(target);
	if (im->lowering)
		im->lowering->lower(im);
	else
		gt_import_fail(im, "is an operator that gtrain does not have");
	if (im->g->err.code == GT_EINVAL)
		gt_err_prefix(&im->g->err, "%s '%s'", gt_lower_op(im), gt_lower_node_name(im));
	im->node = im->origin;
	im->origin = NULL;
}

/* ---- inputs ---- */

/* The inputs of a node come before its attributes, and are called by their numbers. */
static const char *name_of_input(struct gt_import *im, int i)
{
	const json_t *inputs = json_object_get(im->node, "inputs");
	const json_t *input = json_array_get(inputs, (size_t)i);
	const char *name = json_string_value(json_object_get(input, "name"));
	char argument[16];

	snprintf(argument, sizeof(argument), "%d", i);
	if (!name || strcmp(name, argument) != 0)
		return NULL;
	return json_string_value(
	    json_object_get(json_object_get(json_object_get(input, "arg"), "as_tensor"), "name"));
}

const char *gt_lower_input(struct gt_import *im, int i)
{
	return name_of_input(im, i);
}

const char *gt_lower_need(struct gt_import *im, int i)
{
	const char *name = name_of_input(im, i);

	return name ? name : gt_import_fail(im, "has no input %d", i);
}

int gt_lower_inputs(struct gt_import *im)
{
	int count = 0;

	for (int i = 0; i < (int)json_array_size(json_object_get(im->node, "inputs")); i++)
		if (name_of_input(im, i))
			count = i + 1;
	return count;
}

const char *gt_lower_output(struct gt_import *im, int i)
{
	const json_t *outputs = json_object_get(im->origin, "outputs");
	const json_t *tensor = json_object_get(json_array_get(outputs, (size_t)i), "as_tensor");

	return json_string_value(json_object_get(tensor, "name"));
}

enum gt_dtype gt_lower_type(struct gt_import *im, int i)
{
	char argument[16];

	snprintf(argument, sizeof(argument), "%d", i);
	return gt_import_type(im, argument);
}

struct gt_constant *gt_lower_constant(struct gt_import *im, int i)
{
	char argument[16];

	snprintf(argument, sizeof(argument), "%d", i);
	return gt_import_constant(im, argument);
}

int gt_lower_shape_of(struct gt_import *im, const char *name, int64_t shape[GT_MAX_DIMS])
{
	const struct gt_binding *b = name ? gt_index_find(&im->bindings, &name) : NULL;

	if (b && b->constant) {
		memcpy(shape, b->constant->shape, sizeof(b->constant->shape));
		return b->constant->ndim;
	}
	if (b && b->value) {
		memcpy(shape, b->value->shape, sizeof(b->value->shape));
		return b->value->ndim;
	}
	gt_import_fail(im, "reads '%s', which no node before it makes", name ? name : "");
	return -1;
}

int gt_lower_shape(struct gt_import *im, int i, int64_t shape[GT_MAX_DIMS])
{
	const char *name = gt_lower_need(im, i);

	if (name)
		gt_lower_constant(im, i); /* constants of the file are read when they are needed */
	return name && !im->g->err.code ? gt_lower_shape_of(im, name, shape) : -1;
}

int64_t gt_lower_whole(double number)
{
	if (number >= 0x1p62)
		return INT64_MAX;
	if (number <= -0x1p62)
		return INT64_MIN;
	return isnan(number) ? 0 : (int64_t)number;
}

int gt_lower_sizes(struct gt_import *im, int i, const char *what, int64_t out[GT_MAX_DIMS])
{
	const struct gt_constant *c = name_of_input(im, i) ? gt_lower_constant(im, i) : NULL;
	int64_t index[GT_MAX_DIMS] = { 0 };
	int count = 0;

	if (!name_of_input(im, i) || im->g->err.code)
		return -1;
	if (!c || c->ndim > 1 || gt_constant_count(c) > GT_MAX_DIMS) {
		gt_import_fail(im,
		    c ? ": its input '%s' has too many numbers"
		      : ": its input '%s' depends on the data",
		    what);
		return -1;
	}
	if (!gt_constant_count(c))
		return 0;
	do {
		out[count++] = gt_lower_whole(*gt_constant_at(c, index));
	} while (gt_constant_next(c->ndim, c->shape, index));
	return count;
}

double gt_lower_number_of(struct gt_import *im, int i, const char *what, double missing)
{
	const struct gt_constant *c = name_of_input(im, i) ? gt_lower_constant(im, i) : NULL;

	if (!name_of_input(im, i))
		return missing;
	if (c && gt_constant_count(c) == 1)
		return *c->elements;
	gt_import_fail(im,
	    c ? ": its input '%s' is not one number" : ": its input '%s' depends on the data",
	    what);
	return missing;
}

/* ---- arguments ---- */

json_t *gt_lower_tensor(const char *name)
{
	return name ? json_pack("{s:{s:s}}", "as_tensor", "name", name) : NULL;
}

json_t *gt_lower_tensors(int count, const char *const *names)
{
	json_t *list = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:s}", "name", names[i]));
	return json_pack("{s:o}", "as_tensors", list);
}

json_t *gt_lower_int(int64_t number)
{
	return json_pack("{s:I}", "as_int", (json_int_t)number);
}

json_t *gt_lower_ints(int count, const int64_t *numbers)
{
	json_t *list = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(list, json_integer(numbers[i]));
	return json_pack("{s:o}", "as_ints", list);
}

json_t *gt_lower_float(double number)
{
	if (isfinite(number))
		return json_pack("{s:f}", "as_float", number);
	return json_pack("{s:s}", "as_float",
	    isnan(number) ? "NaN"
	    : number > 0  ? "Infinity"
	                  : "-Infinity");
}

json_t *gt_lower_bool(bool truth)
{
	return json_pack("{s:b}", "as_bool", truth);
}

json_t *gt_lower_string(const char *text)
{
	return json_pack("{s:s}", "as_string", text);
}

json_t *gt_lower_none(void)
{
	return json_pack("{s:b}", "as_none", 1);
}

/* ---- calls ---- */

const char *gt_lower_make_name(struct gt_import *im)
{
	char name[32];

	snprintf(name, sizeof(name), "#%d", im->made++);
	return gt_arena_strdup(&im->g->arena, name, &im->g->err);
}

/* Call a function with arguments and outputs in lists, which are taken over. */
static bool call_lists(struct gt_import *im, const char *target, json_t *inputs, json_t *outputs)
{
	char full[128];
	json_t *node;

	snprintf(full, sizeof(full), "torch.ops.aten.%s", target);
	node = json_pack("{s:s, s:o, s:o}", "target", full, "inputs", inputs, "outputs", outputs);
	if (!node || json_array_append_new(im->calls, node))
		return gt_graph_fail(im->g, GT_ENOMEM, "no memory for the import");
	im->node = node;
	gt_import_call(im, full);
	im->node = im->origin;
	return !im->g->err.code;
}

/* Read pairs of a name and an argument up to NULL. */
static json_t *list_arguments(va_list ap)
{
	json_t *inputs = json_array();
	const char *name;

	while ((name = va_arg(ap, const char *))) {
		json_t *argument = va_arg(ap, json_t *);

		if (argument)
			json_array_append_new(
			    inputs, json_pack("{s:s, s:o}", "name", name, "arg", argument));
	}
	return inputs;
}

/* Call a function of one result with arguments in a list, which is taken over. */
static const char *call_list(
    struct gt_import *im, const char *target, enum gt_dtype dtype, const char *out, json_t *inputs)
{
	if (im->g->err.code || !out) {
		json_decref(inputs);
		return NULL;
	}
	gt_lower_set_type(im, out, dtype);
	return call_lists(im, target, inputs, json_pack("[o]", gt_lower_tensor(out))) ? out : NULL;
}

const char *gt_lower_call(
    struct gt_import *im, const char *target, enum gt_dtype dtype, const char *out, ...)
{
	json_t *inputs;
	va_list ap;

	va_start(ap, out);
	inputs = list_arguments(ap);
	va_end(ap);
	return call_list(im, target, dtype, out, inputs);
}

void gt_lower_call_pair(struct gt_import *im, const char *target, const enum gt_dtype dtype[2],
    const char *const out[2], ...)
{
	json_t *inputs, *outputs = json_array();
	va_list ap;

	va_start(ap, out);
	inputs = list_arguments(ap);
	va_end(ap);
	for (int i = 0; i < 2; i++) {
		gt_lower_set_type(im, out[i], dtype[i]);
		json_array_append_new(outputs, out[i] ? gt_lower_tensor(out[i]) : gt_lower_none());
	}
	if (im->g->err.code) {
		json_decref(inputs);
		json_decref(outputs);
	} else {
		call_lists(im, target, inputs, outputs);
	}
}

void gt_lower_alias(struct gt_import *im, const char *from, const char *to)
{
	char argument[] = "self";
	enum gt_dtype dtype = GT_F32;

	if (from && json_object_get(im->types, from))
		gt_exported_dtype(
		    (int)json_integer_value(json_object_get(im->types, from)), &dtype);
	else if (from) {
		int number;

		gt_network_value(im->network, from, &number);
		gt_exported_dtype(number, &dtype);
	}
	gt_lower_call(im, "alias.default", dtype, to, argument, gt_lower_tensor(from), NULL);
}

void gt_lower_bind(struct gt_import *im, struct gt_constant *c)
{
	if (!c)
		return;
	gt_lower_set_type(im, gt_lower_output(im, 0), c->dtype);
	gt_import_fold(im, 0, c);
}

void gt_lower_same(struct gt_import *im)
{
	gt_lower_alias(im, gt_lower_need(im, 0), gt_lower_output(im, 0));
}

/* A constant of one element beside a value is a number, which needs no tensor. */
static json_t *plain_argument(struct gt_import *im, int i, int most_dims)
{
	const struct gt_constant *c = gt_lower_constant(im, i);

	if (c && c->ndim <= most_dims && gt_constant_count(c) == 1)
		return gt_lower_float(*c->elements);
	return gt_lower_tensor(gt_lower_need(im, i));
}

/* Return the most dimensions of inputs that are no constants; -1: there are none. */
static int value_dims(struct gt_import *im, int count)
{
	int64_t shape[GT_MAX_DIMS];
	int most = -1;

	for (int i = 0; i < count; i++)
		if (gt_lower_need(im, i) && !gt_lower_constant(im, i)) {
			int ndim = gt_lower_shape(im, i, shape);

			most = ndim > most ? ndim : most;
		}
	return most;
}

void gt_lower_plain(struct gt_import *im)
{
	const char *names = im->lowering->arguments;
	int count = 1, dims;
	json_t *inputs = json_array();
	enum gt_dtype type;

	for (const char *p = names; *p; p++)
		count += *p == ' ';
	dims = count > 1 && strcmp(im->lowering->op, "MatMul") ? value_dims(im, count) : -1;
	for (int i = 0; i < count; i++) {
		int length = (int)strcspn(names, " ");

		json_array_append_new(
		    inputs, json_pack("{s:o, s:o}", "name", json_sprintf("%.*s", length, names),
		                "arg", plain_argument(im, i, dims)));
		names += length + (names[length] == ' ');
	}
	type = im->lowering->truth ? GT_BOOL : gt_lower_type(im, count > 2 ? 1 : 0);
	call_list(im, im->lowering->target, type, gt_lower_output(im, 0), inputs);
}

/* ---- what the nodes tell ---- */

static const char *tensor_of(const json_t *node, size_t i)
{
	const json_t *input = json_array_get(json_object_get(node, "inputs"), i);
	const json_t *tensor = json_object_get(json_object_get(input, "arg"), "as_tensor");

	return json_string_value(json_object_get(tensor, "name"));
}

/* The probability of a dropout is a constant, its second input; without one it is 0.5. */
static double dropout_of(const struct gt_index *tensors, const json_t *node)
{
	const char *name = tensor_of(node, 1);
	const struct gt_network_tensor *t = name ? gt_index_find(tensors, &name) : NULL;
	double p = 0.5;

	if (t && gt_ckpt_tensor_count(t->tensor) == 1)
		gt_ckpt_tensor_read(t->tensor, GT_F64, &p, GT_ERR_IGNORED);
	return p;
}

/* Two exporters tell of a batch norm that is part of a convolution now: by a rule's name, or by
 * names of weights that are no module's. */
static bool has_folded_norm(const json_t *node)
{
	const char *rule =
	    json_string_value(json_object_get(json_object_get(node, "metadata"), "rule"));
	const char *weight = tensor_of(node, 1);

	return (rule && strstr(rule, "BatchNorm")) ||
	       (weight && !strncmp(weight, "onnx::Conv_", strlen("onnx::Conv_")));
}

int gt_lower_examine(struct gt_network *n, struct gt_err *err)
{
	struct gt_index tensors = { .compare = gt_index_by_name }; /* by their arguments */
	const json_t *node;
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < n->tensor_count; i++)
		rc = gt_index_add(&tensors, &n->tensors[i], err) ? 0 : GT_ENOMEM;
	json_array_foreach(n->nodes, i, node)
	{
		const char *target = json_string_value(json_object_get(node, "target"));

		if (!rc && !strcmp(target, "onnx.Dropout"))
			n->dropout = fmax(n->dropout, dropout_of(&tensors, node));
		if (!strncmp(target, "onnx.Conv", strlen("onnx.Conv")) && has_folded_norm(node))
			n->folded_norms++;
	}
	gt_index_release(&tensors);
	return rc;
}
