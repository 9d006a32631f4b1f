/* parse_expr.c - the expressions of a template. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/data/jinja/inside.h"

/*
 * Each function parses one level of precedence, from the weakest to the strongest:
 *
 *   a if b else c | or | and | not | == < in ... | + - | ~ | * / // % | ** | -a | a.b a[b] a(b) a|f
 */

static struct gt_jinja_expr *parse_or(struct gt_jinja_parser *p);
static struct gt_jinja_expr *parse_unary(struct gt_jinja_parser *p, bool filters);

void *gt_jinja_fail(struct gt_jinja_parser *p, int code, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	gt_err_set(p->err, code, "line %d: %s", p->at->line, text);
	return NULL;
}

bool gt_jinja_at_op(const struct gt_jinja_parser *p, int op)
{
	return p->at->kind == GT_JINJA_T_OPERATOR && p->at->op == op;
}

bool gt_jinja_at_name(const struct gt_jinja_parser *p, const char *name)
{
	return p->at->kind == GT_JINJA_T_NAME && !strcmp(p->at->text, name);
}

bool gt_jinja_skip_op(struct gt_jinja_parser *p, int op)
{
	bool found = gt_jinja_at_op(p, op);

	p->at += found;
	return found;
}

bool gt_jinja_skip_name(struct gt_jinja_parser *p, const char *name)
{
	bool found = gt_jinja_at_name(p, name);

	p->at += found;
	return found;
}

/* A description of the present token, for messages. */
static const char *describe_token(const struct gt_jinja_parser *p, char text[80])
{
	const struct gt_jinja_token *t = p->at;

	switch (t->kind) {
	case GT_JINJA_T_NAME:
		snprintf(text, 80, "'%.60s'", t->text);
		return text;
	case GT_JINJA_T_OPERATOR:
		snprintf(text, 80, "'%c%.1s'", t->op % 256, (char[]){ (char)(t->op / 256), '\0' });
		return text;
	case GT_JINJA_T_STRING:
		return "a string";
	case GT_JINJA_T_INT:
	case GT_JINJA_T_REAL:
		return "a number";
	default:
		return "the end of the tag";
	}
}

static void *fail_expected(struct gt_jinja_parser *p, const char *what)
{
	char text[80];

	return gt_jinja_fail(p, GT_EFORMAT, "expected %s, not %s", what, describe_token(p, text));
}

/* ---- nodes ---- */

static struct gt_jinja_expr *new_expr(
    struct gt_jinja_parser *p, enum gt_jinja_expr_kind kind, struct gt_jinja_expr *a)
{
	struct gt_jinja_expr *x = gt_arena_alloc(p->arena, sizeof(*x), p->err);

	if (!x)
		return NULL;
	x->kind = kind;
	x->line = p->at->line;
	x->a = a;
	return x;
}

static struct gt_jinja_expr *new_const(struct gt_jinja_parser *p, struct gt_jinja_value v)
{
	struct gt_jinja_expr *x = new_expr(p, GT_JINJA_X_CONST, NULL);

	if (x)
		x->constant = v;
	return x;
}

/* Append an argument to a list; `*end` is the address of its last link. */
static struct gt_jinja_arg_node *add_arg(struct gt_jinja_parser *p, struct gt_jinja_arg_node ***end,
    const char *name, struct gt_jinja_expr *value)
{
	struct gt_jinja_arg_node *arg =
	    value ? gt_arena_alloc(p->arena, sizeof(*arg), p->err) : NULL;

	if (!arg)
		return NULL;
	arg->name = name;
	arg->value = value;
	**end = arg;
	*end = &arg->next;
	return arg;
}

static struct gt_jinja_expr *expression(struct gt_jinja_parser *p)
{
	return gt_jinja_parse_expr(p, true, false);
}

/* ---- primary ---- */

/* Items up to the closing bracket, which is skipped. */
static struct gt_jinja_expr *parse_items(
    struct gt_jinja_parser *p, enum gt_jinja_expr_kind kind, int close)
{
	struct gt_jinja_expr *x = new_expr(p, kind, NULL);
	struct gt_jinja_arg_node **end = x ? &x->args : NULL;

