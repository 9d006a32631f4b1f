/* csv.h - private: a data set from CSV tables, and the state of reading these tables. */
#ifndef GT_DATA_CSV_H
#define GT_DATA_CSV_H

#include "lib/data/csv_reader.h"
#include "lib/data/source.h"
#include "lib/data/target_guess.h"

/* Maximum number of classes. GT_CSV_NOWHERE marks a field of the file that is not used as input. */
enum { GT_CSV_MAX_CLASSES = 1 << 20, GT_CSV_NOWHERE = -1 };

/*
 * An open table. A *field* is a position in the rows of the file. A *column* is a field that is
 * used as input; the target and skipped fields are not columns. The member source.columns has a
 * description of each column. The values of a column are either numbers or words (categories).
 */
struct gt_csv {
	struct gt_source source;
	/* [samples, columns] A column of numbers may have an offset, which keeps the digits of
	 * large numbers (struct gt_data_column). Each cell is the number of the file minus this
	 * offset. In a column of words, a cell is the word's index in the column's list of
	 * words. */
	float *cells;
	/* The targets, [samples]: classes in `targets`, or, for regression, the numbers of the file
	 * in `numbers`. The other pointer is NULL. Both are NULL if the table is an input for
	 * predictions. */
	int32_t *targets;
	double *numbers;
	/* [samples] "FILE:LINE" of each row. NULL for tables with targets. */
	const char **names;
	/* known: the mean and the standard deviation of the columns need not be measured, because
	 * they come from the training data, or the spec has standardise=no. target_known: those of
	 * the target need not be measured. fitted: nothing about the columns need be measured, nor
	 * the values that replace missing ones. */
	bool known, target_known, fitted;
};

enum gt_csv_task { GT_CSV_TASK_AUTO, GT_CSV_CLASSIFICATION, GT_CSV_REGRESSION };
enum gt_csv_header { GT_CSV_HEADER_AUTO, GT_CSV_HEADER_YES, GT_CSV_HEADER_NO };

/* A word of a column. `number` is its index, from 0 on, among the different words of the column, in
 * the order in which they first occur. */
struct gt_csv_word {
	const char *text;
	int number;
};

/* The values of the setting decimal=. */
enum gt_csv_decimal { GT_CSV_DECIMAL_AUTO, GT_CSV_DECIMAL_POINT, GT_CSV_DECIMAL_COMMA };

/* The state of one column while rows are read: the words that have occurred, or, for a column of
 * numbers, the offset and facts about the numbers. */
struct gt_csv_words {
	struct gt_csv_word *items; /* [count], sorted by the bytes of the words */
	size_t count, capacity;
	bool text;       /* the column has words, not numbers */
	bool categories; /* the setting categories= names this column: read numbers as words */
	long line;       /* number of the line of `first`, for messages */
	char *first;     /* the first value of this column that is not missing */
	bool repeated;   /* the word of the first row occurs in another row, too */
	bool rising;     /* each number is larger than the one before */
	double offset;   /* column of numbers: it is subtracted from each number; 0: none */
	/* the first rows were stored with an offset that the column no longer has:
	 * gt_csv_read_again() must store them again */
	bool again;
	double last; /* the number in the previous row */
	bool varies; /* at least two consecutive numbers are different */
	/* The first number of the column for which `number - offset` is not 0 in double precision,
	 * but 0 or denormal as float32. 0: there is no such number. */
	double small;
};

