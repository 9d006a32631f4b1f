/* simplify.c - simpler forms of the values of an expression. */
#include <math.h>

#include "lib/graph/expr.h"

/*
 * Identities that hold for every number, infinity and NaN are always applied. Others change the
 * rounding or a NaN, and are applied in gradients alone (gt_expr.reorder). There, a product with
 * where(c, 0, x) becomes where(c, 0, x * y): so the side that is not chosen may be infinite without
 * making 0 * infinity = NaN of the gradient.
 */

#define SIMPLER(f, ...) apply_list(e, GT_F_##f, (const int[4]){ __VA_ARGS__ })

/* The arguments are those in use, then zeros. */
static int apply_list(struct gt_expr *e, enum gt_function f, const int *arg)
{
	int n = gt_function_arguments(f);

	return gt_expr_apply3(e, f, arg[0], n > 1 ? arg[1] : -1, n > 2 ? arg[2] : -1);
}

static bool is_of(const struct gt_expr *e, int v, enum gt_function f)
{
	return v >= 0 && e->value[v].function == (int)f;
}

static double number_of(const struct gt_expr *e, int v)
{
	return e->value[v].number;
}

/* Return the product or the quotient (f) of where(p, q, r), one of which is 0, and y. */
static int move_into_where(struct gt_expr *e, enum gt_function f, int where, int y)
{
	struct gt_expr_value w = e->value[where];

	if (gt_expr_is(e, w.arg[1], 0))
		return SIMPLER(WHERE, w.arg[0], w.arg[1], gt_expr_apply2(e, f, w.arg[2], y));
	if (gt_expr_is(e, w.arg[2], 0))
		return SIMPLER(WHERE, w.arg[0], gt_expr_apply2(e, f, w.arg[1], y), w.arg[2]);
	return -1;
}

/* Numbers move out of products, where they meet: (x k) y = (x y) k. */
static int reorder_product(struct gt_expr *e, int a, int b)
{
	struct gt_expr_value x = e->value[a], y = e->value[b];
	bool x_scaled = is_of(e, a, GT_F_MUL) && gt_expr_has_number(e, x.arg[1]);
	bool y_scaled = is_of(e, b, GT_F_MUL) && gt_expr_has_number(e, y.arg[1]);

	if (gt_expr_has_number(e, b) && x_scaled)
		return SIMPLER(MUL, x.arg[0], gt_expr_number(e, number_of(e, x.arg[1]) * y.number));
	if (gt_expr_has_number(e, b))
		return -1;
	if (x_scaled)
		return SIMPLER(MUL, SIMPLER(MUL, x.arg[0], b), x.arg[1]);
	if (y_scaled)
		return SIMPLER(MUL, SIMPLER(MUL, a, y.arg[0]), y.arg[1]);
	return -1;
}

/* b is the number if one is. */
static int simplify_mul(struct gt_expr *e, int a, int b)
{
	int v = -1;

	if (gt_expr_is(e, b, 1))
		return a;
	if (gt_expr_is(e, b, -1))
		return SIMPLER(NEG, a);
	if (gt_expr_has_number(e, b) && is_of(e, a, GT_F_NEG))
		return SIMPLER(MUL, e->value[a].arg[0], gt_expr_number(e, -number_of(e, b)));
	if (e->reorder)
		v = reorder_product(e, a, b);
	for (int swap = 0; v < 0 && swap < 2; swap++) {
		int x = swap ? b : a, y = swap ? a : b;

		if (is_of(e, x, GT_F_NEG) && !gt_expr_has_number(e, y))
			v = SIMPLER(NEG, SIMPLER(MUL, e->value[x].arg[0], y));
		else if (e->reorder && is_of(e, x, GT_F_WHERE))
			v = move_into_where(e, GT_F_MUL, x, y);
	}
	return v;
}

/* Join where(p, q, r) + where(p, s, t), where a side of each is 0. */
static int add_wheres(struct gt_expr *e, int a, int b)
{
	struct gt_expr_value x, y;

	if (!is_of(e, a, GT_F_WHERE) || !is_of(e, b, GT_F_WHERE))
		return -1;
	x = e->value[a];
	y = e->value[b];
	if (x.arg[0] != y.arg[0])
		return -1;
	if (gt_expr_is(e, x.arg[2], 0) && gt_expr_is(e, y.arg[1], 0))
		return SIMPLER(WHERE, x.arg[0], x.arg[1], y.arg[2]);
	if (gt_expr_is(e, x.arg[1], 0) && gt_expr_is(e, y.arg[2], 0))
		return SIMPLER(WHERE, x.arg[0], y.arg[1], x.arg[2]);
	if (gt_expr_is(e, x.arg[1], 0) && gt_expr_is(e, y.arg[1], 0))
		return SIMPLER(WHERE, x.arg[0], x.arg[1], SIMPLER(ADD, x.arg[2], y.arg[2]));
	if (gt_expr_is(e, x.arg[2], 0) && gt_expr_is(e, y.arg[2], 0))
		return SIMPLER(WHERE, x.arg[0], SIMPLER(ADD, x.arg[1], y.arg[1]), x.arg[2]);
	return -1;
}

