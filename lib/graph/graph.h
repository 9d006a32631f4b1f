/* graph.h - a model as a graph of values and nodes, and the functions that build it. */
#ifndef GT_GRAPH_GRAPH_H
#define GT_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/device/dtype.h"
#include "lib/graph/attrs.h"
#include "lib/graph/kernel.h"

/*
 * A graph is a list of nodes in an order in which they may run. A model emits the forward part for
 * one micro-batch on one device. Passes (lib/graph/pass.h) read and rewrite the graph, and add the
 * backward part. A plan (lib/graph/plan.h) turns the graph into a list of kernel calls. A graph
 * owns its values, nodes and strings. It does not depend on a device.
 *
 * The store (lib/store/store.h) is the memory that outlasts a run: parameters, gradients, buffers.
 */

/* The role of a value. */
enum gt_role {
	GT_INPUT,        /* written by the host before a run */
	GT_PARAMETER,    /* trained; in the store */
	GT_BUFFER,       /* kept but not trained (running statistics); in the store */
	GT_TEMPORARY,    /* written by a node; its memory is reused after its last reader */
	GT_GRADIENT,     /* the gradient of a parameter; in the store */
	GT_WORKING_COPY, /* a copy of a parameter in a 16-bit type; in the store */
	GT_CACHE, /* kept between runs for the nodes that write it; in the store, never saved */
	GT_OUTPUT /* written by a node, read by the host after the run */
};

/* How a parameter or buffer gets its initial value. Random element i is number i % 4 of the Philox
 * block at counter i / 4. Word 2 of the counter, the stream, is GT_RNG_INIT + the parameter's
 * index, and the key of the block is the run's seed. */
enum gt_init_kind { GT_INIT_ZEROS, GT_INIT_ONES, GT_INIT_NORMAL, GT_INIT_UNIFORM };

struct gt_init {
	enum gt_init_kind kind;
	double scale; /* normal: standard deviation; uniform: draw from U(-scale, scale) */
};

