/* json_out.c - JSON written as it comes. */
#include "cmd/json_out.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"

static void put_ascii(FILE *out, unsigned char c)
{
	static const char escapes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *e = c ? strchr(escapes, c) : NULL;

	if (e)
		fprintf(out, "\\%c", letters[e - escapes]);
	else if (c < 0x20 || c == 0x7f)
		fprintf(out, "\\u%04x", c);
	else
		fputc(c, out);
}

void gt_json_string(FILE *out, const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t code;
	int n;

	fputc('"', out);
	for (size_t i = 0; i < length; i += (size_t)n) {
		n = gt_text_utf8(p + i, length - i, &code);
		if (n == 1)
			put_ascii(out, p[i]);
		else if (n)
			fwrite(p + i, 1, (size_t)n, out);
		else
			fputs("\\ufffd", out);
		n = n ? n : 1;
	}
	fputc('"', out);
}

void gt_json_text(FILE *out, const char *text)
{
	gt_json_string(out, text, strlen(text));
}

void gt_json_real(FILE *out, double value)
{
	char text[32];

	if (!isfinite(value)) {
		fputs("null", out);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, out);
	/* Readers that tell the types apart take 1 for an integer. */
	if (!strpbrk(text, ".e"))
		fputs(".0", out);
}

json_t *gt_json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}
