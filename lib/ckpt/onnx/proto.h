/* proto.h - private: the numbers of fields and of types in a file of ONNX. */
#ifndef GT_CKPT_ONNX_PROTO_H
#define GT_CKPT_ONNX_PROTO_H

#include <stdint.h>

#include "lib/device/dtype.h"

/* The numbers are those of onnx/onnx.proto, ONNX 1.20. */
enum gt_onnx_model_field {
	GT_ONNX_IR_VERSION = 1,
	GT_ONNX_PRODUCER_NAME = 2,
	GT_ONNX_GRAPH = 7,
	GT_ONNX_OPSET_IMPORT = 8,
	GT_ONNX_PROPERTY = 14,
	GT_ONNX_FUNCTION = 25
};
enum gt_onnx_graph_field {
	GT_ONNX_NODE = 1,
	GT_ONNX_GRAPH_NAME = 2,
	GT_ONNX_INITIALIZER = 5,
	GT_ONNX_GRAPH_INPUT = 11,
	GT_ONNX_GRAPH_OUTPUT = 12,
	GT_ONNX_SPARSE_INITIALIZER = 15
};
enum gt_onnx_node_field {
	GT_ONNX_NODE_INPUT = 1,
	GT_ONNX_NODE_OUTPUT = 2,
	GT_ONNX_NODE_NAME = 3,
	GT_ONNX_OP_TYPE = 4,
	GT_ONNX_ATTRIBUTE = 5,
	GT_ONNX_NODE_DOMAIN = 7,
	GT_ONNX_NODE_PROPERTY = 9
};
enum gt_onnx_attribute_field {
	GT_ONNX_ATTRIBUTE_NAME = 1,
	GT_ONNX_ATTRIBUTE_FLOAT = 2,
	GT_ONNX_ATTRIBUTE_INT = 3,
	GT_ONNX_ATTRIBUTE_TEXT = 4,
	GT_ONNX_ATTRIBUTE_TENSOR = 5,
	GT_ONNX_ATTRIBUTE_FLOATS = 7,
	GT_ONNX_ATTRIBUTE_INTS = 8,
	GT_ONNX_ATTRIBUTE_TYPE = 20
};
enum gt_onnx_tensor_field {
	GT_ONNX_DIMS = 1,
	GT_ONNX_DATA_TYPE = 2,
	GT_ONNX_SEGMENT = 3,
	GT_ONNX_FLOAT_DATA = 4,
	GT_ONNX_INT32_DATA = 5,
	GT_ONNX_INT64_DATA = 7,
	GT_ONNX_TENSOR_NAME = 8,
	GT_ONNX_RAW_DATA = 9,
	GT_ONNX_DOUBLE_DATA = 10,
	GT_ONNX_UINT64_DATA = 11,
	GT_ONNX_EXTERNAL_DATA = 13,
	GT_ONNX_DATA_LOCATION = 14
};

/* A type of elements in TensorProto.DataType. */
struct gt_onnx_type {
	int number;
	enum gt_dtype dtype;
};

/* The table of types, ended by the number 0. */
extern const struct gt_onnx_type gt_onnx_types[];

#endif