	while (x && !gt_jinja_skip_op(p, close)) {
		if (x->args && !gt_jinja_skip_op(p, ','))
			return fail_expected(p, "',' or the closing bracket");
		if (x->args && gt_jinja_skip_op(p, close))
			break;
		if (!add_arg(p, &end, NULL, expression(p)))
			return NULL;
		if (kind != GT_JINJA_X_DICT)
			continue;
		if (!gt_jinja_skip_op(p, ':'))
			return fail_expected(p, "':'");
		if (!add_arg(p, &end, NULL, expression(p)))
			return NULL;
	}
	return x;
}

static struct gt_jinja_expr *parse_parentheses(struct gt_jinja_parser *p)
{
	struct gt_jinja_expr *x;

	if (gt_jinja_skip_op(p, ')'))
		return new_expr(p, GT_JINJA_X_TUPLE, NULL);
	x = gt_jinja_parse_expr(p, true, true);
	if (x && !gt_jinja_skip_op(p, ')'))
		return fail_expected(p, "')'");
	return x;
}

/* Strings beside each other are one. */
static struct gt_jinja_expr *parse_string(struct gt_jinja_parser *p)
{
	const struct gt_jinja_token *first = p->at;
	size_t size = 0;
	char *text;

	for (; p->at->kind == GT_JINJA_T_STRING; p->at++)
		size += p->at->size;
	text = gt_arena_alloc(p->arena, size + 1, p->err);
	if (!text)
		return NULL;
	size = 0;
	for (; first < p->at; first++) {
		memcpy(text + size, first->text, first->size);
		size += first->size;
	}
	return new_const(p, gt_jinja_string(text, size));
}

static struct gt_jinja_expr *parse_name(struct gt_jinja_parser *p)
{
	static const struct {
		const char *name;
		struct gt_jinja_value value;
	} constants[] = {
		{ "true", { .kind = GT_JINJA_BOOL, .truth = true } },
		{ "True", { .kind = GT_JINJA_BOOL, .truth = true } },
		{ "false", { .kind = GT_JINJA_BOOL } },
		{ "False", { .kind = GT_JINJA_BOOL } },
		{ "none", { .kind = GT_JINJA_NONE } },
		{ "None", { .kind = GT_JINJA_NONE } },
	};
	const char *name = p->at->text;
	struct gt_jinja_expr *x;

	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (gt_jinja_skip_name(p, constants[i].name))
			return new_const(p, constants[i].value);
	x = new_expr(p, GT_JINJA_X_NAME, NULL);
	if (x)
		x->name = name;
	p->at++;
	return x;
}

static struct gt_jinja_expr *parse_primary(struct gt_jinja_parser *p)
{
	struct gt_jinja_value number = { .kind = GT_JINJA_REAL, .real = p->at->real };

	switch (p->at->kind) {
	case GT_JINJA_T_NAME:
		return parse_name(p);
	case GT_JINJA_T_STRING:
		return parse_string(p);
	case GT_JINJA_T_INT:
		number = gt_jinja_int(p->at->integer);
		p->at++;
		return new_const(p, number);
	case GT_JINJA_T_REAL:
		p->at++;
		return new_const(p, number);
	default:
		break;
	}
	if (gt_jinja_skip_op(p, '('))
		return parse_parentheses(p);
	if (gt_jinja_skip_op(p, '['))
		return parse_items(p, GT_JINJA_X_LIST, ']');
	if (gt_jinja_skip_op(p, '{'))
		return parse_items(p, GT_JINJA_X_DICT, '}');
	return fail_expected(p, "a value");
}

/* ---- postfix ---- */

