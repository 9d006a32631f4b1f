/* parse.c - read a stack of layers, written as Python code: names, arguments, values. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/suggest.h"
#include "lib/base/text.h"
#include "lib/model/sequence/sequence.h"

enum { MOST_LAYERS = 1000, LARGEST = 1 << 24, MOST_PIXELS = 1 << 15, WORD = 64 };

struct parser {
	const char *p; /* the rest of the text */
	struct gt_sequence *sequence;
	/* the layer that is being read; NULL: its name is not known yet */
	struct gt_sequence_layer *layer;
	struct gt_err *err;
};

/* ---- errors ---- */

/* Hint at the constructor of the layer, as "Linear(in_features, out_features, bias=True)". */
static void hint_signature(const struct parser *s)
{
	const struct gt_argument *a = s->layer->row->arguments;
	char text[400];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s(", s->layer->row->name);

	for (bool first = true; a->name && used < sizeof(text); a++, first = false)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s%s",
		    first ? "" : ", ", a->name, a->initial ? "=" : "",
		    a->initial ? a->initial : "");
	gt_err_hint(s->err, "write %s)", text);
}

/* Set the error, which begins with the layer. */
static int fail_parse(const struct parser *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int fail_parse(const struct parser *s, const char *format, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	gt_err_set(s->err, GT_EINVAL, "%s", text);
	if (s->layer) {
		hint_signature(s);
		return gt_err_prefix(s->err, "model 'seq': layer %zu, %s", s->sequence->count - 1,
		    s->layer->row->name);
	}
	gt_err_hint(s->err, "write layers as in Python: seq:Linear(784,64),ReLU,Linear(64,10)");
	return gt_err_prefix(s->err, "model 'seq': layer %zu", s->sequence->count);
}

/* ---- words and values ---- */

static void skip_spaces(struct parser *s)
{
	while (isspace((unsigned char)*s->p))
		s->p++;
}

static bool take(struct parser *s, char c)
{
	skip_spaces(s);
	if (*s->p != c)
		return false;
	s->p++;
	return true;
}

/* Read the longest word of letters, digits, and the characters in `others`; it may be empty. */
static void take_word(struct parser *s, char word[WORD], const char *others)
{
	size_t n = 0;

	skip_spaces(s);
	for (; isalnum((unsigned char)*s->p) || (*s->p && strchr(others, *s->p)); s->p++)
		if (n < WORD - 1)
			word[n++] = *s->p;
	word[n] = '\0';
}

static int take_text(struct parser *s, struct gt_argument_value *out)
{
	char quote = *s->p++;
	size_t length = strcspn(s->p, quote == '"' ? "\"" : "'");

	if (!s->p[length])
		return fail_parse(s, "a text has no closing quote");
	if (length >= sizeof(out->text))
		return fail_parse(s, "there is no value '%.*s'", (int)length, s->p);
	memcpy(out->text, s->p, length);
	out->kind = GT_VALUE_TEXT;
	s->p += length + 1;
	return 0;
}

/* Read True, False, None or a number. */
static int take_plain(struct parser *s, struct gt_argument_value *out)
{
	char word[WORD];
	int64_t integer;

	take_word(s, word, "_.+-");
	out->count = 0;
	if (!strcmp(word, "None")) {
		out->kind = GT_VALUE_NONE;
	} else if (!strcmp(word, "True") || !strcmp(word, "False")) {
		out->kind = GT_VALUE_BOOL;
		out->number = *word == 'T';
	} else if (gt_text_parse_int(&integer, word)) {
		out->kind = GT_VALUE_INT;
		out->number = (double)integer;
		out->ints[0] = integer;
		out->count = 1;
	} else if (gt_text_parse_double(&out->number, word)) {
		out->kind = GT_VALUE_FLOAT;
	} else if (!*word) {
		return fail_parse(
		    s, *s->p ? "a value is missing before '%.16s'" : "a value is missing", s->p);
	} else {
		fail_parse(s, "'%s' is not a value", word);
		return gt_err_hint(
		    s->err, "values are numbers, True, False, None, (N,N), and texts in quotes");
	}
	return 0;
}

static int take_tuple(struct parser *s, struct gt_argument_value *out)
{
	char end = *s->p++ == '(' ? ')' : ']';
	struct gt_argument_value item = { 0 };
	int count = 0;

	while (!take(s, end)) {
		if (count && !take(s, ','))
			return fail_parse(s, "a tuple has no '%c' at its end", end);
		if (count && take(s, end))
			break;
		if (take_plain(s, &item))
			return s->err->code;
		if (item.kind != GT_VALUE_INT || count == GT_SEQUENCE_INTS)
			return fail_parse(
			    s, "a tuple takes at most %d whole numbers", GT_SEQUENCE_INTS);
		out->ints[count++] = item.ints[0];
	}
	out->kind = GT_VALUE_TUPLE;
	out->count = count;
	return 0;
}

static int take_value(struct parser *s, struct gt_argument_value *out)
{
	skip_spaces(s);
	*out = (struct gt_argument_value){ 0 };
	if (*s->p == '(' || *s->p == '[')
		return take_tuple(s, out);
	return *s->p == '\'' || *s->p == '"' ? take_text(s, out) : take_plain(s, out);
}

/* ---- what an argument takes ---- */

static const char *const takes[] = {
	[GT_ARGUMENT_COUNT] = "a whole number from 1 on",
	[GT_ARGUMENT_DIM] = "the index of a dimension",
	[GT_ARGUMENT_COUNTS] = "a whole number from 1 on, or a tuple of them",
	[GT_ARGUMENT_SHAPE] = "a tuple of whole numbers, one of which may be -1",
	[GT_ARGUMENT_SIZE] = "a whole number from 1 on, or one for each dimension",
	[GT_ARGUMENT_MARGIN] = "a whole number from 0 on, or one for each dimension",
	[GT_ARGUMENT_PADDING] = "a whole number from 0 on, one for each dimension, or 'same'",
	[GT_ARGUMENT_NUMBER] = "a number",
	[GT_ARGUMENT_PROBABILITY] = "a number from 0 on that is less than 1",
	[GT_ARGUMENT_BOOL] = "True or False",
	[GT_ARGUMENT_GELU] = "'none' or 'tanh'",
};

/* Whether a value is whole numbers between `low` and `high`: one, or a tuple. */
static bool are_ints(const struct gt_argument_value *v, int64_t low, int64_t high)
{
	for (int i = 0; i < v->count; i++)
		if (v->ints[i] < low || v->ints[i] > high)
			return false;
	return v->count > 0;
}

static bool is_number(const struct gt_argument_value *v, double low, double below)
{
	return (v->kind == GT_VALUE_INT || v->kind == GT_VALUE_FLOAT) && v->number >= low &&
	       v->number < below;
}

static bool is_text(const struct gt_argument_value *v, const char *text)
{
	return v->kind == GT_VALUE_TEXT && !strcmp(v->text, text);
}

/* Numbers of pixels for `dims` dimensions, or one for all. */
static bool are_pixels(const struct gt_argument_value *v, int64_t low, int dims)
{
	return are_ints(v, low, MOST_PIXELS) && (v->kind == GT_VALUE_INT || v->count == dims);
}

static bool fits_form(const struct gt_argument_value *v, enum gt_argument_form form, int dims)
{
	switch (form) {
	case GT_ARGUMENT_COUNT:
		return v->kind == GT_VALUE_INT && are_ints(v, 1, LARGEST);
	case GT_ARGUMENT_DIM:
		return v->kind == GT_VALUE_INT && are_ints(v, -GT_MAX_DIMS, GT_MAX_DIMS);
	case GT_ARGUMENT_COUNTS:
		return are_ints(v, 1, LARGEST);
	case GT_ARGUMENT_SHAPE:
		return v->kind == GT_VALUE_TUPLE && are_ints(v, -1, LARGEST);
	case GT_ARGUMENT_SIZE:
		return are_pixels(v, 1, dims);
	case GT_ARGUMENT_PADDING:
	case GT_ARGUMENT_MARGIN:
		return are_pixels(v, 0, dims) ||
		       (form == GT_ARGUMENT_PADDING && (is_text(v, "same") || is_text(v, "valid")));
	case GT_ARGUMENT_NUMBER:
		return is_number(v, -INFINITY, INFINITY);
	case GT_ARGUMENT_PROBABILITY:
		return is_number(v, 0, 1);
	case GT_ARGUMENT_BOOL:
		return v->kind == GT_VALUE_BOOL;
	case GT_ARGUMENT_GELU:
		return is_text(v, "none") || is_text(v, "tanh");
	case GT_ARGUMENT_FIXED:
		break;
	}
	return false;
}

struct gt_argument_value gt_argument_initial(const struct gt_argument *a)
{
	struct parser s = { .p = a->initial, .err = GT_ERR_IGNORED };
	struct gt_argument_value v = { 0 };

	if (a->initial)
		(void)take_value(&s, &v);
	return v;
}

/* Give values that mean the same one form: 1 and 1.0, 0 and -0.0, 2 and (2,2). */
static void unify_value(struct gt_argument_value *v, enum gt_argument_form form)
{
	bool one = v->kind == GT_VALUE_TUPLE && v->count > 0;

	if (v->kind == GT_VALUE_INT &&
	    (form == GT_ARGUMENT_NUMBER || form == GT_ARGUMENT_PROBABILITY)) {
		v->kind = GT_VALUE_FLOAT;
		v->count = 0;
	}
	if (v->number == 0)
		v->number = 0;
	for (int i = 1; i < v->count; i++)
		one = one && v->ints[i] == v->ints[0];
	if (form == GT_ARGUMENT_COUNTS ? one && v->count == 1 : one && form != GT_ARGUMENT_SHAPE) {
		v->kind = GT_VALUE_INT;
		v->number = (double)v->ints[0];
		v->count = 1;
	}
}

static int check_value(
    const struct parser *s, const struct gt_argument *a, struct gt_argument_value *v)
{
	const struct gt_argument_value initial = gt_argument_initial(a);

	if (!gt_argument_same(v, &initial) && !fits_form(v, a->form, s->layer->row->dims)) {
		if (a->form == GT_ARGUMENT_FIXED)
			return fail_parse(s, "'%s' can only be %s", a->name, a->initial);
		return fail_parse(s, "'%s' takes %s", a->name, takes[a->form]);
	}
	unify_value(v, a->form);
	return 0;
}

/* ---- the arguments of a layer ---- */

static int argument_count(const struct gt_sequence_row *row)
{
	int n = 0;

	while (row->arguments[n].name)
		n++;
	return n;
}

/* Return the index of an argument, or -1 with the error set. */
static int find_argument(const struct parser *s, const char *name)
{
	const struct gt_argument *a = s->layer->row->arguments;
	struct gt_suggest near = { .word = name };

	for (int i = 0; a[i].name; i++) {
		if (!strcmp(a[i].name, name))
			return i;
		gt_suggest_offer(&near, a[i].name);
	}
	fail_parse(s, "there is no argument '%s'", name);
	if (near.best)
		gt_err_hint(s->err, "did you mean '%s'?", near.best);
	return -1;
}

/* Read "key=" if it is there; else leave the word empty. */
static void take_key(struct parser *s, char key[WORD])
{
	const char *start = s->p;

	take_word(s, key, "_");
	if (*key && !isdigit((unsigned char)*key) && take(s, '='))
		return;
	s->p = start;
	*key = '\0';
}

/* Read one argument. `next` is the place of one without a name; -1: names have begun. */
static int take_argument(struct parser *s, int *next)
{
	char key[WORD];
	int i = *next;

	take_key(s, key);
	if (*key)
		i = find_argument(s, key);
	else if (i < 0)
		return fail_parse(s, "an argument without a name follows one with a name");
	if (i < 0)
		return s->err->code;
	if (i >= argument_count(s->layer->row))
		return fail_parse(s, "takes at most %d argument%s", i, i == 1 ? "" : "s");
	*next = *key ? -1 : i + 1;
	if (s->layer->values[i].kind != GT_VALUE_MISSING)
		return fail_parse(s, "'%s' is given twice", key);
	if (take_value(s, &s->layer->values[i]))
		return s->err->code;
	return check_value(s, &s->layer->row->arguments[i], &s->layer->values[i]);
}

static int take_arguments(struct parser *s)
{
	int next = 0;

	while (!take(s, ')')) {
		if (take_argument(s, &next))
			return s->err->code;
		if (take(s, ','))
			continue;
		if (take(s, ')'))
			break;
		return fail_parse(
		    s, *s->p ? "')' is missing before '%.16s'" : "')' is missing", s->p);
	}
	return 0;
}

static int fill_defaults(struct parser *s)
{
	const struct gt_argument *a = s->layer->row->arguments;

	for (int i = 0; a[i].name; i++) {
		if (s->layer->values[i].kind != GT_VALUE_MISSING)
			continue;
		if (!a[i].initial)
			return fail_parse(s, "the argument '%s' is missing", a[i].name);
		s->layer->values[i] = gt_argument_initial(&a[i]);
	}
	return 0;
}

/* ---- layers ---- */

static const struct gt_sequence_row *find_row(const struct parser *s, const char *name)
{
	struct gt_suggest near = { .word = name };
	const char *same = NULL; /* but for upper and lower case */

	for (const struct gt_sequence_row *row = gt_sequence_rows; row->name; row++) {
		if (!strcmp(row->name, name))
			return row;
		gt_suggest_offer(&near, row->name);
		if (gt_suggest_same_letters(row->name, name))
			same = row->name;
	}
	fail_parse(s, "there is no layer '%s'", name);
	if (same || near.best)
		gt_err_hint(s->err, "did you mean '%s'?", same ? same : near.best);
	else
		gt_err_hint(s->err, "gtrain-models(7) lists the layers");
	return NULL;
}

/* Read the name of a layer, which may begin with the module that has it in Python. */
static const struct gt_sequence_row *take_name(struct parser *s)
{
	char word[WORD], *name = word;

	take_word(s, word, "_.");
	if (!strncmp(name, "torch.", 6))
		name += 6;
	if (!strncmp(name, "nn.", 3))
		name += 3;
	if (*name)
		return find_row(s, name);
	fail_parse(s, *s->p ? "a name is missing before '%.16s'" : "a name is missing", s->p);
	return NULL;
}

static int take_layer(struct parser *s)
{
	struct gt_sequence *q = s->sequence;
	const struct gt_sequence_row *row;

	s->layer = NULL;
	row = take_name(s);
	if (!row)
		return s->err->code;
	if (q->count == MOST_LAYERS)
		return fail_parse(s, "there are more than %d layers", MOST_LAYERS);
	if (gt_grow(&q->layers, q->count, &q->capacity, sizeof(*q->layers), s->err))
		return GT_ENOMEM;
	s->layer = &q->layers[q->count++];
	*s->layer = (struct gt_sequence_layer){ .row = row };
	if (take(s, '(') && take_arguments(s))
		return s->err->code;
	return fill_defaults(s);
}

static int take_layers(struct parser *s)
{
	skip_spaces(s);
	if (!*s->p) {
		gt_err_set(s->err, GT_EINVAL, "model 'seq' has no layers");
		return gt_err_hint(
		    s->err, "write them after a colon, as in seq:Flatten,Linear(784,10)");
	}
	do {
		if (take_layer(s))
			return s->err->code;
		if (!take(s, ',')) {
			skip_spaces(s);
			return *s->p ? fail_parse(s, "',' is missing before '%.16s'", s->p) : 0;
		}
		skip_spaces(s);
	} while (*s->p);
	return 0;
}

int gt_sequence_parse(struct gt_sequence **out, const char *text, struct gt_err *err)
{
	struct parser s = { .p = text, .err = err };

	*out = NULL;
	s.sequence = gt_calloc(1, sizeof(*s.sequence), err);
	if (!s.sequence)
		return GT_ENOMEM;
	if (take_layers(&s) || gt_sequence_print(s.sequence, err)) {
		gt_sequence_free(s.sequence);
		return err->code;
	}
	*out = s.sequence;
	return 0;
}

void gt_sequence_free(struct gt_sequence *s)
{
	if (!s)
		return;
	free(s->layers);
	free(s->text);
	free(s);
}
