/* pattern.c - the reference's regular expressions, by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/*
 * The reference matches by Oniguruma, in Ruby's syntax. Both are machines that go back and try
 * again, with the same order of alternatives; they differ in escapes and classes. So the pattern is
 * written anew, with only the syntax on which both agree: a `\s` becomes the list of white space,
 * as PCRE2 counts U+180E too; `\p{Han}` becomes `\p{sc:Han}`, as PCRE2 looks at script extensions.
 * Syntax on which they differ, or that few patterns need, is refused.
 */
enum { MAX_PATTERN = 1 << 15, MATCH_LIMIT = 5000000, STACK_BYTES = 64 << 20 };

/*
 * The text is a mapped file, which may change while it is matched, so that it was UTF-8 before says
 * nothing: compiled patterns check each character they read (PCRE2_MATCH_INVALID_UTF). The
 * interpreter would look through the whole text first, each time; it gets text that only this
 * process can change.
 */
struct gt_bpe_pattern {
	pcre2_code *code;
	bool interpreted; /* the machine has no compiler for patterns */
};

struct gt_bpe_matcher {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
	/* The time that all matches have taken, and the bytes that they had. */
	double used_s, last_s;
	pthread_t thread; /* whose time last_s is */
	uint64_t matches, bytes;
};

/* ---- from one syntax to the other ---- */

enum { WHOLE = -1 }; /* translation.folds: case is ignored in the whole pattern */

struct translation {
	const char *p, *end;
	FILE *out;
	int in_class; /* number of open classes: within a class, another one adds its characters */
	int depth;    /* number of open groups */
	int folds;    /* depth of the group in which case is ignored; 0: none */
	char before;  /* where case is ignored, the letter before t->p in lower case, or NUL */
};

static int fail_on_construct(const char *what, int length, struct gt_err *err)
{
	return gt_err_set(
	    err, GT_ENOTSUP, "the pattern uses '%.*s', which is not supported", length, what);
}

/* A literal character. Where case is ignored, Ruby compares strings, in which a sharp s or a
 * ligature equals two letters; Perl compares single characters. So these letters are refused,
 * unless the second one is repeated: then Ruby does not take them for a string. */
static int check_folding(struct translation *t, uint32_t code, struct gt_err *err)
{
	static const char *const pairs[] = { "ff", "fi", "fl", "ss", "st" };
	char letter = code < 0x80 ? (char)(code | 0x20) : '\0';
	bool repeated = t->p < t->end && memchr("?*+{", *t->p, 4);

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (pairs[i][0] == t->before && pairs[i][1] == letter && !repeated)
			return gt_err_set(err, GT_ENOTSUP,
			    "the pattern ignores the case of '%s', which then also matches a "
			    "single letter: this is not supported",
			    pairs[i]);
	t->before = t->folds ? letter : '\0';
	return 0;
}

/* \p{L}, \p{Lu}, \p{^L}, \p{Han}; t->p stands behind the p. */
static int translate_property(struct translation *t, char kind, struct gt_err *err)
{
	const char *name = t->p + 1, *close = memchr(t->p, '}', (size_t)(t->end - t->p));
	size_t n = close ? (size_t)(close - name) : 0;

	if (t->p == t->end || *t->p != '{' || !close || n < 1 || n > 30)
		return fail_on_construct("\\p", 2, err);
	for (size_t i = 0; i < n; i++)
		if (!(name[i] >= 'A' && name[i] <= 'Z') && !(name[i] >= 'a' && name[i] <= 'z') &&
		    name[i] != '_')
			return fail_on_construct(name - 3, (int)n + 4, err);
	if (n <= 2 && !strchr("LMNPSZC", name[0]))
		return fail_on_construct(name - 3, (int)n + 4, err);
	fprintf(t->out, "\\%c{%s%.*s}", kind, n > 2 ? "sc:" : "", (int)n, name);
	t->p = close + 1;
	return 0;
}

/* \u4E00 and \x{4E00}, \x41; t->p stands behind the letter. */
static int translate_hex(struct translation *t, char kind, struct gt_err *err)
{
	bool braces = kind == 'x' && t->p < t->end && *t->p == '{';
	size_t left = (size_t)(t->end - t->p) - braces, digits = 0, max = braces ? 6 : 4;
	uint32_t code = 0;

	if (kind == 'x' && !braces)
		max = 2;
	t->p += braces;
	for (; digits < left && digits < max; digits++) {
		static const char hex[] = "0123456789abcdef";
		const char *at = t->p[digits] ? strchr(hex, t->p[digits] | 0x20) : NULL;

		if (!at || t->p[digits] < '0')
			break;
		code = code * 16 + (uint32_t)(at - hex);
	}
	if (!digits || (!braces && digits != max) ||
	    (braces && (digits == left || t->p[digits] != '}')))
		return fail_on_construct(kind == 'x' ? "\\x" : "\\u", 2, err);
	t->p += digits + braces;
	fprintf(t->out, "\\x{%X}", (unsigned)code);
	return t->in_class ? 0 : check_folding(t, code, err);
}

