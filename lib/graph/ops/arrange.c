/* arrange.c - the same elements elsewhere: permuted, cut, joined, padded, reversed. */
#include "lib/graph/arrangement.h"

#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int count_inputs(const struct gt_node *n)
{
	int count = 0;

	while (count < n->inputs && n->in[count])
		count++;
	return count;
}

static int arrange_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_arrangement *a = n->attrs.arrange.arrangement;
	int64_t elements[GT_MAX_INPUTS];
	int inputs = count_inputs(n);

	for (int k = 0; k < inputs; k++) {
		elements[k] = gt_value_elements(n->in[k]);
		if (n->in[k]->dtype != n->in[0]->dtype)
			return gt_err_set(err, GT_EINVAL, "input %d is %s, input 0 is %s", k,
			    gt_dtype_name(n->in[k]->dtype), gt_dtype_name(n->in[0]->dtype));
	}
	if (gt_arrangement_check(a, inputs, elements, err))
		return err->code;
	gt_infer_shape(n->out[0], n->in[0]->dtype, (int)a->ndim, a->shape);
	return 0;
}

/* The gradient of an input: its pieces turned round, so that they take dy back to their places. */
static struct gt_value *arrange_back(
    struct gt_graph *g, const struct gt_node *n, int input, struct gt_value *dy)
{
	const struct gt_arrangement *a = n->attrs.arrange.arrangement;
	const struct gt_value *x = n->in[input];
	struct gt_arrangement back = { .ndim = x->ndim };

	memcpy(back.shape, x->shape, (size_t)x->ndim * sizeof(*x->shape));
	for (int64_t k = 0; k < a->count; k++) {
		struct gt_arrange_piece *p = &back.pieces[back.count];

		if (a->pieces[k].input != input)
			continue;
		*p = a->pieces[k];
		p->input = 0;
		p->from = a->pieces[k].to;
		p->to = a->pieces[k].from;
		back.count++;
	}
	return gt_arrange(g, 1, &dy, &back);
}

static void arrange_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	for (int k = 0; k < n->inputs; k++)
		if (wanted[k])
			d_in[k] = arrange_back(g, n, k, d_out[0]);
}

static void print_places(const struct gt_arrange_piece *p, const struct gt_places *places, FILE *f)
{
	fprintf(f, "%lld(", (long long)places->first);
	for (int64_t i = 0; i < p->ndim; i++)
		fprintf(f, "%s%lld", i ? "," : "", (long long)places->strides[i]);
	fputs(")", f);
}

/* Print each piece as INPUT:[SHAPE] FIRST(STRIDES)->FIRST(STRIDES). */
static void arrange_print(const struct gt_node *n, FILE *f)
{
	const struct gt_arrangement *a = n->attrs.arrange.arrangement;

	for (int64_t k = 0; k < a->count; k++) {
		const struct gt_arrange_piece *p = &a->pieces[k];

		fprintf(f, " %lld:[", (long long)p->input);
		for (int64_t i = 0; i < p->ndim; i++)
			fprintf(f, "%s%lld", i ? "," : "", (long long)p->shape[i]);
		fputs("]", f);
		print_places(p, &p->from, f);
		fputs("->", f);
		print_places(p, &p->to, f);
	}
}

static double arrange_flops(const struct gt_node *n)
{
	(void)n;
	return 0;
}

/* Only the elements of the pieces are read. */
static void arrange_add_bytes(const struct gt_node *n, struct gt_cost *cost)
{
	cost->bytes_read = (double)gt_arrangement_copied(n->attrs.arrange.arrangement) *
	                   (double)gt_dtype_size(n->out[0]->dtype);
}

/* arrange: copy pieces of the inputs to places of y (attrs.arrange, lib/graph/arrangement.h).
 * Elements of y in no piece are 0. All values have the same type, which may be any.
 *   in   1 to 8 values     out  y [attrs.arrange.arrangement->shape], like the inputs' type */
const struct gt_op gt_op_arrange = {
	.name = "arrange",
	.min_inputs = 1,
	.max_inputs = GT_MAX_INPUTS,
	.outputs = 1,
	.infer = arrange_infer,
	.grad = arrange_grad,
	.print = arrange_print,
	.flops = arrange_flops,
	.add_bytes = arrange_add_bytes,
	.shard = &gt_shard_whole,
};

/* Return whether the output has the bytes of x, in their order. */
static bool is_reshape(const struct gt_arrangement *a, const struct gt_value *x)
{
	const struct gt_arrange_piece *p = &a->pieces[0];
	int64_t n = gt_arrangement_elements(a);

	if (a->count != 1 || gt_value_elements(x) != n || p->from.first || p->to.first)
		return false;
	return n == 1 || (p->ndim == 1 && p->shape[0] == n && p->from.strides[0] == 1 &&
	                     p->to.strides[0] == 1);
}

static struct gt_value *reshape_of(
    struct gt_graph *g, struct gt_value *x, const struct gt_arrangement *a)
{
	bool same = x->ndim == a->ndim;

	for (int i = 0; same && i < x->ndim; i++)
		same = x->shape[i] == a->shape[i];
	return same ? x : gt_reshape(g, x, (int)a->ndim, a->shape);
}

struct gt_value *gt_arrange(
    struct gt_graph *g, int inputs, struct gt_value *const *in, const struct gt_arrangement *a)
{
	struct gt_arrangement simple = *a;
	union gt_attrs attrs = { 0 };

	if (g->err.code || !in[0])
		return NULL;
	for (int64_t k = 0; k < a->count; k++)
		gt_arrange_piece_simplify(&simple.pieces[k]);
	if (inputs == 1 && is_reshape(&simple, in[0]))
		return reshape_of(g, in[0], a);
	attrs.arrange.arrangement = gt_graph_intern(g, &simple, sizeof(simple));
	return gt_emit1(g, &gt_op_arrange, &attrs, inputs, in);
}
