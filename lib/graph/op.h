/* op.h - the table of ops: for each op its shape rule, gradient and cost, for all devices. */
#ifndef GT_GRAPH_OP_H
#define GT_GRAPH_OP_H

#include <stdio.h>

#include "lib/graph/graph.h"

/* The cost of running a node, or several nodes, once. */
struct gt_cost {
	double flops; /* floating-point operations; a multiply-add counts as two */
	double bytes_read, bytes_written;
};

struct gt_shard_rule; /* lib/graph/shard.h */

/* How mixed precision casts the inputs of an op (passes/autocast.c), as torch.autocast does for the
 * CPU. The low type is bfloat16 or float16. */
enum gt_autocast {
	/* mixed inputs become float32, or the low type with low_sums (pass.h) */
	GT_AUTOCAST_WIDEST,
	/* embeddings: positions get the table's type; with low_sums, the output is low */
	GT_AUTOCAST_LOOKUP,
	GT_AUTOCAST_LOW,   /* products and convolutions: inputs become the low type */
	GT_AUTOCAST_HIGH,  /* losses: inputs become float32 */
	GT_AUTOCAST_KEEP,  /* inputs keep their types */
	GT_AUTOCAST_MARKED /* no inputs; outputs marked as low (gt_value.low) get the low type */
};

/* The row of an op in the table of ops. */
struct gt_op {
	const char *name;
	int min_inputs, max_inputs; /* inputs from index min_inputs on may be NULL */
	int outputs;

	/* Check the inputs, and set dtype and shape of each output, or out[i] to NULL if the node
	 * lacks it. Passes call this again after a change. Error texts contain the shapes. */
	int (*infer)(struct gt_node *node, struct gt_err *err);

	/* Emit the backward part. d_out[i] is the gradient of out[i], or NULL if the loss does not
	 * depend on it. Set d_in[i] where wanted[i] is true. NULL: the op has no gradient. */
	void (*grad)(struct gt_graph *g, struct gt_node *node, struct gt_value *const *d_out,
	    const bool *wanted, struct gt_value **d_in);

	/* Optional: print the attributes, each after a space. */
	void (*print)(const struct gt_node *node, FILE *f);

	/* Return the floating-point operations of the node. NULL: one per element of out[0]. */
	double (*flops)(const struct gt_node *node);
	bool product; /* most of these are those of matrix products or convolutions */
	/* Optional: add the bytes moved besides one read per input and one write per output. */
	void (*add_bytes)(const struct gt_node *node, struct gt_cost *cost);

	/* Bit i: out[0] may use the memory of an in[i] of the same size, because no element of
	 * in[i] is read after its place was overwritten by another element. */
	unsigned inplace;
	unsigned inplace_last; /* bit i: the same for the last of several outputs */
	unsigned writes;       /* bit i: the node changes in[i]; passes keep such a node */
	unsigned lookups;      /* bit i: rows of in[i] are looked up by index (embeddings) */
	/* Optional, with `writes`: emit a node that computes out[0] again, equal in every bit, from
	 * values that no node changes. The new node writes no input. */
	struct gt_node *(*repeat)(struct gt_graph *g, const struct gt_node *node);
	/* Ranks communicate. Passes neither remove nor merge the node. Unless `constant` is set,
	 * its outputs depend on parameters of other ranks. */
	bool remote;
	/* The node runs on the stream for collectives after all earlier nodes. Later nodes do not
	 * wait for it, but for a node such as all_reduce_wait. */
	bool collective;
	bool constant; /* the backward pass treats the outputs as constants */
	bool view;     /* out[0] is in[0] with another shape, without a kernel */
	/* Bit i: in[i], or out[i], is an image: with four dimensions, its layout is the backend's.
	 * All other values are row-major. */
	unsigned image_in, image_out;
	bool elementwise; /* all inputs and outputs have the same layout */
	/* Bit i: row r of the outputs depends on row r of in[i] alone, and on the inputs without a
	 * bit. So ranks can divide the rows (sequence parallelism). */
	unsigned row_inputs;
	const struct gt_shard_rule *shard; /* tensor parallelism; NULL: gt_shard_whole */
	enum gt_autocast autocast;
};

/* All ops that models and passes may use on any backend, NULL-terminated. */
extern const struct gt_op *const gt_ops[];

/* Compute the cost of a node. A view costs nothing; a value that is two inputs is read once. */
void gt_node_cost(const struct gt_node *node, struct gt_cost *cost);

#endif