static bool parse_args(struct gt_jinja_parser *p, struct gt_jinja_expr *x)
{
	struct gt_jinja_arg_node **end = &x->args;
	int count = 0;

	while (!gt_jinja_skip_op(p, ')')) {
		const char *name = NULL;

		if (x->args && !gt_jinja_skip_op(p, ','))
			return fail_expected(p, "',' or ')'");
		if (x->args && gt_jinja_skip_op(p, ')'))
			break;
		if (gt_jinja_at_op(p, '*') || gt_jinja_at_op(p, GT_JINJA_OP('*', '*')))
			return gt_jinja_fail(
			    p, GT_ENOTSUP, "'*' before an argument is not supported");
		if (p->at->kind == GT_JINJA_T_NAME && p->at[1].kind == GT_JINJA_T_OPERATOR &&
		    p->at[1].op == '=') {
			name = p->at->text;
			p->at += 2;
		}
		if (++count > GT_JINJA_MAX_ARGS)
			return gt_jinja_fail(
			    p, GT_ENOTSUP, "more than %d arguments", GT_JINJA_MAX_ARGS);
		if (!add_arg(p, &end, name, expression(p)))
			return false;
	}
	return true;
}

static struct gt_jinja_expr *parse_call(struct gt_jinja_parser *p, struct gt_jinja_expr *a)
{
	struct gt_jinja_expr *x = new_expr(p, GT_JINJA_X_CALL, a);

	return x && parse_args(p, x) ? x : NULL;
}

static struct gt_jinja_expr *parse_attribute(struct gt_jinja_parser *p, struct gt_jinja_expr *a)
{
	struct gt_jinja_expr *x = new_expr(p, GT_JINJA_X_ATTRIBUTE, a);

	if (!x)
		return NULL;
	if (p->at->kind != GT_JINJA_T_NAME)
		return fail_expected(p, "a name behind '.'");
	x->name = p->at->text;
	p->at++;
	return x;
}

static bool at_slice_end(const struct gt_jinja_parser *p)
{
	return gt_jinja_at_op(p, ':') || gt_jinja_at_op(p, ']');
}

static struct gt_jinja_expr *parse_subscript(struct gt_jinja_parser *p, struct gt_jinja_expr *a)
{
	struct gt_jinja_expr *x = new_expr(p, GT_JINJA_X_ITEM, a);
	struct gt_jinja_expr **parts[2];

	if (!x)
		return NULL;
	parts[0] = &x->c;
	parts[1] = &x->d;
	if (!at_slice_end(p)) {
		x->b = expression(p);
		if (!x->b)
			return NULL;
	}
	for (int i = 0; i < 2 && gt_jinja_skip_op(p, ':'); i++) {
		x->kind = GT_JINJA_X_SLICE;
		if (at_slice_end(p))
			continue;
		*parts[i] = expression(p);
		if (!*parts[i])
			return NULL;
	}
	if (!gt_jinja_skip_op(p, ']') || (x->kind == GT_JINJA_X_ITEM && !x->b))
		return fail_expected(p, "an index and ']'");
	return x;
}

static struct gt_jinja_expr *parse_postfix(struct gt_jinja_parser *p, struct gt_jinja_expr *x)
{
	while (x) {
		if (gt_jinja_skip_op(p, '.'))
			x = parse_attribute(p, x);
		else if (gt_jinja_skip_op(p, '['))
			x = parse_subscript(p, x);
		else if (gt_jinja_skip_op(p, '('))
			x = parse_call(p, x);
		else
			break;
	}
	return x;
}

static struct gt_jinja_expr *parse_filter(struct gt_jinja_parser *p, struct gt_jinja_expr *a)
{
	struct gt_jinja_expr *x = new_expr(p, GT_JINJA_X_FILTER, a);

	if (!x)
		return NULL;
	if (p->at->kind != GT_JINJA_T_NAME)
		return fail_expected(p, "a filter behind '|'");
	x->name = p->at->text;
	x->function = gt_jinja_filter(x->name);
	if (!x->function)
		return gt_jinja_fail(p, GT_ENOTSUP, "filter '%s' is not supported", x->name);
	p->at++;
	return !gt_jinja_skip_op(p, '(') || parse_args(p, x) ? x : NULL;
}

/* A test takes its only argument with or without parentheses. */
static struct gt_jinja_expr *parse_test(struct gt_jinja_parser *p, struct gt_jinja_expr *a)
{
	struct gt_jinja_expr *x = new_expr(p, GT_JINJA_X_TEST, a), *negated = NULL;
	struct gt_jinja_arg_node **end;

