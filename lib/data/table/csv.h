/* csv.h - private: a data set from CSV tables, and the state of reading these tables. */
#ifndef GT_DATA_TABLE_CSV_H
#define GT_DATA_TABLE_CSV_H

#include "lib/data/core/source.h"
#include "lib/data/core/target_guess.h"
#include "lib/data/table/csv_number.h"
#include "lib/data/table/csv_reader.h"
#include "lib/data/table/csv_text.h"

/* GT_CSV_NOWHERE marks a field of the file that is not used as input. */
enum { GT_CSV_MAX_CLASSES = 1 << 20, GT_CSV_NOWHERE = -1 };

/* A column of so many different words, or a target of so many classes, is refused if they are more
 * than half of the rows. */
enum { GT_CSV_MANY_WORDS = 20 };

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
	/* The targets: classes [samples], numbers of the file [samples], or labels [samples,
	 * classes]. The other pointers are NULL; all are for inputs of predictions. */
	int32_t *targets;
	double *numbers;
	float *labels;
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
	bool text;         /* the column has words, not numbers */
	bool categories;   /* the setting categories= names it: numbers are words */
	const char *first; /* the value that decided between words and numbers, and its line */
	long line;
	size_t filled;             /* missing numbers that are filled in */
	struct gt_csv_word *words; /* [count], sorted by their bytes */
	size_t count, capacity;
};

/* The fields of the rows of a file. */
struct gt_csv_head {
	size_t fields;
	char decimal;  /* the character before the fraction of a number: '.' or ',' */
	char **first;  /* [fields] the first row */
	char **names;  /* `first`, if it is a header; or NULL */
	bool *skipped; /* [fields] the setting skip= names the field */
	int *place;    /* [fields] index of the field's column, or GT_CSV_NOWHERE */
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
	/* the setting labels=, or else the training, names these fields: the target is labels */
	size_t *labels;                     /* [label_count]; `field` is then SIZE_MAX */
	size_t label_count, label_capacity; /* label_capacity: rows that fit in gt_csv.labels */
};

/* The state of reading tables: one table with targets, or all inputs of a gt_data_request. */
struct gt_csv_table {
	struct gt_csv *csv;
	const struct gt_spec *spec;
	const struct gt_data_request *request;
	const struct gt_data_description *like; /* the expected columns; NULL: unknown */
	const char *path;                       /* the file that is being read, and its text */
	struct gt_csv_text text;
	struct gt_arena arena;
	struct gt_csv_settings set;
	struct gt_csv_head head;
	struct gt_csv_rows rows;
	struct gt_csv_goal goal;
	size_t column_count;
	struct gt_csv_column *columns; /* [column_count]; NULL before the columns are chosen */
};

/* ---- csv.c ---- */

/* Write "column 3" or "column 'age'" to text[128], and return it. */
const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char text[128]);
/* Write the name by which a setting such as skip= finds a field to text[64], and return it. */
const char *gt_csv_field_key(const struct gt_csv_table *t, size_t field, char text[64]);
/* Set *out to a reader of the first row of values, which the caller releases. */
int gt_csv_open_rows(const struct gt_csv_table *t, struct gt_csv_reader *out, struct gt_err *err);
/* Whether a model is trained on this table, so that the table determines columns and scale. */
bool gt_csv_is_trained_on(const struct gt_csv_table *t);
/* Whether a model is to be trained on this table: it is new, or its classes may change. */
bool gt_csv_is_fitted(const struct gt_csv_table *t);

/* ---- csv_place.c ---- */

/* The column of a field; NULL if it is not used as input. */
const struct gt_csv_column *gt_csv_column(const struct gt_csv_table *t, size_t field);
/* The word for the separator that is most frequent in a text; NULL if it has none. */
const char *gt_csv_guess_separator(const char *text);
/* Call `use` for each field in a setting's list, NAME/NAME/... `role` is for errors. */
int gt_csv_use_fields(struct gt_csv_table *t, const char *key, const char *role,
    int (*use)(struct gt_csv_table *t, size_t field, struct gt_err *err), struct gt_err *err);
/* The field with a name; the number of fields if none has it, or there are no names. */
size_t gt_csv_find_name(const struct gt_csv_table *t, const char *name);
/* Whether the first row has the names of all columns of the training. */
bool gt_csv_names_are_known(const struct gt_csv_table *t);
/* Choose the target and the columns: `goal`, head.place and `columns`. */
int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_columns.c ---- */

/* Decide which columns have words. */
int gt_csv_type_columns(struct gt_csv_table *t, struct gt_err *err);
/* Write the columns of a row to the next row of cells, for which there is memory. */
int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);
/* After the last row: number the words in the order of their bytes, describe columns, features. */
int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err);
void gt_csv_release_columns(struct gt_csv_table *t);
/* Fail for a number that float32 cannot hold; the value and its place stand before it. */
int gt_csv_fail_beyond(const struct gt_csv_table *t, const char *value, struct gt_err *err);
/* Add a hint to an error about a missing value, or a decorated number; return the error's code. */
int gt_csv_hint_missing(const struct gt_csv_table *t, struct gt_err *err);
int gt_csv_hint_decorated(
    const struct gt_csv_table *t, const char *s, size_t field, struct gt_err *err);

/* ---- csv_target.c ---- */

/* Convert the targets of the rows to classes, or, for regression, to numbers. */
int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_labels.c ---- */

/* Choose the fields of the labels, if the target is labels. */
int gt_csv_choose_labels(struct gt_csv_table *t, struct gt_err *err);
/* Whether a field is a label. */
bool gt_csv_is_label(const struct gt_csv_table *t, size_t field);
/* Write the labels of a row to the next row of labels. */
int gt_csv_add_labels(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);
/* After the last row: describe the labels. */
int gt_csv_finish_labels(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_check.c: tables that are hardly meant so, and how a table was read ---- */

/* Fail for a column whose words are numbers in another form, or differ in most rows. */
int gt_csv_check_words(const struct gt_csv_table *t, struct gt_err *err);
/* Fail for a target that has one value in all rows. */
int gt_csv_check_values(const struct gt_csv_table *t, struct gt_err *err);
/* With standardise=no, fail if float32 holds all numbers of a column, or of the target, as one. */
int gt_csv_check_digits(const struct gt_csv_table *t, struct gt_err *err);
/* Set `interpretation`, `overruled` and `note` of the table's gt_data_info. */
int gt_csv_write_notes(struct gt_csv_table *t, struct gt_err *err);

/* ---- csv_scale.c ---- */

/* Measure the columns on some rows (struct gt_source_ops, fit). */
int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err);

#endif
