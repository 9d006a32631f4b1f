/* table_out.h - columns of text, measured and then printed in two rounds; and fields of CSV. */
#ifndef GT_CMD_TABLE_OUT_H
#define GT_CMD_TABLE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { GT_TABLE_COLUMNS = 16, GT_TABLE_WIDEST = 60 };

/*
 * Give every row twice, first with `measuring`, then without. Control characters come out escaped,
 * as by gt_log_put(); widths count characters of UTF-8. A cell wider than GT_TABLE_WIDEST moves the
 * rest of its own row only. Nothing follows the last cell.
 */
struct gt_table {
	FILE *out;
	bool measuring;
	bool right[GT_TABLE_COLUMNS]; /* numbers end in one column */
	size_t width[GT_TABLE_COLUMNS];
};

void gt_table_row(struct gt_table *table, const char *const *cells, size_t count);

/* A field of a line of CSV, in quotes where it needs them (RFC 4180). */
void gt_csv_field(FILE *out, const char *text);

#endif
