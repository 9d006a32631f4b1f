/* eval.c - expressions of templates, computed. */
#include <math.h>
#include <string.h>

#include "lib/data/jinja/inside.h"

enum { MAX_EVAL_DEPTH = 1000 };

int gt_jinja_locate(struct gt_jinja_run *r, int line, int rc, struct gt_err *err)
{
	if (rc && rc != GT_ENOMEM && !r->located) {
		r->located = true;
		gt_err_prefix(err, "line %d", line);
	}
	return rc;
}

/* ---- names, attributes and items ---- */

static struct gt_jinja_value undefined(const char *name)
{
	return (struct gt_jinja_value){ .kind = GT_JINJA_UNDEFINED, .text = name };
}

static int fail_undefined(const struct gt_jinja_value *v, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "'%.80s' is undefined", v->text ? v->text : "a value");
}

static int bind(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_function *function, struct gt_err *err)
{
	struct gt_jinja_bound *bound = gt_arena_alloc(&r->arena, sizeof(*bound), err);

	if (!bound)
		return GT_ENOMEM;
	bound->function = function;
	bound->self = *v;
	*v = (struct gt_jinja_value){ .kind = GT_JINJA_FUNCTION, .bound = bound };
	return 0;
}

static int eval_name(
    struct gt_jinja_value *out, struct gt_jinja_run *r, const char *name, struct gt_err *err)
{
	const struct gt_jinja_function *function;

	for (const struct gt_jinja_frame *f = r->frame; f; f = f->outer) {
		const struct gt_jinja_value *v = gt_jinja_get(&f->variables, name, strlen(name));

		if (gt_jinja_spend(r, f->variables.count / 64, err))
			return err->code;
		if (v) {
			*out = *v;
			return 0;
		}
	}
	*out = undefined(name);
	function = gt_jinja_global(name);
	if (!function || (!strcmp(name, "strftime_now") && !r->date.year))
		return 0;
	return bind(out, r, function, err);
}

static int loop_attribute(struct gt_jinja_value *v, const char *name, struct gt_err *err)
{
	const struct gt_jinja_loop *l = v->loop;
	int64_t index = (int64_t)l->index, count = (int64_t)l->list->count;
	const struct gt_jinja_value *items = l->list->items;

	if (!strcmp(name, "index0"))
		*v = gt_jinja_int(index);
	else if (!strcmp(name, "index"))
		*v = gt_jinja_int(index + 1);
	else if (!strcmp(name, "revindex0"))
		*v = gt_jinja_int(count - index - 1);
	else if (!strcmp(name, "revindex"))
		*v = gt_jinja_int(count - index);
	else if (!strcmp(name, "length"))
		*v = gt_jinja_int(count);
	else if (!strcmp(name, "first"))
		*v = gt_jinja_bool(!index);
	else if (!strcmp(name, "last"))
		*v = gt_jinja_bool(index == count - 1);
	else if (!strcmp(name, "previtem"))
		*v = index ? items[index - 1] : undefined(name);
	else if (!strcmp(name, "nextitem"))
		*v = index + 1 < count ? items[index + 1] : undefined(name);
	else
		return gt_err_set(err, GT_ENOTSUP, "'loop.%.60s' is not supported", name);
	return 0;
}

static int eval_attribute(
    struct gt_jinja_value *v, struct gt_jinja_run *r, const char *name, struct gt_err *err)
{
	const struct gt_jinja_function *method = gt_jinja_method(v->kind, name);
	const struct gt_jinja_value *found;
	size_t steps;

	if (v->kind == GT_JINJA_UNDEFINED)
		return fail_undefined(v, err);
	if (v->kind == GT_JINJA_LOOP)
		return loop_attribute(v, name, err);
	if (method)
		return bind(v, r, method, err);
	if (v->kind != GT_JINJA_DICT && v->kind != GT_JINJA_NAMESPACE) {
		*v = undefined(name);
		return 0;
	}
	found = gt_jinja_get(v->dict, name, strlen(name));
	steps = gt_jinja_get_cost(v->dict, strlen(name));
	*v = found ? *found : undefined(name);
	return gt_jinja_spend(r, steps, err);
}

/* The place of item `index` of `count`, which may count from the end; -1: there is none. */
static int64_t place(int64_t index, size_t count)
{
	if (index < 0)
		index += (int64_t)count;
	return index >= 0 && index < (int64_t)count ? index : -1;
}

