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

/* ---- simpler arrangements ---- */

/* An arrangement that is being simplified, and its inputs. */
struct arranged {
	struct gt_arrangement a;
	int inputs;
	struct gt_value *in[GT_MAX_INPUTS];
};

/* Return the arrangement that makes v, which may be a view of its output, or NULL. */
static const struct gt_node *find_arrangement(struct gt_value *v)
{
	v = gt_value_viewed(v);
	if (!v->producer || v->producer->op != &gt_op_arrange || v->role != GT_TEMPORARY)
		return NULL;
	for (int k = 0; k < count_inputs(v->producer); k++)
		if (gt_value_changes(v->producer->in[k]))
			return NULL; /* a node between the two may write it */
	return v->producer;
}

/* Return the index of an input, which is added unless it is there; -1: there are too many. */
static int find_or_add_input(struct arranged *to, struct gt_value *v)
{
	for (int k = 0; k < to->inputs; k++)
		if (to->in[k] == v)
			return k;
	if (to->inputs == GT_MAX_INPUTS)
		return -1;
	to->in[to->inputs] = v;
	return to->inputs++;
}

/* Let the pieces of input k read the inputs of the arrangement that makes it, and drop the input if
 * they all do. Leave an input to which a piece has gone as it is. */
static bool pass_input(struct arranged *made, const struct arranged *old, int k)
{
	const struct gt_node *maker = find_arrangement(old->in[k]);

	for (int64_t i = 0; i < old->a.count; i++) {
		struct gt_arrange_piece p = old->a.pieces[i];
		struct gt_value *from = old->in[p.input];

		if (p.input == k) {
			if (!maker || !gt_arrange_piece_pass(&p, maker->attrs.arrange.arrangement))
				return false;
			from = maker->in[p.input];
		}
		p.input = find_or_add_input(made, from);
		if (p.input < 0)
			return false;
		made->a.pieces[i] = p;
	}
	return true;
}

/* Read around arrangements that make inputs, where the result is an arrangement again. */
static void compose(struct arranged *s)
{
	for (int k = 0; k < s->inputs; k++) {
		struct arranged made = { .a = s->a };
		int64_t elements[GT_MAX_INPUTS];

		if (!pass_input(&made, s, k))
			continue;
		for (int i = 0; i < made.inputs; i++)
			elements[i] = gt_value_elements(made.in[i]);
		if (gt_arrangement_check(&made.a, made.inputs, elements, GT_ERR_IGNORED))
			continue;
		*s = made;
		k = -1;
	}
}

/* Return whether the output has the bytes of x, in their order. */
static bool is_reshape(const struct gt_arrangement *a, const struct gt_value *x)
{
	int64_t n = gt_arrangement_elements(a);

	for (int64_t k = 0; k < a->count; k++) {
		const struct gt_arrange_piece *p = &a->pieces[k];

		if (memcmp(&p->from, &p->to, sizeof(p->from)) != 0)
			return false;
	}
	return gt_value_elements(x) == n && gt_arrangement_copied(a) == n;
}

static struct gt_value *reshape_of(
    struct gt_graph *g, struct gt_value *x, const struct gt_arrangement *a)
{
	bool same;

	x = gt_value_viewed(x);
	same = x->ndim == a->ndim;
	for (int i = 0; same && i < x->ndim; i++)
		same = x->shape[i] == a->shape[i];
	return same ? x : gt_reshape(g, x, (int)a->ndim, a->shape);
}

struct gt_value *gt_arrange(
    struct gt_graph *g, int inputs, struct gt_value *const *in, const struct gt_arrangement *a)
{
	struct arranged simple = { .a = *a, .inputs = inputs };
	union gt_attrs attrs = { 0 };

	if (g->err.code || !in[0])
		return NULL;
	for (int k = 0; k < inputs; k++)
		simple.in[k] = in[k];
	for (int64_t k = 0; k < a->count; k++)
		gt_arrange_piece_simplify(&simple.a.pieces[k]);
	compose(&simple);
	if (simple.inputs == 1 && is_reshape(&simple.a, simple.in[0]))
		return reshape_of(g, simple.in[0], a);
	attrs.arrange.arrangement = gt_graph_intern(g, &simple.a, sizeof(simple.a));
	return gt_emit1(g, &gt_op_arrange, &attrs, simple.inputs, simple.in);
}

/* Add the pieces of an arrangement to another one's. */
static bool add_pieces(struct arranged *to, const struct gt_node *of)
{
	const struct gt_arrangement *a = of->attrs.arrange.arrangement;

	for (int64_t i = 0; i < a->count; i++) {
		struct gt_arrange_piece *p = &to->a.pieces[to->a.count];

		if (to->a.count == GT_MAX_PIECES)
			return false;
		*p = a->pieces[i];
		p->input = find_or_add_input(to, of->in[p->input]);
		if (p->input < 0)
			return false;
		to->a.count++;
	}
	return true;
}

struct gt_value *gt_arrange_sum(struct gt_graph *g, struct gt_value *a, struct gt_value *b)
{
	const struct gt_node *of_a = a ? find_arrangement(a) : NULL;
	const struct gt_node *of_b = b ? find_arrangement(b) : NULL;
	struct arranged both = { .a = { .ndim = 0 } };
	int64_t elements[GT_MAX_INPUTS];

	if (!of_a || !of_b)
		return NULL;
	both.a.ndim = a->ndim;
	memcpy(both.a.shape, a->shape, (size_t)a->ndim * sizeof(*a->shape));
	if (!add_pieces(&both, of_a) || !add_pieces(&both, of_b))
		return NULL;
	for (int k = 0; k < both.inputs; k++)
		elements[k] = gt_value_elements(both.in[k]);
	if (gt_arrangement_check(&both.a, both.inputs, elements, GT_ERR_IGNORED))
		return NULL;
	return gt_arrange(g, both.inputs, both.in, &both.a);
}
