/* collective_nodes.h - inside parallel: nodes of collectives, and their places in a graph. */
#ifndef GT_PARALLEL_COLLECTIVE_NODES_H
#define GT_PARALLEL_COLLECTIVE_NODES_H

#include "lib/graph/op.h"
#include "lib/parallel/data/buckets.h"

/* gt_op.infer of an op without outputs; it accepts all inputs. */
int gt_nodes_infer_nothing(struct gt_node *node, struct gt_err *err);

/* gt_op.flops: 0. */
double gt_nodes_no_flops(const struct gt_node *node);

/* gt_op.print of an op of one bucket (attrs.bucket): " bucket=3". */
void gt_nodes_print_bucket(const struct gt_node *node, FILE *f);

/* gt_op.print of a collective over an axis (attrs.collective): " axis=data". */
void gt_nodes_print_axis(const struct gt_node *node, FILE *f);

/* The attributes of a node whose output has the shape and type of v: attrs->scatter. */
void gt_nodes_set_shape(union gt_attrs *attrs, const struct gt_value *v);

/* ---- where they go ---- */

/* A node of a bucket to add (attrs.bucket gets `bucket` and `turn`). It is placed before the node
 * that is now at `at`, or after all nodes. */
struct gt_order {
	const struct gt_op *op;
	size_t at;
	int bucket, turn;
	unsigned runs; /* struct gt_node */
	struct gt_value *in,
	    *out; /* or NULL; out: the value that it computes, in place of a new one */
};

/* Nodes of one place run in the order in which they were added: the same on all ranks, as
 * collectives require. */
struct gt_orders {
	struct gt_order *list;
	size_t count;
};

/* Allocate memory for `most` nodes; release in any case. */
int gt_orders_init(struct gt_orders *orders, size_t most, struct gt_err *err);
void gt_orders_release(struct gt_orders *orders);

void gt_orders_add(struct gt_orders *orders, struct gt_order one);

/* Put all nodes into the graph, in its scope. Errors: those of the graph. */
void gt_orders_emit(
    const struct gt_orders *orders, const struct gt_buckets *buckets, struct gt_graph *g);

#endif
