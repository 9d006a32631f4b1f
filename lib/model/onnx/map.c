/* map.c - expressions of one element as chains of operators of ONNX. */
#include <math.h>
#include <string.h>

#include "lib/graph/expr.h"
#include "lib/model/onnx/inside.h"

/* A value of an expression: a number, or a truth value of type bool, or both. NULL: not made. */
struct term {
	const char *number, *truth;
};

struct map_export {
	struct gt_onnx_export *x;
	const struct gt_node *n;
	const struct gt_expr *e, *twin[GT_ONNX_VARIANTS]; /* in the first graph, and in each */
	bool varies;         /* a number follows from the size of the batch or of texts */
	enum gt_dtype dtype; /* numbers have this type */
	struct term terms[GT_EXPR_VALUES];
};

/* Return value v of the expression, which is written when it is read first. */
static struct term *write_value(struct map_export *m, int v);

static const char *number_of(struct map_export *m, int v)
{
	struct term *t = write_value(m, v);

	if (!t->number && t->truth)
		t->number = gt_onnx_cast(m->x, t->truth, m->dtype);
	return t->number;
}

static const char *truth_of(struct map_export *m, int v)
{
	struct term *t = write_value(m, v);

	if (!t->truth && t->number)
		t->truth = gt_onnx_cast(m->x, t->number, GT_BOOL);
	return t->truth;
}

/* ---- functions of several operators ---- */

static const char *one_of(struct map_export *m)
{
	return gt_onnx_number(m->x, m->dtype, 1);
}

static const char *write_rsqrt(struct map_export *m, const char *a)
{
	return gt_onnx_unary(m->x, "Reciprocal", gt_onnx_unary(m->x, "Sqrt", a));
}

static const char *write_expm1(struct map_export *m, const char *a)
{
	return gt_onnx_binary(m->x, "Sub", gt_onnx_unary(m->x, "Exp", a), one_of(m));
}

static const char *write_log1p(struct map_export *m, const char *a)
{
	return gt_onnx_unary(m->x, "Log", gt_onnx_binary(m->x, "Add", a, one_of(m)));
}

static const char *write_silu(struct map_export *m, const char *a)
{
	return gt_onnx_binary(m->x, "Mul", a, gt_onnx_unary(m->x, "Sigmoid", a));
}

static const char *write_gelu_tanh(struct map_export *m, const char *a)
{
	return gt_onnx_call(m->x, "Gelu",
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_TEXT("approximate", "tanh"), { 0 } }, 1, &a);
}

/* The functions of an element: an operator, or a function of one argument. Bit i of `truths`: the
 * argument i is a truth value. Slopes are functions of gradients alone. */
static const struct function_row {
	const char *op;
	const char *(*write)(struct map_export *m, const char *a);
	unsigned truths;
	bool is_truth; /* the result is one */
	bool negated;
} function_rows[GT_FUNCTION_COUNT] = {
	[GT_F_COPY] = { .op = "Identity" },
	[GT_F_ADD] = { .op = "Add" },
	[GT_F_SUB] = { .op = "Sub" },
	[GT_F_MUL] = { .op = "Mul" },
	[GT_F_DIV] = { .op = "Div" },
	[GT_F_NEG] = { .op = "Neg" },
	[GT_F_ABS] = { .op = "Abs" },
	[GT_F_SIGN] = { .op = "Sign" },
	[GT_F_RELU] = { .op = "Relu" },
	[GT_F_MAX] = { .op = "Max" },
	[GT_F_MIN] = { .op = "Min" },
	[GT_F_SQRT] = { .op = "Sqrt" },
	[GT_F_RSQRT] = { .write = write_rsqrt },
	[GT_F_EXP] = { .op = "Exp" },
	[GT_F_EXPM1] = { .write = write_expm1 },
	[GT_F_LOG] = { .op = "Log" },
	[GT_F_LOG1P] = { .write = write_log1p },
	[GT_F_SIN] = { .op = "Sin" },
	[GT_F_COS] = { .op = "Cos" },
	[GT_F_TANH] = { .op = "Tanh" },
	[GT_F_ERF] = { .op = "Erf" },
	[GT_F_SIGMOID] = { .op = "Sigmoid" },
	[GT_F_POW] = { .op = "Pow" },
	[GT_F_FLOOR] = { .op = "Floor" },
	[GT_F_LT] = { .op = "Less", .is_truth = true },
	[GT_F_LE] = { .op = "LessOrEqual", .is_truth = true },
	[GT_F_EQ] = { .op = "Equal", .is_truth = true },
	[GT_F_NE] = { .op = "Equal", .is_truth = true, .negated = true },
	[GT_F_NOT] = { .op = "Not", .truths = 1u << 0, .is_truth = true },
	[GT_F_WHERE] = { .op = "Where", .truths = 1u << 0 },
	[GT_F_SILU] = { .write = write_silu },
	[GT_F_GELU] = { .op = "Gelu" },
	[GT_F_GELU_TANH] = { .write = write_gelu_tanh },
	[GT_F_HARDSWISH] = { .op = "HardSwish" },
};

