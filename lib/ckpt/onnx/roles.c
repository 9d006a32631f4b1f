/* roles.c - tell weights from constants: ONNX has one list for both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/onnx/read.h"

/*
 * A tensor of floating point is a weight if the result depends on its elements by a derivative, and
 *
 *   - it is a factor of a product or a convolution, or a table that rows are taken from, or
 *   - an exporter has not made up its name, and its numbers are no mask.
 *
 * Numbers that positions are computed from, and masks that are compared, have no derivative. The
 * mean and the variance of a BatchNormalization are statistics.
 */

/* Operators whose result has no derivative by an input. */
struct rule {
	const char *op;
	unsigned inputs; /* bits: there is one by these */
};

enum { NONE = 0, FIRST = 1u, ALL = ~0u };

static const struct rule rules[] = {
	{ "And", NONE },
	{ "ArgMax", NONE },
	{ "ArgMin", NONE },
	{ "BatchNormalization", 7u },
	{ "CastLike", FIRST },
	{ "Ceil", NONE },
	{ "Clip", FIRST },
	{ "ConstantOfShape", NONE },
	{ "CumSum", FIRST },
	{ "Dropout", FIRST },
	{ "Equal", NONE },
	{ "Expand", FIRST },
	{ "Floor", NONE },
	{ "Gather", FIRST },
	{ "GatherElements", FIRST },
	{ "GatherND", FIRST },
	{ "Greater", NONE },
	{ "GreaterOrEqual", NONE },
	{ "IsInf", NONE },
	{ "IsNaN", NONE },
	{ "Less", NONE },
	{ "LessOrEqual", NONE },
	{ "Not", NONE },
	{ "Or", NONE },
	{ "Pad", FIRST },
	{ "Pow", FIRST },
	{ "Range", NONE },
	{ "ReduceMax", FIRST },
	{ "ReduceMean", FIRST },
	{ "ReduceMin", FIRST },
	{ "ReduceSum", FIRST },
	{ "Reshape", FIRST },
	{ "Resize", FIRST },
	{ "Round", NONE },
	{ "Shape", NONE },
	{ "Sign", NONE },
	{ "Size", NONE },
	{ "Slice", FIRST },
	{ "Split", FIRST },
	{ "SplitToSequence", FIRST },
	{ "Squeeze", FIRST },
	{ "Tile", FIRST },
	{ "Trilu", FIRST },
	{ "Unsqueeze", FIRST },
	{ "Where", 6u },
};

/* Operators whose inputs are weights whatever their names are. */
static const char *const products[] = { "Conv", "ConvTranspose", "Gather", "Gemm", "MatMul" };

struct search {
	struct gt_onnx_reader *r;
	json_t *data;   /* names of values that depend on the samples */
	json_t *useful; /* names by which the result has a derivative */
	json_t *factor; /* names that products read */
	json_t *statistics;
};

static bool has(const json_t *names, const char *name)
{
	return name && json_object_get(names, name) != NULL;
}

static int put(json_t *names, const char *name, struct gt_err *err)
{
	if (!name || !json_object_set_new(names, name, json_true()))
		return 0;
	return gt_err_set(err, GT_ENOMEM, "no memory for the graph");
}

static const char *op_of(const json_t *node)
{
	const char *target = json_string_value(json_object_get(node, "target"));

	return target && !strncmp(target, "onnx.", 5) ? target + 5 : "";
}

/* Return the name of the tensor that argument i of a node is, or NULL. */
static const char *input_of(const json_t *node, size_t i)
{
	const json_t *input = json_array_get(json_object_get(node, "inputs"), i);
	const json_t *tensor = json_object_get(json_object_get(input, "arg"), "as_tensor");

	return json_string_value(json_object_get(tensor, "name"));
}

static const char *output_of(const json_t *node, size_t i)
{
	const json_t *output = json_array_get(json_object_get(node, "outputs"), i);

	return json_string_value(json_object_get(json_object_get(output, "as_tensor"), "name"));
}

static size_t input_count(const json_t *node)
{
	return json_array_size(json_object_get(node, "inputs"));
}

static size_t output_count(const json_t *node)
{
	return json_array_size(json_object_get(node, "outputs"));
}

static unsigned differentiable(const struct search *s, const json_t *node)
{
	const char *op = op_of(node);

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (!strcmp(rules[i].op, op))
			return rules[i].inputs;
	/* angles that do not depend on the samples are those of positions */
	if ((!strcmp(op, "Sin") || !strcmp(op, "Cos")) && !has(s->data, input_of(node, 0)))
		return NONE;
	return ALL;
}

/* ---- the search ---- */

