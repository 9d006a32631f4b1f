/* tests.c - the tests of templates, behind "is". */
#include <string.h>

#include "lib/data/jinja/inside.h"

/* A test that looks at the kind alone is a row with the kinds that pass, as bits. */
#define KIND(k) (1u << GT_JINJA_##k)

static int by_kind(struct gt_jinja_value *v, unsigned kinds)
{
	*v = gt_jinja_bool(kinds >> v->kind & 1);
	return 0;
}

/* clang-format off */
#define TEST(name, expression) \
static int name(struct gt_jinja_run *r, struct gt_jinja_value *v, \
    const struct gt_jinja_args *args, struct gt_err *err) \
{ \
	(void)r; \
	(void)args; \
	(void)err; \
	return expression; \
}
/* clang-format on */

TEST(is_defined, by_kind(v, ~KIND(UNDEFINED)))
TEST(is_undefined, by_kind(v, KIND(UNDEFINED)))
TEST(is_none, by_kind(v, KIND(NONE)))
TEST(is_string, by_kind(v, KIND(STRING)))
TEST(is_number, by_kind(v, KIND(INT) | KIND(REAL) | KIND(BOOL)))
TEST(is_integer, by_kind(v, KIND(INT)))
TEST(is_float, by_kind(v, KIND(REAL)))
TEST(is_boolean, by_kind(v, KIND(BOOL)))
TEST(is_mapping, by_kind(v, KIND(DICT)))
TEST(is_sequence, by_kind(v, KIND(STRING) | KIND(LIST) | KIND(DICT) | KIND(UNDEFINED)))
TEST(is_iterable, by_kind(v, KIND(STRING) | KIND(LIST) | KIND(DICT) | KIND(UNDEFINED)))
TEST(is_callable, by_kind(v, KIND(FUNCTION)))

static int is_true(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)r;
	(void)args;
	(void)err;
	*v = gt_jinja_bool(v->kind == GT_JINJA_BOOL && v->truth);
	return 0;
}

static int is_false(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)r;
	(void)args;
	(void)err;
	*v = gt_jinja_bool(v->kind == GT_JINJA_BOOL && !v->truth);
	return 0;
}

static int is_equal(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	bool equal;
	int rc;

	if (args->count != 1)
		return gt_err_set(err, GT_EFORMAT, "the test needs a value to compare with");
	rc = gt_jinja_equal(&equal, r, v, &args->values[0], err);
	*v = gt_jinja_bool(equal);
	return rc;
}

static int is_unequal(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	int rc = is_equal(r, v, args, err);

	v->truth = !v->truth;
	return rc;
}

static int is_in(struct gt_jinja_run *r, struct gt_jinja_value *v, const struct gt_jinja_args *args,
    struct gt_err *err)
{
	bool found = false;
	int rc;

	if (args->count != 1)
		return gt_err_set(err, GT_EFORMAT, "the test needs a value to look into");
	rc = gt_jinja_contains(&found, r, &args->values[0], v, err);
	*v = gt_jinja_bool(found);
	return rc;
}

/* Whether a whole number is divisible by `n` with this rest. */
static int has_rest(struct gt_jinja_value *v, int64_t n, bool rest, struct gt_err *err)
{
	if (v->kind != GT_JINJA_INT || n < 1)
		return gt_err_set(err, GT_EFORMAT, "%s is not a whole number that is divided",
		    gt_jinja_kind_name(v));
	*v = gt_jinja_bool((v->integer % n != 0) == rest);
	return 0;
}

TEST(is_even, has_rest(v, 2, false, err))
TEST(is_odd, has_rest(v, 2, true, err))
TEST(is_divisible,
    has_rest(v,
        args->count == 1 && args->values[0].kind == GT_JINJA_INT ? args->values[0].integer : 0,
        false, err))

static const struct gt_jinja_function rows[] = {
	{ "defined", "", is_defined },
	{ "undefined", "", is_undefined },
	{ "none", "", is_none },
	{ "string", "", is_string },
	{ "number", "", is_number },
	{ "integer", "", is_integer },
	{ "float", "", is_float },
	{ "boolean", "", is_boolean },
	{ "true", "", is_true },
	{ "false", "", is_false },
	{ "mapping", "", is_mapping },
	{ "sequence", "", is_sequence },
	{ "iterable", "", is_iterable },
	{ "callable", "", is_callable },
	{ "equalto", "other", is_equal },
	{ "eq", "other", is_equal },
	{ "ne", "other", is_unequal },
	{ "in", "seq", is_in },
	{ "even", "", is_even },
	{ "odd", "", is_odd },
	{ "divisibleby", "num", is_divisible },
};

const struct gt_jinja_function *gt_jinja_test(const char *name)
{
	return gt_jinja_row(rows, sizeof(rows) / sizeof(*rows), name);
}
