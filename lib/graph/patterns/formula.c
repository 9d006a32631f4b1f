/* formula.c - parse the formulas of patterns. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/patterns/pattern.h"

static const char *const function_names[] = {
#define GT_FUNCTION(name, arguments, flops, formula) #name,
#include "lib/graph/ops/functions.inc"
	"MATMUL",
	"SOFTMAX",
	"DROPOUT",
};

struct parser {
	struct gt_formula *f;
	const char *at;
	bool failed;
};

static struct gt_formula_product parse_sum(struct parser *p);

static bool skip_sign(struct parser *p, char sign)
{
	while (*p->at == ' ')
		p->at++;
	if (*p->at != sign)
		return false;
	p->at++;
	return true;
}

static struct gt_formula_product number_product(double number)
{
	return (struct gt_formula_product){ .number = number };
}

static struct gt_formula_product atom_product(struct parser *p, const struct gt_formula_atom *a)
{
	struct gt_formula_product made = { .number = 1, .count = 1 };

	if (p->f->count == GT_FORMULA_ATOMS) {
		p->failed = true;
		return made;
	}
	made.factor[0].exponent = 2;
	made.factor[0].atom = p->f->count;
	p->f->atom[p->f->count++] = *a;
	return made;
}

/* Multiply `to` by another product to the power of exponent / 2. */
static void multiply(struct parser *p, struct gt_formula_product *to,
    const struct gt_formula_product *by, int exponent)
{
	to->number *= pow(by->number, exponent / 2.0);
	if (by->letter) {
		p->failed |= to->letter || exponent != 2;
		to->letter = by->letter;
	}
	for (int i = 0; i < by->count; i++) {
		int halves = by->factor[i].exponent * exponent;

		if (to->count == GT_FORMULA_FACTORS || halves % 2) {
			p->failed = true;
			return;
		}
		to->factor[to->count] = by->factor[i];
		to->factor[to->count++].exponent = halves / 2;
	}
}

static int find_function_name(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(function_names) / sizeof(*function_names); i++)
		if (strlen(function_names[i]) == length &&
		    !strncasecmp(function_names[i], name, length))
			return (int)i;
	return -1;
}

/* Parse a call, after its name and bracket. */
static struct gt_formula_product parse_call(struct parser *p, const char *name, size_t length)
{
	struct gt_formula_atom a = { .kind = GT_ATOM_FUNCTION };
	struct gt_formula_product root = { .number = 1 };

	do {
		if (a.count == GT_FORMULA_TERMS) {
			p->failed = true;
			break;
		}
		a.term[a.count++] = parse_sum(p);
	} while (skip_sign(p, ','));
	p->failed |= !skip_sign(p, ')');
	a.function = find_function_name(name, length);
	if (length == 4 && !strncmp(name, "mean", length)) {
		a.kind = GT_ATOM_MEAN;
	} else if (a.function == GT_F_SQRT || a.function == GT_F_RSQRT) {
		multiply(p, &root, &a.term[0], a.function == GT_F_SQRT ? 1 : -1);
		return root;
	} else {
		p->failed |= a.function < 0;
	}
	return atom_product(p, &a);
}

static struct gt_formula_product parse_primary(struct parser *p)
{
	struct gt_formula_product made;
	const char *name;
	char *end;

	if (skip_sign(p, '(')) {
		made = parse_sum(p);
		p->failed |= !skip_sign(p, ')');
		return made;
	}
	if (isdigit((unsigned char)*p->at)) {
		made = number_product(strtod(p->at, &end));
		p->at = end;
		return made;
	}
	name = p->at;
	while (isalnum((unsigned char)*p->at) || *p->at == '_')
		p->at++;
	if (p->at - name > 1 && skip_sign(p, '('))
		return parse_call(p, name, (size_t)(strchr(name, '(') - name));
	p->failed |= p->at - name != 1;
	if (!isupper((unsigned char)*name))
		return atom_product(
		    p, &(struct gt_formula_atom){ .kind = GT_ATOM_TENSOR, .letter = *name });
	made = number_product(1);
	made.letter = *name;
	return made;
}

static struct gt_formula_product parse_product(struct parser *p)
{
	struct gt_formula_product made = number_product(1), next;
	int exponent = 2;

	do {
		next = parse_primary(p);
		multiply(p, &made, &next, exponent);
		exponent = skip_sign(p, '*') ? 2 : skip_sign(p, '/') ? -2 : 0;
	} while (exponent && !p->failed);
	return made;
}

static struct gt_formula_product parse_sum(struct parser *p)
{
	struct gt_formula_atom a = { .kind = GT_ATOM_SUM };
	double sign = skip_sign(p, '-') ? -1 : 1;

	do {
		if (a.count == GT_FORMULA_TERMS) {
			p->failed = true;
			break;
		}
		a.term[a.count] = parse_product(p);
		a.term[a.count++].number *= sign;
		sign = skip_sign(p, '+') ? 1 : skip_sign(p, '-') ? -1 : 0;
	} while (sign != 0 && !p->failed);
	return a.count == 1 ? a.term[0] : atom_product(p, &a);
}

bool gt_formula_parse(struct gt_formula *f, const char *text)
{
	struct parser p = { .f = f, .at = text };

	f->count = 0;
	f->whole = parse_sum(&p);
	return !p.failed && !*p.at;
}
