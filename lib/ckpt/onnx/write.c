/* write.c - a model of ONNX as a protocol buffer: nodes, initializers, properties. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/protobuf.h"
#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/onnx/onnx.h"
#include "lib/ckpt/onnx/proto.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/tree.h"

/*
 * Numbers of fields and of types are in proto.h. A message is preceded by its size, so the sizes of
 * all weights are known before the first one is written. The file is
 *
 *   ModelProto     ir_version, producer_name, opset_import, metadata_props
 *     graph        name, input, output, node, and initializer for each constant
 *       initializer: a weight's name, type and shape, and then its elements
 *       initializer: the next one
 *
 * The graph is the last field of the model, and the weights are the last fields of the graph. So
 * the file is a list of texts, and between them are the elements of the weights.
 */

/* A protocol buffer has at most this many bytes. */
static const uint64_t max_bytes = INT32_MAX;

/* The start of an initializer, up to its elements, and these. */
struct weight {
	struct gt_buf start;
	const struct gt_tree_tensor *tensor;
	enum gt_dtype dtype;
	uint64_t bytes;
};

struct gt_onnx {
	struct gt_buf model, graph;
	struct weight *weights;
	size_t weight_count, weight_capacity, node_count;
	struct gt_err err;
};

/* Indices are written as int64: see onnx.h. */
static enum gt_dtype written_type(enum gt_dtype dtype)
{
	return dtype == GT_I32 ? GT_I64 : dtype;
}

int gt_onnx_data_type(enum gt_dtype dtype)
{
	const struct gt_onnx_type *t = gt_onnx_types;

	while (t->number && t->dtype != written_type(dtype))
		t++;
	return t->number;
}

int gt_onnx_new(struct gt_onnx **out, struct gt_err *err)
{
	struct gt_onnx *m = *out = gt_calloc(1, sizeof(*m), err);
	struct gt_buf opset = { 0 };

	if (!m)
		return GT_ENOMEM;
	gt_protobuf_int(&m->model, GT_ONNX_IR_VERSION, GT_ONNX_IR);
	gt_protobuf_text(&m->model, GT_ONNX_PRODUCER_NAME, "gtrain");
	gt_protobuf_text(&opset, 1, "");
	gt_protobuf_int(&opset, 2, GT_ONNX_OPSET);
	gt_protobuf_message(&m->model, GT_ONNX_OPSET_IMPORT, &opset);
	gt_protobuf_text(&m->graph, GT_ONNX_GRAPH_NAME, "network");
	return 0;
}

void gt_onnx_free(struct gt_onnx *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->weight_count; i++)
		gt_buf_release(&m->weights[i].start);
	free(m->weights);
	gt_buf_release(&m->model);
	gt_buf_release(&m->graph);
	free(m);
}

/* ---- nodes ---- */

/* An attribute has the type of its value. */
static void add_attribute(struct gt_buf *node, const struct gt_onnx_attribute *a)
{
	static const int types[] = {
		[GT_ONNX_FLOAT] = 1, [GT_ONNX_INT] = 2, [GT_ONNX_TEXT] = 3, [GT_ONNX_INTS] = 7
	};
	struct gt_buf b = { 0 };

	gt_protobuf_text(&b, GT_ONNX_ATTRIBUTE_NAME, a->name);
	switch (a->kind) {
	case GT_ONNX_FLOAT:
		gt_protobuf_float(&b, GT_ONNX_ATTRIBUTE_FLOAT, a->number);
		break;
	case GT_ONNX_INT:
		gt_protobuf_int(&b, GT_ONNX_ATTRIBUTE_INT, a->integer);
		break;
	case GT_ONNX_TEXT:
		gt_protobuf_text(&b, GT_ONNX_ATTRIBUTE_TEXT, a->text);
		break;
	case GT_ONNX_INTS:
		gt_protobuf_ints(&b, GT_ONNX_ATTRIBUTE_INTS, a->count, a->integers);
		break;
	}
	gt_protobuf_int(&b, GT_ONNX_ATTRIBUTE_TYPE, types[a->kind]);
	gt_protobuf_message(node, GT_ONNX_ATTRIBUTE, &b);
}

