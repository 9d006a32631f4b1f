/* csv_number.h - private: the forms of the values of a table: numbers, words, missing values. */
#ifndef GT_DATA_TABLE_CSV_NUMBER_H
#define GT_DATA_TABLE_CSV_NUMBER_H

#include "lib/data/table/csv_reader.h"

/* The forms from GT_CSV_BEYOND on are numbers in digits. */
enum gt_csv_form {
	GT_CSV_WORD,
	GT_CSV_DECORATED, /* people read it as a number: 1,037 or $5 or 12% */
	GT_CSV_INFINITE,  /* inf, nan */
	GT_CSV_BEYOND,    /* too large for float32 */
	GT_CSV_NUMBER,
};

/* Find the form of a value in a table with this decimal point or comma. *value is the number. */
enum gt_csv_form gt_csv_parse(const char *s, char decimal, double *value);
/* Whether a value is missing: empty, NA, N/A, NaN or null; beside numbers also None, #N/A, ? or -.
 */
bool gt_csv_is_missing(const char *s, bool beside_numbers);
/* Whether a field may be the name of a column of numbers. */
bool gt_csv_is_name(const char *s, char decimal);
/* Whether a text begins with a date in digits, such as 2024-01-31 or 31.1.2024. */
bool gt_csv_is_date(const char *s);
/* Guess the decimal point or comma from the next rows. `usual` is that of a table without any. */
char gt_csv_guess_decimal(struct gt_csv_reader *r, char usual);

#endif
