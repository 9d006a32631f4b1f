/* task_text.c - texts changed as Python's functions for strings change them. */
#include "lib/train/task_text.h"

#include <string.h>
#include <utf8proc.h>

#include "lib/base/text.h"

/* str.isspace() */
static bool is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Read a character of a text of JSON, which is valid UTF-8. Return its length. */
static size_t read_character(const char *text, size_t left, uint32_t *code)
{
	int length = gt_text_utf8((const unsigned char *)text, left, code);

	if (!length)
		*code = (unsigned char)*text;
	return length ? (size_t)length : 1;
}

size_t gt_task_strip(const char *text, size_t size, size_t *skip)
{
	size_t end = 0;
	uint32_t code;

	if (skip)
		*skip = size;
	for (size_t at = 0, n; at < size; at += n) {
		n = read_character(text + at, size - at, &code);
		if (is_space(code))
			continue;
		if (skip && *skip == size)
			*skip = at;
		end = at + n;
	}
	return end;
}

int64_t gt_task_words_of(const char *text, size_t size)
{
	int64_t words = 1;
	bool space = false;
	uint32_t code;

	for (size_t at = 0; at < size;) {
		at += read_character(text + at, size - at, &code);
		words += is_space(code) && !space;
		space = is_space(code);
	}
	return words;
}

int64_t gt_task_characters(const char *text, size_t size)
{
	int64_t count = 0;
	uint32_t code;

	for (size_t at = 0; at < size; count++)
		at += read_character(text + at, size - at, &code);
	return count;
}

void gt_task_capitalize(struct gt_buf *out, const char *text, size_t size)
{
	unsigned char bytes[4];
	uint32_t code;

	for (size_t at = 0, n; at < size; at += n) {
		n = read_character(text + at, size - at, &code);
		code = (uint32_t)(at ? utf8proc_tolower((utf8proc_int32_t)code)
		                     : utf8proc_totitle((utf8proc_int32_t)code));
		gt_buf_add(out, bytes, (size_t)gt_text_put_utf8(bytes, code));
	}
}

/* Append a text with `from` replaced by `to`. */
static void replace(
    struct gt_buf *out, const char *text, size_t size, const char *from, const char *to)
{
	const char *found;

	while ((found = memmem(text, size, from, strlen(from)))) {
		size_t before = (size_t)(found - text);

		gt_buf_add(out, text, before);
		gt_buf_puts(out, to);
		text += before + strlen(from);
		size -= before + strlen(from);
	}
	gt_buf_add(out, text, size);
}

/* Append a text without parts in brackets, which are on one line: re.sub(r"\[.*?\]", "", text) */
static void drop_brackets(struct gt_buf *out, const char *text, size_t size)
{
	for (size_t at = 0; at < size;) {
		const char *close = text[at] == '[' ? memchr(text + at, ']', size - at) : NULL;
		size_t length = close ? (size_t)(close - (text + at)) + 1 : 0;

		if (length && !memchr(text + at, '\n', length)) {
			at += length;
			continue;
		}
		gt_buf_add(out, text + at++, 1);
	}
}

void gt_task_clean(struct gt_buf *out, const char *text, size_t size)
{
	struct gt_buf titles = { 0 }, plain = { 0 };
	size_t skip, end = gt_task_strip(text, size, &skip);

	if (end > skip)
		replace(&titles, text + skip, end - skip, " [title]", ". ");
	drop_brackets(&plain, gt_buf_text(&titles), titles.length);
	replace(out, gt_buf_text(&plain), plain.length, "  ", " ");
	out->failed |= titles.failed || plain.failed;
	gt_buf_release(&titles);
	gt_buf_release(&plain);
}
