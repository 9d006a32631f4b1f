/* match.c - find the parts of a graph that a formula describes. */
#include <math.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/pass.h"
#include "lib/graph/patterns/pattern.h"

/* A value of the graph, or one within the expression of the map that writes it. */
struct term {
	struct gt_value *value;
	int within; /* index in the expression; -1: the value itself */
};

/* A term as a function of others. */
struct call {
	int function; /* enum gt_function, GT_ATOM_...; -1: a tensor; NUMBER */
	double number;
	struct term arg[3];
};

enum { NUMBER = -2 };

/* ---- terms ---- */

static struct term term_of(struct gt_value *v)
{
	return (struct term){ v, -1 };
}

/* Read value `at` of the expression of the map that writes v. */
static struct call read_within(struct gt_value *v, const struct gt_expr *e, int at)
{
	const struct gt_expr_value *x = &e->value[at];
	struct call c = { .function = x->function, .number = x->number };

	if (x->function == GT_EXPR_NUMBER)
		c.function = NUMBER;
	for (int i = 0; i < 3 && c.function != NUMBER && x->arg[i] >= 0; i++) {
		const struct gt_expr_value *a = &e->value[x->arg[i]];

		c.arg[i] = a->function == GT_EXPR_INPUT ? term_of(v->producer->in[a->arg[0]])
		                                        : (struct term){ v, x->arg[i] };
	}
	return c;
}

/* Read a map. One that only broadcasts its input is a tensor. */
static struct call read_map(struct gt_value *v, int within)
{
	const struct gt_map_program *p = v->producer->attrs.map.program;
	struct call tensor = { .function = -1 };
	struct gt_expr e;
	int at;

	if (p->outputs != 1)
		return tensor;
	gt_expr_of_program(&e, p);
	at = within < 0 ? e.out[0] : within;
	return e.value[at].function == GT_EXPR_INPUT ? tensor : read_within(v, &e, at);
}

/* Read an op that is none of a map's functions, but one of a formula's. */
static struct call read_op(struct gt_value *v)
{
	const struct gt_node *n = v->producer;
	struct call c = { .function = -1 };

	for (int i = 0; i < n->inputs && i < 3; i++)
		c.arg[i] = term_of(n->in[i]);
	if (n->op == &gt_op_add)
		c.function = GT_F_ADD;
	else if (n->op == &gt_op_batched_matmul || (n->op == &gt_op_matmul && !n->in[2]))
		c.function = GT_ATOM_MATMUL;
	else if (n->op == &gt_op_softmax && !n->attrs.softmax.log)
		c.function = GT_ATOM_SOFTMAX;
	else if (n->op == &gt_op_dropout)
		c.function = GT_ATOM_DROPOUT;
	else if (n->op == &gt_op_sum && n->attrs.sum.keep && n->in[0]->ndim &&
	         n->attrs.sum.dims == 1u << (n->in[0]->ndim - 1))
		c.function = GT_ATOM_TOTAL;
	return c;
}

static struct call read_term(struct term t)
{
	const struct gt_node *n = t.value->producer, *constant;

	if (!n || t.value->role != GT_TEMPORARY)
		return (struct call){ .function = -1 };
	if (n->op == &gt_op_map)
		return read_map(t.value, t.within);
	constant = gt_value_elements(t.value) == 1 ? gt_match_constant(t.value) : NULL;
	if (constant)
		return (struct call){ .function = NUMBER, .number = gt_match_element(constant, 0) };
	return read_op(t.value);
}

/* Note that the formula goes on behind a value. */
static bool enter_term(struct gt_match *m, struct term t)
{
	if (t.within >= 0)
		return true;
	for (int i = 0; i < m->inners; i++)
		if (m->inner[i] == t.value)
			return true;
	if (m->inners == GT_MATCH_VALUES)
		return false;
	m->inner[m->inners++] = t.value;
	return true;
}