int gt_jinja_item(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_value *index, struct gt_err *err)
{
	const struct gt_jinja_value *found;
	size_t steps;
	int64_t at;

	if (v->kind == GT_JINJA_UNDEFINED)
		return fail_undefined(v, err);
	if (index->kind == GT_JINJA_STRING && v->kind == GT_JINJA_DICT) {
		steps = gt_jinja_get_cost(v->dict, index->size);
		found = gt_jinja_get(v->dict, index->text, index->size);
		if (!found)
			return eval_attribute(v, r, index->text, err);
		*v = *found;
		return gt_jinja_spend(r, steps, err);
	}
	if (index->kind == GT_JINJA_STRING)
		return eval_attribute(v, r, index->text, err);
	if (index->kind != GT_JINJA_INT ||
	    (v->kind != GT_JINJA_LIST && v->kind != GT_JINJA_STRING)) {
		*v = undefined(NULL);
		return 0;
	}
	if (v->kind == GT_JINJA_LIST) {
		at = place(index->integer, v->list->count);
		*v = at < 0 ? undefined(NULL) : v->list->items[at];
		return 0;
	}
	steps = gt_jinja_bytes_cost(v->size);
	at = place(index->integer, gt_jinja_length(v->text, v->size));
	if (at < 0) {
		*v = undefined(NULL);
	} else {
		const char *p = v->text + gt_jinja_offset(v->text, v->size, (size_t)at);

		*v = gt_jinja_string(p, gt_jinja_step(p, (size_t)(v->text + v->size - p)));
	}
	return gt_jinja_spend(r, steps, err);
}

/* ---- slices ---- */

/* A bound of a slice, as Python clips it. */
static int slice_bound(int64_t *out, struct gt_jinja_run *r, const struct gt_jinja_expr *x,
    int64_t count, int64_t step, int64_t otherwise, struct gt_err *err)
{
	struct gt_jinja_value v = { .kind = GT_JINJA_NONE };
	int rc = x ? gt_jinja_eval(&v, r, x, err) : 0;

	*out = otherwise;
	if (rc || v.kind == GT_JINJA_NONE)
		return rc;
	if (v.kind != GT_JINJA_INT)
		return gt_err_set(
		    err, GT_EFORMAT, "%s as a bound of a slice", gt_jinja_kind_name(&v));
	*out = v.integer;
	if (*out < 0)
		*out += count;
	if (*out < 0)
		*out = step < 0 ? -1 : 0;
	else if (*out >= count)
		*out = step < 0 ? count - 1 : count;
	return 0;
}

static int slice_string(struct gt_jinja_value *v, struct gt_jinja_run *r, int64_t from, int64_t to,
    int64_t step, struct gt_err *err)
{
	struct gt_jinja_list chars;
	struct gt_buf b = { 0 };
	int rc;

	if (step == 1) {
		size_t begin = gt_jinja_offset(v->text, v->size, (size_t)from);
		size_t end = gt_jinja_offset(v->text, v->size, (size_t)to);

		*v = gt_jinja_string(v->text + begin, end > begin ? end - begin : 0);
		return 0;
	}
	rc = gt_jinja_items(&chars, r, v, err);
	if (rc)
		return rc;
	for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
		gt_buf_add(&b, chars.items[i].text, chars.items[i].size);
	return gt_jinja_take_string(v, r, &b, err);
}

static int slice_list(struct gt_jinja_value *v, struct gt_jinja_run *r, int64_t from, int64_t to,
    int64_t step, struct gt_err *err)
{
	const struct gt_jinja_list *list = v->list;
	size_t count = 0;
	int rc;

	for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
		count++;
	rc = gt_jinja_new_list(v, r, count, err);
	count = 0;
	for (int64_t i = from; !rc && (step > 0 ? i < to : i > to); i += step)
		v->list->items[count++] = list->items[i];
	if (!rc)
		v->list->tuple = list->tuple;
	return rc;
}

static int eval_slice(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	struct gt_jinja_value by = gt_jinja_int(1);
	int64_t count, from, to, step;
	int rc = x->d ? gt_jinja_eval(&by, r, x->d, err) : 0;

	if (rc)
		return rc;
	if (v->kind == GT_JINJA_UNDEFINED)
		return fail_undefined(v, err);
	if (v->kind != GT_JINJA_LIST && v->kind != GT_JINJA_STRING)
		return gt_err_set(err, GT_EFORMAT, "a slice of %s", gt_jinja_kind_name(v));
	if (v->kind == GT_JINJA_STRING && gt_jinja_spend(r, gt_jinja_bytes_cost(v->size), err))
		return err->code;
	count = v->kind == GT_JINJA_LIST ? (int64_t)v->list->count
	                                 : (int64_t)gt_jinja_length(v->text, v->size);
	step = by.kind == GT_JINJA_NONE ? 1 : by.kind == GT_JINJA_INT ? by.integer : 0;
	if (!step || step > INT32_MAX || step < -INT32_MAX)
		return gt_err_set(err, GT_EFORMAT, "the step of a slice is no number but 0");
	rc = slice_bound(&from, r, x->b, count, step, step < 0 ? count - 1 : 0, err);
	if (!rc)
		rc = slice_bound(&to, r, x->c, count, step, step < 0 ? -1 : count, err);
	if (rc)
		return rc;
	return v->kind == GT_JINJA_LIST ? slice_list(v, r, from, to, step, err)
	                                : slice_string(v, r, from, to, step, err);
}

