/* table_out.c - columns of text of unknown width, and fields of CSV. */
#include "cmd/table_out.h"

#include <string.h>

#include "lib/base/log.h"

/* Columns that gt_log_put() will fill: an escape has one for each of its characters. */
size_t gt_table_width(const char *text)
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

void gt_table_cut(char *out, size_t size, const char *text, size_t columns)
{
	size_t used = 0;

	*out = '\0';
	while (*text) {
		char shown[GT_LOG_CHARACTER], one[8] = "";
		size_t n = (size_t)gt_log_character(shown, text), width;

		memcpy(one, text, n);
		width = gt_table_width(one);
		if (width > columns || used + n >= size)
			return;
		columns -= width;
		memcpy(out + used, text, n);
		out[used += n] = '\0';
		text += n;
	}
}

void gt_table_shorten(char *out, size_t size, const char *text, size_t columns)
{
	static const char mark[] = "..";
	const size_t mark_size = sizeof(mark) - 1;

	if (gt_table_width(text) <= columns || columns <= mark_size || size <= sizeof(mark)) {
		gt_table_cut(out, size, text, columns);
		return;
	}
	gt_table_cut(out, size - mark_size, text, columns - mark_size);
	strcat(out, mark);
}

size_t gt_table_total(const struct gt_table *table, size_t count)
{
	enum { GAP = 2 };
	size_t total = 0;

	for (size_t c = 0; c < count; c++)
		total += (c ? GAP : 0) + table->width[c];
	return total;
}

static void measure_table_row(struct gt_table *t, const char *const *cells, size_t count)
{
	for (size_t c = 0; c < count; c++) {
		size_t width = gt_table_width(cells[c]);

		width = width < GT_TABLE_WIDEST ? width : GT_TABLE_WIDEST;
		t->width[c] = width > t->width[c] ? width : t->width[c];
	}
}

void gt_table_row(struct gt_table *t, const char *const *cells, size_t count)
{
	if (t->measuring) {
		measure_table_row(t, cells, count);
		return;
	}
	while (count > 1 && !*cells[count - 1])
		count--;
	for (size_t c = 0; c < count; c++) {
		size_t width = gt_table_width(cells[c]);
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