/* Translate an escape. t->p is after the backslash. */
static int translate_escape(struct translation *t, struct gt_err *err)
{
	char c = t->p < t->end ? *t->p++ : '\0';

	if (c != 'x' && c != 'u')
		t->before = '\0';
	if (c == 's')
		fprintf(t->out, t->in_class ? GT_BPE_SPACES : "[" GT_BPE_SPACES "]");
	else if (c == 'S' && !t->in_class)
		fprintf(t->out, "[^" GT_BPE_SPACES "]");
	else if (c == 'd' || c == 'D')
		fprintf(t->out, "\\%c{Nd}", c == 'd' ? 'p' : 'P');
	else if (c == 'r' || c == 'n' || c == 't' || c == 'f')
		fprintf(t->out, "\\%c", c);
	else if (c == 'p' || c == 'P')
		return translate_property(t, c, err);
	else if (c == 'x' || c == 'u')
		return translate_hex(t, c, err);
	else if (c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
	         !(c >= 'a' && c <= 'z'))
		fprintf(t->out, "\\%c", c);
	else
		return fail_on_construct(t->p - 2, c ? 2 : 1, err);
	return 0;
}

/* Translate the opening of a group. t->p is after the parenthesis. */
static int translate_group(struct translation *t, bool at_start, struct gt_err *err)
{
	static const char *const known[] = { "?:", "?i:", "?=", "?!", "?<=", "?<!", "?>" };
	size_t left = (size_t)(t->end - t->p);

	if (left && *t->p != '?') {
		if (*t->p == '*')
			return fail_on_construct("(*", 2, err);
		fputs("(?:", t->out); /* the matched groups are not used */
		t->depth++;
		t->before = '\0';
		return 0;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t n = strlen(known[i]);

		if (left >= n && !memcmp(t->p, known[i], n)) {
			fprintf(t->out, "(%s", known[i]);
			t->p += n;
			t->depth++;
			if (i) /* ?: does not end a string of letters */
				t->before = '\0';
			if (!t->folds && !strcmp(known[i], "?i:"))
				t->folds = t->depth;
			return 0;
		}
	}
	/* Ruby and Perl end it in different places, unless it stands at the beginning. */
	if (at_start && left >= 3 && !memcmp(t->p, "?i)", 3)) {
		fputs("(?i)", t->out);
		t->p += 3;
		t->folds = WHOLE;
		return 0;
	}
	return fail_on_construct(t->p - 1, left < 3 ? (int)left + 1 : 4, err);
}

/* Translate a character of a class, and move t->p past it. A class in a class is written without
 * its brackets, so it has to have characters, and no range around it. */
static int translate_in_class(struct translation *t, char c, struct gt_err *err)
{
	if (c == '&' && t->p < t->end && *t->p == '&')
		return fail_on_construct("&&", 2, err);
	if (c == '[') {
		if (t->p == t->end || strchr("^]:-", *t->p) || t->p[-2] == '-')
			return fail_on_construct(t->p - 1, t->p < t->end ? 2 : 1, err);
		t->in_class++;
		return 0;
	}
	if (c == ']') {
		if (t->in_class > 1 && (t->p[-2] == '-' || (t->p < t->end && *t->p == '-')))
			return fail_on_construct("]-", 2, err);
		if (--t->in_class)
			return 0;
	}
	fputc(c, t->out);
	return 0;
}

static size_t count_digits(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && p[n] >= '0' && p[n] <= '9')
		n++;
	return n;
}

/* {2}, {2,}, {2,3} or {,3}; in Ruby, other braces are characters, and {,3} is {0,3}. Ruby's `{2}+`
 * repeats, Perl's `{2}+` is possessive. t->p stands behind the brace. */
