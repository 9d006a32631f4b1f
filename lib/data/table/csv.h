/* csv.h - private: a data set from CSV tables, and the state of reading these tables. */
#ifndef GT_DATA_TABLE_CSV_H
#define GT_DATA_TABLE_CSV_H

#include "lib/base/index.h"
#include "lib/data/core/source.h"
#include "lib/data/core/target_guess.h"
#include "lib/data/table/csv_reader.h"

/* A column of so many different words, or a target of so many classes, is refused if they are more
 * than half of the rows. */
enum { GT_CSV_MAX_CLASSES = 1 << 20, GT_CSV_MANY_WORDS = 20 };

/*
 * An open table. A *field* is a position in the rows of the file. A *column* is a field that is
 * used as a feature; the member source.columns describes them. A row of cells has the columns and,
 * behind them, the target or the labels, if there are any. A cell is the number of the file, NaN if
 * it is missing, or the index of a word in the sorted list of the column's words. It is float64, so
 * that large numbers near each other, such as times, keep their digits until they are standardized.
 */
struct gt_csv {
	struct gt_source source;
	double *cells; /* [samples, width] */
	size_t width;
	int *places;        /* [columns] index of the first value of each column in a sample */
	const char **names; /* [samples] "FILE:LINE" of each row; NULL: rows have no names */
	/* known: mean and deviation of the columns come from the training or are not used.
	 * target_known: so do those of the target. fitted: nothing about columns is measured. */
	bool known, target_known, fitted;
};

/* A text in memory, which is UTF-8 without zero bytes and without a byte order mark. */
struct gt_csv_text {
	const char *at; /* [size] */
	size_t size;
	struct gt_byte_stream *stream; /* the file, which has the bytes unless `owned` has them;
	                                * NULL: standard input */
	void *owned;                   /* bytes of standard input or of a gzip file; or NULL */
};

/* The forms of values. GT_CSV_BEYOND and GT_CSV_NUMBER are numbers in digits. All of them may be
 * faults, as are those behind. */
enum gt_csv_form {
	GT_CSV_WORD,
	GT_CSV_DECORATED, /* people read it as a number: 1,037 or $5 or 12% */
	GT_CSV_INFINITE,  /* inf, nan */
	GT_CSV_BEYOND,    /* too large for float32 */
	GT_CSV_NUMBER,
	GT_CSV_MISSING,
	GT_CSV_UNKNOWN_WORD,
	GT_CSV_FRACTION,
	GT_CSV_RANGE,
	GT_CSV_UNKNOWN_CLASS,
	GT_CSV_NO_LABEL,
	GT_CSV_FAULTS
};

enum gt_csv_task { GT_CSV_TASK_AUTO, GT_CSV_CLASSIFICATION, GT_CSV_REGRESSION };
enum gt_csv_header { GT_CSV_HEADER_AUTO, GT_CSV_HEADER_YES, GT_CSV_HEADER_NO };

/* The use of a field. From GT_CSV_FEATURE on it has a cell in each row. */
enum gt_csv_role { GT_CSV_IGNORED, GT_CSV_SKIPPED, GT_CSV_FEATURE, GT_CSV_TARGET, GT_CSV_LABEL };

/* A word of a field, with the line on which it first occurs. */
struct gt_csv_word {
	const char *text;
	int number; /* how many other words occur before it */
	long line;
};

/* A field of the file that is being read. */
struct gt_csv_field {
	const char *head, *second; /* its text in the first two rows */
	const char *first;         /* its first value that is not missing, on this line, or NULL */
	long line;
	enum gt_csv_role role;
	size_t place;               /* index of its cell in a row */
	bool has_words, categories; /* it has words; the setting categories= names it */
	/* networks with several inputs: the index in gt_csv_table.inputs, whether its values are
	 * whole (struct gt_data_column), whether a setting names the column, and whether the column
	 * had this input in training */
	int input;
	bool whole, given, trained_input;
	const struct gt_data_column *known; /* the words of the training; NULL: any word is new */
	struct gt_index index;              /* finds a word by its text */
	struct gt_csv_word **words;         /* [count], in the order in which they occur */
	size_t count, capacity;
};

/* The state of reading tables: one table with targets, or all inputs of a gt_data_request. */
struct gt_csv_table {
	struct gt_csv *csv;
	const struct gt_spec *spec;
	const struct gt_data_request *request;
	const struct gt_data_description *like; /* the columns of the training; NULL: unknown */
	/* given: the data are for a model, which determines how they are read. trained_on: they
	 * determine the columns and the scale of a model. fitted: a model is to be trained on them,
	 * which may be one with other classes. */
	bool given, trained_on, fitted;
	int header, task; /* settings: enum gt_csv_header, enum gt_csv_task */
	bool standardise;
	/* the character before a fraction in this file, and as the spec says; 0: not said */
	char separator, decimal, given_decimal;
	const char *path; /* the file that is being read, and its text */
	struct gt_csv_text text;
	struct gt_arena arena;
	bool named; /* the first row names the columns */
	struct gt_csv_field *fields;
	size_t field_count, columns, targets; /* columns and targets have cells */
	/* the field of the target; and of the target in training, found by its place; or NULL */
	struct gt_csv_field *target, *trained;
	/* inputs of a network that takes several, as it takes them; 0: it takes one */
	struct gt_sample_field inputs[GT_MAX_FIELDS];
	int input_count;
	int given_input; /* index in the request of the input whose columns are given; or -1 */
	struct gt_target_numbers summary;    /* of the target's numbers, if the task was guessed */
	size_t rows, dropped, cell_capacity; /* dropped: rows left out, as a value is missing */
	long *lines;                         /* [rows] the line of each row */
	size_t line_capacity;
};

