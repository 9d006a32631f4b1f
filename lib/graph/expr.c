/* expr.c - build expressions, and translate them into programs and back. */
#include "lib/graph/expr.h"

#include <ctype.h>
#include <string.h>

static const struct {
	const char *name;
	int arguments, flops;
} functions[] = {
#define GT_FUNCTION(name, arguments, flops, formula) { #name, arguments, flops },
#include "lib/graph/ops/functions.inc"
};

int gt_function_arguments(enum gt_function f)
{
	return functions[f].arguments;
}

/* ---- building ---- */

static int find_or_add_value(struct gt_expr *e, const struct gt_expr_value *v)
{
	for (int i = 0; i < e->count; i++)
		/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): -0 is not 0 */
		if (!memcmp(&e->value[i], v, sizeof(*v)))
			return i;
	if (e->count == GT_EXPR_VALUES) {
		e->full = true;
		return 0;
	}
	e->value[e->count] = *v;
	return e->count++;
}

int gt_expr_input(struct gt_expr *e, int input)
{
	const struct gt_expr_value v = { GT_EXPR_INPUT, { (int16_t)input, -1, -1 }, 0 };

	e->inputs = input >= e->inputs ? input + 1 : e->inputs;
	return find_or_add_value(e, &v);
}

int gt_expr_number(struct gt_expr *e, double number)
{
	const struct gt_expr_value v = { GT_EXPR_NUMBER, { -1, -1, -1 }, number };

	return find_or_add_value(e, &v);
}

bool gt_expr_has_number(const struct gt_expr *e, int v)
{
	return v >= 0 && e->value[v].function == GT_EXPR_NUMBER;
}

bool gt_expr_is(const struct gt_expr *e, int v, double number)
{
	return gt_expr_has_number(e, v) && e->value[v].number == number;
}

static bool commutes(enum gt_function f)
{
	return f == GT_F_ADD || f == GT_F_MUL || f == GT_F_EQ;
}

/* Arguments of commutative functions stand in one order, numbers last, so that equal values are
 * found. */
int gt_expr_apply3(struct gt_expr *e, enum gt_function f, int a, int b, int c)
{
	bool swap = commutes(f) && !gt_expr_has_number(e, b) && (gt_expr_has_number(e, a) || a > b);
	const struct gt_expr_value v = { (int16_t)f,
		{ (int16_t)(swap ? b : a), (int16_t)(swap ? a : b), (int16_t)c }, 0 };
	int simpler = e->full ? 0 : gt_expr_simplify(e, f, v.arg[0], v.arg[1], c);

	return simpler >= 0 ? simpler : find_or_add_value(e, &v);
}

int gt_expr_apply2(struct gt_expr *e, enum gt_function f, int a, int b)
{
	return gt_expr_apply3(e, f, a, b, -1);
}

int gt_expr_apply1(struct gt_expr *e, enum gt_function f, int a)
{
	return gt_expr_apply3(e, f, a, -1, -1);
}

void gt_expr_output(struct gt_expr *e, int v)
{
	if (e->outputs == GT_EXPR_INPUTS)
		e->full = true;
	else
		e->out[e->outputs++] = (int16_t)v;
}

void gt_expr_inline(struct gt_expr *e, const struct gt_expr *from, const int *in, int *out)
{
	int map[GT_EXPR_VALUES + 1], *value_of = map + 1;

	value_of[-1] = -1;
	for (int v = 0; v < from->count; v++) {
		const struct gt_expr_value *x = &from->value[v];

		if (x->function == GT_EXPR_INPUT)
			value_of[v] = in[x->arg[0]];
		else if (x->function == GT_EXPR_NUMBER)
			value_of[v] = gt_expr_number(e, x->number);
		else
			value_of[v] = gt_expr_apply3(e, (enum gt_function)x->function,
			    value_of[x->arg[0]], value_of[x->arg[1]], value_of[x->arg[2]]);
	}
	for (int j = 0; j < from->outputs; j++)
		out[j] = value_of[from->out[j]];
	e->full = e->full || from->full;
}

static bool is_computed(const struct gt_expr_value *v)
{
	return v->function < GT_FUNCTION_COUNT;
}

