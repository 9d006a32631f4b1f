/* nul.c - U+0000 in the tokens of a vocabulary, which are keys of a JSON object. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/data/bpe/inside.h"

/*
 * jansson reads a NUL in strings, but not in keys. So the escape \u0000 in a key is replaced by a
 * character that is no character of any text, U+10FFFF, and the key is changed back when it has
 * been read.
 */
static const char escape[] = "\\u0000", stand_in[] = "\xF4\x8F\xBF\xBF";

enum { ESCAPE = sizeof(escape) - 1, STAND_IN = sizeof(stand_in) - 1 };

/* The place behind the string that begins at `at`. */
static size_t find_string_end(const char *text, size_t size, size_t at)
{
	for (at++; at < size && text[at] != '"'; at++)
		at += text[at] == '\\';
	return at < size ? at + 1 : size;
}

static bool is_key(const char *text, size_t size, size_t end)
{
	while (end < size &&
	       (text[end] == ' ' || text[end] == '\n' || text[end] == '\t' || text[end] == '\r'))
		end++;
	return end < size && text[end] == ':';
}

/* Copy a string, with the stand-in for each U+0000 if it is a key. Return the bytes written. */
static size_t copy_string(char *out, const char *p, size_t n, bool key)
{
	size_t used = 0;

	for (size_t i = 0; i < n;) {
		size_t step = p[i] == '\\' && i + 1 < n ? 2 : 1;

		if (key && n - i >= ESCAPE && !memcmp(p + i, escape, ESCAPE)) {
			memcpy(out + used, stand_in, STAND_IN);
			used += STAND_IN;
			i += ESCAPE;
			continue;
		}
		memcpy(out + used, p + i, step);
		used += step;
		i += step;
	}
	return used;
}

int gt_bpe_hide_nul(char **out, size_t *out_size, const char *text, size_t size, struct gt_err *err)
{
	size_t used = 0;

	*out = NULL;
	if (!memmem(text, size, escape, ESCAPE))
		return 0;
	if (memmem(text, size, stand_in, STAND_IN))
		return gt_err_set(
		    err, GT_ENOTSUP, "a file with both U+0000 and U+10FFFF is not supported");
	*out = gt_calloc(size, 1, err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t at = 0, end; at < size; at = end) {
		const char *quote = memchr(text + at, '"', size - at);
		size_t before = quote ? (size_t)(quote - text) - at : size - at;

		memcpy(*out + used, text + at, before);
		used += before;
		end = at + before;
		if (quote) {
			end = find_string_end(text, size, at + before);
			used += copy_string(
			    *out + used, quote, end - at - before, is_key(text, size, end));
		}
	}
	*out_size = used;
	return 0;
}

int gt_bpe_escape_nul(char **out, const char *text, struct gt_err *err)
{
	struct gt_buf b = { 0 };

	for (const char *found; (found = strstr(text, stand_in)); text = found + STAND_IN) {
		gt_buf_add(&b, text, (size_t)(found - text));
		gt_buf_puts(&b, escape);
	}
	gt_buf_puts(&b, text);
	return gt_buf_take(&b, out, NULL, err);
}

size_t gt_bpe_show_nul(char *out, const char *key, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; i < n;) {
		bool hidden = n - i >= STAND_IN && !memcmp(key + i, stand_in, STAND_IN);

		out[used++] = hidden ? '\0' : key[i];
		i += hidden ? STAND_IN : 1;
	}
	return used;
}
