/* lexer.c - a template cut into tokens, with its rules for white space. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/jinja/inside.h"

struct lexer {
	const char *p; /* [size] */
	size_t size, at;
	int line, depth;  /* depth: of brackets in an expression */
	bool line_starts; /* the last tag ended with a line feed, or there was none */
	struct gt_jinja_tokens *out;
	struct gt_arena *arena;
	struct gt_err *err;
};

static int fail(struct lexer *l, const char *what)
{
	return gt_err_set(l->err, GT_EFORMAT, "line %d: %s", l->line, what);
}

static int add_token(struct lexer *l, struct gt_jinja_token token)
{
	struct gt_jinja_tokens *out = l->out;
	int rc = gt_grow(&out->tokens, out->count, &out->capacity, sizeof(token), l->err);

	token.line = l->line;
	if (!rc)
		out->tokens[out->count++] = token;
	return rc;
}

/* Add a token with a copy of a text. */
static int add_text(struct lexer *l, enum gt_jinja_token_kind kind, const char *text, size_t size)
{
	char *copy = gt_arena_alloc(l->arena, size + 1, l->err);

	if (!copy)
		return GT_ENOMEM;
	memcpy(copy, text, size);
	return add_token(l, (struct gt_jinja_token){ .kind = kind, .text = copy, .size = size });
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Move on to `to`, and count lines. */
static void advance(struct lexer *l, size_t to)
{
	for (; l->at < to; l->at++)
		l->line += l->p[l->at] == '\n';
}

static bool starts_with(const struct lexer *l, const char *text)
{
	size_t n = strlen(text);

	return l->size - l->at >= n && !memcmp(l->p + l->at, text, n);
}

/* ---- data ---- */

/* The end of the text before a tag: without blanks before the tag where its sign, or the line,
 * says so. */
static size_t trim_data(const struct lexer *l, size_t tag)
{
	char sign = tag + 2 < l->size ? l->p[tag + 2] : 0;
	size_t end = tag;

	if (sign == '+' || (sign != '-' && l->p[tag + 1] == '{'))
		return tag;
	while (end > l->at && is_blank(l->p[end - 1]) && (sign == '-' || l->p[end - 1] != '\n'))
		end--;
	if (sign == '-' || (end > l->at && l->p[end - 1] == '\n') ||
	    (end == l->at && l->line_starts))
		return end;
	return tag;
}

static int lex_data(struct lexer *l)
{
	size_t tag = l->at, end;
	int rc = 0;

	while (tag < l->size && !(l->p[tag] == '{' && tag + 1 < l->size && l->p[tag + 1] &&
	                            strchr("{%#", l->p[tag + 1])))
		tag++;
	end = tag < l->size ? trim_data(l, tag) : tag;
	if (end > l->at)
		rc = add_text(l, GT_JINJA_T_DATA, l->p + l->at, end - l->at);
	advance(l, tag);
	return rc;
}

/* ---- the end of tags ---- */

/* Skip the end of a tag, with the white space that it removes. False: this is not the end. */
static bool skip_end(struct lexer *l, const char *end)
{
	bool minus = l->p[l->at] == '-', plus = l->p[l->at] == '+' && *end != '}';
	size_t at = l->at + (minus || plus);

	if (l->size - at < 2 || memcmp(l->p + at, end, 2) != 0)
		return false;
	at += 2;
	while (minus && at < l->size && is_blank(l->p[at]))
		at++;
	if (!minus && !plus && *end != '}' && at < l->size && l->p[at] == '\n')
		at++;
	l->line_starts = l->p[at - 1] == '\n';
	advance(l, at);
	return true;
}

static int lex_comment(struct lexer *l)
{
	int line = l->line;

	advance(l, l->at + 2);
	while (l->at < l->size) {
		if (skip_end(l, "#}"))
			return 0;
		advance(l, l->at + 1);
	}
	l->line = line;
	return fail(l, "the comment has no end");
}

/* ---- expressions ---- */

static int hex_digits(const char *p, const char *end, int count, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < count; i++) {
		if (p + i >= end || !isxdigit((unsigned char)p[i]))
			return 0;
		*out = *out * 16 + (uint32_t)(isdigit((unsigned char)p[i])
		                                  ? p[i] - '0'
		                                  : tolower((unsigned char)p[i]) - 'a' + 10);
	}
	return count;
}

