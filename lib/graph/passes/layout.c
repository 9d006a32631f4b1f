/* layout.c - images in the layout that the backend wants, reordered at the graph's edges. */
#include <stdlib.h>

#include "lib/graph/arrangement.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

static bool applies_layout(const struct gt_pass_options *options)
{
	return options->images != GT_PLAIN;
}

/* Return whether both layouts are the same bytes: there is one channel, or one pixel. */
static bool layouts_coincide(const struct gt_value *v)
{
	return v->shape[1] == 1 || v->shape[2] * v->shape[3] == 1;
}

/* Return v in the layout: v itself, or the output of a reorder that is inserted at *index, which is
 * incremented. */
static struct gt_value *in_layout(
    struct gt_graph *g, size_t *index, struct gt_value *v, enum gt_layout to)
{
	struct gt_value *r;

	if (v->ndim != 4 || v->layout == to || !gt_dtype_is_real(v->dtype))
		return v;
	g->scope = g->nodes[*index]->scope;
	r = gt_reorder(g, v, to);
	if (!r)
		return v;
	gt_place_last(g, (*index)++);
	return r;
}

static void lay_out_elementwise(
    struct gt_graph *g, size_t *index, struct gt_node *n, enum gt_layout images)
{
	enum gt_layout common = GT_PLAIN;

	/* Values that are written in place are in the store, row-major: the write must not go to a
	 * copy. */
	for (int k = 0; k < n->inputs && !n->op->writes; k++)
		if (n->in[k] && n->in[k]->ndim == 4 && n->in[k]->layout == images)
			common = images;
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k])
			n->in[k] = in_layout(g, index, n->in[k], common);
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && n->out[k]->ndim == 4)
			n->out[k]->layout = common;
}

/* A view needs row-major bytes, unless both layouts are the same. */
static void lay_out_view(
    struct gt_graph *g, size_t *index, struct gt_node *n, enum gt_layout images)
{
	struct gt_value *x = n->in[0], *y = n->out[0];

	if (x->ndim == 4 && !layouts_coincide(x))
		n->in[0] = in_layout(g, index, x, GT_PLAIN);
	if (y->ndim == 4 && layouts_coincide(y))
		y->layout = images;
}

static const int64_t *image_shape(const struct gt_value *v, enum gt_layout layout)
{
	return v->ndim == 4 && layout == GT_CHANNELS_LAST ? v->shape : NULL;
}

/* Change the pieces of an arrangement for the layouts that its inputs have, and for `out`, that of
 * the output. Returns the number of elements that are not copied in rows, or -1 if a piece does not
 * allow these layouts. */
static int64_t lay_out_pieces(struct gt_arrangement *a, const struct gt_node *n, enum gt_layout out)
{
	int64_t elements = 0;

	for (int64_t k = 0; k < a->count; k++) {
		struct gt_arrange_piece *p = &a->pieces[k];
		const struct gt_value *x = n->in[p->input];

		if (!gt_arrange_piece_lay_out(
		        p, image_shape(x, x->layout), image_shape(n->out[0], out)))
			return -1;
		if (p->ndim &&
		    (p->from.strides[p->ndim - 1] != 1 || p->to.strides[p->ndim - 1] != 1))
			elements += gt_arrange_piece_elements(p);
	}
	return elements;
}

static bool has_image_input(const struct gt_node *n, enum gt_layout images)
{
	for (int k = 0; k < n->inputs && n->in[k]; k++)
		if (n->in[k]->layout == images)
			return true;
	return false;
}

/* Let an arrangement read images in the layouts that they have. Its output gets the layout in which
 * more elements are copied in rows, or else that of an image among the inputs. Returns false if no
 * layout of the output is possible. */
static bool lay_out_arrangement(struct gt_graph *g, struct gt_node *n, enum gt_layout images)
{
	struct gt_arrangement plain = *n->attrs.arrange.arrangement, image = plain;
	struct gt_value *y = n->out[0];
	bool may_be_image = y->ndim == 4 && y->role == GT_TEMPORARY && gt_dtype_is_real(y->dtype);
	int64_t as_plain = lay_out_pieces(&plain, n, GT_PLAIN);
	int64_t as_image = may_be_image ? lay_out_pieces(&image, n, images) : -1;

	if (as_plain < 0 && as_image < 0)
		return false;
	if (as_image >= 0 && (as_plain < 0 || as_image < as_plain + has_image_input(n, images))) {
		y->layout = images;
		plain = image;
	}
	n->attrs.arrange.arrangement = gt_graph_intern(g, &plain, sizeof(plain));
	return true;
}

static void lay_out_node(
    struct gt_graph *g, size_t *index, struct gt_node *n, enum gt_layout images)
{
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k])
			n->in[k] = in_layout(
			    g, index, n->in[k], n->op->image_in >> k & 1 ? images : GT_PLAIN);
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && n->out[k]->ndim == 4 && n->op->image_out >> k & 1)
			n->out[k]->layout = images;
}

/* The host and the store are row-major, so a reordered copy becomes the output of that name. */
static void lay_out_outputs(struct gt_graph *g)
{
	size_t values = g->value_count;

	for (size_t i = 0; i < values && !g->err.code; i++) {
		struct gt_value *v = g->values[i], *plain;

		if ((v->role != GT_OUTPUT && v->role != GT_GRADIENT) || v->layout == GT_PLAIN ||
		    layouts_coincide(v))
			continue;
		plain = gt_reorder(g, v, GT_PLAIN);
		if (!plain)
			return;
		gt_value_take_name(g, plain, v);
		plain->parameter = v->parameter;
		v->parameter = NULL;
	}
}

static int run_layout(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];

		if (n->op == &gt_op_reorder)
			continue;
		if (n->op == &gt_op_arrange && lay_out_arrangement(g, n, options->images))
			continue;
		if (n->op->view)
			lay_out_view(g, &i, n, options->images);
		else if (n->op->elementwise)
			lay_out_elementwise(g, &i, n, options->images);
		else
			lay_out_node(g, &i, n, options->images);
	}
	lay_out_outputs(g);
	/* A graph that reorders an input for two readers should do it once. */
	return gt_pass_common.run(g, options, err);
}

const struct gt_pass gt_pass_layout = {
	.name = "layout",
	.purpose = "give images the layout that the backend's kernels want",
	.applies = applies_layout,
	.run = run_layout,
};
