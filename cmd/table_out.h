/* table_out.h - print columns of text, and fields of CSV. */
#ifndef GT_CMD_TABLE_OUT_H
#define GT_CMD_TABLE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { GT_TABLE_COLUMNS = 16, GT_TABLE_WIDEST = 60 };

/*
 * Pass every row twice: first with `measuring`, to find the widths of columns, then without, to
 * print. Control characters are escaped as by gt_log_put(). Widths count characters of UTF-8. A
 * cell wider than GT_TABLE_WIDEST shifts only the rest of its own row. No spaces follow the last
 * cell.
 */
struct gt_table {
	FILE *out;
	bool measuring;
	bool right[GT_TABLE_COLUMNS]; /* align this column to the right, for numbers */
	size_t width[GT_TABLE_COLUMNS];
};

void gt_table_row(struct gt_table *table, const char *const *cells, size_t count);

/* Print a field of CSV, with quotes if it needs them (RFC 4180). */
void gt_csv_field(FILE *out, const char *text);

#endif
