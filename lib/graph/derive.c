/* derive.c - the gradient of an expression, as another expression. */

#include "lib/graph/expr.h"

/* The gradient while it is built. Arrays are indexed by the values of e. */
struct derivation {
	struct gt_expr *d;
	const struct gt_expr *e;
	int value[GT_EXPR_VALUES]; /* the same value in d */
	int sum[GT_EXPR_VALUES];   /* sum of its gradients so far, in d; -1: none */
};

/* A value of e: its arguments a, b, c and itself, r, in d; and dr, the gradient of r. */
struct derived {
	int a, b, c, r, dr;
	struct derivation *s;
	const int16_t *arg; /* the arguments in e */
};

/* Shorter names of the functions that build d. */
#define NUMBER(x)         gt_expr_number(v->s->d, x)
#define APPLY1(f, x)      gt_expr_apply1(v->s->d, GT_F_##f, x)
#define APPLY2(f, x, y)   gt_expr_apply2(v->s->d, GT_F_##f, x, y)
#define WHERE(p, x, y)    gt_expr_apply3(v->s->d, GT_F_WHERE, p, x, y)
#define SCALED(x)         APPLY2(MUL, v->dr, x)
#define MASKED(condition) WHERE(condition, v->dr, NUMBER(0))

/* Add a term to the gradient of argument k, unless that is a number. */
static void add_term(const struct derived *v, int k, int term)
{
	int *sum = &v->s->sum[v->arg[k]];

	if (gt_expr_has_number(v->s->e, v->arg[k]))
		return;
	*sum = *sum < 0 ? term : APPLY2(ADD, *sum, term);
}

static void derive_arithmetic(const struct derived *v, enum gt_function f)
{
	switch (f) {
	case GT_F_ADD:
		add_term(v, 0, v->dr);
		add_term(v, 1, v->dr);
		break;
	case GT_F_SUB:
		add_term(v, 0, v->dr);
		add_term(v, 1, APPLY1(NEG, v->dr));
		break;
	case GT_F_MUL:
		add_term(v, 0, SCALED(v->b));
		add_term(v, 1, SCALED(v->a));
		break;
	default: /* division; r / b, not dr / b, is 0 for a = 0 and a tiny b */
		add_term(v, 0, APPLY2(DIV, v->dr, v->b));
		add_term(v, 1, APPLY1(NEG, SCALED(APPLY2(DIV, v->r, v->b))));
	}
}

/* Equal arguments get half of the gradient each, as in PyTorch. */
static void derive_extreme(const struct derived *v, enum gt_function f)
{
	int half = WHERE(APPLY2(EQ, v->a, v->b), SCALED(NUMBER(0.5)), v->dr);
	int less = APPLY2(LT, v->a, v->b), more = APPLY2(LT, v->b, v->a);

	add_term(v, 0, WHERE(f == GT_F_MAX ? less : more, NUMBER(0), half));
	add_term(v, 1, WHERE(f == GT_F_MAX ? more : less, NUMBER(0), half));
}

/* PyTorch's rules: 0 for a zero exponent, and for the exponent of 0^b with b >= 0. */
static void derive_pow(const struct derived *v)
{
	int power = APPLY2(POW, v->a, APPLY2(SUB, v->b, NUMBER(1)));
	int slope = SCALED(APPLY2(MUL, v->b, power));
	int log = APPLY2(MUL, v->r, APPLY1(LOG, v->a));
	int flat = APPLY2(MUL, APPLY2(EQ, v->a, NUMBER(0)), APPLY2(LE, NUMBER(0), v->b));

	if (gt_expr_has_number(v->s->d, v->b)) {
		add_term(v, 0, gt_expr_is(v->s->d, v->b, 0) ? NUMBER(0) : slope);
		return;
	}
	add_term(v, 0, WHERE(APPLY2(EQ, v->b, NUMBER(0)), NUMBER(0), slope));
	add_term(v, 1, WHERE(flat, NUMBER(0), SCALED(log)));
}

/* Return the gradient of the argument of a function of one argument. */
static int derive_unary(const struct derived *v, enum gt_function f)
{
	switch (f) {
	case GT_F_NEG:
		return APPLY1(NEG, v->dr);
	case GT_F_ABS:
		return SCALED(APPLY1(SIGN, v->a));
	case GT_F_RELU: /* NaN passes the gradient on, as in PyTorch */
		return WHERE(APPLY2(LE, v->r, NUMBER(0)), NUMBER(0), v->dr);
	case GT_F_SQRT:
		return APPLY2(DIV, SCALED(NUMBER(0.5)), v->r);
	case GT_F_RSQRT:
		return APPLY2(
		    MUL, SCALED(NUMBER(-0.5)), APPLY2(MUL, v->r, APPLY2(MUL, v->r, v->r)));
	case GT_F_EXP:
		return SCALED(v->r);
	case GT_F_EXPM1:
		return SCALED(APPLY2(ADD, v->r, NUMBER(1)));
	case GT_F_LOG:
		return APPLY2(DIV, v->dr, v->a);
	case GT_F_LOG1P:
		return APPLY2(DIV, v->dr, APPLY2(ADD, v->a, NUMBER(1)));
	case GT_F_SIN:
		return SCALED(APPLY1(COS, v->a));
	case GT_F_COS:
		return APPLY1(NEG, SCALED(APPLY1(SIN, v->a)));
	case GT_F_TANH:
		return SCALED(APPLY2(SUB, NUMBER(1), APPLY2(MUL, v->r, v->r)));
	case GT_F_ERF:
		return SCALED(APPLY2(MUL, APPLY1(EXP, APPLY1(NEG, APPLY2(MUL, v->a, v->a))),
		    NUMBER(1.12837916709551257390))); /* 2 / sqrt(pi) */
	case GT_F_SIGMOID:
		return SCALED(APPLY2(MUL, v->r, APPLY2(SUB, NUMBER(1), v->r)));
	case GT_F_SILU:
		return SCALED(APPLY1(SILU_SLOPE, v->a));
	case GT_F_GELU:
		return SCALED(APPLY1(GELU_SLOPE, v->a));
	case GT_F_GELU_TANH:
		return SCALED(APPLY1(GELU_TANH_SLOPE, v->a));
	case GT_F_HARDSWISH:
		return SCALED(APPLY1(HARDSWISH_SLOPE, v->a));
	default: /* comparisons, and functions with steps */
		return -1;
	}
}

