/* nodes.c - read the nodes, inputs and outputs of a graph of ONNX, as JSON of torch.export. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/onnx/proto.h"
#include "lib/ckpt/onnx/read.h"
#include "lib/ckpt/torch/export.h"

enum { MAX_TENSORS = 1 << 20 };

/* ---- helpers ---- */

static int fail_memory(struct gt_err *err)
{
	return gt_err_set(err, GT_ENOMEM, "no memory for the graph");
}

/* Append an object that json_pack() has made: NULL is a name that is no UTF-8, or no memory. */
static int append(json_t *list, json_t *object, struct gt_err *err)
{
	if (!object)
		return gt_err_set(err, GT_EFORMAT, "a name or a text is not UTF-8");
	return json_array_append_new(list, object) ? fail_memory(err) : 0;
}

int gt_onnx_add_tensor(struct gt_onnx_reader *r, const char *name, struct gt_tree *node,
    bool constant, struct gt_err *err)
{
	struct gt_onnx_initializer *t;

	if (r->count == MAX_TENSORS)
		return gt_err_set(err, GT_ENOTSUP, "more than %d tensors", MAX_TENSORS);
	if (gt_grow(&r->initializers, r->count, &r->capacity, sizeof(*r->initializers), err))
		return GT_ENOMEM;
	t = &r->initializers[r->count++];
	*t = (struct gt_onnx_initializer){ .name = name, .node = node, .constant = constant };
	if (!*name)
		return gt_err_set(err, GT_EFORMAT, "a tensor has no name");
	return 0;
}

/* ---- attributes ---- */

/* An attribute while it is read. */
struct attribute {
	const char *name;
	json_t *argument; /* such as {"as_int": 2} */
	json_t *ints, *floats;
	struct gt_tree *tensor; /* in place of an argument */
	int64_t type;
};

/* The types of attributes whose values are lists. */
enum { TYPE_FLOATS = 6, TYPE_INTS = 7 };

static int read_attribute_field(struct gt_onnx_reader *r, struct attribute *a,
    const struct gt_protobuf_field *field, struct gt_err *err)
{
	const char *text;
	json_t *value = NULL;
	int rc;

	switch (field->number) {
	case GT_ONNX_ATTRIBUTE_NAME:
		a->name = gt_onnx_text(r->arena, field, err);
		return a->name ? 0 : err->code;
	case GT_ONNX_ATTRIBUTE_TYPE:
		a->type = (int64_t)field->value;
		return 0;
	case GT_ONNX_ATTRIBUTE_TENSOR:
		r->only_here = true;
		rc = gt_onnx_read_tensor(r, field, &a->tensor, &text, err);
		r->only_here = false;
		return rc;
	case GT_ONNX_ATTRIBUTE_FLOATS:
		return gt_onnx_add_floats(a->floats, field, err);
	case GT_ONNX_ATTRIBUTE_INTS:
		return gt_onnx_add_ints(a->ints, field, err);
	case GT_ONNX_ATTRIBUTE_FLOAT:
		value = json_pack(
		    "{s:o}", "as_float", gt_onnx_real((double)gt_protobuf_float_of(field)));
		break;
	case GT_ONNX_ATTRIBUTE_INT:
		value = json_pack("{s:I}", "as_int", (json_int_t)field->value);
		break;
	case GT_ONNX_ATTRIBUTE_TEXT:
		text = gt_onnx_text(r->arena, field, err);
		value = text ? json_pack("{s:s}", "as_string", text) : NULL;
		break;
	default: /* graphs, types and sparse tensors, which no operator that gtrain has takes */
		return 0;
	}
	if (!value)
		return err->code ? err->code
		                 : gt_err_set(err, GT_EFORMAT, "a text that is not UTF-8");
	json_decref(a->argument);
	a->argument = value;
	return 0;
}

static int read_attribute(struct gt_onnx_reader *r, struct attribute *a,
    const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_protobuf_reader fields = { message->bytes, message->size };
	struct gt_protobuf_field field;
	int rc;

	a->ints = json_array();
	a->floats = json_array();
	if (!a->ints || !a->floats)
		return fail_memory(err);
	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0)
		if (read_attribute_field(r, a, &field, err))
			return err->code;
	if (!rc && !a->name)
		rc = gt_err_set(err, GT_EFORMAT, "an attribute has no name");
	if (rc || a->argument || a->tensor)
		return rc;
	if (json_array_size(a->ints) || a->type == TYPE_INTS)
		a->argument = json_pack("{s:O}", "as_ints", a->ints);
	else if (json_array_size(a->floats) || a->type == TYPE_FLOATS)
		a->argument = json_pack("{s:O}", "as_floats", a->floats);
	else
		a->argument = json_pack("{s:I}", "as_attribute_type", (json_int_t)a->type);
	return a->argument ? 0 : fail_memory(err);
}