	if (!x)
		return NULL;
	if (gt_jinja_skip_name(p, "not")) {
		negated = new_expr(p, GT_JINJA_X_NOT, x);
		if (!negated)
			return NULL;
	}
	if (p->at->kind != GT_JINJA_T_NAME)
		return fail_expected(p, "a test behind 'is'");
	x->name = p->at->text;
	x->function = gt_jinja_test(x->name);
	if (!x->function)
		return gt_jinja_fail(p, GT_ENOTSUP, "test '%s' is not supported", x->name);
	p->at++;
	end = &x->args;
	if (gt_jinja_skip_op(p, '(')) {
		if (!parse_args(p, x))
			return NULL;
	} else if (*x->function->parameters &&
	           !add_arg(p, &end, NULL, parse_postfix(p, parse_primary(p)))) {
		return NULL;
	}
	return negated ? negated : x;
}

static struct gt_jinja_expr *parse_filters(struct gt_jinja_parser *p, struct gt_jinja_expr *x)
{
	while (x) {
		if (gt_jinja_skip_op(p, '|'))
			x = parse_filter(p, x);
		else if (gt_jinja_skip_name(p, "is"))
			x = parse_test(p, x);
		else if (gt_jinja_skip_op(p, '('))
			x = parse_call(p, x);
		else
			break;
	}
	return x;
}

/* ---- operators ---- */

static struct gt_jinja_expr *parse_unary(struct gt_jinja_parser *p, bool filters)
{
	struct gt_jinja_expr *x;
	int op = gt_jinja_at_op(p, '-') ? '-' : gt_jinja_at_op(p, '+') ? '+' : 0;

	if (++p->depth > GT_JINJA_MAX_DEPTH)
		return gt_jinja_fail(p, GT_ENOTSUP, "more than %d nested blocks and expressions",
		    GT_JINJA_MAX_DEPTH);
	if (op) {
		p->at++;
		x = parse_unary(p, false);
		x = x ? new_expr(p, GT_JINJA_X_SIGN, x) : NULL;
		if (x)
			x->op = op;
	} else {
		x = parse_primary(p);
	}
	x = parse_postfix(p, x);
	p->depth--;
	return filters ? parse_filters(p, x) : x;
}

/* The operators of each level of arithmetic, from the weakest to the strongest. */
enum { LEVELS = 4, POWER = GT_JINJA_OP('*', '*'), FLOOR = GT_JINJA_OP('/', '/') };

static const int levels[LEVELS][5] = { { '+', '-' }, { '~' }, { '*', '/', FLOOR, '%' }, { POWER } };

static int find_op(const struct gt_jinja_parser *p, const int *ops)
{
	while (*ops && !gt_jinja_at_op(p, *ops))
		ops++;
	return *ops;
}

static struct gt_jinja_expr *parse_math(struct gt_jinja_parser *p, int level)
{
	struct gt_jinja_expr *x, *b;
	int op;

	if (level == LEVELS)
		return parse_unary(p, true);
	x = parse_math(p, level + 1);
	while (x && (op = find_op(p, levels[level]))) {
		struct gt_jinja_expr *both = new_expr(p, GT_JINJA_X_MATH, x);

		p->at++;
		b = both ? parse_math(p, level + 1) : NULL;
		if (!b)
			return NULL;
		both->op = op;
		both->b = b;
		x = both;
	}
	return x;
}

/* The comparison at this token, which is skipped; 0: there is none. */
static int skip_comparison(struct gt_jinja_parser *p)
{
	static const int ops[] = { GT_JINJA_OP('=', '='), GT_JINJA_OP('!', '='), '<', '>',
		GT_JINJA_OP('<', '='), GT_JINJA_OP('>', '='), 0 };
	int op = find_op(p, ops);

	if (op) {
		p->at++;
	} else if (gt_jinja_skip_name(p, "in")) {
		op = GT_JINJA_IN;
	} else if (gt_jinja_at_name(p, "not") && p->at[1].kind == GT_JINJA_T_NAME &&
	           !strcmp(p->at[1].text, "in")) {
		p->at += 2;
		op = GT_JINJA_NOT_IN;
	}
	return op;
}

