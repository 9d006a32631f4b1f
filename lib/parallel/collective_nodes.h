/* collective_nodes.h - private: functions that collective nodes share, and insertion of nodes. */
#ifndef GT_PARALLEL_COLLECTIVE_NODES_H
#define GT_PARALLEL_COLLECTIVE_NODES_H

#include "lib/graph/op.h"
#include "lib/parallel/data/buckets.h"
#include "lib/parallel/node_attrs.h"

/* gt_op.infer for an op without outputs. It accepts all inputs. */
int gt_nodes_infer_nothing(struct gt_node *node, struct gt_err *err);

/* gt_op.flops for a node without arithmetic: return 0. */
double gt_nodes_no_flops(const struct gt_node *node);

/* gt_op.print for a node of one bucket: print " bucket=3". */
void gt_nodes_print_bucket(const struct gt_node *node, FILE *f);

/* gt_op.print for a collective over an axis: print " axis=data". */
void gt_nodes_print_axis(const struct gt_node *node, FILE *f);

/* Return the attributes `scatter` for a node whose output has the type and shape of v. */
union gt_attrs gt_nodes_shape(const struct gt_value *v);

/* ---- the insertion of nodes into a graph ---- */

/* A request to insert a node that works on one bucket, a range of the gradients
 * (data/buckets.h). */
struct gt_insertion {
	const struct gt_op *op;
	/* Insert the node before the node that now has this index. If `at` is the number of nodes,
	 * insert it at the end. */
	size_t at;
	/* bucket: index of the bucket; gather: for all_gather_start, 1 in the forward part of the
	 * graph and 2 in the backward part */
	int bucket, gather;
	/* enum gt_run_flags: the runs of a step that execute the node; 0: all (gt_node.runs) */
	unsigned runs;
	/* input and output of the node; if `in` is NULL, the node has no input; if `out` is NULL,
	 * the output of the node is a new value */
	struct gt_value *in, *out;
};

/* A list of requests, sorted by `at`. Nodes with the same `at` keep the order in which they were
 * added. This order is the same on all ranks, as collectives require. */
struct gt_insertions {
	struct gt_insertion *list;
	size_t count;
};

/* Allocate memory for `max` requests. The caller calls gt_insertions_release() in any case. */
int gt_insertions_init(struct gt_insertions *insertions, size_t max, struct gt_err *err);
void gt_insertions_release(struct gt_insertions *insertions);

/* Add a request to the list. */
void gt_insertions_add(struct gt_insertions *insertions, struct gt_insertion one);

/* Insert the nodes of all requests into the graph, with the graph's current scope
 * (gt_graph_scope()). Errors are stored in the graph (gt_graph_status()). */
void gt_insertions_emit(
    const struct gt_insertions *insertions, const struct gt_buckets *buckets, struct gt_graph *g);

/* The kernel tables of the nodes that this module inserts into graphs. The last row of each table
 * has op NULL. */
extern const struct gt_kernel gt_collective_kernels[], gt_ddp_kernels[], gt_scatter_kernels[],
    gt_zero_kernels[], gt_pipeline_kernels[], gt_pipeline_tied_kernels[], gt_sequence_kernels[];

#endif
