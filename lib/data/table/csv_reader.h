/* csv_reader.h - private: split CSV text in memory into rows of fields. */
#ifndef GT_DATA_TABLE_CSV_READER_H
#define GT_DATA_TABLE_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Limits of a row: number of fields, and bytes of text. A longer row is an error. */
enum { GT_CSV_MAX_FIELDS = 1 << 20, GT_CSV_MAX_ROW_BYTES = 64 << 20 };

/* A reader of rows. Before the first call of gt_csv_next_row(), zero the reader, set `at`, `end`
 * and `separator`, and set next_line to 1. */
struct gt_csv_reader {
	char separator;       /* the character between fields, such as ',' */
	const char *at, *end; /* the bytes still to be read */
	long line, next_line; /* lines where the row in `fields` and the next one begin, from 1 */
	char **fields;        /* [count] strings, borrowed until the next row is read */
	size_t count, field_capacity;
	char *text; /* [used] the fields of the row, each with a terminating zero */
	size_t used, capacity;
};

/* Read the next row that is not blank: 1, 0 after the last row, or an error, which names the line.
 */
int gt_csv_next_row(struct gt_csv_reader *r, struct gt_err *err);
void gt_csv_reader_release(struct gt_csv_reader *r);

/* The separator that a word names (comma, tab, semicolon, bar) or that it consists of; 0: none. */
char gt_csv_separator(const char *word);
/* The word for the separator that is most frequent in a text; NULL if it has none. */
const char *gt_csv_guess_separator(const char *text);
/* Add the hint that this separator may be that of the file to an error, and return its code. */
int gt_csv_hint_separator(const char *word, struct gt_err *err);

#endif
