/* table_out.h - print aligned columns of text, and fields of CSV. */
#ifndef GT_CMD_TABLE_OUT_H
#define GT_CMD_TABLE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The maximum number of columns, and the maximum width of a column in characters. */
enum { GT_TABLE_COLUMNS = 16, GT_TABLE_WIDEST = 60 };

/*
 * A table of text. Pass all rows to gt_table_row() twice. The first time, `measuring` is true, and
 * the function only finds the widths of the columns. Before the second time, set `measuring` to
 * false; the function then prints the rows.
 *
 * Widths are in characters. Control characters are printed as escapes such as \n and \x1b
 * (gt_log_put(), lib/base/log.h). If a cell is wider than GT_TABLE_WIDEST, only the rest of its row
 * is shifted to the right. Lines do not end in spaces.
 */
struct gt_table {
	FILE *out;
	bool measuring;
	bool right[GT_TABLE_COLUMNS];   /* align the column to the right, as for numbers */
	size_t width[GT_TABLE_COLUMNS]; /* width of each column so far */
};

/* Measure or print one row. `cells` has `count` texts, one for each column. */
void gt_table_row(struct gt_table *table, const char *const *cells, size_t count);

/* Return the width of a text in a table, in columns. */
size_t gt_table_width(const char *text);

/* Copy as many characters of `text` to out[size] as fit into `columns` columns of a table. */
void gt_table_cut(char *out, size_t size, const char *text, size_t columns);

/* The same, and ".." ends a text that does not fit. */
void gt_table_shorten(char *out, size_t size, const char *text, size_t columns);

/* Return the width of a table: of its first `count` columns, as measured. */
size_t gt_table_total(const struct gt_table *table, size_t count);

/* Print a field of a CSV file, in quotes if RFC 4180 requires them. */
void gt_csv_field(FILE *out, const char *text);

#endif
