/* read.h - private: the parts of a file of ONNX while it is read. */
#ifndef GT_CKPT_ONNX_READ_H
#define GT_CKPT_ONNX_READ_H

#include <jansson.h>

#include "lib/base/protobuf.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/onnx/onnx.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The graph of a file of ONNX becomes a text of JSON in the form of torch.export (torch/export.h),
 * so that one importer reads both:
 *
 *   - a node calls "onnx.Gemm", or "DOMAIN.OP". Its inputs are arguments "0", "1", ..., of which a
 *     missing one is {"as_none": true}; its attributes are arguments under their own names
 *   - an attribute that is a tensor, and the value of a node Constant, is a constant. Such a node
 *     is no node any more
 *   - a weight has the same name in the graph and in the state_dict
 *   - metadata of a node: "name"; "nn_module_stack" if the exporter has written the modules, and
 *     "rule" if a rule of the exporter's optimizer has made the node
 *   - graph_module.opset is the version of the operators
 *
 * Which initializers are weights is told by the nodes that read them (roles.c).
 */
struct gt_onnx_reader {
	struct gt_ckpt *ckpt;
	struct gt_arena *arena;
	int64_t opset;
	bool only_here; /* the next tensor must not be in another file */
	int64_t block;  /* the property GT_ONNX_BLOCK; 0: there is none */
	size_t unnamed; /* open sizes without a name */
	json_t *nodes, *values, *inputs, *outputs; /* lists, but for `values`, a dict */
	struct gt_onnx_initializer *initializers;  /* [count] */
	size_t count, capacity;
	struct gt_index names; /* struct gt_onnx_initializer */
};

/* A tensor of the file. */
struct gt_onnx_initializer {
	const char *name; /* must be first for gt_index_by_name */
	struct gt_tree *node;
	bool constant; /* it is a constant of a node, not an initializer of the graph */
	enum gt_onnx_role { GT_ONNX_CONSTANT, GT_ONNX_WEIGHT, GT_ONNX_STATISTIC } role;
};

/* ---- tensor.c ---- */

/* Return a copy of the text of a field. NULL with an error for one with zeros. */
const char *gt_onnx_text(
    struct gt_arena *a, const struct gt_protobuf_field *field, struct gt_err *err);

/* Read a message TensorProto. *name is "" if it has none. */
int gt_onnx_read_tensor(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    struct gt_tree **out, const char **name, struct gt_err *err);

/* Read the numbers of one field, packed or a single one, to the end of a list. */
int gt_onnx_add_ints(json_t *list, const struct gt_protobuf_field *field, struct gt_err *err);
int gt_onnx_add_floats(json_t *list, const struct gt_protobuf_field *field, struct gt_err *err);

/* Return a number as JSON: one that is not finite is a text, such as "Infinity". */
json_t *gt_onnx_real(double number);

/* Return a tensor of numbers in a JSON list, or of a single one. */
struct gt_tree *gt_onnx_tensor_of(
    struct gt_arena *a, enum gt_dtype dtype, const json_t *numbers, struct gt_err *err);

/* Read a pair of texts: key and value. */
int gt_onnx_read_pair(struct gt_arena *a, const struct gt_protobuf_field *message,
    const char *pair[2], struct gt_err *err);

/* ---- external.c ---- */

/* Set the bytes of a storage: those that lie in another file of the folder. `message` is the
 * tensor, of which the fields external_data are read. */
int gt_onnx_read_external(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    struct gt_storage *storage, struct gt_err *err);

/* ---- nodes.c ---- */

/* Read a message NodeProto, and ValueInfoProto of an input or output. */
int gt_onnx_read_node(
    struct gt_onnx_reader *r, const struct gt_protobuf_field *message, struct gt_err *err);
int gt_onnx_read_value(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    json_t *list, struct gt_err *err);

/* Add a tensor under a name. */
int gt_onnx_add_tensor(struct gt_onnx_reader *r, const char *name, struct gt_tree *node,
    bool constant, struct gt_err *err);

/* ---- roles.c ---- */

/* Set the roles of all initializers. */
int gt_onnx_find_roles(struct gt_onnx_reader *r, struct gt_err *err);

#endif