/* ---- arithmetic ---- */

static int concatenate(struct gt_jinja_value *a, struct gt_jinja_run *r,
    const struct gt_jinja_value *b, struct gt_err *err)
{
	struct gt_buf text = { 0 };
	int rc = gt_jinja_append(&text, a, err);

	if (!rc)
		rc = gt_jinja_append(&text, b, err);
	if (!rc)
		return gt_jinja_take_string(a, r, &text, err);
	gt_buf_release(&text);
	return rc;
}

static int join_lists(struct gt_jinja_value *a, struct gt_jinja_run *r,
    const struct gt_jinja_value *b, struct gt_err *err)
{
	struct gt_jinja_value both;
	const struct gt_jinja_list *x = a->list, *y = b->list;
	int rc = gt_jinja_new_list(&both, r, x->count + y->count, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < both.list->count; i++)
		both.list->items[i] = i < x->count ? x->items[i] : y->items[i - x->count];
	both.list->tuple = x->tuple;
	*a = both;
	return 0;
}

static int repeat(
    struct gt_jinja_value *a, struct gt_jinja_run *r, int64_t times, struct gt_err *err)
{
	struct gt_buf b = { 0 };

	if (times > 0 && a->size > GT_JINJA_MAX_OUTPUT / (size_t)times)
		return gt_err_set(err, GT_ENOTSUP, "a string is repeated too often");
	for (int64_t i = 0; a->size && i < times; i++)
		gt_buf_add(&b, a->text, a->size);
	return gt_jinja_take_string(a, r, &b, err);
}

static int fail_number(struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "a number is too large, or is divided by 0");
}

/* Python rounds down, and a remainder has the sign of the divisor. */
static int whole_math(struct gt_jinja_value *a, int op, int64_t x, int64_t y, struct gt_err *err)
{
	int64_t z = 0;

	if (op == '+' || op == '-' || op == '*') {
		bool over = op == '+'   ? __builtin_add_overflow(x, y, &z)
		            : op == '-' ? __builtin_sub_overflow(x, y, &z)
		                        : __builtin_mul_overflow(x, y, &z);

		if (over)
			return fail_number(err);
	} else {
		if (!y || (y == -1 && x == INT64_MIN))
			return fail_number(err);
		z = x % y;
		if (z && (z < 0) != (y < 0))
			z += y;
		if (op != '%')
			z = (x - z) / y;
	}
	*a = gt_jinja_int(z);
	return 0;
}

static int real_math(struct gt_jinja_value *a, int op, double x, double y, struct gt_err *err)
{
	double z = op == '+' ? x + y : op == '-' ? x - y : x * y;

	if (op == '/' || op == '%' || op == GT_JINJA_OP('/', '/')) {
		if (y == 0)
			return fail_number(err);
		z = op == '/' ? x / y : floor(x / y);
		if (op == '%')
			z = x - y * z;
	}
	*a = (struct gt_jinja_value){ .kind = GT_JINJA_REAL, .real = z };
	return 0;
}

static int eval_math(struct gt_jinja_value *a, struct gt_jinja_run *r, int op,
    const struct gt_jinja_value *b, struct gt_err *err)
{
	bool text = a->kind == GT_JINJA_STRING;
	double x, y;

	if (op == '~')
		return concatenate(a, r, b, err);
	if (op == '+' && text && b->kind == GT_JINJA_STRING)
		return concatenate(a, r, b, err);
	if (op == '+' && a->kind == GT_JINJA_LIST && b->kind == GT_JINJA_LIST)
		return join_lists(a, r, b, err);
	if (op == '*' && text && b->kind == GT_JINJA_INT)
		return repeat(a, r, b->integer, err);
	if (op == '%' && text)
		return gt_err_set(err, GT_ENOTSUP, "'%%' of a string is not supported");
	if (op == GT_JINJA_OP('*', '*'))
		return gt_err_set(err, GT_ENOTSUP, "'**' is not supported");
	if (a->kind == GT_JINJA_UNDEFINED || b->kind == GT_JINJA_UNDEFINED)
		return fail_undefined(a->kind == GT_JINJA_UNDEFINED ? a : b, err);
	if (!gt_jinja_number(&x, a) || !gt_jinja_number(&y, b))
		return gt_err_set(err, GT_EFORMAT, "'%c' of %s and %s", op % 256,
		    gt_jinja_kind_name(a), gt_jinja_kind_name(b));
	if (op != '/' && a->kind != GT_JINJA_REAL && b->kind != GT_JINJA_REAL)
		return whole_math(a, op, a->kind == GT_JINJA_INT ? a->integer : a->truth,
		    b->kind == GT_JINJA_INT ? b->integer : b->truth, err);
	return real_math(a, op, x, y, err);
}

