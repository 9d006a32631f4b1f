/* onnx.h - build a model in the format ONNX, and write it with its weights. */
#ifndef GT_CKPT_ONNX_ONNX_H
#define GT_CKPT_ONNX_ONNX_H

#include "lib/ckpt/write.h"

/*
 * A model has a graph, whose nodes call operators of ONNX. Values between nodes have names. A value
 * that no node makes is an input, or an initializer: a constant or a weight. Nodes are written in
 * the order in which they are added, so a node comes after those that make its inputs.
 *
 * Functions that add to a model copy their arguments. After an error they do nothing, and
 * gt_onnx_write() returns it. Type GT_I32 is written as int64, the type of indices in ONNX.
 */
struct gt_onnx;

/* ONNX 1.15: what PyTorch 2.9 and newer write. */
enum { GT_ONNX_IR = 10, GT_ONNX_OPSET = 20 };

/* Return the number that ONNX has for a type; 0: it has none. */
int gt_onnx_data_type(enum gt_dtype dtype);

/* Set *out to the type with a number of ONNX; return false for one that gtrain does not have. */
bool gt_onnx_dtype(int64_t number, enum gt_dtype *out);

int gt_onnx_new(struct gt_onnx **out, struct gt_err *err);
void gt_onnx_free(struct gt_onnx *m); /* NULL is fine */

/* A constant of a node. Which members count, depends on `kind`. */
struct gt_onnx_attribute {
	const char *name; /* NULL ends a list */
	enum { GT_ONNX_INT, GT_ONNX_FLOAT, GT_ONNX_TEXT, GT_ONNX_INTS } kind;
	int64_t integer;
	float number;
	const char *text;
	int count; /* of `integers` */
	const int64_t *integers;
};

/* Attributes of each kind. */
#define GT_ONNX_ATTR_INT(name_, value)                                                             \
	{                                                                                          \
		.name = name_, .kind = GT_ONNX_INT, .integer = value                               \
	}
#define GT_ONNX_ATTR_FLOAT(name_, value)                                                           \
	{                                                                                          \
		.name = name_, .kind = GT_ONNX_FLOAT, .number = value                              \
	}
#define GT_ONNX_ATTR_TEXT(name_, value)                                                            \
	{                                                                                          \
		.name = name_, .kind = GT_ONNX_TEXT, .text = value                                 \
	}
#define GT_ONNX_ATTR_INTS(name_, count_, values)                                                   \
	{                                                                                          \
		.name = name_, .kind = GT_ONNX_INTS, .count = count_, .integers = values           \
	}

/* A node. `scope` is the part of the model to which it belongs, such as "layer1.0.conv1". */
struct gt_onnx_node {
	const char *scope, *op;
	const struct gt_onnx_attribute *attributes; /* NULL: none */
	int inputs, outputs;
	const char *const *in; /* names; "": an optional input that the node lacks */
	const char *const *out;
};
void gt_onnx_add_node(struct gt_onnx *m, const struct gt_onnx_node *node);

/* Add a constant with these elements, row-major, of type `dtype`. */
void gt_onnx_add_constant(struct gt_onnx *m, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, const void *elements);

/* Add a weight of the type `dtype`. The elements are read from the tensor, which is borrowed, when
 * the model is written. */
void gt_onnx_add_weight(
    struct gt_onnx *m, const char *name, enum gt_dtype dtype, const struct gt_tree_tensor *tensor);

/* The size of a dimension: a number, or the name of a size that each call may choose. */
struct gt_onnx_dim {
	const char *parameter; /* NULL: `size` */
	int64_t size;
};
void gt_onnx_add_input(struct gt_onnx *m, const char *name, enum gt_dtype dtype, int ndim,
    const struct gt_onnx_dim *shape);
void gt_onnx_add_output(struct gt_onnx *m, const char *name, enum gt_dtype dtype, int ndim,
    const struct gt_onnx_dim *shape);

/* The property with the tokens of a text in training, if the file leaves their number open. */
#define GT_ONNX_BLOCK "block"

/* Add a property of the model: a pair of texts. */
void gt_onnx_add_property(struct gt_onnx *m, const char *key, const char *value);

/* Count the weights of the model, and their bytes. */
void gt_onnx_tally(const struct gt_onnx *m, uint64_t *count, uint64_t *bytes);

/* Write the model; the file appears whole or not at all. Of `options`, inputs, no_sync and progress
 * are used. Errors: GT_ENOTSUP for a model of 2 GiB or more, which no protocol buffer may have. */
int gt_onnx_write(const char *path, struct gt_onnx *m, const struct gt_ckpt_write_options *options,
    struct gt_err *err);

/* ---- reading: a checkpoint of the format "onnx" (torch/export.h) ---- */

/* Copy a model to a file that appears whole or not at all. Elements in files beside the model
 * become a part of the copy, which is made in memory. Errors: those of gt_ckpt_open() and of
 * writing. */
int gt_onnx_copy(struct gt_file_name to, const char *path, struct gt_err *err);

#endif
