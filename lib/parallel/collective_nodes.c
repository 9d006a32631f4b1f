/* collective_nodes.c - nodes of collectives, and their places in a graph. */
#include "lib/parallel/collective_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/pass.h"

int gt_nodes_infer_nothing(struct gt_node *node, struct gt_err *err)
{
	(void)node;
	(void)err;
	return 0;
}

double gt_nodes_no_flops(const struct gt_node *node)
{
	(void)node;
	return 0;
}

void gt_nodes_print_bucket(const struct gt_node *node, FILE *f)
{
	fprintf(f, " bucket=%d", gt_node_attrs(&node->attrs).bucket.index);
}

void gt_nodes_print_axis(const struct gt_node *node, FILE *f)
{
	fprintf(
	    f, " axis=%s", gt_axis_name((enum gt_axis)gt_node_attrs(&node->attrs).collective.axis));
}

union gt_attrs gt_nodes_shape(const struct gt_value *v)
{
	union gt_node_attrs own = { 0 };

	own.scatter.dtype = v->dtype;
	own.scatter.ndim = v->ndim;
	memcpy(own.scatter.shape, v->shape, (size_t)v->ndim * sizeof(*v->shape));
	return gt_node_attrs_pack(&own);
}

/* ---- where they go ---- */

int gt_insertions_init(struct gt_insertions *insertions, size_t max, struct gt_err *err)
{
	insertions->count = 0;
	insertions->list = gt_calloc(max, sizeof(*insertions->list), err);
	return insertions->list ? 0 : GT_ENOMEM;
}

void gt_insertions_release(struct gt_insertions *insertions)
{
	free(insertions->list);
}

void gt_insertions_add(struct gt_insertions *insertions, struct gt_insertion one)
{
	size_t i = insertions->count++;

	for (; i > 0 && insertions->list[i - 1].at > one.at; i--)
		insertions->list[i] = insertions->list[i - 1];
	insertions->list[i] = one;
}

/* Insert the nodes from the end to the beginning, so that the places of earlier requests stay
 * right. */
void gt_insertions_emit(
    const struct gt_insertions *insertions, const struct gt_buckets *buckets, struct gt_graph *g)
{
	for (size_t i = insertions->count; i-- > 0;) {
		const struct gt_insertion *o = &insertions->list[i];
		union gt_node_attrs own = { 0 };
		union gt_attrs attrs;
		struct gt_node *n;

		own.bucket.index = o->bucket;
		own.bucket.gather = o->gather;
		own.bucket.count = buckets->count[o->bucket];
		attrs = gt_node_attrs_pack(&own);
		n = gt_emit(g, o->op, &attrs, o->op->max_inputs, o->in);
		if (!n)
			return;
		n->runs = o->runs;
		if (o->out)
			gt_make_output(n, 0, o->out);
		gt_place_last(g, o->at);
	}
}