static void release_attribute(struct attribute *a)
{
	json_decref(a->argument);
	json_decref(a->ints);
	json_decref(a->floats);
}

/* ---- nodes ---- */

struct node {
	const char *op, *domain, *name;
	json_t *inputs, *outputs, *metadata;
	size_t input_count;
	const char *output; /* the first one, "" until it is known */
};

static int add_input_name(struct gt_onnx_reader *r, struct node *n,
    const struct gt_protobuf_field *field, struct gt_err *err)
{
	const char *name = gt_onnx_text(r->arena, field, err);
	char argument[24];

	if (!name)
		return err->code;
	snprintf(argument, sizeof(argument), "%zu", n->input_count++);
	return append(n->inputs,
	    *name ? json_pack(
	                "{s:s, s:{s:{s:s}}}", "name", argument, "arg", "as_tensor", "name", name)
	          : json_pack("{s:s, s:{s:b}}", "name", argument, "arg", "as_none", 1),
	    err);
}

static int add_output_name(struct gt_onnx_reader *r, struct node *n,
    const struct gt_protobuf_field *field, struct gt_err *err)
{
	const char *name = gt_onnx_text(r->arena, field, err);

	if (!name)
		return err->code;
	if (!json_array_size(n->outputs))
		n->output = name;
	return append(n->outputs,
	    *name ? json_pack("{s:{s:s}}", "as_tensor", "name", name)
	          : json_pack("{s:b}", "as_none", 1),
	    err);
}

/* PyTorch's exporter writes the names of the modules around a node as a list of Python:
 * "['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']". The last one is the node's own. */
static int add_modules(struct node *n, const char *list, struct gt_err *err)
{
	const char *last = strrchr(list, ','), *before = NULL, *start;
	json_t *value;

	for (const char *p = list; last && p < last; p++)
		if (*p == '\'' && p + 1 < last && p[1] != ',' && (p == list || p[-1] != '\\'))
			before = p + 1;
	start = before && last && before < last ? before : NULL;
	if (!start || !memchr(start, '\'', (size_t)(last - start)))
		return 0;
	value = json_sprintf(",%.*s,", (int)strcspn(start, "'"), start);
	return value && !json_object_set_new(n->metadata, "nn_module_stack", value)
	           ? 0
	           : gt_err_set(err, GT_EFORMAT, "a module's name is not UTF-8");
}

static int add_property(struct gt_onnx_reader *r, struct node *n,
    const struct gt_protobuf_field *message, struct gt_err *err)
{
	const char *pair[2];

	if (gt_onnx_read_pair(r->arena, message, pair, err))
		return err->code;
	if (!strcmp(pair[0], "pkg.torch.onnx.name_scopes"))
		return add_modules(n, pair[1], err);
	if (!strcmp(pair[0], "pkg.onnxscript.rewriter.rule_name") &&
	    json_object_set_new(n->metadata, "rule", json_string(pair[1])))
		return gt_err_set(err, GT_EFORMAT, "the name of a rule is not UTF-8");
	return 0;
}

/* A tensor is a constant of the graph, which has the name of the node's output if the node is a
 * Constant. */
static int add_attribute_tensor(
    struct gt_onnx_reader *r, struct node *n, const struct attribute *a, struct gt_err *err)
{
	bool is_constant = !strcmp(n->op, "Constant");
	char *name = gt_asprintf(err, is_constant ? "%s" : "%s.%s", n->output, a->name);
	const char *kept = name ? gt_arena_strdup(r->arena, name, err) : NULL;

	free(name);
	if (!kept || gt_onnx_add_tensor(r, kept, a->tensor, true, err))
		return err->code;
	if (is_constant)
		return 0;
	return append(n->inputs,
	    json_pack("{s:s, s:{s:{s:s}}}", "name", a->name, "arg", "as_tensor", "name", kept),
	    err);
}

