/* table_out.c - columns of text of unknown width, and fields of CSV. */
#include "cmd/table_out.h"

#include <string.h>

#include "lib/base/log.h"

/* Columns that gt_log_put() will fill: an escape has one for each of its characters. */
static size_t width_of(const char *text)
{
	char shown[GT_LOG_CHARACTER];
	size_t width = 0;

	while (*text) {
		text += gt_log_character(shown, text);
		for (const char *p = shown; *p; p++)
			width += (*p & 0xc0) != 0x80;
	}
	return width;
}

static void measure(struct gt_table *t, const char *const *cells, size_t count)
{
	for (size_t c = 0; c < count; c++) {
		size_t width = width_of(cells[c]);

		width = width < GT_TABLE_WIDEST ? width : GT_TABLE_WIDEST;
		t->width[c] = width > t->width[c] ? width : t->width[c];
	}
}

void gt_table_row(struct gt_table *t, const char *const *cells, size_t count)
{
	if (t->measuring) {
		measure(t, cells, count);
		return;
	}
	while (count > 1 && !*cells[count - 1])
		count--;
	for (size_t c = 0; c < count; c++) {
		size_t width = width_of(cells[c]);
		int pad = width < t->width[c] ? (int)(t->width[c] - width) : 0;

		fprintf(t->out, "%s%*s", c ? "  " : "", t->right[c] ? pad : 0, "");
		gt_log_put(t->out, cells[c]);
		if (!t->right[c] && c + 1 < count)
			fprintf(t->out, "%*s", pad, "");
	}
	fputc('\n', t->out);
}

void gt_csv_field(FILE *out, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}