static int translate_brace(struct translation *t, struct gt_err *err)
{
	size_t low = count_digits(t->p, t->end), high = 0, n = low;

	if (t->p + n < t->end && t->p[n] == ',') {
		high = count_digits(t->p + n + 1, t->end);
		n += 1 + high;
	}
	if ((!low && !high) || t->p + n == t->end || t->p[n] != '}') {
		fputs("\\{", t->out);
		return 0;
	}
	fprintf(t->out, "{%s%.*s}", low ? "" : "0", (int)n, t->p);
	t->p += n + 1;
	if (t->p < t->end && (*t->p == '+' || *t->p == '?'))
		return fail_on_construct(t->p - 1, 2, err);
	return 0;
}

/* The end of a group. */
static void leave_group(struct translation *t)
{
	fputc(')', t->out);
	if (t->folds == t->depth--)
		t->folds = 0;
	if (!t->folds)
		t->before = '\0';
}

static int translate_one(struct translation *t, bool at_start, struct gt_err *err)
{
	char c = *t->p++;

	if (c == '\\')
		return translate_escape(t, err);
	if (!c)
		return fail_on_construct("U+0000", 6, err);
	if (t->in_class)
		return translate_in_class(t, c, err);
	if (c == '(')
		return translate_group(t, at_start, err);
	if (c == ')') {
		leave_group(t);
		return 0;
	}
	if (c == '^' || c == '$' || c == '.')
		return fail_on_construct(&c, 1, err);
	if (check_folding(t, (unsigned char)c, err))
		return err->code;
	if (c == '{')
		return translate_brace(t, err);
	fputc(c, t->out);
	if (c == '[') {
		t->in_class = 1;
		if (t->p < t->end && *t->p == '^')
			fputc(*t->p++, t->out);
		if (t->p < t->end && *t->p == ']')
			return fail_on_construct("[]", 2, err);
	}
	return 0;
}

static int translate(char **out, const char *text, size_t size, struct gt_err *err)
{
	struct translation t = { .p = text, .end = text + size };
	size_t written;
	int rc = 0;

	*out = NULL;
	if (!size || size > MAX_PATTERN)
		return gt_err_set(
		    err, GT_ENOTSUP, "a pattern of %zu bytes, not 1 to %d", size, MAX_PATTERN);
	t.out = open_memstream(out, &written);
	if (!t.out)
		return gt_err_set(err, GT_ENOMEM, "out of memory: a pattern");
	while (!rc && t.p < t.end)
		rc = translate_one(&t, t.p == text, err);
	if (fclose(t.out) && !rc)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: a pattern");
	return rc;
}

/* ---- patterns ---- */

static int parse_pattern(
    struct gt_bpe_pattern *pattern, const char *text, uint32_t options, struct gt_err *err)
{
	PCRE2_SIZE at;
	PCRE2_UCHAR why[120];
	int code;

	pcre2_code_free(pattern->code);
	pattern->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
	    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options, &code, &at, NULL);
	if (pattern->code)
		return 0;
	pcre2_get_error_message(code, why, sizeof(why));
	return gt_err_set(err, GT_EFORMAT, "a pattern is malformed: %s", (char *)why);
}

static int compile(struct gt_bpe_pattern *pattern, const char *text, struct gt_err *err)
{
	uint32_t matches_empty = 0;
	int rc = parse_pattern(pattern, text, PCRE2_MATCH_INVALID_UTF, err);

	if (rc)
		return rc;
	pcre2_pattern_info(pattern->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
	if (matches_empty)
		return gt_err_set(
		    err, GT_ENOTSUP, "a pattern that matches an empty text is not supported");
	pattern->interpreted = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) != 0;
	return pattern->interpreted ? parse_pattern(pattern, text, 0, err) : 0;
}

bool gt_bpe_pattern_is_interpreted(const struct gt_bpe_pattern *pattern)
{
	return pattern->interpreted;
}

/* Takes `text`, in the syntax of PCRE2; NULL: an error is set. */
static int open_translated(struct gt_bpe_pattern **out, char *text, struct gt_err *err)
{
	struct gt_bpe_pattern *pattern = text ? gt_calloc(1, sizeof(*pattern), err) : NULL;
	int rc = pattern ? compile(pattern, text, err) : err->code;

	free(text);
	if (rc) {
		gt_bpe_pattern_close(pattern);
		pattern = NULL;
	}
	*out = pattern;
	return rc;
}

int gt_bpe_pattern_open(
    struct gt_bpe_pattern **out, const char *text, size_t size, struct gt_err *err)
{
	char *translated;

	*out = NULL;
	if (translate(&translated, text, size, err)) {
		free(translated);
		return err->code;
	}
	return open_translated(out, translated, err);
}