/* The values of a node Constant that are no tensor. */
static int add_constant(
    struct gt_onnx_reader *r, struct node *n, struct attribute *a, struct gt_err *err)
{
	static const struct {
		const char *attribute, *kind;
		enum gt_dtype dtype;
	} rows[] = {
		{ "value_int", "as_int", GT_I64 },
		{ "value_ints", "as_ints", GT_I64 },
		{ "value_float", "as_float", GT_F32 },
		{ "value_floats", "as_floats", GT_F32 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const json_t *numbers = json_object_get(a->argument, rows[i].kind);

		if (strcmp(a->name, rows[i].attribute) != 0 || !numbers)
			continue;
		a->tensor = gt_onnx_tensor_of(r->arena, rows[i].dtype, numbers, err);
		return a->tensor ? add_attribute_tensor(r, n, a, err) : err->code;
	}
	return gt_err_set(
	    err, GT_ENOTSUP, "the attribute '%.80s' is none that gtrain has", a->name);
}

static int add_attribute(struct gt_onnx_reader *r, struct node *n,
    const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct attribute a = { 0 };
	int rc = read_attribute(r, &a, message, err);

	if (!rc && a.tensor)
		rc = add_attribute_tensor(r, n, &a, err);
	else if (!rc && !strcmp(n->op, "Constant"))
		rc = add_constant(r, n, &a, err);
	else if (!rc)
		rc = append(
		    n->inputs, json_pack("{s:s, s:O}", "name", a.name, "arg", a.argument), err);
	release_attribute(&a);
	return rc;
}

static int read_node_field(struct gt_onnx_reader *r, struct node *n,
    const struct gt_protobuf_field *field, struct gt_err *err)
{
	const char **text = field->number == GT_ONNX_OP_TYPE       ? &n->op
	                    : field->number == GT_ONNX_NODE_NAME   ? &n->name
	                    : field->number == GT_ONNX_NODE_DOMAIN ? &n->domain
	                                                           : NULL;

	if (text)
		return (*text = gt_onnx_text(r->arena, field, err)) ? 0 : err->code;
	if (field->number == GT_ONNX_NODE_INPUT)
		return add_input_name(r, n, field, err);
	if (field->number == GT_ONNX_NODE_OUTPUT)
		return add_output_name(r, n, field, err);
	if (field->number == GT_ONNX_NODE_PROPERTY)
		return add_property(r, n, field, err);
	return 0;
}

/* Attributes come after the other fields: a constant has the name of an output. */
static int read_fields(struct gt_onnx_reader *r, struct node *n,
    const struct gt_protobuf_field *message, bool attributes, struct gt_err *err)
{
	struct gt_protobuf_reader fields = { message->bytes, message->size };
	struct gt_protobuf_field field;
	int rc;

	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0) {
		bool is_attribute = field.number == GT_ONNX_ATTRIBUTE;

		if (is_attribute != attributes)
			continue;
		if (is_attribute ? add_attribute(r, n, &field, err)
		                 : read_node_field(r, n, &field, err))
			return err->code;
	}
	return rc;
}

static int finish_node(struct gt_onnx_reader *r, struct node *n, struct gt_err *err)
{
	bool standard = !*n->domain || !strcmp(n->domain, "ai.onnx");
	json_t *target;

	if (!strcmp(n->op, "Constant") && standard)
		return 0;
	target = json_sprintf("%s.%s", standard ? "onnx" : n->domain, n->op);
	if (json_object_set_new(n->metadata, "name", json_string(n->name))) {
		json_decref(target);
		return gt_err_set(err, GT_EFORMAT, "its name is not UTF-8");
	}
	return append(r->nodes,
	    target ? json_pack("{s:o, s:O, s:O, s:O}", "target", target, "inputs", n->inputs,
	                 "outputs", n->outputs, "metadata", n->metadata)
	           : NULL,
	    err);
}