static struct gt_jinja_expr *parse_compare(struct gt_jinja_parser *p)
{
	struct gt_jinja_expr *x = parse_math(p, 0), *chain = NULL;
	struct gt_jinja_arg_node **end = NULL, *arg;
	int op;

	while (x && (op = skip_comparison(p))) {
		if (!chain) {
			chain = new_expr(p, GT_JINJA_X_COMPARE, x);
			if (!chain)
				return NULL;
			end = &chain->args;
		}
		arg = add_arg(p, &end, NULL, parse_math(p, 0));
		if (!arg)
			return NULL;
		arg->op = op;
	}
	return chain ? chain : x;
}

static struct gt_jinja_expr *parse_not(struct gt_jinja_parser *p)
{
	struct gt_jinja_expr *x;

	if (!gt_jinja_skip_name(p, "not"))
		return parse_compare(p);
	if (++p->depth > GT_JINJA_MAX_DEPTH)
		return gt_jinja_fail(p, GT_ENOTSUP, "more than %d nested blocks and expressions",
		    GT_JINJA_MAX_DEPTH);
	x = parse_not(p);
	p->depth--;
	return x ? new_expr(p, GT_JINJA_X_NOT, x) : NULL;
}

static struct gt_jinja_expr *parse_and(struct gt_jinja_parser *p)
{
	struct gt_jinja_expr *x = parse_not(p), *both;

	while (x && gt_jinja_skip_name(p, "and")) {
		both = new_expr(p, GT_JINJA_X_AND, x);
		if (!both)
			return NULL;
		both->b = parse_not(p);
		x = both->b ? both : NULL;
	}
	return x;
}

static struct gt_jinja_expr *parse_or(struct gt_jinja_parser *p)
{
	struct gt_jinja_expr *x = parse_and(p), *both;

	while (x && gt_jinja_skip_name(p, "or")) {
		both = new_expr(p, GT_JINJA_X_OR, x);
		if (!both)
			return NULL;
		both->b = parse_and(p);
		x = both->b ? both : NULL;
	}
	return x;
}

static struct gt_jinja_expr *parse_condition(struct gt_jinja_parser *p)
{
	struct gt_jinja_expr *x = parse_or(p), *choice;

	while (x && gt_jinja_skip_name(p, "if")) {
		choice = new_expr(p, GT_JINJA_X_IF, x);
		if (!choice)
			return NULL;
		choice->b = parse_or(p);
		x = choice->b ? choice : NULL;
		if (x && gt_jinja_skip_name(p, "else")) {
			choice->c = expression(p);
			x = choice->c ? choice : NULL;
		}
	}
	return x;
}

struct gt_jinja_expr *gt_jinja_parse_expr(struct gt_jinja_parser *p, bool conditional, bool tuple)
{
	struct gt_jinja_expr *x, *all;
	struct gt_jinja_arg_node **end;

	if (++p->depth > GT_JINJA_MAX_DEPTH)
		return gt_jinja_fail(p, GT_ENOTSUP, "more than %d nested blocks and expressions",
		    GT_JINJA_MAX_DEPTH);
	x = conditional ? parse_condition(p) : parse_or(p);
	p->depth--;
	if (!x || !tuple || !gt_jinja_at_op(p, ','))
		return x;
	all = new_expr(p, GT_JINJA_X_TUPLE, NULL);
	if (!all)
		return NULL;
	end = &all->args;
	if (!add_arg(p, &end, NULL, x))
		return NULL;
	while (gt_jinja_skip_op(p, ',')) {
		if (gt_jinja_at_op(p, ')') || p->at->kind == GT_JINJA_T_BLOCK_END)
			break;
		if (!add_arg(p, &end, NULL, gt_jinja_parse_expr(p, conditional, false)))
			return NULL;
	}
	return all;
}
