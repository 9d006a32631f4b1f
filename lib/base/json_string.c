/* json_string.c - strings written as JSON. */
#include "lib/base/json_string.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/text.h"

/* A piece of the JSON: unchanged bytes of the text, or one escaped character. */
struct piece {
	const char *json;
	size_t size, text_size; /* number of bytes in the JSON, and in the text */
	char escaped[8];
};

static void take_plain(struct piece *out, const unsigned char *p, size_t left)
{
	size_t n = 0;

	while (n < left && p[n] >= 0x20 && p[n] < 0x7f && p[n] != '"' && p[n] != '\\')
		n++;
	*out = (struct piece){ .json = (const char *)p, .size = n, .text_size = n };
}

static void take_character(struct piece *out, const unsigned char *p, size_t left)
{
	static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *e = *p ? strchr(special, *p) : NULL;
	uint32_t code;
	int n = gt_text_utf8(p, left, &code);

	*out = (struct piece){ .json = out->escaped, .text_size = n ? (size_t)n : 1 };
	if (e)
		snprintf(out->escaped, sizeof(out->escaped), "\\%c", letters[e - special]);
	else if (n == 1)
		snprintf(out->escaped, sizeof(out->escaped), "\\u%04x", code);
	else if (!n)
		strcpy(out->escaped, "\\ufffd");
	else
		out->json = (const char *)p;
	out->size = n > 1 ? (size_t)n : strlen(out->escaped);
}

static void take_piece(struct piece *out, const char *text, size_t left)
{
	const unsigned char *p = (const unsigned char *)text;

	take_plain(out, p, left);
	if (!out->size)
		take_character(out, p, left);
}

void gt_json_string(FILE *out, const char *text, size_t length)
{
	struct piece piece;

	fputc('"', out);
	for (size_t at = 0; at < length; at += piece.text_size) {
		take_piece(&piece, text + at, length - at);
		fwrite(piece.json, 1, piece.size, out);
	}
	fputc('"', out);
}

void gt_buf_json(struct gt_buf *out, const char *text, size_t length)
{
	struct piece piece;

	gt_buf_puts(out, "\"");
	for (size_t at = 0; at < length; at += piece.text_size) {
		take_piece(&piece, text + at, length - at);
		gt_buf_add(out, piece.json, piece.size);
	}
	gt_buf_puts(out, "\"");
}

void gt_json_text(FILE *out, const char *text)
{
	gt_json_string(out, text, strlen(text));
}
