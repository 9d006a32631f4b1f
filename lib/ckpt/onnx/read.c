/* read.c - read a model of ONNX: its weights as a state_dict, its graph as JSON of torch.export. */
#include "lib/ckpt/onnx/read.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/onnx/proto.h"
#include "lib/ckpt/torch/export.h"

/* A protocol buffer that begins as models of ONNX do: ir_version, a small number, then the
 * producer's name, its version, the graph or the operators. Source: onnx/onnx.proto, ModelProto. */
static bool sniff_onnx(const struct gt_mapping *map)
{
	return map->size > 4 && map->data[0] == 0x08 && map->data[1] >= 1 && map->data[1] <= 15 &&
	       (map->data[2] == 0x12 || map->data[2] == 0x1a || map->data[2] == 0x3a ||
	           map->data[2] == 0x42);
}

/* ---- the model ---- */

/* OperatorSetIdProto: domain 1, version 2. Other sets than ONNX's own have operators that the
 * nodes name. */
static int read_opset(
    struct gt_onnx_reader *r, const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_protobuf_reader fields = { message->bytes, message->size };
	struct gt_protobuf_field field;
	const char *domain = "";
	int64_t version = 0;
	int rc;

	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0) {
		if (field.number == 1)
			domain = gt_onnx_text(r->arena, &field, err);
		else if (field.number == 2)
			version = (int64_t)field.value;
		if (!domain)
			return err->code;
	}
	if (!*domain || !strcmp(domain, "ai.onnx"))
		r->opset = version;
	return rc;
}

/* StringStringEntryProto: key 1, value 2. */
static int read_property(
    struct gt_onnx_reader *r, const struct gt_protobuf_field *message, struct gt_err *err)
{
	const char *pair[2];
	int rc = gt_onnx_read_pair(r->arena, message, pair, err);

	if (!rc && !strcmp(pair[0], GT_ONNX_BLOCK))
		r->block = atoi(pair[1]);
	return rc;
}

/* Find the graph, and the versions of the operators. */
static int read_model(struct gt_onnx_reader *r, struct gt_protobuf_field *graph, struct gt_err *err)
{
	struct gt_protobuf_reader fields = { r->ckpt->map.data, r->ckpt->map.size };
	struct gt_protobuf_field field;
	int rc;

	*graph = (struct gt_protobuf_field){ 0 };
	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0) {
		if (field.number == GT_ONNX_GRAPH)
			*graph = field;
		else if (field.number == GT_ONNX_OPSET_IMPORT)
			rc = read_opset(r, &field, err);
		else if (field.number == GT_ONNX_PROPERTY)
			rc = read_property(r, &field, err);
		else if (field.number == GT_ONNX_FUNCTION)
			rc = gt_err_set(err, GT_ENOTSUP, "it has functions of its own");
		if (rc < 0)
			return rc;
	}
	if (!rc && !graph->bytes)
		rc = gt_err_set(err, GT_EFORMAT, "it has no graph");
	return rc;
}

/* ---- the graph ---- */

static int read_initializer(
    struct gt_onnx_reader *r, const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_tree *node;
	const char *name;
	int rc = gt_onnx_read_tensor(r, message, &node, &name, err);

	return rc ? rc : gt_onnx_add_tensor(r, name, node, false, err);
}

/* The parts of a graph in the order in which they are read. */
static int read_graph_field(struct gt_onnx_reader *r, const struct gt_protobuf_field *field,
    bool values, struct gt_err *err)
{
	switch (field->number) {
	case GT_ONNX_NODE:
		return values ? 0 : gt_onnx_read_node(r, field, err);
	case GT_ONNX_INITIALIZER:
		return values ? 0 : read_initializer(r, field, err);
	case GT_ONNX_SPARSE_INITIALIZER:
		return gt_err_set(err, GT_ENOTSUP, "a model with sparse tensors");
	case GT_ONNX_GRAPH_INPUT:
		return values ? gt_onnx_read_value(r, field, r->inputs, err) : 0;
	case GT_ONNX_GRAPH_OUTPUT:
		return values ? gt_onnx_read_value(r, field, r->outputs, err) : 0;
	default:
		return 0;
	}
}

static int read_graph(struct gt_onnx_reader *r, const struct gt_protobuf_field *graph, bool values,
    struct gt_err *err)
{
	struct gt_protobuf_reader fields = { graph->bytes, graph->size };
	struct gt_protobuf_field field;
	int rc;

	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0)
		if (read_graph_field(r, &field, values, err))
			return err->code;
	return rc;
}