/* Mark values that depend on the samples. The shape of a value does not. */
static int mark_data(struct search *s, struct gt_err *err)
{
	const json_t *node;
	size_t k;

	for (size_t i = 0; i < json_array_size(s->r->inputs); i++) {
		const json_t *input =
		    json_object_get(json_array_get(s->r->inputs, i), "user_input");
		const json_t *tensor = json_object_get(json_object_get(input, "arg"), "as_tensor");

		if (put(s->data, json_string_value(json_object_get(tensor, "name")), err))
			return err->code;
	}
	json_array_foreach(s->r->nodes, k, node)
	{
		bool depends = false;

		for (size_t i = 0; i < input_count(node); i++)
			depends |= has(s->data, input_of(node, i));
		if (!depends || !strcmp(op_of(node), "Shape") || !strcmp(op_of(node), "Size"))
			continue;
		for (size_t i = 0; i < output_count(node); i++)
			if (put(s->data, output_of(node, i), err))
				return err->code;
	}
	return 0;
}

static bool is_product(const char *op)
{
	for (size_t i = 0; i < sizeof(products) / sizeof(*products); i++)
		if (!strcmp(products[i], op))
			return true;
	return false;
}

static int mark_inputs(struct search *s, const json_t *node, struct gt_err *err)
{
	unsigned inputs = differentiable(s, node);
	bool product = is_product(op_of(node));

	for (size_t i = 0; i < input_count(node); i++) {
		const char *name = input_of(node, i);

		if (!(inputs >> (i < 31 ? i : 31) & 1))
			continue;
		if (put(s->useful, name, err) || (product && put(s->factor, name, err)))
			return err->code;
	}
	return 0;
}

/* Mark values by which the result has a derivative, from the last node to the first one. */
static int mark_useful(struct search *s, struct gt_err *err)
{
	for (size_t i = 0; i < json_array_size(s->r->outputs); i++) {
		const json_t *output =
		    json_object_get(json_array_get(s->r->outputs, i), "user_output");
		const json_t *tensor = json_object_get(json_object_get(output, "arg"), "as_tensor");

		if (put(s->useful, json_string_value(json_object_get(tensor, "name")), err))
			return err->code;
	}
	for (size_t k = json_array_size(s->r->nodes); k-- > 0;) {
		const json_t *node = json_array_get(s->r->nodes, k);
		bool useful = false;

		for (size_t i = 0; i < output_count(node); i++)
			useful |= has(s->useful, output_of(node, i));
		if (useful && mark_inputs(s, node, err))
			return err->code;
		if (!strcmp(op_of(node), "BatchNormalization") &&
		    (put(s->statistics, input_of(node, 3), err) ||
		        put(s->statistics, input_of(node, 4), err)))
			return err->code;
	}
	return 0;
}

/* ---- names and numbers ---- */

/* Whether an exporter has made up the name: "val_12", "onnx::Mul_17", "float32=0.5". */
static bool is_made_up(const char *name)
{
	static const char *const starts[] = { "val_", "onnx::", "const_fold_opt", "constant",
		"scalar_tensor" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return true;
	return strchr(name, '=') || strstr(name, "/Constant") || strstr(name, "_output_");
}

/* Whether numbers hide tokens, or are otherwise none that are trained. */
static int find_mask(const struct gt_tree_tensor *t, bool *out, struct gt_err *err)
{
	static const double most = 1e30;
	int64_t count = gt_ckpt_tensor_count(t);
	double *numbers;
	int rc;

	*out = false;
	if (count > 1 << 24)
		return 0;
	numbers = gt_calloc((size_t)count, sizeof(*numbers), err);
	if (!numbers)
		return GT_ENOMEM;
	rc = gt_ckpt_tensor_read(t, GT_F64, numbers, err);
	for (int64_t i = 0; !rc && i < count; i++)
		*out |= !(fabs(numbers[i]) < most);
	free(numbers);
	return rc;
}

static int find_role(const struct search *s, struct gt_onnx_initializer *t, struct gt_err *err)
{
	const struct gt_tree_tensor *tensor = &t->node->tensor;
	bool several = gt_ckpt_tensor_count(tensor) > 1, mask;

	if (t->constant || !gt_dtype_is_float(tensor->dtype) || !gt_ckpt_tensor_count(tensor))
		return 0;
	if (has(s->statistics, t->name)) {
		t->role = GT_ONNX_STATISTIC;
		return 0;
	}
	if (!has(s->useful, t->name))
		return 0;
	if (has(s->factor, t->name) && tensor->ndim) {
		t->role = GT_ONNX_WEIGHT;
		return 0;
	}
	if (is_made_up(t->name) || (!several && !strchr(t->name, '.')))
		return 0;
	if (find_mask(tensor, &mask, err))
		return err->code;
	t->role = mask ? GT_ONNX_CONSTANT : GT_ONNX_WEIGHT;
	return 0;
}

int gt_onnx_find_roles(struct gt_onnx_reader *r, struct gt_err *err)
{
	struct search s = { r, json_object(), json_object(), json_object(), json_object() };
	int rc = 0;

	if (!s.data || !s.useful || !s.factor || !s.statistics)
		rc = gt_err_set(err, GT_ENOMEM, "no memory for the graph");
	if (!rc)
		rc = mark_data(&s, err);
	if (!rc)
		rc = mark_useful(&s, err);
	for (size_t i = 0; !rc && i < r->count; i++)
		rc = find_role(&s, &r->initializers[i], err);
	json_decref(s.data);
	json_decref(s.useful);
	json_decref(s.factor);
	json_decref(s.statistics);
	return rc;
}
