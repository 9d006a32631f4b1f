/* table_out.c - columns of text of unknown width. */
#include "cmd/table_out.h"

#include "lib/base/log.h"

/* Columns that gt_log_put() will fill: an escape is two or four, a byte that continues a character
 * none. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '\n' || *p == '\t')
			width += 2;
		else if (*p < 0x20 || *p == 0x7f)
			width += 4;
		else
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
