/* collective_nodes.h - private: functions that collective nodes share, and insertion of nodes. */
#ifndef GT_PARALLEL_COLLECTIVE_NODES_H
#define GT_PARALLEL_COLLECTIVE_NODES_H

#include "lib/graph/op.h"
#include "lib/parallel/data/buckets.h"
#include "lib/parallel/node_attrs.h"

/* gt_op.infer for an op without outputs. */
int gt_nodes_infer_nothing(struct gt_node *node, struct gt_err *err);

/* gt_op.flops: 0. */
double gt_nodes_no_flops(const struct gt_node *node);

/* gt_op.print: " bucket=3". */
void gt_nodes_print_bucket(const struct gt_node *node, FILE *f);

/* gt_op.print: " axis=data". */
void gt_nodes_print_axis(const struct gt_node *node, FILE *f);

/* Return the attributes `scatter` with the type and shape of v. */
union gt_attrs gt_nodes_shape(const struct gt_value *v);

/* ---- the insertion of nodes into a graph ---- */

/* A node to insert for a bucket (data/buckets.h). */
struct gt_insertion {
	const struct gt_op *op;
	/* insert it before the node with this index now, or at the end */
	size_t at;
	/* the bucket; see gt_node_attrs.bucket */
	int bucket, gather;
	/* enum gt_run_flags (gt_node.runs); 0: all */
	unsigned runs;
	/* inputs, or NULL; output, or NULL for a new value */
	struct gt_value *in[2], *out;
};

/* Nodes to insert, sorted by `at`, and then in the order in which they were added, the same on all
 * ranks. */
struct gt_insertions {
	struct gt_insertion *list;
	size_t count;
};

/* Allocate memory for `max` of them. The caller releases it in any case. */
int gt_insertions_init(struct gt_insertions *insertions, size_t max, struct gt_err *err);
void gt_insertions_release(struct gt_insertions *insertions);

void gt_insertions_add(struct gt_insertions *insertions, struct gt_insertion one);

/* Insert the nodes in the graph's current scope. Errors are the graph's. */
void gt_insertions_emit(
    const struct gt_insertions *insertions, const struct gt_buckets *buckets, struct gt_graph *g);

/* The kernels of this module's nodes; the last row has op NULL. */
extern const struct gt_kernel gt_collective_kernels[], gt_ddp_kernels[], gt_scatter_kernels[],
    gt_zero_kernels[], gt_pipeline_kernels[], gt_pipeline_tied_kernels[], gt_sequence_kernels[];

#endif