/* Set live[v] for the values on which the outputs depend. */
static void find_live_values(const struct gt_expr *e, bool *live)
{
	memset(live, 0, GT_EXPR_VALUES * sizeof(*live));
	for (int j = 0; j < e->outputs; j++)
		live[e->out[j]] = true;
	for (int v = e->count - 1; v >= 0; v--)
		for (int k = 0; k < 3 && live[v] && is_computed(&e->value[v]); k++)
			if (e->value[v].arg[k] >= 0)
				live[e->value[v].arg[k]] = true;
}

unsigned gt_expr_reads(const struct gt_expr *e)
{
	bool live[GT_EXPR_VALUES];
	unsigned bits = 0;

	find_live_values(e, live);
	for (int v = 0; v < e->count; v++)
		if (live[v] && e->value[v].function == GT_EXPR_INPUT)
			bits |= 1u << e->value[v].arg[0];
	return bits;
}

int gt_expr_flops(const struct gt_expr *e)
{
	bool live[GT_EXPR_VALUES];
	int sum = 0;

	find_live_values(e, live);
	for (int v = 0; v < e->count; v++)
		if (live[v] && is_computed(&e->value[v]))
			sum += functions[e->value[v].function].flops;
	return sum;
}

/* ---- programs ---- */

/* The state of a translation. Arrays are indexed by values. */
struct compiler {
	struct gt_map_program *p;
	const struct gt_expr *e;
	bool live[GT_EXPR_VALUES];
	int last[GT_EXPR_VALUES]; /* last value that reads this one; outputs: INT16_MAX */
	int slot[GT_EXPR_VALUES];
	int last_read; /* last value that reads an input */
	int first_row;
	bool busy[GT_MAP_ROWS]; /* rows in use */
	bool full;
};

static void find_last_reads(struct compiler *c)
{
	const struct gt_expr *e = c->e;

	find_live_values(e, c->live);
	c->last_read = -1;
	for (int v = 0; v < e->count; v++)
		for (int k = 0; k < 3 && c->live[v] && is_computed(&e->value[v]); k++) {
			int arg = e->value[v].arg[k];

			if (arg < 0)
				continue;
			c->last[arg] = v;
			if (e->value[arg].function == GT_EXPR_INPUT)
				c->last_read = v;
		}
	/* Outputs that are inputs are copied at the end. */
	for (int j = 0; j < e->outputs; j++)
		if (e->value[e->out[j]].function == GT_EXPR_INPUT)
			c->last_read = INT16_MAX - 1;
}

static void place_numbers(struct compiler *c)
{
	const struct gt_expr *e = c->e;
	struct gt_map_program *p = c->p;

	p->inputs = e->inputs;
	p->outputs = e->outputs;
	for (int v = 0; v < e->count; v++) {
		if (e->value[v].function == GT_EXPR_INPUT)
			c->slot[v] = e->value[v].arg[0];
		if (!c->live[v] || e->value[v].function != GT_EXPR_NUMBER)
			continue;
		if (p->numbers == GT_MAP_NUMBERS) {
			c->full = true;
			return;
		}
		c->slot[v] = p->inputs + p->outputs + p->numbers;
		p->number[p->numbers++] = e->value[v].number;
	}
	c->first_row = p->inputs + p->outputs + p->numbers;
}

/* Return a row that is free, and reserve it. */
static int take_row(struct compiler *c)
{
	int r = 0;

	while (r < GT_MAP_ROWS && c->busy[r])
		r++;
	if (r == GT_MAP_ROWS) {
		c->full = true;
		return 0;
	}
	c->busy[r] = true;
	c->p->rows = r >= c->p->rows ? r + 1 : c->p->rows;
	return c->first_row + r;
}

/* Return the slot of an output that is v and may be written now, else -1. */
static int output_slot(const struct compiler *c, int v)
{
	for (int j = 0; j < c->e->outputs; j++)
		if (c->e->out[j] == v && (j > 0 || v >= c->last_read))
			return c->p->inputs + j;
	return -1;
}

static struct gt_map_step *add_step(struct compiler *c, int function)
{
	if (c->p->steps == GT_MAP_STEPS) {
		c->full = true;
		return &c->p->step[0];
	}
	c->p->step[c->p->steps].function = (uint8_t)function;
	c->p->flops += functions[function].flops;
	return &c->p->step[c->p->steps++];
}

