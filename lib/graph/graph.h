/* graph.h - a model as a graph of values and nodes, and how it is built. */
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
 * A graph is a list of nodes in an order in which they may run. Models emit the forward part for
 * one micro-batch on one device; passes (lib/graph/pass.h) read it and rewrite it; lib/graph/plan.h
 * turns it into a list of kernel calls. A graph owns its values, nodes and strings; it knows no
 * device.
 */

enum gt_role {
	GT_INPUT,        /* written by the host before a run */
	GT_PARAMETER,    /* trained; lies in the store */
	GT_BUFFER,       /* kept but not trained (running statistics); lies in the store */
	GT_TEMPORARY,    /* written by a node; its memory is reused after its last reader */
	GT_GRADIENT,     /* of a parameter; lies in the store, beside it */
	GT_WORKING_COPY, /* of a parameter, in a type of 16 bits; lies in the store, beside it */
	GT_CACHE, /* kept between runs for the nodes that write it; in the store, never saved */
	GT_OUTPUT /* made by a node, read by the host after the run */
};

/* The initial value of a parameter or buffer: element i is number i % 4 of the Philox block at
 * counter i / 4, stream GT_RNG_INIT + the parameter's index, key the run's seed. */
enum gt_init_kind { GT_INIT_ZEROS, GT_INIT_ONES, GT_INIT_NORMAL, GT_INIT_UNIFORM };

struct gt_init {
	enum gt_init_kind kind;
	double scale; /* standard deviation, or the bound of U(-scale, scale) */
};

struct gt_value {
	int id; /* its index in graph->values */
	/* PyTorch's name for parameters and buffers. For other values it only serves messages, and
	 * may be NULL. */
	const char *name;
	enum gt_dtype dtype;
	enum gt_layout layout;
	enum gt_role role;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	struct gt_node *producer;   /* NULL: an input, parameter or buffer */
	struct gt_value *parameter; /* GT_GRADIENT, GT_WORKING_COPY: it belongs to this one */
	struct gt_init init;        /* parameters and buffers */
	bool decay;                 /* parameters: weight decay applies */
	double lr_scale;            /* parameters: factor of the learning rate */
	bool frozen;                /* a buffer that the model declared as a parameter */
	/* Parameters: a matrix or convolution between hidden features, and no embedding, output
	 * head, bias or norm. The model sets it (gt_model_build()). */
	bool hidden;
	bool low;       /* sent to another stage in the low type, where precision is mixed */
	bool elsewhere; /* parameters and buffers: other ranks hold it; no node here reads it */
	/* If not NULL, the value has no memory of its own: it lies within this temporary, from
	 * element within_first on. A write to one changes the other. */
	struct gt_value *within;
	int64_t within_first;
};

/* Whether it is a weight of the model, trained or frozen. */
static inline bool gt_value_is_weight(const struct gt_value *v)
{
	return v->role == GT_PARAMETER || v->frozen;
}

/* Whether a node may write it while others read it. */
static inline bool gt_value_changes(const struct gt_value *v)
{
	return (v->role == GT_BUFFER && !v->frozen) || v->role == GT_GRADIENT ||
	       v->role == GT_CACHE;
}

/* A step of training is one run of a plan, or one for each micro-batch. */
enum gt_run_flags { GT_RUN_FIRST = 1, GT_RUN_LAST = 2 };

struct gt_node {
	const struct gt_op *op;
	union gt_attrs attrs;
	int inputs, outputs;
	struct gt_value *in[GT_MAX_INPUTS];   /* NULL where an optional one is left out */
	struct gt_value *out[GT_MAX_OUTPUTS]; /* likewise */
	const char *scope; /* "layer1.0.conv1": for errors, profiles and the dry run */
	unsigned runs;     /* the runs of a step that execute it, of enum gt_run_flags; 0: all */
	bool again;        /* it repeats an earlier node, and must not be merged with it */
};

struct gt_graph {
	struct gt_value **values;
	size_t value_count, value_capacity;
	struct gt_node **nodes;
	size_t node_count, node_capacity;
	struct gt_arena arena;
	const char *scope;        /* of the nodes being emitted */
	uint32_t dropout_streams; /* used so far */
	struct gt_err err;        /* of the first call that failed; see gt_graph_status() */
};

int gt_graph_new(struct gt_graph **out, struct gt_err *err);
void gt_graph_free(struct gt_graph *g);

/*
 * Building needs no check per line. A call that fails stores its error in the graph and returns
 * NULL. A call does nothing and returns NULL if a needed value is NULL or the graph has failed.
 * Call gt_graph_status() once at the end.
 */
int gt_graph_status(const struct gt_graph *g, struct gt_err *err);

/* Set the scope of the nodes emitted next, printf-style. */
void gt_graph_scope(struct gt_graph *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The length of the block's name at the start of a scope. The name ends with the first component
 * that is a number, or that ends with "_" and a number: "h.0" in "h.0.attn.c_proj",
 * "encoder_layer_0" in "encoder_layer_0.mlp.0". A scope without a number is a block as a whole:
 * "lm_head". */
size_t gt_scope_block(const char *scope);

/* Declare values that come from outside. Order of declaration is the order of the state_dict and of
 * the optimizer's parameter indices. Names are copied. */
struct gt_value *gt_input(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape);
struct gt_value *gt_parameter(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init, bool decay);
struct gt_value *gt_buffer(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init);

/* Device memory that plans of one store share under this name: nodes that write it (gt_op.writes)
 * find their data there in the next run. No part of a state_dict, and zero at first. */
struct gt_value *gt_cache(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Keep a value after the run, so that the host can read it. Returns the value. */
struct gt_value *gt_output(struct gt_graph *g, struct gt_value *v, const char *name);

/*
 * For passes that lay out memory. gt_temporary() adds a temporary of `count` elements. No node has
 * to write it as a whole. It lives as long as nodes use it or values within it. gt_piece() returns
 * elements of it, from `first` on, as a temporary with the type and shape of `like`.
 */
struct gt_value *gt_temporary(struct gt_graph *g, enum gt_dtype dtype, int64_t count);
struct gt_value *gt_piece(
    struct gt_graph *g, struct gt_value *whole, int64_t first, const struct gt_value *like);

/* The value of that name, or NULL. */
struct gt_value *gt_graph_find(const struct gt_graph *g, const char *name);

/*
 * Emit a node: infer the outputs' shapes, append. Returns the node, or NULL with the graph's error
 * set. Op families wrap this (lib/graph/ops/ops.h); passes use it as it is. in[i] NULL leaves an
 * optional input out.
 */
struct gt_node *gt_emit(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in);

/* Append a node that a pass has built itself. */
void gt_append_node(struct gt_graph *g, struct gt_node *n);

/* Append a node that does the same as n: it reads the same values and makes temporaries of its own,
 * like those of n. Returns it, or NULL with the graph's error set. */
struct gt_node *gt_node_copy(struct gt_graph *g, const struct gt_node *n);

/* Elements and bytes of a value. */
int64_t gt_value_elements(const struct gt_value *v);
size_t gt_value_bytes(const struct gt_value *v);

/* Fail the graph, unless it has failed already. Returns NULL, for `return gt_graph_fail(...)`. */
void *gt_graph_fail(struct gt_graph *g, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the graph as text, one node per line, for tests of passes and for --verbose. The caller
 * frees it. */
char *gt_graph_print(const struct gt_graph *g, struct gt_err *err);

#endif