void gt_onnx_add_node(struct gt_onnx *m, const struct gt_onnx_node *node)
{
	const struct gt_onnx_attribute *a = node->attributes;
	struct gt_buf b = { 0 }, name = { 0 };

	for (int i = 0; i < node->inputs; i++)
		gt_protobuf_text(&b, GT_ONNX_NODE_INPUT, node->in[i]);
	for (int i = 0; i < node->outputs; i++)
		gt_protobuf_text(&b, GT_ONNX_NODE_OUTPUT, node->out[i]);
	gt_buf_printf(
	    &name, "%s%s%s_%zu", node->scope, *node->scope ? "/" : "", node->op, m->node_count++);
	gt_protobuf_text(&b, GT_ONNX_NODE_NAME, gt_buf_text(&name));
	gt_buf_release(&name);
	gt_protobuf_text(&b, GT_ONNX_OP_TYPE, node->op);
	for (; a && a->name; a++)
		add_attribute(&b, a);
	gt_protobuf_message(&m->graph, GT_ONNX_NODE, &b);
}

/* ---- tensors ---- */

/* Begin a tensor, up to its elements. Return the type in which these are written. */
static enum gt_dtype begin_tensor(struct gt_onnx *m, struct gt_buf *b, const char *name,
    enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	if (!gt_onnx_data_type(dtype) && !m->err.code)
		gt_err_set(&m->err, GT_ENOTSUP, "'%.200s' has the type %s, which ONNX has not",
		    name, gt_dtype_name(dtype));
	gt_protobuf_ints(b, GT_ONNX_DIMS, ndim, shape);
	gt_protobuf_int(b, GT_ONNX_DATA_TYPE, gt_onnx_data_type(dtype));
	gt_protobuf_text(b, GT_ONNX_TENSOR_NAME, name);
	return written_type(dtype);
}

static size_t count_elements(int ndim, const int64_t *shape)
{
	size_t count = 1;

	for (int i = 0; i < ndim; i++)
		count *= (size_t)shape[i];
	return count;
}

void gt_onnx_add_constant(struct gt_onnx *m, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, const void *elements)
{
	struct gt_buf b = { 0 };
	enum gt_dtype as = begin_tensor(m, &b, name, dtype, ndim, shape);
	size_t count = count_elements(ndim, shape);
	void *cast = m->err.code ? NULL : gt_calloc(count, gt_dtype_size(as), &m->err);

	if (cast && !gt_cast(dtype, elements, as, cast, count, &m->err)) {
		if (gt_host_is_big())
			gt_ckpt_tensor_swap(as, cast, count);
		gt_protobuf_bytes(&b, GT_ONNX_RAW_DATA, cast, count * gt_dtype_size(as));
		gt_protobuf_message(&m->graph, GT_ONNX_INITIALIZER, &b);
	}
	free(cast);
	gt_buf_release(&b);
}

void gt_onnx_add_weight(
    struct gt_onnx *m, const char *name, enum gt_dtype dtype, const struct gt_tree_tensor *tensor)
{
	struct weight *w;

	if (m->err.code || gt_grow(&m->weights, m->weight_count, &m->weight_capacity,
	                       sizeof(*m->weights), &m->err))
		return;
	w = &m->weights[m->weight_count++];
	*w = (struct weight){ .tensor = tensor };
	w->dtype = begin_tensor(m, &w->start, name, dtype, tensor->ndim, tensor->shape);
	if (!m->err.code && !gt_cast_supported(tensor->dtype, w->dtype))
		gt_err_set(&m->err, GT_EFORMAT, "'%.200s' is of %s, but the model's is of %s", name,
		    gt_ckpt_tensor_type(tensor), gt_dtype_name(w->dtype));
	w->bytes = (uint64_t)gt_ckpt_tensor_count(tensor) * gt_dtype_size(w->dtype);
	gt_protobuf_start(&w->start, GT_ONNX_RAW_DATA, w->bytes);
}

/* ValueInfoProto: name 1, type 2; in it tensor_type 1 with elem_type 1 and shape 2; in it dim 1
 * with dim_value 1 or dim_param 2. */
static void add_value(struct gt_onnx *m, enum gt_onnx_graph_field field, const char *name,
    enum gt_dtype dtype, int ndim, const struct gt_onnx_dim *shape)
{
	struct gt_buf info = { 0 }, type = { 0 }, tensor = { 0 }, dims = { 0 };

	for (int i = 0; i < ndim; i++) {
		struct gt_buf dim = { 0 };

		if (shape[i].parameter)
			gt_protobuf_text(&dim, 2, shape[i].parameter);
		else
			gt_protobuf_int(&dim, 1, shape[i].size);
		gt_protobuf_message(&dims, 1, &dim);
	}
	gt_protobuf_int(&tensor, 1, gt_onnx_data_type(dtype));
	gt_protobuf_message(&tensor, 2, &dims);
	gt_protobuf_message(&type, 1, &tensor);
	gt_protobuf_text(&info, 1, name);
	gt_protobuf_message(&info, 2, &type);
	gt_protobuf_message(&m->graph, field, &info);
}

