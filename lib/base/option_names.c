/* option_names.c - names of options in messages. */
#include "lib/base/option_names.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT_SIZE = 1024 };

static const char name_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

/* Return the length of the name after a brace, or 0 if the brace is ordinary text. */
static size_t name_length(const char *at)
{
	size_t n = !strncmp(at, "%s", 2) ? 2 : strspn(at, name_characters);

	return at[n] == '}' ? n : 0;
}

void gt_option_names_vformat(char *out, size_t size, const char *format, va_list ap)
{
	char marked[FORMAT_SIZE], *to = marked;
	size_t n;

	assert(strlen(format) < sizeof(marked));
	while (*format) {
		n = *format == '{' ? name_length(format + 1) : 0;
		if (!n) {
			*to++ = *format++;
			continue;
		}
		*to++ = GT_OPTION_MARK;
		memcpy(to, format + 1, n);
		to += n;
		format += n + 2;
	}
	*to = '\0';
	vsnprintf(out, size, marked, ap);
}

void gt_option_names_render(char *out, size_t size, const char *text, const char *prefix)
{
	size_t used = 0;

	for (; *text && used + 1 < size; text++) {
		bool names = *text == GT_OPTION_MARK && text[1] >= 'a' && text[1] <= 'z';

		if (names)
			used += (size_t)snprintf(out + used, size - used, "%s", prefix);
		else
			out[used++] = *text;
	}
	out[used < size ? used : size - 1] = '\0';
}
