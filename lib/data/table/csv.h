/* csv.h - private: a data set from CSV tables, and the state of reading these tables. */
#ifndef GT_DATA_TABLE_CSV_H
#define GT_DATA_TABLE_CSV_H

#include "lib/data/core/source.h"
#include "lib/data/core/target_guess.h"
#include "lib/data/table/csv_reader.h"

/* GT_CSV_NOWHERE marks a field of the file that is not used as input. */
enum { GT_CSV_MAX_CLASSES = 1 << 20, GT_CSV_NOWHERE = -1, GT_CSV_NOTE = 600 };

#define GT_CSV_BEYOND "is beyond the range of float32, +-3.4e38"

/*
 * An open table. A *field* is a position in the rows of the file. A *column* is a field that is
 * used as input; the target and skipped fields are not columns. The member source.columns has a
 * description of each column. The values of a column are either numbers or words (categories).
 */
struct gt_csv {
	struct gt_source source;
	/* [samples, columns] A cell of a column of numbers is the number of the file, or NaN if it
	 * is missing. A cell of a column of words is the word's index in the list of words. Cells
	 * are float64, so that large numbers near each other, such as times, keep their digits
	 * until they are standardized. */
	double *cells;
	/* The targets, [samples]: classes, or, for regression, the numbers of the file. The other
	 * pointer is NULL; both are for inputs of predictions. */
	int32_t *targets;
	double *numbers;
	const char **names; /* [samples] "FILE:LINE" of each row; NULL: rows have no names */
	/* known: mean and deviation of the columns come from the training or are not used.
	 * target_known: so do those of the target. fitted: nothing about columns is measured. */
	bool known, target_known, fitted;
};

enum gt_csv_task { GT_CSV_TASK_AUTO, GT_CSV_CLASSIFICATION, GT_CSV_REGRESSION };
enum gt_csv_header { GT_CSV_HEADER_AUTO, GT_CSV_HEADER_YES, GT_CSV_HEADER_NO };
enum gt_csv_decimal { GT_CSV_DECIMAL_AUTO, GT_CSV_DECIMAL_POINT, GT_CSV_DECIMAL_COMMA };

/* The settings of the spec. */
struct gt_csv_settings {
	char separator;
	int header, task, decimal; /* enum gt_csv_header, gt_csv_task, gt_csv_decimal */
	bool standardise;
};

/* A word of a column, and its index in the order in which the words first occur. */
struct gt_csv_word {
	const char *text;
	int number;
};

/* A column while rows are read. */
struct gt_csv_column {
	bool text;       /* the column has words, not numbers */
	bool categories; /* the setting categories= names it: numbers are words */
	char *first;     /* the first value that is not missing, and the number of its line */
	long line;
	long gap; /* the line of the first missing value that is to be filled in; 0: none */
	struct gt_csv_word *words; /* [count], sorted by their bytes */
	size_t count, capacity;
};

/* The fields of the rows of a file. */
struct gt_csv_head {
	size_t fields;
	char decimal;   /* the character before the fraction of a number: '.' or ',' */
	char **first;   /* [fields] the first row, which may be a header */
	char **names;   /* [fields]; NULL: no header */
	char ***sorted; /* [fields] pointers to the names, sorted by name */
	int *place;     /* [fields] index of the field's column, or GT_CSV_NOWHERE */
	bool *asked;    /* [fields] the setting categories= names the field */
	/* fields that the training did not have: their number, and the first of them */
	size_t ignored, first_ignored;
};

/* The rows that were read. */
struct gt_csv_rows {
	size_t count, cell_capacity; /* rows; rows that fit in the cells */
	size_t dropped;              /* rows left out because a value is missing */
	char **targets;              /* [count] as in the file; the names of inputs */
	long *lines;                 /* [count] line of each row in its file */
	size_t target_capacity, line_capacity;
};

/* The target. */
struct gt_csv_goal {
	size_t field, trained; /* its field here, and in the training (`fields`: not known) */
	bool other;            /* it is another column than in the training */
	struct gt_target_numbers summary; /* of numbers, if the task was guessed */
};

/* The state of reading tables: one table with targets, or all inputs of a gt_data_request. */
struct gt_csv_table {
	struct gt_csv *csv;
	const struct gt_spec *spec;
	const struct gt_data_request *request;
	const struct gt_data_description *like; /* the expected columns; NULL: unknown */
	const char *path;                       /* the file that is being read */
	struct gt_arena arena;
	struct gt_csv_settings set;
	struct gt_csv_head head;
	struct gt_csv_rows rows;
	struct gt_csv_goal goal;
	size_t column_count;
	struct gt_csv_column *columns; /* [column_count]; NULL before the first row */
};

/* ---- csv.c ---- */

