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
 * Classes of ops for mixed precision. The class of an op says how autocast, a pass that rewrites
 * the graph (passes/autocast.c), casts the inputs of the op. The low type (gt_precision.low in
 * pass.h) is bfloat16 or float16. Only inputs of float32 or the low type are cast. Each op is in
 * the same class as in torch.autocast for the CPU. torch.autocast has no option like low_sums
 * (gt_precision.low_sums): with it, more results have the low type, as the comments below say.
 */
enum gt_autocast {
	/* If some inputs are float32 and others have the low type, all are cast to float32, or to
	 * the low type if low_sums is set. */
	GT_AUTOCAST_WIDEST,
	/* Embeddings: inputs keep their types. If low_sums is set, the output has the low type: the
	 * pass sets attrs.embedding.low. */
	GT_AUTOCAST_LOOKUP,
	GT_AUTOCAST_LOW,  /* products and convolutions: inputs become the low type */
	GT_AUTOCAST_HIGH, /* losses: inputs become float32 */
	/* Inputs keep their types: the op accepts float32 vectors, such as statistics, together
	 * with data of the low type. */
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
	 * Check the inputs, and set dtype, ndim and shape of each output node->out[i]. Set out[i]
	 * to NULL if this node lacks output i. Passes call this function again after they have
	 * changed inputs or attributes of the node. Error texts contain the shapes.
	 */
	int (*infer)(struct gt_node *node, struct gt_err *err);

	/*
	 * Emit the nodes of the op's backward part. d_out[i] is the gradient of the loss with
	 * respect to out[i], or NULL if the loss does not depend on out[i]. Set d_in[i] to the
	 * gradient with respect to in[i] if wanted[i] is true; leave it NULL otherwise. If `grad`
	 * is NULL, the op has no gradient, and a graph that needs the gradient of such a node is an
	 * error.
	 */
	void (*grad)(struct gt_graph *g, struct gt_node *node, struct gt_value *const *d_out,
	    const bool *wanted, struct gt_value **d_in);

	/* Optional: print the attributes, each after a space: " stride=2 relu". */
	void (*print)(const struct gt_node *node, FILE *f);

	/* Return the number of floating-point operations of the node. NULL: the node has one
	 * operation for each element of out[0]. */
	double (*flops)(const struct gt_node *node);
	/* Optional: add the bytes that the node moves in addition to reading each input once and
	 * writing each output once. */
	void (*add_bytes)(const struct gt_node *node, struct gt_cost *cost);

	/* Bit i: out[0] may use the memory of in[i] if both have the same size. An op may set the
	 * bit in two cases: element e of out[0] depends on no element of in[i] except element e, or
	 * no kernel of the op reads an element of in[i] after it has overwritten the element. */
	unsigned inplace;
	/* Bit i: the last output, out[outputs - 1], of an op with several outputs may use the
	 * memory of in[i], under the conditions of `inplace`. */
	unsigned inplace_last;
	/* Bit i: the node changes in[i], for example running statistics. Passes keep such a node
	 * even if no other node reads its outputs. */
	unsigned writes;
	/* Bit i: the node looks up rows of in[i] by index, without a product (embeddings). */
	unsigned lookups;
	/* Optional, for an op with `writes`: emit a node that computes node->out[0] a second time,
	 * equal in every bit, and that writes no input. The new node reads the other outputs of
	 * `node`, and inputs of `node` that no node changes. */
	struct gt_node *(*repeat)(struct gt_graph *g, const struct gt_node *node);
	/* The op communicates with other ranks. Passes keep the node even if no other node reads
	 * its outputs, and never merge it with another node. If `constant` is not set, the backward
	 * pass assumes that the outputs depend on parameters of other ranks. */
	bool remote;
	/* The node runs on the device's stream for collectives, after all earlier nodes. Later
	 * nodes do not wait for it. A separate node, such as all_reduce_wait, makes the compute
	 * stream wait. */
	bool collective;
	/* The op stops gradients: the backward pass treats its outputs as constants. */
	bool constant;
	/* The op is a view: out[0] is in[0] with another shape, without a kernel or a copy. */
	bool view;
	/* Bit i of image_in: in[i] is an image. Bit i of image_out: out[i] is an image. An image
	 * with four dimensions has the layout that the backend wants for images. All other values
	 * are row-major. */
	unsigned image_in, image_out;
	/* The op works element by element: all inputs and outputs have the same layout. */
	bool elementwise;
	/* Bit i: the op reads in[i] row by row. Row r of each output depends only on row r of these
	 * inputs, and on the inputs without a bit. So ranks can divide the rows (sequence
	 * parallelism). */
	unsigned row_inputs;
	/* How tensor parallelism shards the op; NULL: the op cannot be sharded. */
	const struct gt_shard_rule *shard;
	enum gt_autocast autocast;
};

/* All ops that models and passes may use on any backend, NULL-terminated. */
extern const struct gt_op *const gt_ops[];

/* Set *cost to the cost of a node. A view costs nothing. If two inputs of the node are the same
 * value, the value is read once. */
void gt_node_cost(const struct gt_node *node, struct gt_cost *cost);

#endif