int gt_bpe_pattern_open_perl(struct gt_bpe_pattern **out, const char *text, struct gt_err *err)
{
	return open_translated(out, gt_strdup(text, err), err);
}

int gt_bpe_pattern_open_literal(
    struct gt_bpe_pattern **out, const char *text, size_t size, struct gt_err *err)
{
	struct gt_buf pattern = { 0 };
	char *own;
	uint32_t code;

	*out = NULL;
	if (!size || size > MAX_PATTERN / 16)
		return gt_err_set(
		    err, GT_ENOTSUP, "a pattern of %zu bytes, not 1 to %d", size, MAX_PATTERN / 16);
	for (size_t i = 0; i < size;) {
		int n = gt_text_utf8((const unsigned char *)text + i, size - i, &code);

		gt_buf_printf(&pattern, "\\x{%X}", (unsigned)code);
		i += (size_t)(n ? n : 1);
	}
	gt_buf_take(&pattern, &own, NULL, err);
	return open_translated(out, own, err);
}

void gt_bpe_pattern_close(struct gt_bpe_pattern *pattern)
{
	if (!pattern)
		return;
	pcre2_code_free(pattern->code);
	free(pattern);
}

/* ---- matching ---- */

int gt_bpe_matcher_open(struct gt_bpe_matcher **out, struct gt_err *err)
{
	struct gt_bpe_matcher *m = gt_calloc(1, sizeof(*m), err);

	*out = NULL;
	if (!m)
		return GT_ENOMEM;
	m->data = pcre2_match_data_create(1, NULL);
	m->context = pcre2_match_context_create(NULL);
	m->stack = pcre2_jit_stack_create(1 << 16, STACK_BYTES, NULL);
	if (!m->data || !m->context) {
		gt_bpe_matcher_close(m);
		return gt_err_set(err, GT_ENOMEM, "out of memory: a pattern");
	}
	if (m->stack) /* NULL: no compiler on this machine */
		pcre2_jit_stack_assign(m->context, NULL, m->stack);
	pcre2_set_match_limit(m->context, MATCH_LIMIT);
	*out = m;
	return 0;
}

void gt_bpe_matcher_close(struct gt_bpe_matcher *m)
{
	if (!m)
		return;
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->context);
	pcre2_jit_stack_free(m->stack);
	free(m);
}

/*
 * PCRE2 limits the steps from one place of the text, but compiled patterns do not count all, and a
 * text has many places. So their time in all is limited, by the bytes of the text. It is the
 * thread's own time, on which the load of the machine has no influence, and it is looked at now and
 * then, as that takes longer than a match.
 */
enum { MATCHES_PER_LOOK = 256 };

static const double START_S = 1, BYTE_S = 20e-6; /* a usual pattern takes 0.1 us per byte */

static double thread_seconds(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int check_time(struct gt_bpe_matcher *m, size_t at, struct gt_err *err)
{
	double now = thread_seconds();

	if (m->matches > MATCHES_PER_LOOK && pthread_equal(m->thread, pthread_self()))
		m->used_s += now - m->last_s;
	m->thread = pthread_self();
	m->last_s = now;
	if (m->used_s < START_S + BYTE_S * (double)m->bytes)
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "the tokenizer's pattern takes too long: %.1f s for %llu bytes, up to byte %zu",
	    m->used_s, (unsigned long long)m->bytes, at);
}

int gt_bpe_match(const struct gt_bpe_pattern *pattern, struct gt_bpe_matcher *m,
    const unsigned char *text, size_t n, size_t from, size_t *start, size_t *end,
    struct gt_err *err)
{
	PCRE2_UCHAR why[120];
	const PCRE2_SIZE *found;
	int rc = pcre2_match(pattern->code, text, n, from, PCRE2_NO_UTF_CHECK, m->data, m->context);

	*start = *end = n;
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0) {
		pcre2_get_error_message(rc, why, sizeof(why));
		return gt_err_set(err, GT_EFORMAT, "the tokenizer's pattern fails at byte %zu: %s",
		    from, (char *)why);
	}
	found = pcre2_get_ovector_pointer(m->data);
	*start = found[0];
	*end = found[1];
	/* A lookbehind cannot move it, but nothing may stand still. */
	if (*start < from || *end <= *start || *end > n)
		return gt_err_set(err, GT_EFORMAT,
		    "the tokenizer's pattern matches nothing at "
		    "byte %zu",
		    from);
	m->bytes += *end - from;
	return ++m->matches % MATCHES_PER_LOOK ? 0 : check_time(m, from, err);
}