void gt_onnx_add_input(struct gt_onnx *m, const char *name, enum gt_dtype dtype, int ndim,
    const struct gt_onnx_dim *shape)
{
	add_value(m, GT_ONNX_GRAPH_INPUT, name, dtype, ndim, shape);
}

void gt_onnx_add_output(struct gt_onnx *m, const char *name, enum gt_dtype dtype, int ndim,
    const struct gt_onnx_dim *shape)
{
	add_value(m, GT_ONNX_GRAPH_OUTPUT, name, dtype, ndim, shape);
}

void gt_onnx_add_property(struct gt_onnx *m, const char *key, const char *value)
{
	struct gt_buf b = { 0 };

	gt_protobuf_text(&b, 1, key);
	gt_protobuf_text(&b, 2, value);
	gt_protobuf_message(&m->model, GT_ONNX_PROPERTY, &b);
}

void gt_onnx_tally(const struct gt_onnx *m, uint64_t *count, uint64_t *bytes)
{
	*count = m->weight_count;
	*bytes = 0;
	for (size_t i = 0; i < m->weight_count; i++)
		*bytes += m->weights[i].bytes;
}

/* ---- the file ---- */

/* The bytes of a weight as a field of the graph: its key has one byte. */
static uint64_t weight_field_bytes(struct weight *w, struct gt_buf *key)
{
	gt_protobuf_start(key, GT_ONNX_INITIALIZER, w->start.length + w->bytes);
	return key->length + w->start.length + w->bytes;
}

struct writer {
	struct gt_onnx *m;
	const char *path; /* messages name the file by it */
	const struct gt_ckpt_write_options *options;
	int fd;
	uint64_t at;
};

static int write_text(struct writer *w, const struct gt_buf *b, struct gt_err *err)
{
	int rc = gt_write_at(w->fd, w->at, gt_buf_text(b), b->length, err);

	w->at += b->length;
	return rc;
}

static int write_model(void *self, int fd, struct gt_err *err)
{
	struct writer *w = self;
	struct gt_onnx *m = w->m;
	struct gt_copy_place *places = gt_calloc(m->weight_count, sizeof(*places), err);
	int rc = places ? 0 : GT_ENOMEM;

	w->fd = fd;
	if (!rc)
		rc = write_text(w, &m->model, err);
	if (!rc)
		rc = write_text(w, &m->graph, err);
	for (size_t i = 0; !rc && i < m->weight_count; i++) {
		struct weight *weight = &m->weights[i];
		struct gt_buf key = { 0 };

		weight_field_bytes(weight, &key);
		rc = gt_buf_check(&key, err);
		if (!rc)
			rc = write_text(w, &key, err);
		if (!rc)
			rc = write_text(w, &weight->start, err);
		places[i] = (struct gt_copy_place){ .offset = w->at,
			.size_bytes = weight->bytes,
			.tensor = weight->tensor,
			.as = weight->dtype };
		w->at += weight->bytes;
		gt_buf_release(&key);
	}
	if (!rc)
		rc = gt_copy_tensors(fd, places, m->weight_count, w->options->progress, err);
	free(places);
	return rc ? gt_err_prefix(err, "'%s'", w->path) : 0;
}

/* Check all texts, and add the start of the graph to the model, which is then complete. */
static int finish_model(struct gt_onnx *m, struct gt_err *err)
{
	uint64_t size = m->graph.length;
	int rc = gt_buf_check(&m->graph, err);
	char text[GT_TEXT_SIZE];

	for (size_t i = 0; !rc && i < m->weight_count; i++) {
		struct gt_buf key = { 0 };

		size += weight_field_bytes(&m->weights[i], &key);
		gt_buf_release(&key);
		rc = gt_buf_check(&m->weights[i].start, err);
	}
	gt_protobuf_start(&m->model, GT_ONNX_GRAPH, size);
	if (!rc)
		rc = gt_buf_check(&m->model, err);
	if (!rc && m->model.length + size > max_bytes)
		rc = gt_err_set(err, GT_ENOTSUP,
		    "the network has %s, and an ONNX file has less than 2 GiB",
		    gt_text_bytes(text, m->model.length + size));
	return rc;
}

int gt_onnx_write(const char *path, struct gt_onnx *m, const struct gt_ckpt_write_options *options,
    struct gt_err *err)
{
	struct writer w = { .m = m, .path = path, .options = options };
	int rc = gt_ckpt_check_output(path, options, err);

	if (!rc && m->err.code) {
		*err = m->err;
		rc = err->code;
	}
	if (!rc)
		rc = finish_model(m, err);
	if (!rc)
		rc = gt_ckpt_write_file(
		    (struct gt_file_name){ .path = path }, options->no_sync, write_model, &w, err);
	return rc;
}
