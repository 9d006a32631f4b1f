/* activations.c - functions of PyTorch that are expressions of several simpler ones. */
#include <math.h>

#include "lib/graph/expr.h"
#include "lib/graph/ops/ops.h"

/* An expression of one input, x. */
struct unary {
	struct gt_expr e;
	int x;
};

static void start_unary(struct unary *u)
{
	u->e = (struct gt_expr){ 0 };
	u->x = gt_expr_input(&u->e, 0);
}

static struct gt_value *emit_unary(
    struct gt_graph *g, struct unary *u, int result, struct gt_value *x)
{
	gt_expr_output(&u->e, result);
	return gt_map_expr(g, &u->e, 1, &x);
}

#define NUMBER(x)       gt_expr_number(&u->e, x)
#define APPLY1(f, a)    gt_expr_apply1(&u->e, GT_F_##f, a)
#define APPLY2(f, a, b) gt_expr_apply2(&u->e, GT_F_##f, a, b)
#define WHERE(p, a, b)  gt_expr_apply3(&u->e, GT_F_WHERE, p, a, b)

/* An interval, without its ends if it is open, and the results below and above it. */
struct interval {
	double low, high;
	bool open;
	double below, above;
};

/* Return `inside` where x is in the interval, else one of its results; NaN for NaN, where PyTorch's
 * gradient is 0. */
static int bound(struct unary *u, const struct interval *i, int inside)
{
	enum gt_function before = i->open ? GT_F_LT : GT_F_LE;
	int low = NUMBER(i->low), high = NUMBER(i->high);
	int both = APPLY2(MUL, gt_expr_apply2(&u->e, before, low, u->x),
	    gt_expr_apply2(&u->e, before, u->x, high));
	int above = WHERE(APPLY2(LE, high, u->x), NUMBER(i->above), NUMBER(NAN));

	return WHERE(both, inside, WHERE(APPLY2(LE, u->x, low), NUMBER(i->below), above));
}

struct gt_value *gt_clamp(struct gt_graph *g, struct gt_value *x, double low, double high)
{
	struct interval i = { low, high, false, low, high };
	struct unary u;

	start_unary(&u);
	return emit_unary(g, &u, bound(&u, &i, u.x), x);
}

struct gt_value *gt_hardtanh(struct gt_graph *g, struct gt_value *x, double low, double high)
{
	struct interval i = { low, high, true, low, high };
	struct unary u;

	start_unary(&u);
	return emit_unary(g, &u, bound(&u, &i, u.x), x);
}

/* (x + 3) / 6 as PyTorch computes it: x / 6 + 0.5 would lose the digits near -3. */
struct gt_value *gt_hardsigmoid(struct gt_graph *g, struct gt_value *x)
{
	struct interval i = { -3, 3, true, 0, 1 };
	struct unary whole, *u = &whole;

	start_unary(u);
	return emit_unary(
	    g, u, bound(u, &i, APPLY2(MUL, APPLY2(ADD, u->x, NUMBER(3)), NUMBER(1.0 / 6))), x);
}

struct gt_value *gt_leaky_relu(struct gt_graph *g, struct gt_value *x, double slope)
{
	struct unary whole, *u = &whole;
	int positive;

	start_unary(u);
	positive = APPLY2(LT, NUMBER(0), u->x);
	return emit_unary(g, u, WHERE(positive, u->x, APPLY2(MUL, u->x, NUMBER(slope))), x);
}

struct gt_value *gt_elu(struct gt_graph *g, struct gt_value *x, double alpha)
{
	struct unary whole, *u = &whole;
	int below;

	start_unary(u);
	below = APPLY2(MUL, APPLY1(EXPM1, u->x), NUMBER(alpha));
	return emit_unary(g, u, WHERE(APPLY2(LT, NUMBER(0), u->x), u->x, below), x);
}

static int softplus(struct unary *u, double beta, double threshold)
{
	int scaled = APPLY2(MUL, u->x, NUMBER(beta));
	int log = APPLY2(DIV, APPLY1(LOG1P, APPLY1(EXP, scaled)), NUMBER(beta));

	return WHERE(APPLY2(LT, NUMBER(threshold), scaled), u->x, log);
}

struct gt_value *gt_softplus(struct gt_graph *g, struct gt_value *x, double beta, double threshold)
{
	struct unary u;

	start_unary(&u);
	return emit_unary(g, &u, softplus(&u, beta, threshold), x);
}

struct gt_value *gt_mish(struct gt_graph *g, struct gt_value *x)
{
	struct unary whole, *u = &whole;

	start_unary(u);
	return emit_unary(g, u, APPLY2(MUL, u->x, APPLY1(TANH, softplus(u, 1, 20))), x);
}
