/* network.h - private: a network as torch.export wrote it, and the graph that is made of it. */
#ifndef GT_MODEL_IMPORT_NETWORK_H
#define GT_MODEL_IMPORT_NETWORK_H

#include <jansson.h>

#include "lib/base/index.h"
#include "lib/ckpt/torch/export.h"
#include "lib/graph/ops/ops.h"
#include "lib/model/import/constant.h"
#include "lib/model/import/import.h"
#include "lib/model/import/sizes.h"

/*
 * The JSON of a network has a list of nodes. A node names the function that it calls (its target),
 * its arguments and its outputs. Each row of aten.c is a function that gtrain knows, and emits the
 * nodes of gtrain's graph for one such node. Defaults of PyTorch are not in the file: they are in
 * the rows. Source: torch/_export/serde/schema.py, PyTorch 2.15.
 */

/* An input of the network's graph that is no data: a weight, a buffer or a constant. */
struct gt_network_tensor {
	const char *argument;                /* name in the graph, such as "p_fc_weight" */
	const char *name;                    /* name in the state_dict, such as "fc.weight" */
	const struct gt_tree_tensor *tensor; /* in the archive */
	enum gt_network_kind { GT_NETWORK_PARAMETER, GT_NETWORK_BUFFER, GT_NETWORK_CONSTANT } kind;
	/* an earlier one with the same elements, as of tied weights; NULL: none */
	const struct gt_network_tensor *same;
};

/* A tensor that the module's forward() takes, and what it stands for: a field of the samples, or
 * the target. */
struct gt_network_input {
	const char *name;
	enum gt_network_role { GT_NETWORK_SAMPLE, GT_NETWORK_TARGET } role;
};

struct gt_network {
	struct gt_ckpt *ckpt;
	json_t *json;
	bool is_onnx;         /* a file of ONNX (lower.h) */
	int opset;            /* the version of its operators */
	int folded_norms;     /* batch norms that the exporter has folded into convolutions */
	const char *file;     /* name of the file, for messages */
	const json_t *nodes;  /* a list */
	const json_t *values; /* types and sizes of tensors, by name */
	const json_t *sizes;  /* whole numbers that nodes compute from sizes, by name */
	struct gt_network_tensor
	    *tensors; /* [tensor_count]: weights, then buffers, then constants */
	size_t tensor_count;
	struct gt_network_input inputs[GT_MAX_FIELDS]; /* [input_count], in forward()'s order */
	int input_count;
	/* name of the first tensor that forward() returns and that is not one number, else of the
	 * first one */
	const char *output;
	size_t output_count;            /* tensors that it returns */
	const char *loss;               /* name of the one that is the loss; NULL: none is */
	double dropout;                 /* largest probability of a dropout; 0: nothing is random */
	int training, evaluating;       /* batch norms and dropouts in either mode at the export */
	struct gt_model_alias *aliases; /* second names of tied weights; ended by a row of NULL */
	bool keep_patterns;             /* gt_network_keep_patterns() */
	struct gt_arena arena;
};

/* Return the sizes of a value's dimensions, a JSON list; *dtype gets its type's number in
 * schema.py. */
const json_t *gt_network_value(const struct gt_network *n, const char *name, int *dtype);

/* Return the name of the input with a role, NULL if the network takes none. */
const char *gt_network_input(const struct gt_network *n, enum gt_network_role role);

/* ---- outputs.c ---- */

/* Set the members for outputs. Errors: GT_ENOTSUP. */
int gt_network_read_outputs(struct gt_network *n, struct gt_err *err);

/* ---- one graph that is made of a network ---- */

/* The meaning of a name in the graph that is being made. */
struct gt_binding {
	const char *name; /* must be first for gt_index_by_name */
	struct gt_value *value;
	struct gt_constant *constant; /* in place of a value: it does not depend on data */
	const struct gt_network_tensor *tensor; /* if it is one of the network's inputs */
	/* its elements are those of another name, of which it is a view; NULL: they are its own */
	struct gt_binding *owner;
	/* Of a view: the name that `node` views, as its result number `part`. Without a node it is
	 * another name of the same elements. */
	struct gt_binding *viewed;
	const json_t *node;
	size_t part;
	/* where its elements are among those of its owner; NULL: not yet known (overwrite.c) */
	struct gt_constant *places;
	int seen; /* the writes to its owner's elements that `value` has */
	/* Of an owner: how often its elements were overwritten, the function that did it last, and
	 * those writes that `elements`, all of its elements in a row, lack. */
	int writes;
	const char *overwritten;
	struct gt_write *pending;
	struct gt_value *elements;
	bool is_no_mask; /* a buffer of numbers that are no mask of later tokens */
	struct gt_binding *next;
};