static bool is_near(double a, double b)
{
	return a == b || fabs(a - b) <= 1e-6 * fabs(b);
}

static bool bind_number(struct gt_match *m, char letter, double x)
{
	unsigned bit = 1u << (letter - 'A');

	if (m->numbers & bit)
		return is_near(x, m->number[letter - 'A']);
	m->numbers |= bit;
	m->number[letter - 'A'] = x;
	return true;
}

static bool bind_tensor(struct gt_match *m, char letter, struct term t)
{
	struct gt_value **bound = &m->tensor[letter - 'a'];

	if (t.within >= 0 || (*bound && *bound != t.value))
		return false;
	*bound = t.value;
	return !gt_value_changes(t.value);
}

/* ---- sums ---- */

/* The search for one formula. It gives up after some attempts, since a file that was made wrong on
 * purpose might need very many. */
enum { ATTEMPTS = 4096 };

struct search {
	const struct gt_formula *f;
	struct gt_match *m;
	int attempts;
};

static bool match_product(
    struct search *s, const struct gt_formula_product *p, struct term t, double scale);

/* Terms of a sum, each with a factor of 1 or -1. */
struct terms {
	int count;
	struct term term[GT_FORMULA_TERMS];
	double sign[GT_FORMULA_TERMS];
};

/* Match the terms of an atom from number `next` on with those whose bit in `open` is set. */
static bool assign_terms(struct search *s, const struct gt_formula_atom *a, int next,
    const struct terms *terms, unsigned open)
{
	const struct gt_match before = *s->m;

	if (next == a->count)
		return true;
	for (int i = 0; i < terms->count; i++) {
		if (!(open >> i & 1))
			continue;
		if (match_product(s, &a->term[next], terms->term[i], terms->sign[i]) &&
		    assign_terms(s, a, next + 1, terms, open & ~(1u << i)))
			return true;
		*s->m = before;
	}
	return false;
}

/* Replace term i, a sum, by its terms. */
static bool open_sum(struct search *s, struct terms *terms, int i)
{
	const struct call c = read_term(terms->term[i]);

	if ((c.function != GT_F_ADD && c.function != GT_F_SUB) ||
	    terms->count == GT_FORMULA_TERMS || !enter_term(s->m, terms->term[i]))
		return false;
	terms->term[terms->count] = c.arg[1];
	terms->sign[terms->count++] = c.function == GT_F_SUB ? -terms->sign[i] : terms->sign[i];
	terms->term[i] = c.arg[0];
	return true;
}

/* Match terms. Those from number `from` on may be opened, so that each way is tried once. */
static bool match_terms(
    struct search *s, const struct gt_formula_atom *a, const struct terms *terms, int from)
{
	const struct gt_match before = *s->m;

	if (s->attempts++ >= ATTEMPTS)
		return false;
	if (terms->count == a->count)
		return assign_terms(s, a, 0, terms, (1u << terms->count) - 1);
	for (int i = from; i < terms->count; i++) {
		struct terms more = *terms;

		if (open_sum(s, &more, i) && match_terms(s, a, &more, i))
			return true;
		*s->m = before;
	}
	return false;
}

/* ---- products ---- */

/* Factors of a product, with exponents in halves, and a number. */
struct factors {
	int count;
	double number;
	struct {
		struct term term;
		int exponent;
	} factor[GT_FORMULA_FACTORS];
};

static bool add_factor(struct factors *to, struct term t, int exponent)
{
	const struct call c = read_term(t);

	if (c.function == NUMBER) {
		to->number *= pow(c.number, exponent / 2.0);
		return true;
	}
	if (to->count == GT_FORMULA_FACTORS)
		return false;
	to->factor[to->count].term = t;
	to->factor[to->count++].exponent = exponent;
	return true;
}