/* ---- intervals, which are operators of their own ---- */

/* `inside` where x is between two numbers, else other numbers: bound() of ops/activations.c. */
struct bound {
	int x, inside;
	double low, high, below, above;
};

/* Return value v if it is a function f, else NULL. */
static const struct gt_expr_value *find_function(const struct gt_expr *e, int v, enum gt_function f)
{
	return v >= 0 && e->value[v].function == (int)f ? &e->value[v] : NULL;
}

static bool is_before(const struct gt_expr *e, int v, int a, int b)
{
	const struct gt_expr_value *f = &e->value[v];

	return (f->function == GT_F_LT || f->function == GT_F_LE) && f->arg[0] == a &&
	       f->arg[1] == b;
}

/* Return whether v is the product of the truths low <= x and x <= high, or of < in both. */
static bool is_between(const struct gt_expr *e, int v, int low, int x, int high)
{
	const struct gt_expr_value *both = find_function(e, v, GT_F_MUL);

	return both &&
	       ((is_before(e, both->arg[0], low, x) && is_before(e, both->arg[1], x, high)) ||
	           (is_before(e, both->arg[1], low, x) && is_before(e, both->arg[0], x, high)));
}

/* where(low <= x and x <= high, inside, where(x <= low, below, where(high <= x, above, NaN))) */
static bool match_bound(struct bound *out, const struct gt_expr *e, int v)
{
	const struct gt_expr_value *w = find_function(e, v, GT_F_WHERE);
	const struct gt_expr_value *outer = w ? find_function(e, w->arg[2], GT_F_WHERE) : NULL;
	const struct gt_expr_value *last =
	    outer ? find_function(e, outer->arg[2], GT_F_WHERE) : NULL;
	const struct gt_expr_value *under = last ? find_function(e, outer->arg[0], GT_F_LE) : NULL;
	const struct gt_expr_value *over = last ? find_function(e, last->arg[0], GT_F_LE) : NULL;
	int x, low, high;

	if (!under || !over)
		return false;
	x = under->arg[0];
	low = under->arg[1];
	high = over->arg[0];
	if (over->arg[1] != x || !is_between(e, w->arg[0], low, x, high) ||
	    !gt_expr_has_number(e, low) || !gt_expr_has_number(e, high) ||
	    !gt_expr_has_number(e, outer->arg[1]) || !gt_expr_has_number(e, last->arg[1]))
		return false;
	*out = (struct bound){ x, w->arg[1], e->value[low].number, e->value[high].number,
		e->value[outer->arg[1]].number, e->value[last->arg[1]].number };
	return true;
}