struct gt_aten;
struct gt_fold;
struct gt_lowering;

/* While a function of fold.c is called for the places of a view: its result number `part`. */
struct gt_replay {
	size_t part;
	struct gt_constant *found;
};

struct gt_import {
	const struct gt_network *network;
	struct gt_graph *g;
	struct gt_value *rng; /* NULL: nothing is random */
	bool train;
	/* samples of the graph, and those that sizes in the file stand for if they were fixed at
	 * export; 0: they were not fixed */
	int64_t batch, exported_batch;
	struct gt_symbols symbols;
	struct gt_index bindings; /* struct gt_binding */
	struct gt_binding *list;  /* all bindings */
	struct gt_constants constants;
	const json_t *node;         /* the node whose row is called */
	const struct gt_aten *row;  /* its row */
	const struct gt_fold *fold; /* or its row of fold.c */
	struct gt_replay *replay;   /* results are not bound, but kept there; NULL: bound */
	/* Of a file of ONNX, whose nodes become calls of functions of PyTorch (lower.h): */
	const json_t *origin;               /* the node that is translated; NULL: none is */
	const struct gt_lowering *lowering; /* its row */
	json_t *types;                      /* numbers of types (schema.py) of values, by name */
	json_t *calls; /* nodes that translation has made: names are borrowed */
	int made;      /* names that were made up */
};

/* Bind a name of the file to a value, or to none; NULL with an error in the graph. */
struct gt_binding *gt_import_bind(struct gt_import *im, const char *name, struct gt_value *v);

/* Inputs that do not fit an op, and constants, are a fault of the file, not of an option: name the
 * file. */
void gt_import_blame_file(struct gt_import *im);

/* Compute or emit im->node, a call of a function of PyTorch. */
void gt_import_call(struct gt_import *im, const char *target);

/* Return the name of the counter of batches for a batch norm with this running mean. NULL with an
 * error. */
char *gt_import_counter_name(struct gt_import *im, const char *mean);

/* ---- inputs.c ---- */

/* Describe the samples that a network takes. Sizes that it leaves open are 0. */
void gt_network_describe_inputs(const struct gt_network *n, struct gt_sample_form *out);

/* Of a network that computes its loss, find the input that is the target: one of a usual name, else
 * the last of several. */
void gt_network_choose_target(struct gt_network *n);

/* Bind the network's inputs to a batch of samples, whose first field is x, and to their targets
 * (NULL: there are none). Inputs that the data need not have are constants. On failure return
 * false, with an error in the graph. */
bool gt_import_bind_inputs(struct gt_import *im, const struct gt_model_input *in,
    struct gt_value *x, struct gt_value *target);

/* ---- arguments and results: arguments.c, tensors.c ---- */

/*
 * The functions below are for rows of aten.c. They read an argument of im->node, and leave an error
 * in the graph if the argument has another form than the row can take.
 */

/* Find an argument: an object with one key, such as {"as_int": 2}. Set *kind to this key, and
 * return the value. Return NULL if the argument is missing or None. */
const json_t *gt_import_find(struct gt_import *im, const char *argument, const char **kind);

/* Return the function that the node calls, without "torch.ops.aten.". */
const char *gt_import_target(const struct gt_import *im);

/* Return a tensor; NULL with an error if there is none. The second one takes None or a missing
 * argument as NULL without an error. */
struct gt_value *gt_import_tensor(struct gt_import *im, const char *argument);
struct gt_value *gt_import_optional(struct gt_import *im, const char *argument);

/* Return a tensor of indices, as int32. */
struct gt_value *gt_import_ids(struct gt_import *im, const char *argument);

/* Return the first argument, a tensor, whatever its name is. */
struct gt_value *gt_import_first(struct gt_import *im);

/* Return the name of argument i, "" if there is none. */
const char *gt_import_argument(const struct gt_import *im, size_t i);

/* Return the binding of a tensor argument; NULL with an error if there is none. */
struct gt_binding *gt_import_binding(struct gt_import *im, const char *argument);

/* Return a tensor argument that is a constant; NULL without an error if it is anything else. */
struct gt_constant *gt_import_constant(struct gt_import *im, const char *argument);

/* Return a constant as a value of the graph. */
struct gt_value *gt_import_value(struct gt_import *im, const struct gt_constant *c);

/* Return whether all tensors among the first `count` arguments are constants. */
bool gt_import_all_constant(struct gt_import *im, size_t count);

/* Return a tensor or a number, which the argument may be. */
struct gt_map_operand gt_import_operand(struct gt_import *im, const char *argument);

enum { GT_IMPORT_TENSORS = 64 }; /* longest list of tensors */

/* Read a list of tensors without those that have no elements, and return their count. */
int gt_import_tensors(
    struct gt_import *im, const char *argument, struct gt_value *out[GT_IMPORT_TENSORS]);