/* Add the gradients of the arguments of a value. */
static void derive_value(const struct derived *v, enum gt_function f)
{
	int term;

	switch (f) {
	case GT_F_ADD:
	case GT_F_SUB:
	case GT_F_MUL:
	case GT_F_DIV:
		derive_arithmetic(v, f);
		break;
	case GT_F_MAX:
	case GT_F_MIN:
		derive_extreme(v, f);
		break;
	case GT_F_POW:
		derive_pow(v);
		break;
	case GT_F_WHERE:
		add_term(v, 1, MASKED(v->a));
		add_term(v, 2, WHERE(v->a, NUMBER(0), v->dr));
		break;
	default:
		term = derive_unary(v, f);
		if (term >= 0)
			add_term(v, 0, term);
	}
}

/* Copy e into d. `given`: bit j: output j of e is read, not computed. */
static void copy_values(struct derivation *s, unsigned given)
{
	const struct gt_expr *e = s->e;

	for (int v = 0; v < e->count; v++) {
		const struct gt_expr_value *x = &e->value[v];
		int arg[3];

		s->sum[v] = -1;
		for (int k = 0; k < 3; k++)
			arg[k] = x->function < GT_FUNCTION_COUNT && x->arg[k] >= 0
			             ? s->value[x->arg[k]]
			             : -1;
		if (x->function == GT_EXPR_INPUT)
			s->value[v] = gt_expr_input(s->d, x->arg[0]);
		else if (x->function == GT_EXPR_NUMBER)
			s->value[v] = gt_expr_number(s->d, x->number);
		else
			s->value[v] = gt_expr_apply3(
			    s->d, (enum gt_function)x->function, arg[0], arg[1], arg[2]);
		for (int j = 0; j < e->outputs; j++)
			if (e->out[j] == v && given >> j & 1)
				s->value[v] = gt_expr_input(s->d, e->inputs + j);
	}
}

static void derive_all(struct derivation *s)
{
	const struct gt_expr *e = s->e;

	for (int v = e->count - 1; v >= 0; v--) {
		const struct gt_expr_value *x = &e->value[v];
		struct derived of = { .r = s->value[v], .dr = s->sum[v], .s = s, .arg = x->arg };

		if (s->sum[v] < 0 || x->function >= GT_FUNCTION_COUNT)
			continue;
		of.a = s->value[x->arg[0]];
		of.b = x->arg[1] < 0 ? -1 : s->value[x->arg[1]];
		of.c = x->arg[2] < 0 ? -1 : s->value[x->arg[2]];
		derive_value(&of, (enum gt_function)x->function);
	}
}

static void output_gradients(struct derivation *s, unsigned wanted)
{
	for (int i = 0; i < s->e->inputs; i++) {
		int from = -1;

		for (int v = 0; v < s->e->count; v++)
			if (s->e->value[v].function == GT_EXPR_INPUT && s->e->value[v].arg[0] == i)
				from = s->sum[v];
		if (wanted >> i & 1)
			gt_expr_output(s->d, from >= 0 ? from : gt_expr_number(s->d, 0));
	}
}

static void derive_given(
    struct gt_expr *d, const struct gt_expr *e, unsigned wanted, unsigned given)
{
	struct derivation s = { .d = d, .e = e };

	*d = (struct gt_expr){ .reorder = true, .full = e->full };
	copy_values(&s, given);
	for (int j = 0; j < e->outputs; j++) {
		int *sum = &s.sum[e->out[j]];
		int dr = gt_expr_input(d, e->inputs + e->outputs + j);

		*sum = *sum < 0 ? dr : gt_expr_apply2(d, GT_F_ADD, *sum, dr);
	}
	derive_all(&s);
	output_gradients(&s, wanted);
	d->inputs = e->inputs + 2 * e->outputs;
}

void gt_expr_derive(struct gt_expr *d, const struct gt_expr *e, unsigned wanted)
{
	struct gt_expr other;

	derive_given(d, e, wanted, 0);
	for (unsigned given = 1; given < 1u << e->outputs; given++) {
		int reads, now = __builtin_popcount(gt_expr_reads(d));

		derive_given(&other, e, wanted, given);
		reads = __builtin_popcount(gt_expr_reads(&other));
		if (reads < now || (reads == now && gt_expr_flops(&other) < gt_expr_flops(d)))
			*d = other;
	}
}
