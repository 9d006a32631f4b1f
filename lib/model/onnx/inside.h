/* inside.h - private: the state of writing a graph as a model of ONNX, and its helpers. */
#ifndef GT_MODEL_ONNX_INSIDE_H
#define GT_MODEL_ONNX_INSIDE_H

#include "lib/base/index.h"
#include "lib/ckpt/onnx/onnx.h"
#include "lib/graph/ops/ops.h"
#include "lib/model/onnx/export.h"

/*
 * The graph of a model has fixed sizes, and an ONNX file has none for the batch, nor for the tokens
 * of a text where that is possible. So the graph is built several times, each time with another
 * number of samples or tokens. A number that is 96 with 3 samples and 160 with 5 is 32 times the
 * batch. This holds for shapes and for attributes of nodes, whatever code has computed them.
 */
enum gt_onnx_variant {
	GT_ONNX_BASE,
	GT_ONNX_BATCH, /* another number of samples */
	GT_ONNX_TIME,  /* another number of tokens; there is no graph if that number is fixed */
	GT_ONNX_VARIANTS
};

/* A size: `factor`, times a power of the batch and one of the tokens of a text. */
struct gt_onnx_size {
	int64_t factor;
	int batch, time;
};

enum { GT_ONNX_DIMS = 4 * GT_MAX_DIMS };

struct gt_onnx_shape {
	int ndim;
	struct gt_onnx_size dims[GT_ONNX_DIMS];
};

struct gt_onnx_export {
	struct gt_onnx *m;
	const struct gt_onnx_source *source;
	struct gt_graph *g[GT_ONNX_VARIANTS];
	int64_t batch[GT_ONNX_VARIANTS], time[GT_ONNX_VARIANTS]; /* sizes of these graphs */
	struct gt_value *input, *output;                         /* of the first graph */
	size_t at;            /* index of the node that is written */
	bool *needed;         /* by value's id: it is written */
	const char **names;   /* by value's id; NULL: not yet */
	struct gt_index once; /* names of constants, and of values that are made once */
	size_t made;          /* number of names that were made up */
	struct gt_arena arena;
	/* The first error; later calls return NULL. `fixes_time`: it would not be one if the number
	 * of tokens were fixed. */
	struct gt_err err;
	bool fixes_time;
};

/* A row of the table of ops: the function that adds nodes of ONNX for a node of the graph. */
struct gt_onnx_row {
	const struct gt_op *op;
	void (*write)(struct gt_onnx_export *x, const struct gt_node *n);
	/* Optional: mark the values that the function reads; NULL: all inputs. */
	void (*mark)(struct gt_onnx_export *x, const struct gt_node *n);
};

/* The table, ended by a row of NULL. */
extern const struct gt_onnx_row gt_onnx_rows[];

/* ---- values.c: names, nodes and constants. Functions return NULL after an error. ---- */