/* The state of reading tables: one table with targets, or all inputs of a gt_data_request. */
struct gt_csv_table {
	struct gt_csv *csv;
	const struct gt_spec *spec;
	const struct gt_data_request *request;
	const struct gt_data_description *like; /* the expected columns; NULL: unknown */
	const char *path;                       /* name of the file that is being read */
	char separator;
	char decimal; /* the character before the fraction of a number: '.' or ',' */
	int header;   /* enum gt_csv_header */
	int task;     /* enum gt_csv_task */
	int decimals; /* enum gt_csv_decimal, the setting */
	bool standardise;
	struct gt_arena arena;
	size_t fields, target;      /* number of fields in a row; index of the target */
	char **first;               /* [fields] the first row, which may be a header */
	char **names;               /* [fields]; NULL: no header */
	char ***sorted;             /* [fields] pointers to the names, sorted by name */
	int *place;                 /* [fields] index of the field's column, or GT_CSV_NOWHERE */
	bool *asked;                /* [fields] the setting categories= names the field */
	size_t ignored;             /* fields that are ignored because `like` lacks them */
	size_t first_ignored;       /* index of the first of them */
	bool other_target;          /* the target is another column than in `like` */
	size_t trained_target;      /* index of the target in training; `fields`: not known */
	size_t columns;             /* number of columns */
	struct gt_csv_words *words; /* [columns]; NULL before the first row */
	size_t rows, cell_capacity; /* rows read so far; rows that fit in csv->cells */
	size_t dropped;             /* rows left out because a value is missing */
	/* gt_csv_read_again() reads this number of rows again, for columns with `again` set */
	size_t rows_again;
	/* [rows] targets as in the file; for inputs of predictions, names of rows */
	char **targets;
	size_t target_capacity;
	struct gt_target_numbers summary; /* of targets that are numbers, if the task was guessed */
	long *lines;                      /* [rows] line number of each row in its file */
	size_t line_capacity;
	/* Two consecutive numbers of a column or of the target that are different, but equal as
	 * float32; both are 0 if none were found. `same_field` is the field of the two numbers. */
	double same[2];
	size_t same_field;
};

/* Round a number to 15 significant digits. Offsets and standard deviations are rounded like this,
 * so 15 digits in config.json are enough to read other data with the same scale as the training
 * data. Means are rounded, too. But a mean is not rounded if this would change a feature by more
 * than 1e-4, for example in a column of large numbers that are near each other. */
double gt_csv_round_digits(double x);

/* ---- csv_number.c: numbers have the decimal point or comma of the table, t->decimal ---- */

/* Parse a number. Return false if the text is not a number, or if the number is infinite, NaN or
 * outside the range of float32. */
bool gt_csv_parse_number(const struct gt_csv_table *t, const char *s, double *value);

/* Return whether the text has the form of a number. The number may be too large for float32,
 * infinite or NaN. */
bool gt_csv_looks_like_number(const struct gt_csv_table *t, const char *s);

/* The same for a number in digits. The words "inf" and "nan" are not, as they may be names. */
bool gt_csv_is_number(const struct gt_csv_table *t, const char *s);

/* Return whether the text is a number in digits that gt_csv_parse_number() rejects because it is
 * too large. */
bool gt_csv_is_beyond(const struct gt_csv_table *t, const char *s);
#define GT_CSV_BEYOND "is beyond the range of float32, +-3.4e38"

/* Add a hint to an error about a number beyond the range of float32: to leave out the row, or, for
 * training data, to write the column in another unit. Return the error's code. */
int gt_csv_hint_unit(const struct gt_csv_table *t, struct gt_err *err);

/* Return whether a text begins with a digit, after spaces, a sign, a point or a comma. */
bool gt_csv_has_digit(const char *s);

/* Return whether the text of a field means that the value is missing: empty, or NA, N/A, NaN
 * or null in any case. */
bool gt_csv_is_missing(const char *s);

/* Return whether a field may be the name of a column of numbers. A missing value, a number that is
 * not finite, and a number with a unit, such as "12%", may be a value of this column instead. */
bool gt_csv_is_name(const char *s);

/*
 * Look ahead at the first rows of `fields` fields, and set t->decimal. It is ',' if a column has
 * numbers with a decimal comma and nothing else, and no column has numbers with a decimal point.
 * The comma in 1,037 may also separate thousands, so this number decides nothing.
 * Errors: GT_ENOMEM.
 */
int gt_csv_find_decimal(
    struct gt_csv_table *t, const struct gt_csv_reader *r, size_t fields, struct gt_err *err);

/* Return whether people read a text as a number, although it is not one here: 1,037 or $5 or 12%.
 */
bool gt_csv_is_decorated(const struct gt_csv_table *t, const char *s);

/* Add a hint to an error about the text `s` of a field, for which gt_csv_is_decorated() is true.
 * Return the error's code. */
int gt_csv_hint_decorated(
    const struct gt_csv_table *t, const char *s, size_t field, struct gt_err *err);

/* ---- csv_file.c ---- */

/* Read the rows of a table from a file, which may be compressed by gzip. If the tables are inputs,
 * "-" is standard input. Errors: GT_EFORMAT also for a file that is not text in UTF-8. */
int gt_csv_read_file(struct gt_csv_table *t, const char *path, struct gt_err *err);

/* ---- csv_scale.c ---- */

/* Measure the columns on some rows (struct gt_source_ops, fit). */
int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err);