/* Remove factor i, and add those that it is a product of at the end. */
static bool open_product(struct search *s, struct factors *all, int i)
{
	const struct term t = all->factor[i].term;
	const int exponent = all->factor[i].exponent;
	const struct call c = read_term(t);

	all->count--;
	memmove(
	    all->factor + i, all->factor + i + 1, (size_t)(all->count - i) * sizeof(*all->factor));
	if (!enter_term(s->m, t))
		return false;
	switch (c.function) {
	case GT_F_MUL:
		return add_factor(all, c.arg[0], exponent) && add_factor(all, c.arg[1], exponent);
	case GT_F_DIV:
		return add_factor(all, c.arg[0], exponent) && add_factor(all, c.arg[1], -exponent);
	case GT_F_NEG:
		all->number = -all->number;
		return exponent % 2 == 0 && add_factor(all, c.arg[0], exponent);
	case GT_F_SQRT:
		return exponent % 2 == 0 && add_factor(all, c.arg[0], exponent / 2);
	case GT_F_RSQRT:
		return exponent % 2 == 0 && add_factor(all, c.arg[0], -exponent / 2);
	default:
		return false;
	}
}

/* A dropout of the formula may be missing in the graph. */
static bool match_call(struct search *s, const struct gt_formula_atom *a, struct term t)
{
	const struct call c = read_term(t);

	if (a->function == GT_ATOM_DROPOUT && c.function != GT_ATOM_DROPOUT)
		return match_product(s, &a->term[0], t, 1);
	if (c.function != a->function || !enter_term(s->m, t))
		return false;
	for (int i = 0; i < a->count; i++)
		if (!match_product(s, &a->term[i], c.arg[i], 1))
			return false;
	return true;
}

/* Match a mean, or a sum over the last dimension; *number is multiplied by the mean's factor. */
static bool match_mean(
    struct search *s, const struct gt_formula_atom *a, struct term t, double *number)
{
	const struct call c = read_term(t);

	if (c.function != GT_ATOM_TOTAL || !enter_term(s->m, t))
		return false;
	*number /= (double)gt_value_last(c.arg[0].value);
	return match_product(s, &a->term[0], c.arg[0], 1);
}

static bool match_atom(
    struct search *s, const struct gt_formula_atom *a, struct term t, double *number)
{
	switch (a->kind) {
	case GT_ATOM_TENSOR:
		return bind_tensor(s->m, a->letter, t);
	case GT_ATOM_FUNCTION:
		return match_call(s, a, t);
	case GT_ATOM_SUM:
		return match_terms(s, a, &(struct terms){ 1, { t }, { 1 } }, 0);
	default:
		return match_mean(s, a, t, number);
	}
}

/* Match the factors of a product from number `next` on with those whose bit in `open` is set, then
 * the number. */
static bool assign_factors(struct search *s, const struct gt_formula_product *p, int next,
    const struct factors *all, unsigned open, double number)
{
	const struct gt_match before = *s->m;

	if (next == p->count && p->letter)
		return bind_number(s->m, p->letter, all->number / number);
	if (next == p->count)
		return is_near(all->number, number);
	for (int i = 0; i < all->count; i++) {
		double scaled = number;

		if (!(open >> i & 1) || all->factor[i].exponent != p->factor[next].exponent)
			continue;
		if (match_atom(
		        s, &s->f->atom[p->factor[next].atom], all->factor[i].term, &scaled) &&
		    assign_factors(s, p, next + 1, all, open & ~(1u << i), scaled))
			return true;
		*s->m = before;
	}
	return false;
}

/* Match factors. Those from number `from` on may be opened, so that each way is tried once. */
static bool match_factors(
    struct search *s, const struct gt_formula_product *p, const struct factors *all, int from)
{
	const struct gt_match before = *s->m;

	if (all->count > p->count || s->attempts++ >= ATTEMPTS)
		return false;
	if (all->count == p->count &&
	    assign_factors(s, p, 0, all, (1u << all->count) - 1, p->number))
		return true;
	*s->m = before;
	for (int i = from; i < all->count; i++) {
		struct factors more = *all;

		if (open_product(s, &more, i) && match_factors(s, p, &more, i))
			return true;
		*s->m = before;
	}
	return false;
}