/* ---- csv_text.c ---- */

/* Read the text of the open stream, or of standard input if it is NULL. Fail if it is no text in
 * UTF-8. */
int gt_csv_text_read(
    struct gt_csv_text *text, const struct gt_data_request *request, struct gt_err *err);
void gt_csv_text_close(struct gt_csv_text *text);

/* ---- csv_number.c ---- */

/* Find the form of a value in a table with this decimal point or comma. *value is the number. */
enum gt_csv_form gt_csv_parse(const char *s, char decimal, double *value);
/* Whether a value is missing: empty, NA, N/A, NaN or null; beside numbers also None, #N/A, ? or -.
 */
bool gt_csv_is_missing(const char *s, bool beside_numbers);
/* Whether a field may be the name of a column of numbers. */
bool gt_csv_is_name(const char *s, char decimal);
/* Note whether a value is a number with a decimal point, or with a decimal comma. */
void gt_csv_note_decimal(const char *s, bool *point, bool *comma);

/* ---- csv_rows.c ---- */

/* Read the rows of a file; "-" is standard input for inputs. */
int gt_csv_read_file(struct gt_csv_table *t, const char *path, struct gt_err *err);

/* ---- csv_fields.c ---- */

/* Whether the first row has the names of all columns of the training. */
bool gt_csv_names_are_known(const struct gt_csv_table *t);
/* Choose the role and the place of each field. */
int gt_csv_choose_fields(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_inputs.c: networks with several inputs ---- */

/* Give each column the input that it had in training, or the first one. */
void gt_csv_begin_inputs(struct gt_csv_table *t);
/* Choose the inputs that have columns. */
int gt_csv_choose_inputs(struct gt_csv_table *t, struct gt_err *err);
/* Check a number of a column of whole numbers on a line. */
int gt_csv_check_whole(const struct gt_csv_table *t, const struct gt_csv_field *f, double value,
    long line, struct gt_err *err);
/* After the last row: place the columns in a sample, and describe its fields. */
int gt_csv_place_values(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_columns.c ---- */

/* Decide which fields have words. */
int gt_csv_type_fields(struct gt_csv_table *t, struct gt_err *err);
/* Convert the text of a field on a line to a cell. */
int gt_csv_read_cell(struct gt_csv_table *t, struct gt_csv_field *f, const char *text, long line,
    double *out, struct gt_err *err);
/* Number the words of a field in the order of their bytes, and keep their texts as *out. */
int gt_csv_sort_words(
    struct gt_csv_table *t, struct gt_csv_field *f, const char *const **out, struct gt_err *err);
/* After the last row: describe the columns and the features. */
int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_target.c ---- */

/* Whether targets are numbers to predict, whatever their texts are. */
bool gt_csv_is_regression(const struct gt_csv_table *t);
/* Whether the target is another column than in training. */
bool gt_csv_is_other_target(const struct gt_csv_table *t);
/* After the last row: describe the target or the labels, and number the classes. */
int gt_csv_finish_targets(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_check.c: values and columns that are not read, and tables hardly meant so ---- */

/* Write "column 3" or "column 'age'" to text[128], and return it. */
const char *gt_csv_field_name(
    const struct gt_csv_table *t, const struct gt_csv_field *f, char text[128]);
/* Write the name by which a setting such as skip= finds a field to text[64], and return it. */
const char *gt_csv_field_key(
    const struct gt_csv_table *t, const struct gt_csv_field *f, char text[64]);
/* Fail for a value on a line. */
int gt_csv_fail(const struct gt_csv_table *t, const struct gt_csv_field *f, enum gt_csv_form fault,
    const char *value, long line, struct gt_err *err);
/* Whether this is a usual name of targets, such as "label". */
bool gt_csv_is_target_name(const char *name);
/* Find a feature with a usual name of targets; NULL: none has it. */
const struct gt_csv_field *gt_csv_find_target_name(const struct gt_csv_table *t);
/* Fail for columns that are hardly meant as they would be read. */
int gt_csv_check_fields(const struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_notes.c ---- */

/* Set `interpretation`, `overruled` and `note` of the table's gt_data_info. */
int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_scale.c ---- */

/* Measure the columns on some rows (struct gt_source_ops, fit). */
int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err);

#endif