int gt_onnx_read_node(
    struct gt_onnx_reader *r, const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct node n = { "", "", "", json_array(), json_array(), json_object(), 0, "" };
	int rc = n.inputs && n.outputs && n.metadata ? 0 : fail_memory(err);

	if (!rc && !message->bytes)
		rc = gt_err_set(err, GT_EFORMAT, "a node is no message");
	if (!rc)
		rc = read_fields(r, &n, message, false, err);
	if (!rc && !*n.op)
		rc = gt_err_set(err, GT_EFORMAT, "it has no operator");
	if (!rc)
		rc = read_fields(r, &n, message, true, err);
	if (!rc)
		rc = finish_node(r, &n, err);
	json_decref(n.inputs);
	json_decref(n.outputs);
	json_decref(n.metadata);
	if (rc)
		gt_err_prefix(err, "node '%.200s' (%.80s)", n.name, n.op);
	return rc;
}

/* ---- inputs and outputs ---- */

/* Find the first field with a number in a message; false: it has none. */
static bool find_field(
    const struct gt_protobuf_field *message, int number, struct gt_protobuf_field *out)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };

	while (gt_protobuf_next(&r, out, GT_ERR_IGNORED) > 0)
		if (out->number == number)
			return true;
	return false;
}

/* A size is a number, or has a name; a size without either is open, too. */
static json_t *read_size(
    struct gt_onnx_reader *r, const struct gt_protobuf_field *dim, struct gt_err *err)
{
	enum { VALUE = 1, NAME = 2 };
	struct gt_protobuf_field field;
	const char *name = "";

	if (find_field(dim, VALUE, &field) && !field.bytes)
		return json_pack("{s:I}", "as_int", (json_int_t)field.value);
	if (find_field(dim, NAME, &field))
		name = gt_onnx_text(r->arena, &field, err);
	if (!name)
		return NULL;
	if (!*name || strpbrk(name, "'()"))
		return json_pack("{s:{s:o}}", "as_expr", "expr_str",
		    json_sprintf("Symbol('size %zu')", ++r->unnamed));
	if (r->block > 0 && !strcmp(name, "time"))
		return json_pack("{s:{s:o, s:{s:I}}}", "as_expr", "expr_str",
		    json_sprintf("Symbol('%s')", name), "hint", "as_int", (json_int_t)r->block);
	return json_pack("{s:{s:o}}", "as_expr", "expr_str", json_sprintf("Symbol('%s')", name));
}

/* ValueInfoProto: name 1, type 2; in it tensor_type 1 with elem_type 1 and shape 2; in it dim 1. */
static int describe_value(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    const char *name, struct gt_err *err)
{
	struct gt_protobuf_field type, tensor, number, shape, field;
	json_t *sizes = json_array();
	enum gt_dtype dtype = GT_F32;
	int rc = sizes ? 0 : fail_memory(err), schema;

	if (!rc && (!find_field(message, 2, &type) || !find_field(&type, 1, &tensor) ||
	               !find_field(&tensor, 1, &number)))
		rc = gt_err_set(err, GT_ENOTSUP, "'%.200s' is no tensor", name);
	if (!rc && !gt_onnx_dtype((int64_t)number.value, &dtype))
		rc = gt_err_set(err, GT_ENOTSUP, "'%.200s' has elements of type %lld", name,
		    (long long)number.value);
	if (!rc && find_field(&tensor, 2, &shape)) {
		struct gt_protobuf_reader dims = { shape.bytes, shape.size };

		while (!rc && (rc = gt_protobuf_next(&dims, &field, err)) > 0)
			rc = field.number == 1 ? append(sizes, read_size(r, &field, err), err) : 0;
	}
	schema = gt_exported_number(dtype);
	if (!rc && json_object_set_new(
	               r->values, name, json_pack("{s:i, s:O}", "dtype", schema, "sizes", sizes)))
		rc = gt_err_set(err, GT_EFORMAT, "a name is not UTF-8");
	json_decref(sizes);
	return rc;
}

int gt_onnx_read_value(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    json_t *list, struct gt_err *err)
{
	const char *key = list == r->inputs ? "user_input" : "user_output", *name;
	struct gt_protobuf_field field;

	if (!message->bytes || !find_field(message, 1, &field))
		return gt_err_set(err, GT_EFORMAT, "an input or output of the graph has no name");
	name = gt_onnx_text(r->arena, &field, err);
	if (!name)
		return err->code;
	if (list == r->inputs && gt_index_find(&r->names, &name))
		return 0; /* an initializer, which older files list as an input, too */
	if (describe_value(r, message, name, err))
		return err->code;
	return append(
	    list, json_pack("{s:{s:{s:{s:s}}}}", key, "arg", "as_tensor", "name", name), err);
}
