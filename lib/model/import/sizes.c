/* sizes.c - compute expressions of sympy's srepr(), in which torch.export writes sizes. */
#include "lib/model/import/sizes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

struct reader {
	const struct gt_symbols *symbols;
	const char *at;
	int depth;
};

static void skip_spaces(struct reader *r)
{
	while (*r->at == ' ')
		r->at++;
}

static bool accept(struct reader *r, char c)
{
	skip_spaces(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

/* Read 'NAME', and skip the assumptions behind it, up to the closing parenthesis. */
static bool read_symbol(struct reader *r, const char **name, int *length)
{
	if (!accept(r, '\''))
		return false;
	*name = r->at;
	*length = (int)strcspn(r->at, "'");
	r->at += *length;
	if (!accept(r, '\''))
		return false;
	r->at += strcspn(r->at, ")");
	return accept(r, ')');
}

static bool find_symbol(const struct gt_symbols *s, const char *name, int length, int64_t *out)
{
	for (int i = 0; i < s->count; i++) {
		if (s->symbols[i].length != length ||
		    strncmp(s->symbols[i].name, name, (size_t)length) != 0)
			continue;
		*out = s->symbols[i].value;
		return true;
	}
	return false;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
	return a / b - (a % b && (a < 0) != (b < 0));
}

static bool add(int64_t a, int64_t b, int64_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

static bool multiply_sizes(int64_t a, int64_t b, int64_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}

static bool divide(int64_t a, int64_t b, int64_t *out)
{
	if (!b || (a == INT64_MIN && b == -1))
		return false;
	*out = floor_divide(a, b);
	return true;
}

static bool modulo(int64_t a, int64_t b, int64_t *out)
{
	if (!divide(a, b, out))
		return false;
	*out = a - *out * b;
	return true;
}

static bool smaller(int64_t a, int64_t b, int64_t *out)
{
	*out = a < b ? a : b;
	return true;
}

static bool larger(int64_t a, int64_t b, int64_t *out)
{
	*out = a > b ? a : b;
	return true;
}

static bool raise(int64_t a, int64_t b, int64_t *out)
{
	*out = 1;
	for (int64_t i = 0; i < b; i++)
		if (i == 64 || !multiply_sizes(*out, a, out))
			return false;
	return b >= 0;
}

/* Functions of two or more arguments, which are taken from left to right. */
static const struct {
	const char *name;
	bool (*compute)(int64_t a, int64_t b, int64_t *out);
} functions[] = {
	{ "Add", add },
	{ "Mul", multiply_sizes },
	{ "FloorDiv", divide },
	{ "CleanDiv", divide },
	{ "Mod", modulo },
	{ "PythonMod", modulo },
	{ "Min", smaller },
	{ "Max", larger },
	{ "Pow", raise },
};

static bool compute(struct reader *r, int64_t *out);

static bool compute_function(struct reader *r, const char *name, size_t length, int64_t *out)
{
	size_t i = 0, count = sizeof(functions) / sizeof(*functions);

	while (i < count && (strlen(functions[i].name) != length ||
	                        strncmp(functions[i].name, name, length) != 0))
		i++;
	if (i == count || !compute(r, out))
		return false;
	while (accept(r, ',')) {
		int64_t next;

		if (!compute(r, &next) || !functions[i].compute(*out, next, out))
			return false;
	}
	return accept(r, ')');
}

static bool compute_call(struct reader *r, int64_t *out)
{
	const char *name, *symbol;
	size_t length = 0;
	char *end;
	int width;

	skip_spaces(r);
	name = r->at;
	while (isalpha((unsigned char)name[length]))
		length++;
	r->at += length;
	if (!accept(r, '('))
		return false;
	if (length == 6 && !strncmp(name, "Symbol", length))
		return read_symbol(r, &symbol, &width) &&
		       find_symbol(r->symbols, symbol, width, out);
	if (length == 7 && !strncmp(name, "Integer", length)) {
		*out = strtoll(r->at, &end, 10);
		if (end == r->at)
			return false;
		r->at = end;
		return accept(r, ')');
	}
	return compute_function(r, name, length, out);
}

static bool compute(struct reader *r, int64_t *out)
{
	bool done = ++r->depth <= MAX_DEPTH && compute_call(r, out);

	r->depth--;
	return done;
}

bool gt_symbols_compute(const struct gt_symbols *s, const char *expression, int64_t *out)
{
	struct reader r = { .symbols = s, .at = expression };

	if (!compute(&r, out))
		return false;
	skip_spaces(&r);
	return !*r.at;
}

bool gt_symbols_set(struct gt_symbols *s, const char *expression, int64_t value)
{
	static const char start[] = "Symbol(";
	struct reader r = { .symbols = s, .at = expression };
	struct gt_symbol *symbol = &s->symbols[s->count];
	const char *name;
	int64_t known;
	int length;

	if (strncmp(expression, start, strlen(start)) != 0)
		return false;
	r.at += strlen(start);
	if (!read_symbol(&r, &name, &length))
		return false;
	if (find_symbol(s, name, length, &known))
		return known == value;
	if (s->count == GT_MAX_SYMBOLS)
		return false;
	*symbol = (struct gt_symbol){ name, length, value };
	s->count++;
	return true;
}