/* Whether an output that is not written yet will be a copy of v. */
static bool is_copied_later(const struct compiler *c, int v)
{
	for (int j = 0; j < c->e->outputs; j++)
		if (c->e->out[j] == v && c->slot[v] != c->p->inputs + j)
			return true;
	return false;
}

static void compile_value(struct compiler *c, int v)
{
	const struct gt_expr_value *x = &c->e->value[v];
	struct gt_map_step *s = add_step(c, x->function);

	for (int k = 0; k < 3; k++) {
		int arg = x->arg[k], row = arg < 0 ? -1 : c->slot[arg] - c->first_row;

		if (arg < 0)
			continue;
		s->from[k] = (uint8_t)c->slot[arg];
		if (row >= 0 && c->last[arg] == v && !is_copied_later(c, arg))
			c->busy[row] = false;
	}
	c->slot[v] = output_slot(c, v);
	if (c->slot[v] < 0)
		c->slot[v] = take_row(c);
	s->to = (uint8_t)c->slot[v];
}

/* Copy the outputs that are inputs, numbers, other outputs, or were computed too early. Output 0,
 * which may be the memory of an input, is the last. */
static void copy_outputs(struct compiler *c)
{
	for (int j = c->e->outputs - 1; j >= 0 && !c->full; j--) {
		int from = c->slot[c->e->out[j]], to = c->p->inputs + j;
		struct gt_map_step *s;

		if (from == to)
			continue;
		s = add_step(c, GT_F_COPY);
		s->to = (uint8_t)to;
		s->from[0] = (uint8_t)from;
	}
}

int gt_expr_compile(struct gt_map_program *p, const struct gt_expr *e, struct gt_err *err)
{
	struct compiler c = { .p = p, .e = e };

	memset(p, 0, sizeof(*p));
	c.full = e->full || e->inputs > GT_MAP_INPUTS || e->outputs > GT_MAP_OUTPUTS;
	if (!c.full) {
		find_last_reads(&c);
		place_numbers(&c);
	}
	for (int v = 0; v < e->count && !c.full; v++)
		if (c.live[v] && is_computed(&e->value[v]))
			compile_value(&c, v);
	copy_outputs(&c);
	if (c.full)
		return gt_err_set(err, GT_ENOTSUP, "an expression is too large");
	return 0;
}

void gt_expr_of_program(struct gt_expr *e, const struct gt_map_program *p)
{
	int value[GT_MAP_SLOTS];

	*e = (struct gt_expr){ .inputs = p->inputs };
	for (int i = 0; i < p->inputs; i++)
		value[i] = gt_expr_input(e, i);
	for (int k = 0; k < p->numbers; k++)
		value[p->inputs + p->outputs + k] = gt_expr_number(e, p->number[k]);
	for (int i = 0; i < p->steps; i++) {
		const struct gt_map_step *s = &p->step[i];
		int arg[3] = { -1, -1, -1 };

		for (int k = 0; k < functions[s->function].arguments; k++)
			arg[k] = value[s->from[k]];
		value[s->to] =
		    s->function == GT_F_COPY
		        ? arg[0]
		        : gt_expr_apply3(e, (enum gt_function)s->function, arg[0], arg[1], arg[2]);
	}
	for (int j = 0; j < p->outputs; j++)
		gt_expr_output(e, value[p->inputs + j]);
}

/* ---- text ---- */

static void print_slot(const struct gt_map_program *p, int slot, FILE *f)
{
	int after = slot - p->inputs - p->outputs;

	if (slot < p->inputs)
		fprintf(f, "x%d", slot);
	else if (after < 0)
		fprintf(f, "y%d", slot - p->inputs);
	else if (after < p->numbers)
		fprintf(f, "%.9g", p->number[after]);
	else
		fprintf(f, "r%d", after - p->numbers);
}

void gt_map_program_print(const struct gt_map_program *p, FILE *f)
{
	for (int i = 0; i < p->steps; i++) {
		const struct gt_map_step *s = &p->step[i];

		fputc(' ', f);
		print_slot(p, s->to, f);
		fputc('=', f);
		for (const char *c = functions[s->function].name; *c; c++)
			fputc(tolower((unsigned char)*c), f);
		for (int k = 0; k < functions[s->function].arguments; k++) {
			fputc(k ? ',' : '(', f);
			print_slot(p, s->from[k], f);
		}
		fputc(')', f);
	}
}