static int eval_sign(struct gt_jinja_value *v, int op, struct gt_err *err)
{
	double x;

	if (v->kind == GT_JINJA_UNDEFINED)
		return fail_undefined(v, err);
	if (!gt_jinja_number(&x, v))
		return gt_err_set(err, GT_EFORMAT, "'%c' before %s", op, gt_jinja_kind_name(v));
	if (op == '+')
		return 0;
	if (v->kind == GT_JINJA_REAL)
		v->real = -v->real;
	else
		return whole_math(v, '-', 0, v->kind == GT_JINJA_INT ? v->integer : v->truth, err);
	return 0;
}

/* ---- comparisons ---- */

static int compare_once(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *a, int op,
    const struct gt_jinja_value *b, struct gt_err *err)
{
	int rc, order = 0;

	if (op == GT_JINJA_IN || op == GT_JINJA_NOT_IN) {
		rc = gt_jinja_contains(out, r, b, a, err);
		*out = *out == (op == GT_JINJA_IN);
		return rc;
	}
	if (op == GT_JINJA_OP('=', '=') || op == GT_JINJA_OP('!', '=')) {
		rc = gt_jinja_equal(out, r, a, b, err);
		*out = *out == (op == GT_JINJA_OP('=', '='));
		return rc;
	}
	if (a->kind == GT_JINJA_UNDEFINED || b->kind == GT_JINJA_UNDEFINED)
		return fail_undefined(a->kind == GT_JINJA_UNDEFINED ? a : b, err);
	rc = gt_jinja_compare(&order, r, a, b, err);
	if (op / 256 && !order)
		*out = true;
	else
		*out = op % 256 == '<' ? order < 0 : order > 0;
	return rc;
}

static int eval_compare(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	struct gt_jinja_value next;
	bool holds = true;
	int rc = 0;

	for (const struct gt_jinja_arg_node *arg = x->args; !rc && holds && arg; arg = arg->next) {
		rc = gt_jinja_eval(&next, r, arg->value, err);
		if (!rc)
			rc = compare_once(&holds, r, v, arg->op, &next, err);
		*v = next;
	}
	*v = gt_jinja_bool(holds);
	return rc;
}

/* ---- calls ---- */

static int eval_args(struct gt_jinja_args *out, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	int rc = 0;

	out->count = 0;
	for (const struct gt_jinja_arg_node *arg = x->args; !rc && arg; arg = arg->next) {
		out->names[out->count] = arg->name;
		rc = gt_jinja_eval(&out->values[out->count], r, arg->value, err);
		out->count++;
	}
	return rc;
}

static int eval_call(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	const struct gt_jinja_function *function = x->function;
	struct gt_jinja_args args;
	int rc = eval_args(&args, r, x, err);

	if (rc)
		return rc;
	if (!function && v->kind != GT_JINJA_FUNCTION) {
		const char *name = x->a->name ? x->a->name : "";

		if (!strcmp(name, "strftime_now")) {
			gt_err_set(err, GT_ENOTSUP, "the template asks for the date of today");
			return gt_err_hint(
			    err, "give the date that it shall write: date=YYYY-MM-DD");
		}
		if (v->kind == GT_JINJA_UNDEFINED)
			return gt_err_set(
			    err, GT_ENOTSUP, "function or method '%.60s' is not supported", name);
		return gt_err_set(err, GT_EFORMAT, "%s is called", gt_jinja_kind_name(v));
	}
	if (!function) {
		function = v->bound->function;
		*v = v->bound->self;
	}
	return gt_jinja_call(r, function, v, &args, err);
}

/* ---- literals ---- */

