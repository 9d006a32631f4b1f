/* map.c - expressions of one element as chains of operators of ONNX. */
#include "lib/graph/expr.h"
#include "lib/model/onnx/inside.h"

/* A value of an expression: a number, or a truth value of type bool, or both. NULL: not made. */
struct term {
	const char *number, *truth;
};

struct map_export {
	struct gt_onnx_export *x;
	enum gt_dtype dtype; /* of numbers */
};

static const char *number_of(const struct map_export *m, struct term *t)
{
	if (!t->number && t->truth)
		t->number = gt_onnx_cast(m->x, t->truth, m->dtype);
	return t->number;
}

static const char *truth_of(const struct map_export *m, struct term *t)
{
	if (!t->truth && t->number)
		t->truth = gt_onnx_cast(m->x, t->number, GT_BOOL);
	return t->truth;
}

/* ---- functions of several operators ---- */

static const char *one_of(const struct map_export *m)
{
	return gt_onnx_number(m->x, m->dtype, 1);
}

static const char *write_rsqrt(const struct map_export *m, const char *a)
{
	return gt_onnx_unary(m->x, "Reciprocal", gt_onnx_unary(m->x, "Sqrt", a));
}

static const char *write_expm1(const struct map_export *m, const char *a)
{
	return gt_onnx_binary(m->x, "Sub", gt_onnx_unary(m->x, "Exp", a), one_of(m));
}

static const char *write_log1p(const struct map_export *m, const char *a)
{
	return gt_onnx_unary(m->x, "Log", gt_onnx_binary(m->x, "Add", a, one_of(m)));
}

static const char *write_silu(const struct map_export *m, const char *a)
{
	return gt_onnx_binary(m->x, "Mul", a, gt_onnx_unary(m->x, "Sigmoid", a));
}

static const char *write_gelu_tanh(const struct map_export *m, const char *a)
{
	return gt_onnx_call(m->x, "Gelu",
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_TEXT("approximate", "tanh"), { 0 } }, 1, &a);
}

/* The functions of an element: an operator, or a function of one argument. Bit i of `truths`: the
 * argument i is a truth value. Slopes are functions of gradients alone. */
static const struct function_row {
	const char *op;
	const char *(*write)(const struct map_export *m, const char *a);
	unsigned truths;
	bool is_truth; /* the result is one */
	bool negated;
} function_rows[GT_FUNCTION_COUNT] = {
	[GT_F_COPY] = { "Identity" },
	[GT_F_ADD] = { "Add" },
	[GT_F_SUB] = { "Sub" },
	[GT_F_MUL] = { "Mul" },
	[GT_F_DIV] = { "Div" },
	[GT_F_NEG] = { "Neg" },
	[GT_F_ABS] = { "Abs" },
	[GT_F_SIGN] = { "Sign" },
	[GT_F_RELU] = { "Relu" },
	[GT_F_MAX] = { "Max" },
	[GT_F_MIN] = { "Min" },
	[GT_F_SQRT] = { "Sqrt" },
	[GT_F_RSQRT] = { .write = write_rsqrt },
	[GT_F_EXP] = { "Exp" },
	[GT_F_EXPM1] = { .write = write_expm1 },
	[GT_F_LOG] = { "Log" },
	[GT_F_LOG1P] = { .write = write_log1p },
	[GT_F_SIN] = { "Sin" },
	[GT_F_COS] = { "Cos" },
	[GT_F_TANH] = { "Tanh" },
	[GT_F_ERF] = { "Erf" },
	[GT_F_SIGMOID] = { "Sigmoid" },
	[GT_F_POW] = { "Pow" },
	[GT_F_FLOOR] = { "Floor" },
	[GT_F_LT] = { "Less", .is_truth = true },
	[GT_F_LE] = { "LessOrEqual", .is_truth = true },
	[GT_F_EQ] = { "Equal", .is_truth = true },
	[GT_F_NE] = { "Equal", .is_truth = true, .negated = true },
	[GT_F_NOT] = { "Not", .truths = 1u << 0, .is_truth = true },
	[GT_F_WHERE] = { "Where", .truths = 1u << 0 },
	[GT_F_SILU] = { .write = write_silu },
	[GT_F_GELU] = { "Gelu" },
	[GT_F_GELU_TANH] = { .write = write_gelu_tanh },
	[GT_F_HARDSWISH] = { "HardSwish" },
};

/* ---- an expression ---- */

static struct term write_function(
    const struct map_export *m, const struct gt_expr_value *v, struct term *terms)
{
	const struct function_row *row = &function_rows[v->function];
	int count = gt_function_arguments((enum gt_function)v->function);
	const char *in[3] = { NULL }, *y;

	for (int i = 0; i < count; i++)
		in[i] = row->truths >> i & 1 ? truth_of(m, &terms[v->arg[i]])
		                             : number_of(m, &terms[v->arg[i]]);
	if (!row->op && !row->write)
		gt_onnx_fail(m->x, "the slope of a function");
	if (m->x->err.code)
		return (struct term){ NULL, NULL };
	y = row->op ? gt_onnx_call(m->x, row->op, NULL, count, in) : row->write(m, in[0]);
	y = row->negated ? gt_onnx_unary(m->x, "Not", y) : y;
	return row->is_truth ? (struct term){ .truth = y } : (struct term){ .number = y };
}

static struct term write_input(const struct map_export *m, const struct gt_value *v)
{
	const char *name = gt_onnx_name(m->x, v);

	if (v->dtype == GT_BOOL)
		return (struct term){ .truth = name };
	return (struct term){ .number = v->dtype == m->dtype ? name
		                                             : gt_onnx_cast(m->x, name, m->dtype) };
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

void gt_onnx_map(struct gt_onnx_export *x, const struct gt_node *n)
{
	struct map_export m = { x, n->out[0]->dtype };
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, n->out[0]);
	struct term terms[GT_EXPR_VALUES] = { { NULL, NULL } };
	struct gt_expr *e = gt_arena_alloc(&x->arena, sizeof(*e), &x->err);
	bool whole;

	if (!e)
		return;
	gt_expr_of_program(e, n->attrs.map.program);
	whole = fills(n, gt_expr_reads(e));
	for (int i = 0; i < e->count && !x->err.code; i++) {
		const struct gt_expr_value *v = &e->value[i];

		if (v->function == GT_EXPR_INPUT)
			terms[i] = write_input(&m, n->in[v->arg[0]]);
		else if (v->function == GT_EXPR_NUMBER)
			terms[i] = (struct term){ gt_onnx_number(x, m.dtype, v->number), NULL };
		else
			terms[i] = write_function(&m, v, terms);
	}
	for (int i = 0; i < e->outputs && !x->err.code; i++) {
		const char *y = number_of(&m, &terms[e->out[i]]);

		gt_onnx_set(x, n->out[i], whole ? y : gt_onnx_expand(x, y, &shape));
	}
}
