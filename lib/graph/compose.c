/* compose.c - a copy by strides of what another copy by strides has made, as one copy. */
#include "lib/graph/arrangement.h"

/*
 * The maker's piece q copies the element with the digits (j0, j1, ...) of its index space to the
 * place q.to.first + j0 T0 + j1 T1 + ..., where T are its strides in the output, in decreasing
 * order. A piece p that reads there steps by the stride t along one of its dimensions. If t is a
 * multiple of T1, a step adds t / T1 to the digit j1, and leads t / T1 strides further in the input
 * of q, as long as the digit does not overflow. If it does, the dimension of p is divided in two:
 * the inner one runs through all values of the digit, and the outer one steps by T0, where T0
 * follows T1 without a gap. Example, for the transposition q of x [2, 3] to y [3, 2] and a p that
 * reads y as 6 elements:
 *
 *   q   shape [3, 2]   from strides 1, 3     to strides 2, 1
 *   p   shape [6]      from strides 1        overflows j1, which has 2 values, so it becomes
 *       shape [3, 2]   from strides 2, 1     in y, which are
 *                      from strides 1, 3     in x
 */
struct composition {
	const struct gt_arrange_piece *q;
	int64_t digit[GT_MAX_DIMS]; /* largest values of the digits that p reaches so far */
	struct gt_arrange_piece made;
};

/* Set the digits of p's first element, and its place in the input; return false if q has none. */
static bool find_first(struct composition *c, const struct gt_arrange_piece *p)
{
	const struct gt_arrange_piece *q = c->q;
	int64_t rest = p->from.first - q->to.first;

	c->made.from.first = q->from.first;
	for (int64_t e = 0; e < q->ndim; e++) {
		c->digit[e] = rest / q->to.strides[e];
		if (rest < 0 || c->digit[e] >= q->shape[e])
			return false;
		rest -= c->digit[e] * q->to.strides[e];
		c->made.from.first += c->digit[e] * q->from.strides[e];
	}
	return rest == 0;
}

static bool add_made_dim(struct composition *c, int64_t size, int64_t from, int64_t to)
{
	struct gt_arrange_piece *m = &c->made;

	if (m->ndim == GT_MAX_DIMS)
		return false;
	m->shape[m->ndim] = size;
	m->from.strides[m->ndim] = from;
	m->to.strides[m->ndim++] = to;
	return true;
}

/* Add a dimension of p with `size` elements, `stride` apart in what q makes and `to` apart in p's
 * output. */
static bool pass_dim(struct composition *c, int64_t size, int64_t stride, int64_t to)
{
	const struct gt_arrange_piece *q = c->q;

	for (int64_t e = 0; e < q->ndim; e++) {
		int64_t step = stride / q->to.strides[e], inner;

		if (!step)
			continue;
		if (stride % q->to.strides[e])
			return false;
		if (c->digit[e] + (size - 1) * step < q->shape[e]) {
			c->digit[e] += (size - 1) * step;
			return add_made_dim(c, size, step * q->from.strides[e], to);
		}
		inner = q->shape[e] / step;
		if (!e || inner < 2 || q->shape[e] % step || size % inner ||
		    c->digit[e] + (inner - 1) * step >= q->shape[e] ||
		    q->to.strides[e - 1] != q->to.strides[e] * q->shape[e])
			return false;
		c->digit[e] += (inner - 1) * step;
		return pass_dim(c, size / inner, stride * inner, to * inner) &&
		       add_made_dim(c, inner, step * q->from.strides[e], to);
	}
	return false;
}

static bool pass_piece(struct gt_arrange_piece *p, const struct gt_arrange_piece *q)
{
	struct composition c = { .q = q, .made = { .input = q->input, .to = p->to } };

	for (int64_t i = 0; i < p->ndim; i++)
		c.made.to.strides[i] = 0;
	if (!find_first(&c, p))
		return false;
	for (int64_t i = 0; i < p->ndim; i++)
		if (!pass_dim(&c, p->shape[i], p->from.strides[i], p->to.strides[i]))
			return false;
	gt_arrange_piece_simplify(&c.made);
	*p = c.made;
	return true;
}

bool gt_arrange_piece_pass(struct gt_arrange_piece *p, const struct gt_arrangement *maker)
{
	struct gt_arrange_piece forward = *p;

	for (int64_t i = 0; i < forward.ndim; i++) {
		if (forward.from.strides[i] >= 0)
			continue;
		forward.from.first += forward.from.strides[i] * (forward.shape[i] - 1);
		forward.to.first += forward.to.strides[i] * (forward.shape[i] - 1);
		forward.from.strides[i] = -forward.from.strides[i];
		forward.to.strides[i] = -forward.to.strides[i];
	}
	for (int64_t k = 0; k < maker->count; k++)
		if (pass_piece(&forward, &maker->pieces[k])) {
			*p = forward;
			return true;
		}
	return false;
}
