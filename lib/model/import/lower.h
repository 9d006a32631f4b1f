/* lower.h - private: nodes of ONNX, translated to calls of functions of PyTorch. */
#ifndef GT_MODEL_IMPORT_LOWER_H
#define GT_MODEL_IMPORT_LOWER_H

#include "lib/model/import/network.h"

/*
 * A file of ONNX is read as JSON in the form of torch.export's (lib/ckpt/onnx/read.h), whose nodes
 * call operators of ONNX. A row of lower.c translates such a node to calls of functions of PyTorch,
 * which the rows of aten.c and fold.c emit or compute. So ONNX has no emitters of its own.
 *
 *   Gemm(a, b, c) with transB = 1   is   linear.default(input = a, weight = b, bias = c)
 *
 * This is done while the graph is made, since operators take shapes and axes as tensors, which are
 * constants only when the sizes of the batch are known. ONNX has no list of the types of values:
 * they are noted as values are made.
 */
struct gt_lowering {
	const char *op; /* "Gemm" */
	gt_aten_emit *lower;
	const char *target; /* the function of PyTorch; of several, that which tells most */
	/* For gt_lower_plain(): the names of the function's arguments, in the order of the inputs,
	 * such as "self other"; and whether its result is a truth value. */
	const char *arguments;
	bool truth;
};

/* Translate im->node. */
void gt_lower_node(struct gt_import *im, const char *target);

/* Prepare an import of a file of ONNX. */
void gt_lower_begin(struct gt_import *im);

/* Note the type of a value. */
void gt_lower_set_type(struct gt_import *im, const char *name, enum gt_dtype dtype);

/* Set the members of a network that its nodes tell: dropouts, and norms that were folded. Errors:
 * GT_ENOMEM. */
int gt_lower_examine(struct gt_network *n, struct gt_err *err);

/* Return the function of PyTorch that stands for a target, with "torch.ops.aten." or not. */
const char *gt_lower_function(const char *target);

/* Return the operator and the name of the node that is translated, for messages. */
const char *gt_lower_op(const struct gt_import *im);
const char *gt_lower_node_name(const struct gt_import *im);

/* ---- for rows: the node's inputs ---- */

/* Return the name of input or output i, NULL if it is missing. gt_lower_need() sets an error
 * then. */
const char *gt_lower_input(struct gt_import *im, int i);
const char *gt_lower_output(struct gt_import *im, int i);
const char *gt_lower_need(struct gt_import *im, int i);

/* Return the number of inputs, of which the last one is there. */
int gt_lower_inputs(struct gt_import *im);

/* Return the type of an input. */
enum gt_dtype gt_lower_type(struct gt_import *im, int i);

/* Return the constant that an input is; NULL without an error if it is none. */
struct gt_constant *gt_lower_constant(struct gt_import *im, int i);

/* Get the shape of an input or of a value, and return its dimensions; -1 with an error. */
int gt_lower_shape(struct gt_import *im, int i, int64_t shape[GT_MAX_DIMS]);
int gt_lower_shape_of(struct gt_import *im, const char *name, int64_t shape[GT_MAX_DIMS]);

/* Read whole numbers from an input, which must be constant. Return their count; -1 with an error,
 * and if the input is missing, which is none. `what` is for messages. */
int gt_lower_sizes(struct gt_import *im, int i, const char *what, int64_t out[GT_MAX_DIMS]);

/* Read a number from an input that is constant and has one element; `missing` if it is missing. */
double gt_lower_number_of(struct gt_import *im, int i, const char *what, double missing);

/* Return a number without its fraction. Beyond 2^62 it is INT64_MAX or INT64_MIN, by which
 * torch.export writes an open end; NaN becomes 0. */
int64_t gt_lower_whole(double number);

/* ---- for rows: calls ---- */

/* Arguments in the form of torch.export. */
json_t *gt_lower_tensor(const char *name);
json_t *gt_lower_tensors(int count, const char *const *names);
json_t *gt_lower_int(int64_t number);
json_t *gt_lower_ints(int count, const int64_t *numbers);
json_t *gt_lower_float(double number);
json_t *gt_lower_bool(bool truth);
json_t *gt_lower_string(const char *text);
json_t *gt_lower_none(void);

/* Return a new name for a value between calls. NULL with an error. */
const char *gt_lower_make_name(struct gt_import *im);

/* Call a function: `out` gets the result, of type `dtype`. Arguments are pairs of a name and JSON,
 * which is taken over, and end with NULL. An argument NULL is left out. Return `out`. */
const char *gt_lower_call(
    struct gt_import *im, const char *target, enum gt_dtype dtype, const char *out, ...);

/* Call a function of two results, of which a name may be NULL: that one is not needed. */
void gt_lower_call_pair(struct gt_import *im, const char *target, const enum gt_dtype dtype[2],
    const char *const out[2], ...);

/* Give a value another name. */
void gt_lower_alias(struct gt_import *im, const char *from, const char *to);

/* Bind output 0 to a constant. */
void gt_lower_bind(struct gt_import *im, struct gt_constant *c);

/* ---- the functions of rows ---- */

/* lower.c: the row has all that there is to know. */
gt_aten_emit gt_lower_plain, gt_lower_same;

/* lower_math.c */
gt_aten_emit gt_lower_cast, gt_lower_chain, gt_lower_clip, gt_lower_cumsum, gt_lower_divide,
    gt_lower_dropout, gt_lower_elu, gt_lower_gelu, gt_lower_hard_sigmoid, gt_lower_is_nan,
    gt_lower_leaky_relu, gt_lower_mean, gt_lower_reciprocal, gt_lower_reduce, gt_lower_reduce_l2,
    gt_lower_reduce_square, gt_lower_softmax, gt_lower_softsign, gt_lower_threshold;

/* lower_layers.c */
gt_aten_emit gt_lower_attention, gt_lower_batch_norm, gt_lower_conv, gt_lower_conv_transpose,
    gt_lower_einsum, gt_lower_gemm, gt_lower_global_pool, gt_lower_group_norm,
    gt_lower_instance_norm, gt_lower_layer_norm, gt_lower_pool, gt_lower_resize;

/* lower_shape.c */
gt_aten_emit gt_lower_concat, gt_lower_constant_of_shape, gt_lower_depth_to_space, gt_lower_expand,
    gt_lower_flatten, gt_lower_gather, gt_lower_gather_elements, gt_lower_pad, gt_lower_range,
    gt_lower_reshape, gt_lower_sequence_at, gt_lower_shape_tensor, gt_lower_slice, gt_lower_split,
    gt_lower_squeeze, gt_lower_tile, gt_lower_topk, gt_lower_transpose, gt_lower_triangle,
    gt_lower_unsqueeze;

#endif
