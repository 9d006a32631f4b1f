/* python_json.c - parse JSON as Python's json module writes it. */
#include "lib/base/python_json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

enum token_kind { OTHER, LARGE_INTEGER, CONSTANT };

/* Return the bytes of a string with its quotes, or all that are left if it has no end. */
static size_t string_length(const char *text, size_t left)
{
	size_t n = 1;

	while (n < left && text[n] != '"')
		n += text[n] == '\\' && n + 1 < left ? 2 : 1;
	return n < left ? n + 1 : left;
}

/* Return the bytes of a number. *whole: it has no point and no exponent. */
static size_t number_length(const char *text, size_t left, bool *whole)
{
	size_t n = 0;

	*whole = true;
	for (; n < left && text[n] && strchr("+-.0123456789Ee", text[n]); n++)
		*whole &= !strchr(".Ee", text[n]);
	return n;
}

/* Return whether an integer does not fit into 64 bits. */
static bool is_large(const char *digits, size_t n)
{
	char copy[24];

	if (n >= sizeof(copy))
		return true;
	memcpy(copy, digits, n);
	copy[n] = '\0';
	errno = 0;
	(void)strtoll(copy, NULL, 10);
	return errno == ERANGE;
}

/* Return the length of the token at `text`, which has `left` > 0 bytes. */
static size_t next_token(enum token_kind *kind, const char *text, size_t left)
{
	static const char *const constants[] = { "NaN", "Infinity", "-Infinity" };
	bool whole;
	size_t n;

	*kind = CONSTANT;
	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++) {
		n = strlen(constants[i]);
		if (n <= left && !memcmp(text, constants[i], n))
			return n;
	}
	*kind = OTHER;
	if (*text == '"')
		return string_length(text, left);
	n = number_length(text, left, &whole);
	if (!n)
		return 1;
	*kind = whole && is_large(text, n) ? LARGE_INTEGER : OTHER;
	return n;
}

/* ---- the text without them ---- */

static char *put_bytes(char *out, const char *bytes, size_t n)
{
	memcpy(out, bytes, n);
	return out + n;
}

/* Rewrite a text to JSON. `out` has 2 * size bytes. Returns the length of the result. */
static size_t rewrite_text(char *out, const char *text, size_t size)
{
	const char *begin = out;

	for (size_t i = 0, n; i < size; i += n) {
		enum token_kind kind;

		n = next_token(&kind, text + i, size - i);
		if (kind == CONSTANT)
			out = put_bytes(out, "\"", 1);
		out = put_bytes(out, text + i, n);
		if (kind == CONSTANT)
			out = put_bytes(out, "\"", 1);
		else if (kind == LARGE_INTEGER)
			out = put_bytes(out, ".0", 2);
	}
	return (size_t)(out - begin);
}

json_t *gt_python_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error)
{
	json_t *json = json_loadb(text, size, flags, error);
	char *copy;

	if (json || !size || size > SIZE_MAX / 2)
		return json;
	copy = malloc(2 * size);
	if (!copy)
		return NULL;
	json = json_loadb(copy, rewrite_text(copy, text, size), flags, error);
	free(copy);
	return json;
}
