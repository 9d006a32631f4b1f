/* csv_reader.h - inside data: rows of comma-separated fields out of memory. */
#ifndef GT_DATA_CSV_READER_H
#define GT_DATA_CSV_READER_H

#include <stddef.h>

#include "lib/base/err.h"

/* The limits of fields per row, and of bytes of text per row. A row beyond them is an error. */
enum { GT_CSV_MAX_FIELDS = 1 << 20, GT_CSV_MAX_ROW_BYTES = 64 << 20 };

/* Zero it, set at, end, separator and next_line = 1. */
struct gt_csv_reader {
	char separator;       /* between fields: ',' */
	const char *at, *end; /* the bytes still to be read */
	/* number of the line where the row in `fields` begins, and where the next row begins */
	long line, next_line;
	char **fields; /* [count], borrowed until the next row is read */
	size_t count;
	size_t *offsets; /* of the fields in `text` */
	size_t offset_capacity, field_capacity;
	char *text; /* the fields, each with its terminator */
	size_t used, capacity;
};

/*
 * Read the next row that is not blank: 1, 0 at the end, negative on an error (GT_EFORMAT: a quote
 * that is not closed or stands in the middle of a field, a NUL, a row beyond the limits; names the
 * line). Spaces and tabs around fields are removed. Fields in quotes keep separators, line breaks
 * and spaces; "" inside quotes is a quote. Lines end in LF or CRLF. Source: RFC 4180, except for
 * the spaces.
 */
int gt_csv_next_row(struct gt_csv_reader *r, struct gt_err *err);

void gt_csv_release(struct gt_csv_reader *r);

#endif