/* Set the factor and the addend if a bound is that of (x + a) * factor from 0 to 1. */
static bool match_slope(
    float *factor, float *addend, const struct gt_expr *e, const struct bound *b)
{
	const struct gt_expr_value *mul = find_function(e, b->inside, GT_F_MUL);
	const struct gt_expr_value *add = mul ? find_function(e, mul->arg[0], GT_F_ADD) : NULL;

	if (!add || add->arg[0] != b->x || !gt_expr_has_number(e, add->arg[1]) ||
	    !gt_expr_has_number(e, mul->arg[1]) || b->below != 0 || b->above != 1)
		return false;
	*factor = (float)e->value[mul->arg[1]].number;
	*addend = (float)(e->value[add->arg[1]].number * e->value[mul->arg[1]].number);
	return b->low == -e->value[add->arg[1]].number;
}

/* Return a bound as an operator; NULL: it is none, or there was an error. */
static const char *write_bound(struct map_export *m, int v)
{
	float factor, addend;
	struct bound b;
	const char *x;

	if (m->varies || !match_bound(&b, m->e, v))
		return NULL;
	if (b.inside == b.x && b.below == b.low && b.above == b.high)
		return gt_onnx_call(m->x, "Clip", NULL, 3,
		    (const char *[]){ number_of(m, b.x),
		        isinf(b.low) ? "" : gt_onnx_number(m->x, m->dtype, b.low),
		        isinf(b.high) ? "" : gt_onnx_number(m->x, m->dtype, b.high) });
	if (!match_slope(&factor, &addend, m->e, &b))
		return NULL;
	x = number_of(m, b.x);
	return gt_onnx_call(m->x, "HardSigmoid",
	    (struct gt_onnx_attribute[]){
	        GT_ONNX_ATTR_FLOAT("alpha", factor), GT_ONNX_ATTR_FLOAT("beta", addend), { 0 } },
	    1, &x);
}

/* ---- an expression ---- */

static struct term write_function(struct map_export *m, int v)
{
	const struct gt_expr_value *value = &m->e->value[v];
	const struct function_row *row = &function_rows[value->function];
	int count = gt_function_arguments((enum gt_function)value->function);
	const char *in[3] = { NULL }, *y = write_bound(m, v);

	if (y || m->x->err.code)
		return (struct term){ y, NULL };
	for (int i = 0; i < count; i++)
		in[i] =
		    row->truths >> i & 1 ? truth_of(m, value->arg[i]) : number_of(m, value->arg[i]);
	if (!row->op && !row->write)
		gt_onnx_fail(m->x, "the slope of a function");
	if (m->x->err.code)
		return (struct term){ NULL, NULL };
	y = row->op ? gt_onnx_call(m->x, row->op, NULL, count, in) : row->write(m, in[0]);
	y = row->negated ? gt_onnx_unary(m->x, "Not", y) : y;
	return row->is_truth ? (struct term){ .truth = y } : (struct term){ .number = y };
}

static struct term write_input(struct map_export *m, const struct gt_value *v)
{
	const char *name = gt_onnx_name(m->x, v);

	if (v->dtype == GT_BOOL)
		return (struct term){ .truth = name };
	return (struct term){ .number = v->dtype == m->dtype ? name
		                                             : gt_onnx_cast(m->x, name, m->dtype) };
}