/* Read a list of tensors of which some may be None, which gives NULL. Return their count, 0 with an
 * error. */
int gt_import_list(
    struct gt_import *im, const char *argument, struct gt_binding *out[GT_IMPORT_TENSORS]);

/* Read the argument `indices` of x[:, i, j]: constants for neighbouring dimensions from *first on,
 * broadcast to one shape. Return their count, 0 with an error. */
int gt_import_indices(struct gt_import *im, int *first, struct gt_constant *out[GT_MAX_DIMS]);

/* Return an index between 0 and `size`; one that is negative counts from the end. */
int64_t gt_import_clip(int64_t index, int64_t size);

/* Return a number, or `missing` if the argument is missing or None. */
int64_t gt_import_int(struct gt_import *im, const char *argument, int64_t missing);
double gt_import_float(struct gt_import *im, const char *argument, double missing);
bool gt_import_bool(struct gt_import *im, const char *argument, bool missing);

/* Return a string, or `missing`. */
const char *gt_import_string(struct gt_import *im, const char *argument, const char *missing);

/* Read a list of whole numbers, at most GT_MAX_DIMS, and return their count. A missing argument, or
 * an empty list, gives `count` times `missing`. */
int gt_import_ints(struct gt_import *im, const char *argument, int64_t out[GT_MAX_DIMS], int count,
    int64_t missing);

/* Read a number for height and one for width; a single one is for both. Or read a list of one
 * number. */
void gt_import_pair(struct gt_import *im, const char *argument, int64_t missing, int out[2]);
int gt_import_single(struct gt_import *im, const char *argument, int64_t missing);

/* Read a list of numbers, at most GT_MAX_DIMS, and return their count; 0 if it is missing. */
int gt_import_floats(struct gt_import *im, const char *argument, double out[GT_MAX_DIMS]);

/* Return dimension `argument` of a tensor with `ndim` dimensions. A negative one counts from the
 * end. */
int gt_import_dim(struct gt_import *im, const char *argument, int64_t missing, int ndim);

/* Bind the output of the node to a new tensor. If the function overwrites its first argument, other
 * names of these elements get new values when they are read. */
void gt_import_result(struct gt_import *im, struct gt_value *v);

/* Bind output i of several to a new tensor; nothing if the node does not name it. */
void gt_import_output(struct gt_import *im, size_t i, struct gt_value *v);

/* Bind the output, or element i of an output that is a list, to a view of the first argument. */
void gt_import_view(struct gt_import *im, struct gt_value *v);
void gt_import_part(struct gt_import *im, size_t i, struct gt_value *v);

/* Return the type that the node's result has in PyTorch. */
enum gt_dtype gt_import_result_type(struct gt_import *im);

/* Return the type that a tensor argument, or a tensor with this name, has in PyTorch. */
enum gt_dtype gt_import_type(struct gt_import *im, const char *argument);
enum gt_dtype gt_import_type_of(struct gt_import *im, const char *tensor);

/* Bind output i to a constant. If the function overwrites its first argument, a constant, its
 * elements are overwritten, and the output is a name for them. */
void gt_import_fold(struct gt_import *im, size_t i, struct gt_constant *c);

/* ---- overwrite.c ---- */

/* Note that the node overwrites the elements of `of` with the value of `result`. */
void gt_import_overwrite(struct gt_import *im, struct gt_binding *of, struct gt_binding *result);

/* Give b the value that it has after all writes so far. Return false, perhaps without an error, if
 * that is not known. */
bool gt_import_refresh(struct gt_import *im, struct gt_binding *b);

/* Return whether two values, which may be NULL, have the same type and shape. */
bool gt_import_same_shape(const struct gt_value *a, const struct gt_value *b);

/* Set the graph's error: this form of the node's function is none that gtrain has. */
void *gt_import_fail(struct gt_import *im, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Emit the nodes for im->node, and bind its output. */
typedef void gt_aten_emit(struct gt_import *im);

/* A function of PyTorch that gtrain knows, also in the form that overwrites its first argument
 * ("relu_.default"). */
struct gt_aten {
	/* "conv2d.default": without "torch.ops.aten."; of another library of functions, without
	 * "torch.ops." alone */
	const char *name;
	gt_aten_emit *emit;
	enum gt_function function; /* for rows that compute it for each element */
};

/* The table of functions, ended by a row of NULL. */
extern const struct gt_aten gt_aten_rows[];

/* Return the row for a target, or NULL. */
const struct gt_aten *gt_aten_find(const char *target);

/* Return whether a target is the function of a row, also in the form that overwrites its first
 * argument. */
bool gt_aten_names(const char *target, const char *row);

#endif
