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

/*
 * Mixed precision: how autocast, a pass that rewrites the graph (passes/autocast.c), casts the
 * inputs of an op. The low type is bfloat16 or float16, gt_pass_options.low. Only inputs of float32
 * or the low type are cast. Each op is in the same class as in torch.autocast for the CPU.
 * torch.autocast has nothing like low_sums below, an option of the pass (gt_pass_options.low_sums
 * in pass.h).
 */
enum gt_autocast {
	/* If some inputs are float32 and others have the low type, all become float32. With
	 * low_sums, all become the low type. */
	GT_AUTOCAST_WIDEST,
	/* Embeddings: inputs keep their types. With low_sums the pass sets attrs.embedding.low. */
	GT_AUTOCAST_LOOKUP,
	GT_AUTOCAST_LOW,  /* products and convolutions: inputs become the low type */
	GT_AUTOCAST_HIGH, /* losses: inputs become float32 */
	/* Inputs keep their types: the op accepts float32 vectors together with data of the low
	 * type. */
	GT_AUTOCAST_KEEP,
	/* The op has no inputs. An output that is marked as low (gt_value.low) gets the low type.
	 */
	GT_AUTOCAST_MARKED
};

/* The row of an op in the table of ops. */
struct gt_op {
	const char *name;
	int min_inputs, max_inputs; /* inputs from index min_inputs on may be NULL */
	int outputs;

	/*
	 * Check the inputs, and set dtype, ndim and shape of the values node->out[], which are
	 * zeroed. Set out[i] to NULL if this node lacks output i. Errors name the shapes.
	 */
	int (*infer)(struct gt_node *node, struct gt_err *err);

	/*
	 * Emit the nodes of the op's backward part. d_out[i] is the gradient of the loss with
	 * respect to out[i], or NULL if the loss does not depend on out[i]. Set d_in[i] to the
	 * gradient with respect to in[i] if wanted[i] is true; leave it NULL otherwise. If `grad`
	 * is NULL, the op has no gradient, and a graph that needs one is an error.
	 */
	void (*grad)(struct gt_graph *g, struct gt_node *node, struct gt_value *const *d_out,
	    const bool *wanted, struct gt_value **d_in);

	/* Optional: print the attributes, each after a space: " stride=2 relu". */
	void (*print)(const struct gt_node *node, FILE *f);

	/* Return the number of floating-point operations of the node. NULL: one per element of
	 * out[0]. */
	double (*flops)(const struct gt_node *node);
	/* Optional: add the bytes that the node moves in addition to reading each input once and
	 * writing each output once. */
	void (*add_bytes)(const struct gt_node *node, struct gt_cost *cost);

	/* Bit i: out[0] may share memory with in[i]. Both have the same size. Element e of out[0]
	 * must not depend on elements of in[i] after element e, unless the kernels handle this. */
	unsigned inplace;
	/* The same for the last output, out[outputs - 1], of an op that has several. */
	unsigned inplace_last;
	/* Bit i: the node changes in[i] (running statistics). Passes keep such a node even if no
	 * other node reads its outputs. */
	unsigned writes;
	/* Bit i: the node looks up rows of in[i] by index, without a product (embeddings). */
	unsigned lookups;
	/* Optional, for an op with `writes`: emit a node that computes node->out[0] a second time.
	 * The result has the same bits. The new node reads the other outputs of `node`, and inputs
	 * of `node` that no node changes. */
	struct gt_node *(*repeat)(struct gt_graph *g, const struct gt_node *node);
	/* The op communicates with other ranks. Passes keep the node even if no other node reads
	 * its outputs, and never merge it with another node. The outputs depend on parameters of
	 * other ranks, unless `constant` is set. */
	bool remote;
	/* The node runs on the device's stream for collectives, after all earlier nodes. Later
	 * nodes do not wait for it. A separate node, such as all_reduce_wait, makes the compute
	 * stream wait. */
	bool collective;
	/* The op stops gradients: the backward pass treats its outputs as constants. */
	bool constant;
	/* The op is a view: out[0] is in[0] with another shape, without a kernel or a copy. */
	bool view;
	/* Bit i: in[i], or out[i], is an image. An image with four dimensions has the layout that
	 * the backend wants for images. All other values are row-major. */
	unsigned image_in, image_out;
	/* The op works element by element: all inputs and outputs have the same layout. */
	bool elementwise;
	/* Bit i: the op reads in[i] row by row. Row r of each output depends only on row r of these
	 * inputs and on the other inputs. So ranks can divide the rows (sequence parallelism). */
	unsigned row_inputs;
	/* How tensor parallelism shards the op; NULL: it cannot be sharded. */
	const struct gt_shard_rule *shard;
	enum gt_autocast autocast;
};

/* All ops that models and passes may use on any backend, NULL-terminated. */
extern const struct gt_op *const gt_ops[];

/* Set *cost to the cost of a node. A view costs nothing. If two inputs of the node are the same
 * value, the value is read once. */
void gt_node_cost(const struct gt_node *node, struct gt_cost *cost);

#endif
