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
	fprintf(f, " bucket=%d", node->attrs.bucket.index);
}

void gt_nodes_print_axis(const struct gt_node *node, FILE *f)
{
	fprintf(f, " axis=%s", gt_axis_name((enum gt_axis)node->attrs.collective.axis));
}

void gt_nodes_set_shape(union gt_attrs *attrs, const struct gt_value *v)
{
	*attrs = (union gt_attrs){ 0 };
	attrs->scatter.dtype = v->dtype;
	attrs->scatter.ndim = v->ndim;
	memcpy(attrs->scatter.shape, v->shape, (size_t)v->ndim * sizeof(*v->shape));
}

/* ---- where they go ---- */

int gt_orders_init(struct gt_orders *orders, size_t max, struct gt_err *err)
{
	orders->count = 0;
	orders->list = gt_calloc(max, sizeof(*orders->list), err);
	return orders->list ? 0 : GT_ENOMEM;
}

void gt_orders_release(struct gt_orders *orders)
{
	free(orders->list);
}

void gt_orders_add(struct gt_orders *orders, struct gt_order one)
{
	size_t i = orders->count++;

	for (; i > 0 && orders->list[i - 1].at > one.at; i--)
		orders->list[i] = orders->list[i - 1];
	orders->list[i] = one;
}

/* From the end on, so that the places before stay right. */
void gt_orders_emit(
    const struct gt_orders *orders, const struct gt_buckets *buckets, struct gt_graph *g)
{
	for (size_t i = orders->count; i-- > 0;) {
		const struct gt_order *o = &orders->list[i];
		union gt_attrs attrs = { 0 };
		struct gt_node *n;

		attrs.bucket.index = o->bucket;
		attrs.bucket.turn = o->turn;
		attrs.bucket.count = buckets->count[o->bucket];
		n = gt_emit(g, o->op, &attrs, o->op->max_inputs, &o->in);
		if (!n)
			return;
		n->runs = o->runs;
		if (o->out)
			gt_make_output(n, 0, o->out);
		gt_place_last(g, o->at);
	}
}