/* Read the rows of a table from text in memory. */
int gt_csv_read_rows(struct gt_csv_table *t, const char *text, size_t size, struct gt_err *err);
/* Write "column 3" or "column 'age'" to text[size], and return it. */
const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char *text, size_t size);
/* Write the name by which a setting such as skip= finds a field to text[size], and return it. */
const char *gt_csv_field_key(const struct gt_csv_table *t, size_t field, char *text, size_t size);
/* Copy a text for the life of the source; NULL stays NULL. */
int gt_csv_keep(struct gt_csv_table *t, const char **out, const char *text, struct gt_err *err);
/* Add to a note, behind "; " unless the note is empty. */
void gt_csv_note(char note[GT_CSV_NOTE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether a model is trained on this table, so that the table determines columns and scale. */
bool gt_csv_is_trained_on(const struct gt_csv_table *t);
/* Whether a model is to be trained on this table: it is new, or its classes may change. */
bool gt_csv_is_fitted(const struct gt_csv_table *t);

/* ---- csv_file.c ---- */

/* Read the rows of a file, which gzip may have compressed; "-" is standard input for inputs. */
int gt_csv_read_file(struct gt_csv_table *t, const char *path, struct gt_err *err);

/* ---- csv_number.c: numbers have the decimal point or comma of the table ---- */

/* Parse a number. Return false if it is none, or is not finite in float32. */
bool gt_csv_parse_number(const struct gt_csv_table *t, const char *s, double *value);
/* Whether a text has the form of a number, which may be too large, infinite or NaN. */
bool gt_csv_looks_like_number(const struct gt_csv_table *t, const char *s);
/* The same for a number in digits: "inf" and "nan" may be names. */
bool gt_csv_is_number(const struct gt_csv_table *t, const char *s);
/* Whether a number in digits is too large for float32. */
bool gt_csv_is_beyond(const struct gt_csv_table *t, const char *s);
/* Add the hint to an error about such a number, and return the error's code. */
int gt_csv_hint_unit(const struct gt_csv_table *t, struct gt_err *err);
/* Whether a value is missing: empty, or NA, N/A, NaN or null in any case. */
bool gt_csv_is_missing(const char *s);
/* Whether a field may be the name of a column of numbers, and is no missing value, inf or 12%. */
bool gt_csv_is_name(const char *s);
/* Choose head.decimal from the first rows that `r` would read. */
int gt_csv_find_decimal(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);
/* Whether people read a text as a number, although it is none here: 1,037 or $5 or 12%. */
bool gt_csv_is_decorated(const struct gt_csv_table *t, const char *s);
/* Add the hint to an error about such a text, and return the error's code. */
int gt_csv_hint_decorated(
    const struct gt_csv_table *t, const char *s, size_t field, struct gt_err *err);

/* ---- csv_place.c ---- */

/* The word for the separator that is most frequent in a text; NULL if it has none. */
const char *gt_csv_guess_separator(const char *text);
/* Set *known to whether head.names has the names of all columns of the training. */
int gt_csv_names_are_known(struct gt_csv_table *t, bool *known, struct gt_err *err);
/* Choose the target and the columns: goal.field, head.place, head.asked and column_count. */
int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_columns.c ---- */

/* Write the columns of a row to the next row of cells, for which there is memory. */
int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);
/* After the last row of a file: fail for missing values that cannot be filled in. */
int gt_csv_check_gaps(struct gt_csv_table *t, struct gt_err *err);
/* Add the hint to an error about a missing value, and return the error's code. */
int gt_csv_hint_missing(const struct gt_csv_table *t, struct gt_err *err);
void gt_csv_release_columns(struct gt_csv_table *t);

/* ---- csv_finish.c, csv_target.c, csv_check.c, csv_notes.c: after the last row ---- */

/* Number the words in the order of their bytes, and describe columns and features. */
int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err);
/* Fail if float32 holds all numbers of a column, or of the target, as one (standardise=no). */
int gt_csv_check_digits(const struct gt_csv_table *t, struct gt_err *err);
/* Convert the targets of the rows to classes, or, for regression, to numbers. */
int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err);
/* Fail for a column whose words are numbers in another form, or differ in most rows. */
int gt_csv_check_words(const struct gt_csv_table *t, struct gt_err *err);
/* Set the error for a target that has one value in all rows. */
int gt_csv_fail_one_value(const struct gt_csv_table *t, struct gt_err *err);
/* Write warnings about columns, the target and the header. */
void gt_csv_warn_columns(const struct gt_csv_table *t, char note[GT_CSV_NOTE]);
/* Set `interpretation`, `overruled` and `note` of the table's gt_data_info. */
int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_scale.c ---- */

/* Measure the columns on some rows (struct gt_source_ops, fit). */
int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err);

#endif
