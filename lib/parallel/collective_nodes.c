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

/* From the end on, so that the places before stay right. */
void gt_insertions_emit(
    const struct gt_insertions *insertions, const struct gt_buckets *buckets, struct gt_graph *g)
{
	for (size_t i = insertions->count; i-- > 0;) {
		const struct gt_insertion *o = &insertions->list[i];
		union gt_attrs attrs = { 0 };
		struct gt_node *n;

		attrs.bucket.index = o->bucket;
		attrs.bucket.gather = o->gather;
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
