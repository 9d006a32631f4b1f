/* activations.c - functions of PyTorch that are expressions of several simpler ones. */
#include <math.h>

#include "lib/graph/expr.h"
#include "lib/graph/ops/infer.h"
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

/* scale * x where x is positive, else scale * alpha * (exp(rate * x) - 1) */
static struct gt_value *exponential_unit(
    struct gt_graph *g, struct gt_value *x, double alpha, double scale, double rate)
{
	struct unary whole, *u = &whole;
	int above, below;

	start_unary(u);
	above = APPLY2(MUL, u->x, NUMBER(scale));
	below = APPLY2(MUL, APPLY1(EXPM1, APPLY2(MUL, u->x, NUMBER(rate))), NUMBER(alpha * scale));
	return emit_unary(g, u, WHERE(APPLY2(LT, NUMBER(0), u->x), above, below), x);
}

struct gt_value *gt_elu(struct gt_graph *g, struct gt_value *x, double alpha)
{
	return exponential_unit(g, x, alpha, 1, 1);
}

struct gt_value *gt_celu(struct gt_graph *g, struct gt_value *x, double alpha)
{
	return exponential_unit(g, x, alpha, 1, 1 / alpha);
}

/* Source: Klambauer et al., "Self-normalizing neural networks", NeurIPS 2017. */
struct gt_value *gt_selu(struct gt_graph *g, struct gt_value *x)
{
	return exponential_unit(
	    g, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
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

/* min(0, x) - log(1 + exp(-|x|)), which neither overflows nor cancels. The gradient of |x| is that
 * of one side at 0, so that the sum's is 1/2 there. */
struct gt_value *gt_log_sigmoid(struct gt_graph *g, struct gt_value *x)
{
	struct unary whole, *u = &whole;
	int negative, below, log;

	start_unary(u);
	negative = APPLY2(LT, u->x, NUMBER(0));
	below = WHERE(negative, u->x, NUMBER(0));
	log = APPLY1(LOG1P, APPLY1(EXP, WHERE(negative, u->x, APPLY1(NEG, u->x))));
	return emit_unary(g, u, APPLY2(SUB, below, log), x);
}

/* NaN stays NaN: it is not inside. */
struct gt_value *gt_hardshrink(struct gt_graph *g, struct gt_value *x, double lambda)
{
	struct unary whole, *u = &whole;

	start_unary(u);
	return emit_unary(
	    g, u, WHERE(APPLY2(LE, APPLY1(ABS, u->x), NUMBER(lambda)), NUMBER(0), u->x), x);
}

struct gt_value *gt_softshrink(struct gt_graph *g, struct gt_value *x, double lambda)
{
	struct unary whole, *u = &whole;
	int outside, inside;

	start_unary(u);
	outside =
	    APPLY2(SUB, u->x, WHERE(APPLY2(LT, u->x, NUMBER(0)), NUMBER(-lambda), NUMBER(lambda)));
	inside = APPLY2(LE, APPLY1(ABS, u->x), NUMBER(lambda));
	return emit_unary(g, u, WHERE(inside, NUMBER(0), outside), x);
}

struct gt_value *gt_threshold(
    struct gt_graph *g, struct gt_value *x, double threshold, double value)
{
	struct unary whole, *u = &whole;

	start_unary(u);
	return emit_unary(g, u, WHERE(APPLY2(LE, u->x, NUMBER(threshold)), NUMBER(value), u->x), x);
}

/* ---- of two inputs ---- */

struct gt_value *gt_prelu(struct gt_graph *g, struct gt_value *x, struct gt_value *weight)
{
	struct unary whole, *u = &whole;
	int below;

	start_unary(u);
	below = APPLY2(MUL, gt_expr_input(&u->e, 1), u->x);
	gt_expr_output(&u->e, WHERE(APPLY2(LT, NUMBER(0), u->x), u->x, below));
	return gt_map_expr(g, &u->e, 2, (struct gt_value *[]){ x, weight });
}

struct gt_value *gt_glu(struct gt_graph *g, struct gt_value *x, int dim)
{
	struct gt_value *gate;
	int64_t half;

	if (!x)
		return NULL;
	if (dim < 0 || dim >= x->ndim || x->shape[dim] % 2)
		return gt_graph_fail(g, GT_EINVAL, "glu: %s has no two halves along dimension %d",
		    gt_shape_text(x).s, dim);
	half = x->shape[dim] / 2;
	gate = gt_slice_dim(g, x, dim, half, 2 * half, 1);
	return gt_binary(
	    g, GT_F_MUL, gt_slice_dim(g, x, dim, 0, half, 1), gt_unary(g, GT_F_SIGMOID, gate));
}