/* Decode an escape behind its backslash. Return its bytes, 0 if the backslash is an ordinary
 * character, and -1 if it is damaged. */
static int decode_escape(const char *p, const char *end, char *to, size_t *n)
{
	static const char letters[] = "nrtbfav0\\'\"", meanings[] = "\n\r\t\b\f\a\v\0\\'\"";
	const char *found = *p ? strchr(letters, *p) : NULL;
	uint32_t code;
	int digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;

	*n = 0;
	if (*p == '\n')
		return 1;
	if (digits) {
		if (!hex_digits(p + 1, end, digits, &code) || code > 0x10FFFF ||
		    (code >= 0xD800 && code < 0xE000))
			return -1;
		*n = (size_t)gt_text_put_utf8((unsigned char *)to, code);
		return 1 + digits;
	}
	if (*p >= '0' && *p <= '7' && (*p != '0' || (p + 1 < end && p[1] >= '0' && p[1] <= '7')))
		return -1;
	if (!found)
		return 0;
	*to = meanings[found - letters];
	*n = 1;
	return 1;
}

static int lex_string(struct lexer *l)
{
	const char *p = l->p + l->at + 1, *end = l->p + l->size, *close = p;
	size_t n = 0, step;
	char *copy;
	int rc;

	while (close < end && *close != l->p[l->at])
		close += 1 + (*close == '\\' && close + 1 < end);
	if (close >= end)
		return fail(l, "the string has no end");
	copy = gt_arena_alloc(l->arena, (size_t)(close - p) + 5, l->err);
	if (!copy)
		return GT_ENOMEM;
	while (p < close) {
		int used = *p == '\\' ? decode_escape(p + 1, close, copy + n, &step) : 0;

		if (used < 0)
			return fail(l, "a string has a damaged escape, or an octal one");
		if (used) {
			n += step;
			p += 1 + used;
		} else {
			copy[n++] = *p++;
		}
	}
	copy[n] = '\0';
	rc = add_token(
	    l, (struct gt_jinja_token){ .kind = GT_JINJA_T_STRING, .text = copy, .size = n });
	advance(l, (size_t)(close + 1 - l->p));
	return rc;
}

static int lex_number(struct lexer *l)
{
	struct gt_jinja_token token = { .kind = GT_JINJA_T_INT };
	size_t n = 0, left = l->size - l->at;
	const char *p = l->p + l->at;
	char text[64];

	while (n < left && isdigit((unsigned char)p[n]))
		n++;
	if (n + 1 < left && p[n] == '.' && isdigit((unsigned char)p[n + 1])) {
		token.kind = GT_JINJA_T_REAL;
		for (n++; n < left && isdigit((unsigned char)p[n]);)
			n++;
	}
	if (n < left && (isalpha((unsigned char)p[n]) || p[n] == '_'))
		return fail(l, "only decimal numbers without an exponent are supported");
	if (n >= sizeof(text))
		return fail(l, "a number is too long");
	memcpy(text, p, n);
	text[n] = '\0';
	errno = 0;
	if (token.kind == GT_JINJA_T_INT)
		token.integer = strtoll(text, NULL, 10);
	else
		token.real = strtod(text, NULL);
	if (errno)
		return fail(l, "a number is too large");
	l->at += n;
	return add_token(l, token);
}

