/* csv_reader.h - private: split CSV text in memory into rows of fields. */
#ifndef GT_DATA_CSV_READER_H
#define GT_DATA_CSV_READER_H

#include <stddef.h>

#include "lib/base/err.h"

/* Limits of a row: number of fields, and bytes of text. A longer row is an error. */
enum { GT_CSV_MAX_FIELDS = 1 << 20, GT_CSV_MAX_ROW_BYTES = 64 << 20 };

/* A reader of rows. Before the first call of gt_csv_next_row(), zero the reader, set `at`, `end`
 * and `separator`, and set next_line to 1. */
struct gt_csv_reader {
	char separator;       /* the character between fields, such as ',' */
	const char *at, *end; /* the bytes still to be read */
	/* line: number of the line where the row in `fields` begins. next_line: number of the line
	 * where the next row begins. The first line has the number 1. */
	long line, next_line;
	char **fields; /* [count] strings, borrowed until the next row is read */
	size_t count;
	size_t *offsets; /* [count] offset of each field in `text` */
	size_t offset_capacity, field_capacity;
	char *text; /* the fields of the row, each with a terminating zero */
	size_t used, capacity;
};

/*
 * Read the next row that is not blank. Return 1 if there is one, 0 after the last row, or a
 * negative error code.
 *
 * Spaces and tabs around fields are removed. Fields in quotes keep separators, line breaks and
 * spaces; two quotes in a quoted field stand for one quote. Lines end in LF, CRLF or CR. Source:
 * RFC 4180, with two differences: in the RFC, spaces are part of a field, and CR alone does not end
 * a line.
 *
 * Errors: GT_EFORMAT (a quote that is never closed, text after a closing quote, a zero byte, a row
 * beyond the limits), GT_ENOMEM. The message names the line.
 */
int gt_csv_next_row(struct gt_csv_reader *r, struct gt_err *err);

/* Return the separator that a word names (comma, tab, semicolon, bar) or that it consists of; 0 if
 * it names none. */
char gt_csv_separator(const char *word);

/* Return the word for a separator, or NULL if the character is none. */
const char *gt_csv_separator_word(char separator);

/* Add the hint to an error that the separator with this word may be that of the file. Return the
 * error's code. */
int gt_csv_hint_separator(const char *word, struct gt_err *err);

void gt_csv_release(struct gt_csv_reader *r);

#endif