static bool is_same(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

/* Write a number. Of one that follows from the size of the batch or of texts, as the factor of a
 * mean does, the inverse is a product of these sizes. */
static const char *write_number(struct map_export *m, int v)
{
	double base = m->e->value[v].number;
	int64_t inverse[GT_ONNX_VARIANTS] = { 0 };
	bool fixed = true, is_inverse = true, time = false;
	const char *size;

	for (int k = 0; k < GT_ONNX_VARIANTS; k++) {
		double number = m->twin[k] ? m->twin[k]->value[v].number : base;

		fixed &= is_same(number, base);
		time = k == GT_ONNX_TIME && !is_same(number, base);
		is_inverse &= number > 1e-9 && number <= 1;
		inverse[k] = is_inverse ? llround(1 / number) : 0;
		is_inverse &= inverse[k] && 1 / (double)inverse[k] == number;
	}
	if (fixed)
		return gt_onnx_number(m->x, m->dtype, base);
	if (!is_inverse)
		return gt_onnx_fail_varied(m->x, time);
	size = gt_onnx_size(m->x, gt_onnx_size_of(m->x, inverse));
	size = gt_onnx_cast(m->x, gt_onnx_squeeze(m->x, size, 0), m->dtype);
	return gt_onnx_unary(m->x, "Reciprocal", size);
}

static struct term *write_value(struct map_export *m, int v)
{
	const struct gt_expr_value *value = &m->e->value[v];
	struct term *t = &m->terms[v];

	if (t->number || t->truth || m->x->err.code)
		return t;
	if (value->function == GT_EXPR_INPUT)
		*t = write_input(m, m->n->in[value->arg[0]]);
	else if (value->function == GT_EXPR_NUMBER)
		*t = (struct term){ write_number(m, v), NULL };
	else
		*t = write_function(m, v);
	return t;
}

/* Return whether the inputs that an expression reads are broadcast to the whole result. */
static bool fills(const struct gt_node *n, unsigned reads)
{
	const struct gt_value *y = n->out[0];

	for (int d = 0; d < y->ndim; d++) {
		bool full = y->shape[d] == 1;

		for (int i = 0; i < n->inputs; i++) {
			int at = n->in[i] ? d - (y->ndim - n->in[i]->ndim) : -1;

			full |= reads >> i & 1 && at >= 0 && n->in[i]->shape[at] == y->shape[d];
		}
		if (!full)
			return false;
	}
	for (int i = 0; i < n->inputs; i++)
		if (reads >> i & 1 && n->in[i]->ndim == y->ndim)
			return true;
	return !y->ndim;
}

/* Return whether two expressions are the same, but for their numbers; *varies: these differ. */
static bool is_twin(const struct gt_expr *a, const struct gt_expr *b, bool *varies)
{
	bool same = a->count == b->count && a->outputs == b->outputs &&
	            !memcmp(a->out, b->out, (size_t)a->outputs * sizeof(*a->out));

	for (int v = 0; same && v < a->count; v++) {
		const struct gt_expr_value *p = &a->value[v], *q = &b->value[v];

		same = p->function == q->function && !memcmp(p->arg, q->arg, sizeof(p->arg));
		*varies |= !is_same(p->number, q->number);
	}
	return same;
}

/* Read the expression in each graph. */
static void read_expressions(struct map_export *m)
{
	for (int k = 0; k < GT_ONNX_VARIANTS && !m->x->err.code; k++) {
		const struct gt_node *n = gt_onnx_twin(m->x, (enum gt_onnx_variant)k);
		struct gt_expr *e = n ? gt_arena_alloc(&m->x->arena, sizeof(*e), &m->x->err) : NULL;

		if (!e)
			continue;
		gt_expr_of_program(e, n->attrs.map.program);
		m->twin[k] = e;
		if (k && !is_twin(m->twin[GT_ONNX_BASE], e, &m->varies))
			gt_onnx_fail_varied(m->x, k == GT_ONNX_TIME);
	}
	m->e = m->twin[GT_ONNX_BASE];
}

void gt_onnx_map(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, n->out[0]);
	struct map_export m = { .x = x, .n = n, .dtype = n->out[0]->dtype };
	bool whole;

	read_expressions(&m);
	if (x->err.code)
		return;
	whole = fills(n, gt_expr_reads(m.e));
	for (int i = 0; i < m.e->outputs && !x->err.code; i++) {
		const char *y = number_of(&m, m.e->out[i]);

		gt_onnx_set(x, n->out[i], whole ? y : gt_onnx_expand(x, y, &shape));
	}
}