/* x p + x q = x (p + q), unless p or q is a number. */
static int factor_out(struct gt_expr *e, int a, int b)
{
	struct gt_expr_value x, y;

	if (!is_of(e, a, GT_F_MUL) || !is_of(e, b, GT_F_MUL))
		return -1;
	x = e->value[a];
	y = e->value[b];
	if (gt_expr_has_number(e, x.arg[1]) || gt_expr_has_number(e, y.arg[1]))
		return -1;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			if (x.arg[i] == y.arg[k])
				return SIMPLER(
				    MUL, x.arg[i], SIMPLER(ADD, x.arg[1 - i], y.arg[1 - k]));
	return -1;
}

static int simplify_add(struct gt_expr *e, int a, int b)
{
	int v;

	if (is_of(e, b, GT_F_NEG))
		return SIMPLER(SUB, a, e->value[b].arg[0]);
	if (is_of(e, a, GT_F_NEG))
		return SIMPLER(SUB, b, e->value[a].arg[0]);
	if (!e->reorder)
		return -1;
	if (gt_expr_is(e, b, 0))
		return a;
	v = add_wheres(e, a, b);
	return v < 0 ? factor_out(e, a, b) : v;
}

static int simplify_sub(struct gt_expr *e, int a, int b)
{
	if (gt_expr_has_number(e, b))
		return SIMPLER(ADD, a, gt_expr_number(e, -number_of(e, b)));
	if (is_of(e, b, GT_F_NEG))
		return SIMPLER(ADD, a, e->value[b].arg[0]);
	return -1;
}

/* Division by a power of two is exact as a product. */
static int simplify_div(struct gt_expr *e, int a, int b)
{
	int exponent;

	if (e->reorder && is_of(e, a, GT_F_WHERE))
		return move_into_where(e, GT_F_DIV, a, b);
	if (gt_expr_has_number(e, b) && fabs(frexp(number_of(e, b), &exponent)) == 0.5)
		return SIMPLER(MUL, a, gt_expr_number(e, 1 / number_of(e, b)));
	return -1;
}

static int simplify_neg(struct gt_expr *e, int a)
{
	struct gt_expr_value x = e->value[a];

	if (is_of(e, a, GT_F_NEG))
		return x.arg[0];
	if (e->reorder && is_of(e, a, GT_F_SUB))
		return SIMPLER(SUB, x.arg[1], x.arg[0]);
	if (is_of(e, a, GT_F_MUL) && gt_expr_has_number(e, x.arg[1]))
		return SIMPLER(MUL, x.arg[0], gt_expr_number(e, -number_of(e, x.arg[1])));
	return -1;
}

/* Powers that are cheaper than pow(). */
static int simplify_pow(struct gt_expr *e, int a, double k)
{
	int square;

	if (k == 0)
		return gt_expr_number(e, 1);
	if (k == 1)
		return a;
	if (k == 0.5)
		return SIMPLER(SQRT, a);
	if (k == -0.5)
		return SIMPLER(RSQRT, a);
	if (k == -1)
		return SIMPLER(DIV, gt_expr_number(e, 1), a);
	if (k != 2 && k != 3 && k != 4)
		return -1;
	square = SIMPLER(MUL, a, a);
	return k == 2 ? square : k == 3 ? SIMPLER(MUL, square, a) : SIMPLER(MUL, square, square);
}

static bool is_truth(const struct gt_expr *e, int v)
{
	return is_of(e, v, GT_F_LT) || is_of(e, v, GT_F_LE) || is_of(e, v, GT_F_EQ) ||
	       is_of(e, v, GT_F_NOT);
}

static int simplify_not(const struct gt_expr *e, int a)
{
	int inner = e->value[a].arg[0];

	return is_of(e, a, GT_F_NOT) && is_truth(e, inner) ? inner : -1;
}

/* Return the number f(a, b), in double, or -1. */
static int fold_numbers(struct gt_expr *e, enum gt_function f, int a, int b)
{
	double x = number_of(e, a), y = b < 0 ? 0 : number_of(e, b);

	switch (f) {
	case GT_F_ADD:
		return gt_expr_number(e, x + y);
	case GT_F_SUB:
		return gt_expr_number(e, x - y);
	case GT_F_MUL:
		return gt_expr_number(e, x * y);
	case GT_F_DIV:
		return gt_expr_number(e, x / y);
	case GT_F_NEG:
		return gt_expr_number(e, -x);
	default:
		return -1;
	}
}

int gt_expr_simplify(struct gt_expr *e, enum gt_function f, int a, int b, int c)
{
	int folded = -1;

	if (gt_expr_has_number(e, a) && (b < 0 || gt_expr_has_number(e, b)))
		folded = fold_numbers(e, f, a, b);
	if (folded >= 0)
		return folded;
	switch (f) {
	case GT_F_COPY:
		return a;
	case GT_F_ADD:
		return simplify_add(e, a, b);
	case GT_F_SUB:
		return simplify_sub(e, a, b);
	case GT_F_MUL:
		return simplify_mul(e, a, b);
	case GT_F_DIV:
		return simplify_div(e, a, b);
	case GT_F_NEG:
		return simplify_neg(e, a);
	case GT_F_POW:
		return gt_expr_has_number(e, b) ? simplify_pow(e, a, number_of(e, b)) : -1;
	case GT_F_NOT:
		return simplify_not(e, a);
	case GT_F_WHERE:
		return b == c ? b : -1;
	default:
		return -1;
	}
}