static int eval_items(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	size_t count = 0;
	int rc;

	for (const struct gt_jinja_arg_node *arg = x->args; arg; arg = arg->next)
		count++;
	rc = gt_jinja_new_list(v, r, count, err);
	count = 0;
	for (const struct gt_jinja_arg_node *arg = x->args; !rc && arg; arg = arg->next)
		rc = gt_jinja_eval(&v->list->items[count++], r, arg->value, err);
	if (!rc)
		v->list->tuple = x->kind == GT_JINJA_X_TUPLE;
	return rc;
}

static int eval_dict(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	struct gt_jinja_value key, value;
	int rc = gt_jinja_new_dict(v, r, err);

	for (const struct gt_jinja_arg_node *arg = x->args; !rc && arg; arg = arg->next->next) {
		rc = gt_jinja_eval(&key, r, arg->value, err);
		if (!rc && key.kind != GT_JINJA_STRING)
			rc = gt_err_set(err, GT_ENOTSUP, "%s as a key of a dict is not supported",
			    gt_jinja_kind_name(&key));
		if (!rc)
			rc = gt_jinja_eval(&value, r, arg->next->value, err);
		if (!rc)
			rc = gt_jinja_put(v->dict, r, key, value, err);
	}
	return rc;
}

/* ---- all of it ---- */

/* Nodes whose first operand decides whether the others are computed. */
static int eval_choice(struct gt_jinja_value *out, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	const struct gt_jinja_expr *condition = x->kind == GT_JINJA_X_IF ? x->b : x->a, *next;
	int rc = gt_jinja_eval(out, r, condition, err);
	bool truth;

	if (rc)
		return rc;
	truth = gt_jinja_is_true(out);
	if (x->kind == GT_JINJA_X_NOT) {
		*out = gt_jinja_bool(!truth);
		return 0;
	}
	if (x->kind == GT_JINJA_X_IF) {
		next = truth ? x->a : x->c;
		*out = undefined(NULL);
	} else {
		next = truth == (x->kind == GT_JINJA_X_AND) ? x->b : NULL;
	}
	return next ? gt_jinja_eval(out, r, next, err) : 0;
}

/* Nodes that compute their first operand, which is *v, in any case. */
static int eval_operator(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_expr *x, struct gt_err *err)
{
	bool binary = x->kind == GT_JINJA_X_ITEM || x->kind == GT_JINJA_X_MATH;
	struct gt_jinja_value b = { 0 };
	int rc = binary ? gt_jinja_eval(&b, r, x->b, err) : 0;

	if (rc)
		return rc;
	switch (x->kind) {
	case GT_JINJA_X_ATTRIBUTE:
		return eval_attribute(v, r, x->name, err);
	case GT_JINJA_X_ITEM:
		return gt_jinja_item(v, r, &b, err);
	case GT_JINJA_X_SLICE:
		return eval_slice(v, r, x, err);
	case GT_JINJA_X_MATH:
		return eval_math(v, r, x->op, &b, err);
	case GT_JINJA_X_SIGN:
		return eval_sign(v, x->op, err);
	case GT_JINJA_X_COMPARE:
		return eval_compare(v, r, x, err);
	default:
		return eval_call(v, r, x, err);
	}
}

static int eval(struct gt_jinja_value *out, struct gt_jinja_run *r, const struct gt_jinja_expr *x,
    struct gt_err *err)
{
	int rc;

	switch (x->kind) {
	case GT_JINJA_X_CONST:
		*out = x->constant;
		return 0;
	case GT_JINJA_X_NAME:
		return eval_name(out, r, x->name, err);
	case GT_JINJA_X_NOT:
	case GT_JINJA_X_AND:
	case GT_JINJA_X_OR:
	case GT_JINJA_X_IF:
		return eval_choice(out, r, x, err);
	case GT_JINJA_X_LIST:
	case GT_JINJA_X_TUPLE:
		return eval_items(out, r, x, err);
	case GT_JINJA_X_DICT:
		return eval_dict(out, r, x, err);
	default:
		rc = gt_jinja_eval(out, r, x->a, err);
		return rc ? rc : eval_operator(out, r, x, err);
	}
}

int gt_jinja_eval(struct gt_jinja_value *out, struct gt_jinja_run *r, const struct gt_jinja_expr *x,
    struct gt_err *err)
{
	int rc = gt_jinja_spend(r, 1, err);

	*out = undefined(NULL);
	if (!rc && ++r->depth > MAX_EVAL_DEPTH)
		rc = gt_err_set(
		    err, GT_ENOTSUP, "an expression has more than %d nested parts", MAX_EVAL_DEPTH);
	if (!rc) {
		rc = eval(out, r, x, err);
		r->depth--;
	}
	return gt_jinja_locate(r, x->line, rc, err);
}