static int index_names(struct gt_onnx_reader *r, struct gt_err *err)
{
	r->names.compare = gt_index_by_name;
	for (size_t i = 0; i < r->count; i++) {
		const struct gt_onnx_initializer *t = &r->initializers[i];
		const struct gt_onnx_initializer *first = gt_index_add(&r->names, t, err);

		if (!first)
			return GT_ENOMEM;
		if (first != t)
			return gt_err_set(
			    err, GT_EFORMAT, "two tensors are called '%.200s'", t->name);
	}
	return 0;
}

/* ---- the result ---- */

/* The lists of inputs in torch.export's form. */
static const struct {
	const char *spec, *name_key;
} specs[] = {
	[GT_ONNX_CONSTANT] = { "tensor_constant", "tensor_constant_name" },
	[GT_ONNX_WEIGHT] = { "parameter", "parameter_name" },
	[GT_ONNX_STATISTIC] = { "buffer", "buffer_name" },
};

static int add_tensors(struct gt_onnx_reader *r, struct gt_tree *weights, struct gt_tree *constants,
    struct gt_err *err)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct gt_onnx_initializer *t = &r->initializers[i];
		bool constant = t->role == GT_ONNX_CONSTANT;
		json_t *spec = json_pack("{s:{s:{s:s}, s:s}}", specs[t->role].spec, "arg", "name",
		    t->name, specs[t->role].name_key, t->name);

		if (!spec || json_array_append_new(r->inputs, spec))
			return gt_err_set(err, GT_EFORMAT, "a tensor's name is not UTF-8");
		t->node->tensor.requires_grad = t->role == GT_ONNX_WEIGHT;
		t->node->tensor.parameter = t->role == GT_ONNX_WEIGHT;
		if (gt_tree_set(constant ? constants : weights, t->name, t->node, r->arena, err))
			return err->code;
	}
	return 0;
}

/* The graph as a text. */
static int write_json(struct gt_onnx_reader *r, const char **out, size_t *size, struct gt_err *err)
{
	json_t *json = json_pack("{s:{s:I, s:{s:O, s:O}, s:{s:O, s:O}}}", "graph_module", "opset",
	    (json_int_t)r->opset, "graph", "nodes", r->nodes, "tensor_values", r->values,
	    "signature", "input_specs", r->inputs, "output_specs", r->outputs);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	*out = text ? gt_arena_strdup(r->arena, text, err) : NULL;
	*size = text ? strlen(text) : 0;
	free(text);
	json_decref(json);
	return *out ? 0 : gt_err_set(err, GT_ENOMEM, "no memory for the graph");
}

static int finish_model(struct gt_onnx_reader *r, struct gt_err *err)
{
	struct gt_exported *exported = gt_arena_alloc(r->arena, sizeof(*exported), err);
	struct gt_tree *weights = gt_tree_dict(r->arena, err);
	struct gt_tree *constants = gt_tree_dict(r->arena, err);

	if (!exported || !weights || !constants || add_tensors(r, weights, constants, err) ||
	    write_json(r, &exported->graph, &exported->graph_bytes, err))
		return err->code;
	exported->constants = constants;
	r->ckpt->root = weights;
	r->ckpt->exported = exported;
	return 0;
}

static void release_reader(struct gt_onnx_reader *r)
{
	json_decref(r->nodes);
	json_decref(r->values);
	json_decref(r->inputs);
	json_decref(r->outputs);
	gt_index_release(&r->names);
	free(r->initializers);
}

static int open_onnx(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_onnx_reader r = { .ckpt = ckpt,
		.arena = &ckpt->arena,
		.nodes = json_array(),
		.values = json_object(),
		.inputs = json_array(),
		.outputs = json_array() };
	struct gt_protobuf_field graph;
	int rc = 0;

	if (!r.nodes || !r.values || !r.inputs || !r.outputs)
		rc = gt_err_set(err, GT_ENOMEM, "no memory for the graph");
	if (!rc && read_model(&r, &graph, err))
		rc = gt_err_prefix(err, "a model of ONNX");
	if (!rc)
		rc = read_graph(&r, &graph, false, err);
	if (!rc)
		rc = index_names(&r, err);
	if (!rc)
		rc = read_graph(&r, &graph, true, err);
	if (!rc)
		rc = gt_onnx_find_roles(&r, err);
	if (!rc)
		rc = finish_model(&r, err);
	release_reader(&r);
	return rc;
}

const struct gt_ckpt_format gt_format_onnx = {
	.name = "onnx", .sniff = sniff_onnx, .open = open_onnx
};