/* ---- csv.c ---- */

/* Read the rows of a table from text in memory. */
int gt_csv_read_rows(struct gt_csv_table *t, const char *text, size_t size, struct gt_err *err);

/* Return whether missing=drop leaves a row out: a column or the target has no value. */
bool gt_csv_is_dropped(const struct gt_csv_table *t, const struct gt_csv_reader *r);

/* Write the name of a field for messages, "column 3" or "column 'age'", to text[size]. Return
 * `text`. */
const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char *text, size_t size);

/* Write the name that a setting such as skip= can have for a field, to text[size]: its name in the
 * header, or its number. Return `text`. */
const char *gt_csv_field_key(const struct gt_csv_table *t, size_t field, char *text, size_t size);

/* ---- csv_place.c ---- */

/* The word for the separator that is most frequent in a text; NULL if it has none. */
const char *gt_csv_guess_separator(const char *text);

/* Set *known to whether t->names has the names of all columns that the model was trained with. */
int gt_csv_names_are_known(struct gt_csv_table *t, bool *known, struct gt_err *err);

/*
 * Choose which field is the target, and which of the other fields are columns: set t->target,
 * t->place, t->columns and t->asked. If the model was trained with named columns and this table has
 * names, columns and target are found by name, and other fields are ignored.
 *
 * Errors:
 *   GT_EINVAL    a name in a setting belongs to no field, to two fields, or to a field that the
 *                setting does not allow
 *   GT_EFORMAT   the file lacks a column of the training data, has another number of columns, or
 *                has two columns of the same name
 *   GT_ENOMEM
 */
int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_columns.c ---- */

/* Write the columns of a row of the file to row t->rows of t->csv->cells. The caller has allocated
 * memory for this row. */
int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);

/* Add a hint to an error about a missing value: to fill it in or leave out the row, or, unless the
 * table is an input for predictions, missing=drop. Return the error's code. */
int gt_csv_hint_missing(const struct gt_csv_table *t, struct gt_err *err);

/* After the last row: read the first t->rows_again rows again, for columns that no longer have an
 * offset. The next row of `r` must be the first row of values. */
int gt_csv_read_again(struct gt_csv_table *t, struct gt_csv_reader *r, struct gt_err *err);

/* For a table that is not standardized: record two consecutive numbers of a field in t->same if
 * they are different, but equal as float32. */
void gt_csv_compare_numbers(struct gt_csv_table *t, size_t field, double last, double value);

/* Free t->words. */
void gt_csv_release_words(struct gt_csv_table *t);

/* ---- csv_finish.c ---- */

/* Return whether a model is trained on this table, so that the table determines the columns and
 * their scale. Return false if the table is read for a trained model. */
bool gt_csv_is_trained_on(const struct gt_csv_table *t);

/* After the last row of training data: return GT_EFORMAT if the numbers of a column vary, but all
 * its cells are 0 or denormal as float32. Do nothing for a table that is read for a trained model.
 */
int gt_csv_check_small(const struct gt_csv_table *t, struct gt_err *err);

/* After the last row: renumber the words of each column in the order of their bytes, and write
 * descriptions of the columns and features to t->csv->source. */
int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_target.c ---- */

/* Convert the texts in t->targets to classes in t->csv->targets, or, for regression, to numbers in
 * t->csv->numbers. */
int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_check.c: tables that models are trained on ---- */

/* Return whether a model is to be trained on this table: it is new, or its classes may change. */
bool gt_csv_is_fitted(const struct gt_csv_table *t);

/* After the last row: return GT_EFORMAT for a column whose words are numbers in another form, such
 * as 1,037 or 12%, or differ in most rows. Do nothing for columns that categories= names. */
int gt_csv_check_words(const struct gt_csv_table *t, struct gt_err *err);

/* Set the error for a target that has one value in all rows. The hint names another column, if one
 * has a usual name of targets. */
int gt_csv_fail_one_value(const struct gt_csv_table *t, struct gt_err *err);

/* Write warnings to text[size]: a column that numbers the rows, a column that may be the target, a
 * first row that may be a header. The text is empty if there are none. */
void gt_csv_warn_columns(const struct gt_csv_table *t, char *text, size_t size);

/* ---- csv_notes.c ---- */

/* Set `interpretation`, `overruled` and `note` in the table's gt_data_info: how the table was read,
 * which settings differ from those of the training, and a warning about lost digits. Call this
 * after the last row. */
int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err);

#endif
