/* graph.h - a model as a graph of values and nodes, and the functions that build it. */
#ifndef GT_GRAPH_GRAPH_H
#define GT_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/blocks.h"
#include "lib/base/err.h"
#include "lib/base/index.h"
#include "lib/base/mem.h"
#include "lib/device/dtype.h"
#include "lib/graph/attrs.h"
#include "lib/graph/kernel.h"

/* A graph is a list of nodes in an order in which they may run. A model emits the forward part for
 * one micro-batch. Passes (lib/graph/pass.h) rewrite it and add the backward part, and a plan
 * (lib/graph/plan.h) runs it. A graph owns its values, nodes and strings, and knows no device. "In
 * the store" (lib/store/store.h) means: memory that outlasts a run. */

/* The role of a value. */
enum gt_role {
	GT_INPUT,        /* written by the host before a run */
	GT_PARAMETER,    /* trained; in the store */
	GT_BUFFER,       /* kept but not trained (running statistics); in the store */
	GT_TEMPORARY,    /* written by a node; memory is reused after its last reader */
	GT_GRADIENT,     /* the gradient of a parameter; in the store */
	GT_WORKING_COPY, /* a copy of a parameter in a 16-bit type; in the store */
	GT_CACHE, /* kept between runs for the nodes that write it; in the store, never saved */
	GT_OUTPUT /* written by a node, read by the host after the run */
};

/* Initial values. Random element i is number i % 4 of the Philox block with the run's seed as key,
 * and a counter of i / 4 and, as word 2, GT_RNG_INIT + the parameter's index. */
enum gt_init_kind {
	GT_INIT_ZEROS,
	GT_INIT_ONES,
	GT_INIT_CONSTANT,
	GT_INIT_NORMAL,
	GT_INIT_UNIFORM
};

struct gt_init {
	enum gt_init_kind kind;
	/* constant: the value; normal: standard deviation; uniform: draw from U(-scale, scale) */
	double scale;
};

/* A matrix whose elements are stored in blocks (lib/base/blocks.h): the value is GT_U8 [rows, bytes
 * of a row] (gt_pack_weight() in lib/model/pack.c). */
struct gt_packing {
	enum gt_block block; /* GT_BLOCK_NONE: the elements are stored as the value says */
	bool transposed;     /* a row of blocks is a column of the matrix */
	int64_t shape[2];    /* of the matrix as the model and files have it */
};

/* Return the elements of a row of blocks. */
static inline int64_t gt_packing_columns(const struct gt_packing *p)
{
	return p->shape[p->transposed ? 0 : 1];
}

/* A tensor of the graph. */
struct gt_value {
	int id; /* index of this value in graph->values */
	/* PyTorch's for parameters and buffers; unique among these and caches, or among all other
	 * values (gt_graph_find()); or NULL */
	const char *name;
	enum gt_dtype dtype;
	enum gt_layout layout;
	enum gt_role role;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	struct gt_node *producer;   /* NULL: declared, not computed */
	struct gt_value *parameter; /* gradients and working copies: their parameter */
	struct gt_init init;        /* parameters and buffers */
	bool decay;                 /* parameters: weight decay applies */
	double lr_scale;            /* parameters: factor of the learning rate */
	bool frozen;                /* a parameter that is not trained; its role is GT_BUFFER */
	struct gt_packing packing;  /* frozen parameters: how the elements are stored */
	/* Parameters: the weight of a product or convolution between hidden features, so not an
	 * embedding, output head, bias or norm (gt_model_build()). */
	bool hidden;
	bool low;            /* mixed precision: pipeline stages exchange it in the 16-bit type */
	bool on_other_ranks; /* only other ranks hold it; no node of this graph reads it */
	/* If not NULL: the value's memory is a part of this temporary, from element within_first
	 * on. So a write to one changes the other. */
	struct gt_value *within;
	int64_t within_first;
};

/* Return whether v is a weight of the model, trained or frozen. */
static inline bool gt_value_is_weight(const struct gt_value *v)
{
	return v->role == GT_PARAMETER || v->frozen;
}

/* Return whether nodes may change v after other nodes have read it. */
static inline bool gt_value_changes(const struct gt_value *v)
{
	return (v->role == GT_BUFFER && !v->frozen) || v->role == GT_GRADIENT ||
	       v->role == GT_CACHE;
}

/* Flags of the first and the last of the runs, one per micro-batch, of a training step. */
enum gt_run_flags { GT_RUN_FIRST = 1, GT_RUN_LAST = 2 };

struct gt_node {
	const struct gt_op *op;
	union gt_attrs attrs;
	int inputs, outputs;
	struct gt_value *in[GT_MAX_INPUTS];   /* NULL: an optional input that the node lacks */
	struct gt_value *out[GT_MAX_OUTPUTS]; /* NULL: likewise */
	/* part of the model, such as "layer1.0.conv1", for errors, profiles and the dry run */
	const char *scope;
	unsigned runs;  /* enum gt_run_flags: runs that execute the node; 0: all */
	bool is_repeat; /* repeats an earlier node, and must not be merged with it */
};