/* A tensor of the graph. */
struct gt_value {
	int id; /* index of this value in graph->values */
	/* Parameters and buffers: PyTorch's name. Inputs, outputs and caches: a unique name. Other
	 * values: a name for messages, or NULL. */
	const char *name;
	enum gt_dtype dtype;
	enum gt_layout layout;
	enum gt_role role;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	struct gt_node *producer; /* the node that writes it; NULL: declared, not computed */
	/* GT_GRADIENT, GT_WORKING_COPY: the parameter to which the gradient or copy belongs */
	struct gt_value *parameter;
	struct gt_init init; /* parameters and buffers */
	bool decay;          /* parameters: weight decay applies */
	double lr_scale;     /* parameters: factor of the learning rate */
	bool frozen;         /* a parameter that is not trained; its role is GT_BUFFER */
	/* Parameters: the weight of a product or convolution between hidden features; false for
	 * embeddings, the output head, biases and norms. The model sets it (gt_model_build()). */
	bool hidden;
	bool low; /* mixed precision: pipeline stages exchange this value in the 16-bit type */
	/* parameters and buffers: only other ranks hold the value, and no node of this graph reads
	 * it */
	bool on_other_ranks;
	/* If not NULL, the value has no memory of its own: its memory is a part of this temporary,
	 * from element within_first on. So a node that writes the value changes the temporary, and
	 * a node that writes the temporary changes the value. */
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

/* A training step is one run of a plan, or several runs, one for each micro-batch. The flags mark
 * the first and the last run of a step. A single run has both flags. */
enum gt_run_flags { GT_RUN_FIRST = 1, GT_RUN_LAST = 2 };

/* A computation: an op with its attributes, inputs and outputs. */
struct gt_node {
	const struct gt_op *op;
	union gt_attrs attrs;
	int inputs, outputs;
	struct gt_value *in[GT_MAX_INPUTS];   /* NULL: an optional input that the node lacks */
	struct gt_value *out[GT_MAX_OUTPUTS]; /* NULL: an optional output that the node lacks */
	/* name of the part of the model to which the node belongs, such as "layer1.0.conv1"; shown
	 * in errors, profiles and the dry run */
	const char *scope;
	unsigned runs;  /* enum gt_run_flags: runs of a step that execute the node; 0: all runs */
	bool is_repeat; /* the node repeats an earlier node and must not be merged with it */
};

struct gt_graph {
	struct gt_value **values;
	size_t value_count, value_capacity;
	struct gt_node **nodes;
	size_t node_count, node_capacity;
	struct gt_arena arena;
	const char *scope;        /* scope of the nodes that are emitted next */
	uint32_t dropout_streams; /* number of Philox streams that dropouts use so far */
	struct gt_err err;        /* error of the first call that failed; none so far: code 0 */
};

/* Create an empty graph. The caller frees *out. */
int gt_graph_new(struct gt_graph **out, struct gt_err *err);
void gt_graph_free(struct gt_graph *g);

/*
 * Return the error of the graph: 0, or the code of the first call that failed.
 *
 * The caller need not check each call that builds the graph. A call that fails stores its error in
 * the graph and returns NULL. A call does nothing and returns NULL if a required value is NULL or
 * the graph has failed. Call gt_graph_status() once at the end.
 */
int gt_graph_status(const struct gt_graph *g, struct gt_err *err);

/* Set the scope of the nodes emitted next, printf-style. */
void gt_graph_scope(struct gt_graph *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A block is a part of a model that is repeated, such as a layer of a transformer. Return the
 * length of the block's name at the start of a scope. Components of a scope are separated by dots.
 * The name ends with the first component that is a number, or that ends with "_" and a number:
 * "h.0" in "h.0.attn.c_proj", "encoder_layer_0" in "encoder_layer_0.mlp.0". If no component
 * matches, the whole scope is the name: "lm_head". */
size_t gt_scope_block(const char *scope);

/* Declare a value that no node computes. The order of declaration is the order of the state_dict
 * and of the optimizer's parameter indices. The graph copies the name. */
struct gt_value *gt_input(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape);
struct gt_value *gt_parameter(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init, bool decay);
struct gt_value *gt_buffer(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init);

/* Declare a cache: device memory in the store. All plans of the store that declare a cache of this
 * name share the memory. A node that writes the cache (gt_op.writes) finds the data there in the
 * next run. A cache is zero at first, and is never saved in a state_dict. */
struct gt_value *gt_cache(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Make v an output: its memory is kept after the run, and the host can read it. Returns v. */
struct gt_value *gt_output(struct gt_graph *g, struct gt_value *v, const char *name);

/*
 * For passes that lay out memory. gt_temporary() adds a temporary of `count` elements. Nodes may
 * write it part by part. It lives until the last node that uses it, or that uses a value within it
 * (gt_value.within). gt_temporary_within() returns a temporary within `whole`: the elements from
 * element `first` on, with the type and shape of `like`.
 */
struct gt_value *gt_temporary(struct gt_graph *g, enum gt_dtype dtype, int64_t count);
struct gt_value *gt_temporary_within(
    struct gt_graph *g, struct gt_value *whole, int64_t first, const struct gt_value *like);

/* Return the value with this name, or NULL. */
struct gt_value *gt_graph_find(const struct gt_graph *g, const char *name);

/*
 * Emit a node: infer the shapes of its outputs, and append it to the graph. Returns the node, or
 * NULL with the graph's error set. If in[i] is NULL, the node lacks that optional input. Models
 * call the builders of lib/graph/ops/ops.h, which call this function. Passes call it directly.
 */
struct gt_node *gt_emit(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in);

/* Append a node that a pass has built itself. */
void gt_append_node(struct gt_graph *g, struct gt_node *n);

/* Append a node with the op, attributes and inputs of n. Its outputs are new temporaries, with the
 * shapes and types of n's outputs. Returns the node, or NULL with the graph's error set. */
struct gt_node *gt_node_copy(struct gt_graph *g, const struct gt_node *n);

/* Return the size of a value: as a number of elements, and in bytes. */
int64_t gt_value_elements(const struct gt_value *v);
size_t gt_value_bytes(const struct gt_value *v);

/* Set the graph's error, unless it has one already. Returns NULL, so a builder can write
 * `return gt_graph_fail(...)`. */
void *gt_graph_fail(struct gt_graph *g, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the graph as text, one node per line, for tests of passes and for --verbose. The caller
 * frees it. */
char *gt_graph_print(const struct gt_graph *g, struct gt_err *err);

#endif