/* Set the error: this form of the node cannot be written. */
void *gt_onnx_fail(struct gt_onnx_export *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return or set the name of a value of the first graph. */
const char *gt_onnx_name(struct gt_onnx_export *x, const struct gt_value *v);
void gt_onnx_set(struct gt_onnx_export *x, const struct gt_value *v, const char *name);

/* Mark a value as read. */
void gt_onnx_need(struct gt_onnx_export *x, const struct gt_value *v);

/* Add a node, and return the names of its outputs. An input NULL is an earlier error. */
const char *gt_onnx_call(struct gt_onnx_export *x, const char *op,
    const struct gt_onnx_attribute *attributes, int inputs, const char *const *in);
void gt_onnx_call_many(struct gt_onnx_export *x, const char *op,
    const struct gt_onnx_attribute *attributes, int inputs, const char *const *in, int outputs,
    const char **out);

/* The same without attributes. */
const char *gt_onnx_unary(struct gt_onnx_export *x, const char *op, const char *a);
const char *gt_onnx_binary(struct gt_onnx_export *x, const char *op, const char *a, const char *b);

/* Return the name of a constant: whole numbers [count], or a number []. */
const char *gt_onnx_ints(struct gt_onnx_export *x, int count, const int64_t *values);
const char *gt_onnx_int(struct gt_onnx_export *x, int64_t value);
const char *gt_onnx_number(struct gt_onnx_export *x, enum gt_dtype dtype, double value);

/* Return the name of float32 numbers [count], which are written each time. */
const char *gt_onnx_floats(struct gt_onnx_export *x, int count, const float *values);

/* Return the name that was kept under a key, or NULL; keep one. */
const char *gt_onnx_kept(struct gt_onnx_export *x, const char *key);
const char *gt_onnx_keep(struct gt_onnx_export *x, const char *key, const char *name);

/* Add frequent operators. Axes of slices and reductions are constants. */
const char *gt_onnx_transpose(
    struct gt_onnx_export *x, const char *a, int ndim, const int64_t *order);
const char *gt_onnx_cast(struct gt_onnx_export *x, const char *a, enum gt_dtype to);
const char *gt_onnx_concat(
    struct gt_onnx_export *x, int count, const char *const *parts, int64_t axis);
/* Split an axis into `count` parts of these sizes. */
void gt_onnx_split(struct gt_onnx_export *x, const char *a, int64_t axis, int count,
    const int64_t *sizes, const char **out);
/* The elements from start on, before end, along an axis; counted from the end if negative. */
const char *gt_onnx_slice(struct gt_onnx_export *x, const char *a, int64_t axis, int64_t start,
    int64_t end, int64_t step);
/* Insert dimensions of size 1, or remove them. */
const char *gt_onnx_unsqueeze(struct gt_onnx_export *x, const char *a, int64_t axis);
const char *gt_onnx_squeeze(struct gt_onnx_export *x, const char *a, int64_t axis);

/* ---- sizes.c ---- */

/* Return the node of the first graph that is written, or its twin in another one; NULL: there is no
 * such graph. */
const struct gt_node *gt_onnx_twin(const struct gt_onnx_export *x, enum gt_onnx_variant which);

/* Return the size that has these values in the graphs. An error if it is no product. */
struct gt_onnx_size gt_onnx_size_of(
    struct gt_onnx_export *x, const int64_t values[GT_ONNX_VARIANTS]);

/* Return the shape of a value. */
struct gt_onnx_shape gt_onnx_shape_of(struct gt_onnx_export *x, const struct gt_value *v);

/* Return a shape of fixed sizes, to which others can be added. */
struct gt_onnx_shape gt_onnx_fixed_shape(int ndim, const int64_t *sizes);

/* Return a size that is a number. */
struct gt_onnx_size gt_onnx_fixed(int64_t n);
bool gt_onnx_is_fixed(struct gt_onnx_size s);
bool gt_onnx_same_size(struct gt_onnx_size a, struct gt_onnx_size b);

/* Set *out to the number that has these values in the graphs, if they are equal. If they are as far
 * from the values `ends`, *out is negative: counted from the end. */
bool gt_onnx_index(struct gt_onnx_export *x, const int64_t values[GT_ONNX_VARIANTS],
    const int64_t ends[GT_ONNX_VARIANTS], int64_t *out);

/* Set the error: a number depends on the batch, or on the tokens, and no node computes it; or the
 * node was made for one of these sizes. */
void *gt_onnx_fail_free(struct gt_onnx_export *x, const int64_t values[GT_ONNX_VARIANTS]);
void *gt_onnx_fail_varied(struct gt_onnx_export *x, bool time);

/* Return whole numbers [ndim] or [1]: constants, or computed from the shape of the input. */
const char *gt_onnx_sizes(struct gt_onnx_export *x, const struct gt_onnx_shape *shape);
const char *gt_onnx_size(struct gt_onnx_export *x, struct gt_onnx_size size);
/* Return 0, 1, ... size - 1: int64 [size]. */
const char *gt_onnx_range(struct gt_onnx_export *x, struct gt_onnx_size size);

/* Write a node of the op `constant`, and return its name. Equal rows for all samples are written
 * once, and expanded. */
const char *gt_onnx_constant(struct gt_onnx_export *x, const struct gt_node *n);

/* Return `a` with another shape, or expanded to one. */
const char *gt_onnx_reshape(struct gt_onnx_export *x, const char *a,
    const struct gt_onnx_shape *from, const struct gt_onnx_shape *to);
const char *gt_onnx_expand(
    struct gt_onnx_export *x, const char *a, const struct gt_onnx_shape *shape);

/* ---- the functions of rows ---- */

typedef void gt_onnx_write_node(struct gt_onnx_export *x, const struct gt_node *n);

/* products.c */
gt_onnx_write_node gt_onnx_matmul, gt_onnx_batched_matmul, gt_onnx_conv, gt_onnx_conv_transpose;
/* images.c */
gt_onnx_write_node gt_onnx_pool, gt_onnx_resample, gt_onnx_subsample, gt_onnx_patch_tokens,
    gt_onnx_batch_norm;
/* texts.c */
gt_onnx_write_node gt_onnx_embedding, gt_onnx_attention, gt_onnx_rope;
/* map.c, arrange.c */
gt_onnx_write_node gt_onnx_map, gt_onnx_arrange;
/* recurrent.c */
gt_onnx_write_node gt_onnx_lstm, gt_onnx_gru, gt_onnx_mark_recurrent;

#endif