/* A pattern, such as "rms norm", and how often it was replaced by a faster op. */
struct gt_recognized {
	const char *name;
	int64_t count;
};

struct gt_graph {
	struct gt_value **values;
	size_t value_count, value_capacity;
	struct gt_node **nodes;
	size_t node_count, node_capacity;
	struct gt_arena arena;
	struct gt_index stored, others; /* names: of parameters, buffers and caches; of others */
	struct gt_index interned;       /* attributes of gt_graph_intern() */
	size_t interned_bytes;          /* of these attributes */
	const char *scope;              /* scope of the next nodes */
	uint32_t dropout_streams;       /* Philox streams in use by dropouts */
	const struct gt_recognized *recognized; /* of lib/graph/patterns/patterns.h */
	int recognized_count;
	struct gt_err err; /* error of the first call that failed */
};

/* Create an empty graph. */
int gt_graph_new(struct gt_graph **out, struct gt_err *err);
void gt_graph_free(struct gt_graph *g);

/* Return the error of the graph: 0, or that of the first call that failed. Calls that build a graph
 * need no checks: they do nothing and return NULL if the graph has failed or a value is NULL. */
int gt_graph_status(const struct gt_graph *g, struct gt_err *err);

/* Set the scope of the next nodes, printf-style. */
void gt_graph_scope(struct gt_graph *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return the length of the name of a block, a repeated part of a model, at the start of a scope.
 * The name ends with the first component that is a number, or ends with "_" and a number: "h.0" in
 * "h.0.attn.c_proj". If there is none, it is the whole scope: "lm_head". */
size_t gt_scope_block(const char *scope);

/* Declare a value that no node computes. The order of parameters is that of the state_dict and of
 * the optimizer's indices. Names are copied. */
struct gt_value *gt_input(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape);
struct gt_value *gt_parameter(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init, bool decay);
struct gt_value *gt_buffer(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init);

/* Declare a cache, which all plans of a store share by its name. A node that writes it
 * (gt_op.writes) finds the data in the next run. It is zero at first, and never saved. */
struct gt_value *gt_cache(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Make v an output, which the host can read after the run. Returns v. */
struct gt_value *gt_output(struct gt_graph *g, struct gt_value *v, const char *name);

/* Add a temporary of `count` elements, or one within `whole` with the type and shape of `like`.
 * `whole` lives until the last use of the values within it. */
struct gt_value *gt_temporary(struct gt_graph *g, enum gt_dtype dtype, int64_t count);
struct gt_value *gt_temporary_within(
    struct gt_graph *g, struct gt_value *whole, int64_t first, const struct gt_value *like);

/* Return the input, output or other value of a run with this name, or NULL. The second function
 * finds parameters, buffers and caches, which have names of their own: a module's weight may be
 * called "weight", too. */
struct gt_value *gt_graph_find(const struct gt_graph *g, const char *name);
struct gt_value *gt_graph_find_stored(const struct gt_graph *g, const char *name);

/* Give v another name, which is copied, or none (NULL). The graph finds values by their names, so
 * passes must not write gt_value.name. */
void gt_value_set_name(struct gt_graph *g, struct gt_value *v, const char *name);

/* Let v take the name and the role of `from`, which becomes a temporary without a name. */
void gt_value_take_name(struct gt_graph *g, struct gt_value *v, struct gt_value *from);

/* Append a node, and infer the shapes of its outputs. A NULL in[i] is an optional input that the
 * node lacks. Returns NULL with the graph's error set. */
struct gt_node *gt_emit(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in);

/* Append a node that a pass has built itself. */
void gt_append_node(struct gt_graph *g, struct gt_node *n);

/* Append a node like n, with new temporaries as outputs. Returns NULL with the graph's error
 * set. */
struct gt_node *gt_node_copy(struct gt_graph *g, const struct gt_node *n);

/* Put the scope and the op of a node before the text of an error, unless it begins with the op or
 * follows the failure of another rank. Return err->code. */
int gt_node_prefix(const struct gt_node *n, struct gt_err *err);

/* Return a copy of `size` bytes that lives as long as the graph; the same pointer for equal bytes.
 * An attribute that is too large for union gt_attrs is such a pointer, so that comparing the bytes
 * of the union compares it, too. Returns NULL with the graph's error set. */
const void *gt_graph_intern(struct gt_graph *g, const void *bytes, size_t size);

/* Return the size of a value in elements, or in bytes. */
int64_t gt_value_elements(const struct gt_value *v);

/* Return whether two values have the same dimensions, of any type. */
bool gt_value_same_shape(const struct gt_value *a, const struct gt_value *b);
size_t gt_value_bytes(const struct gt_value *v);

/* Set the graph's error, unless it has one. Returns NULL, for a builder to return. */
void *gt_graph_fail(struct gt_graph *g, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the graph as text, one node per line. The caller frees it. */
char *gt_graph_print(const struct gt_graph *g, struct gt_err *err);

#endif
