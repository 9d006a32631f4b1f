/* op.h - an op: a row with its shape rule, its gradient and its cost. It knows no device. */
#ifndef GT_GRAPH_OP_H
#define GT_GRAPH_OP_H

#include <stdio.h>

#include "lib/graph/graph.h"

struct gt_cost {
	double flops; /* a multiply-add counts as two */
	double bytes_read, bytes_written;
};

struct gt_shard_rule; /* lib/graph/shard.h */

/* How the autocast pass (passes/autocast.c) casts an op's inputs of float32 and of the low type.
 * The lists are those of torch.autocast on the CPU, which has no low_sums (pass.h). */
enum gt_autocast {
	/* they become the widest type among them, or with low_sums the low type */
	GT_AUTOCAST_WIDEST,
	GT_AUTOCAST_LOOKUP, /* they keep their types; with low_sums attrs.embedding.low is set */
	GT_AUTOCAST_LOW,    /* they become the low type: products and convolutions */
	GT_AUTOCAST_HIGH,   /* they become float32: losses */
	GT_AUTOCAST_KEEP, /* they keep their types: the op takes float32 vectors beside low data */
	/* it has no inputs: an output marked as low (gt_value.low) has the low type */
	GT_AUTOCAST_MARKED
};

struct gt_op {
	const char *name;
	int min_inputs, max_inputs; /* inputs beyond min may be left out (NULL) */
	int outputs;

	/*
	 * Check the inputs and fill dtype, ndim and shape of node->out[] (zeroed values; set out[i]
	 * to NULL for an output that this node does without). Errors name the shapes.
	 */
	int (*infer)(struct gt_node *node, struct gt_err *err);

	/*
	 * Emit nodes that compute d_in[i], the gradient of the loss by in[i], from d_out[i], the
	 * gradient by out[i] (NULL if there is none). wanted[i] says which inputs need a gradient;
	 * leave other d_in[i] NULL. If `grad` is NULL, the op has no gradient, and needing one is
	 * an error.
	 */
	void (*grad)(struct gt_graph *g, struct gt_node *node, struct gt_value *const *d_out,
	    const bool *wanted, struct gt_value **d_in);

	/* Optional: print the attributes, each after a space: " stride=2 relu". */
	void (*print)(const struct gt_node *node, FILE *f);

	/* The FLOPs of the node. NULL: one FLOP per element of out[0]. Its bytes are those of
	 * inputs and outputs. */
	double (*flops)(const struct gt_node *node);
	/* Optional: add the bytes that the node moves besides reading each input and writing each
	 * output once. */
	void (*add_bytes)(const struct gt_node *node, struct gt_cost *cost);

	/* A bit for each input whose memory out[0] may share. Both have the same size, and element
	 * e of the output depends on no element of that input after e (or the kernel allows for
	 * it). */
	unsigned inplace;
	/* A bit for each input that the node changes (running statistics). The node is kept
	 * although no node reads it. */
	unsigned writes;
	/* A bit for each input whose rows are looked up by index and not multiplied
	 * (embeddings). */
	unsigned lookups;
	/* For an op that writes: emit a node that computes the same bits as the node's out[0] from
	 * its other outputs and the inputs that no node writes. NULL: there is no such node. */
	struct gt_node *(*again)(struct gt_graph *g, const struct gt_node *node);
	/* A collective: it is kept although no node reads it, and is never merged with another
	 * node. Its outputs depend on parameters of other ranks (unless it is `constant`). */
	bool remote;
	/* It runs on the device's stream of collectives, after all earlier nodes. Later nodes do
	 * not wait for it: another node, such as all_reduce_wait, lets the compute stream wait. */
	bool collective;
	/* It stops gradients: its outputs are constants. */
	bool constant;
	/* A view: out[0] is in[0] with another shape, without a kernel or a copy. */
	bool view;
	/* A bit for each input or output that is an image. If it has four dimensions, it has the
	 * layout that the backend wants for images. All others are row-major. */
	unsigned image_in, image_out;
	/* The op works element by element: all inputs have one layout, and the outputs have the
	 * same. */
	bool elementwise;
	/* How tensor parallelism shards the op; NULL: it cannot be sharded. */
	const struct gt_shard_rule *shard;
	enum gt_autocast autocast;
};

/* All ops that models and passes may use on any backend, NULL-terminated. */
extern const struct gt_op *const gt_ops[];

/* The cost of a node. */
void gt_node_cost(const struct gt_node *node, struct gt_cost *cost);

#endif