static int lex_operator(struct lexer *l)
{
	static const char *const doubles[] = { "==", "!=", "<=", ">=", "//", "**" };
	struct gt_jinja_token token = { .kind = GT_JINJA_T_OPERATOR };
	char c = l->p[l->at], text[64];

	for (size_t i = 0; i < sizeof(doubles) / sizeof(*doubles) && !token.op; i++)
		if (starts_with(l, doubles[i]))
			token.op = GT_JINJA_OP(doubles[i][0], doubles[i][1]);
	if (!token.op && (!c || !strchr("+-*/%~<>=.,:|()[]{}", c))) {
		snprintf(text, sizeof(text), "character '%c' is not supported here", c);
		return fail(l, (unsigned char)c > ' ' && (unsigned char)c < 127
		                   ? text
		                   : "only strings may have characters beyond ASCII");
	}
	l->at += token.op ? 2 : 1;
	if (!token.op)
		token.op = c;
	l->depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
	return add_token(l, token);
}

static int lex_word(struct lexer *l)
{
	size_t end = l->at;
	int rc;

	while (end < l->size && (isalnum((unsigned char)l->p[end]) || l->p[end] == '_'))
		end++;
	rc = add_text(l, GT_JINJA_T_NAME, l->p + l->at, end - l->at);
	l->at = end;
	return rc;
}

/* The inside of a tag, and its end. */
static int lex_tag(struct lexer *l, bool print)
{
	int line = l->line, rc;

	rc = add_token(
	    l, (struct gt_jinja_token){ .kind = print ? GT_JINJA_T_PRINT : GT_JINJA_T_BLOCK });
	l->at += 2;
	if (l->at < l->size && (l->p[l->at] == '-' || l->p[l->at] == '+'))
		l->at++;
	l->depth = 0;
	while (!rc && l->at < l->size) {
		char c = l->p[l->at];
		int before = l->line;

		if (is_blank(c)) {
			advance(l, l->at + 1);
		} else if (l->depth <= 0 && skip_end(l, print ? "}}" : "%}")) {
			rc = add_token(
			    l, (struct gt_jinja_token){
			           .kind = print ? GT_JINJA_T_PRINT_END : GT_JINJA_T_BLOCK_END });
			if (!rc)
				l->out->tokens[l->out->count - 1].line = before;
			return rc;
		} else if (isalpha((unsigned char)c) || c == '_') {
			rc = lex_word(l);
		} else if (isdigit((unsigned char)c)) {
			rc = lex_number(l);
		} else {
			rc = c == '\'' || c == '"' ? lex_string(l) : lex_operator(l);
		}
	}
	l->line = line;
	return rc ? rc : fail(l, print ? "'{{' has no '}}'" : "'{%' has no '%}'");
}

/* ---- all of it ---- */

/* Copy the source with "\n" at the end of each line, and without the last line feed. */
static char *normalize_lines(struct lexer *l, const char *source, size_t size)
{
	char *copy = gt_arena_alloc(l->arena, size + 1, l->err);
	size_t n = 0;

	for (size_t i = 0; copy && i < size; i++) {
		if (source[i] == '\r' && i + 1 < size && source[i + 1] == '\n')
			continue;
		copy[n++] = source[i] == '\r' ? '\n' : source[i];
	}
	l->size = n && copy[n - 1] == '\n' ? n - 1 : n;
	return copy;
}

int gt_jinja_lex(struct gt_jinja_tokens *out, struct gt_arena *arena, const char *source,
    size_t size, struct gt_err *err)
{
	struct lexer l = { .line = 1, .line_starts = true, .out = out, .arena = arena, .err = err };
	int rc = 0;

	*out = (struct gt_jinja_tokens){ 0 };
	l.p = normalize_lines(&l, source, size);
	if (!l.p)
		return GT_ENOMEM;
	while (!rc && l.at < l.size) {
		rc = lex_data(&l);
		if (rc || l.at >= l.size)
			break;
		if (l.p[l.at + 1] == '#')
			rc = lex_comment(&l);
		else
			rc = lex_tag(&l, l.p[l.at + 1] == '{');
	}
	return rc ? rc : add_token(&l, (struct gt_jinja_token){ .kind = GT_JINJA_T_END });
}