/* Return whether scale * t is the product p. */
static bool match_product(
    struct search *s, const struct gt_formula_product *p, struct term t, double scale)
{
	struct factors all = { .number = scale };

	return add_factor(&all, t, 2) && match_factors(s, p, &all, 0);
}

/* ---- the whole ---- */

static bool is_inner(const struct gt_match *m, const struct gt_value *v)
{
	for (int i = 0; i < m->inners; i++)
		if (m->inner[i] == v)
			return true;
	return false;
}

/* Return whether nodes of the formula alone read inner values. */
static bool is_closed(const struct gt_match *m, const int *uses)
{
	for (int i = 0; i < m->inners; i++) {
		const struct gt_value *v = m->inner[i];
		int read = 0;

		for (int k = 0; k < m->inners; k++)
			for (int j = 0; j < m->inner[k]->producer->inputs; j++)
				read += m->inner[k]->producer->in[j] == v;
		if (v != m->root && read != uses[v->id])
			return false;
	}
	return true;
}

bool gt_match_find(struct gt_match *m, struct gt_graph *g, const struct gt_formula *f,
    struct gt_value *v, const int *uses)
{
	struct search s = { f, m, 0 };

	*m = (struct gt_match){ .g = g, .root = v, .uses = uses };
	if (!match_product(&s, &f->whole, term_of(v), 1) || !is_inner(m, v))
		return false;
	return !uses || is_closed(m, uses);
}

struct gt_value *gt_match_tensor(const struct gt_match *m, char letter)
{
	return m->tensor[letter - 'a'];
}

double gt_match_number(const struct gt_match *m, char letter)
{
	return m->numbers >> (letter - 'A') & 1 ? m->number[letter - 'A'] : 1;
}

struct gt_node *gt_match_node(const struct gt_match *m, const struct gt_op *op)
{
	for (int i = 0; i < m->inners; i++)
		if (m->inner[i] != m->root && m->inner[i]->producer->op == op)
			return m->inner[i]->producer;
	return NULL;
}

/* ---- values ---- */

static bool same_attrs(const struct gt_node *a, const struct gt_node *b)
{
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): all bytes are set */
	return !memcmp(&a->attrs, &b->attrs, sizeof(a->attrs));
}

bool gt_match_same(const struct gt_value *a, const struct gt_value *b)
{
	const struct gt_node *m, *n;

	if (a == b || !a || !b)
		return a == b;
	m = a->producer;
	n = b->producer;
	if (!m || !n || m->op != n->op || a->role != GT_TEMPORARY || b->role != GT_TEMPORARY ||
	    m->inputs != n->inputs || m->op->writes || m->out[0] != a || n->out[0] != b ||
	    !same_attrs(m, n))
		return false;
	for (int i = 0; i < m->inputs; i++)
		if (!gt_match_same(m->in[i], n->in[i]))
			return false;
	return true;
}

const struct gt_node *gt_match_constant(const struct gt_value *v)
{
	while (v->producer && v->producer->op == &gt_op_reshape)
		v = v->producer->in[0];
	return v->producer && v->producer->op == &gt_op_constant ? v->producer : NULL;
}

double gt_match_element(const struct gt_node *constant, int64_t i)
{
	const void *elements = constant->attrs.constant.elements;

	switch (constant->attrs.constant.dtype) {
	case GT_F32:
		return ((const float *)elements)[i];
	case GT_F64:
		return ((const double *)elements)[i];
	case GT_I32:
		return ((const int32_t *)elements)[i];
	case GT_I64:
		return (double)((const int64_t *)elements)[i];
	case GT_U8:
	case GT_BOOL:
		return ((const uint8_t *)elements)[i];
	default:
		return NAN;
	}
}
