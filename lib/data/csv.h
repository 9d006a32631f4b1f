/* csv.h - inside data: a data set from CSV tables, and the state while they are read. */
#ifndef GT_DATA_CSV_H
#define GT_DATA_CSV_H

#include "lib/data/csv_reader.h"
#include "lib/data/source.h"

/* GT_CSV_NOWHERE: a field is not a column, see struct gt_csv. */
enum { GT_CSV_MAX_CLASSES = 1 << 20, GT_CSV_NOWHERE = -1 };

/*
 * An open table. A *field* is a position in the rows of the file. A *column* is a field that is
 * used as input; the target and skipped fields are not columns. The columns are described in
 * source.columns. A column has either numbers or words from a list (categories).
 */
struct gt_csv {
	struct gt_source source;
	/* [samples, columns] numbers as in the file; for a word, its index in the column's list */
	float *cells;
	/* [samples] classes; for regression, the bits of float32 numbers as in the file. NULL: the
	 * table is an input for predictions, without targets. */
	int32_t *targets;
	/* [samples] "FILE:LINE" of each row, for tables without targets; NULL for others. */
	const char **names;
	/* Mean and deviation of the columns are already known: from the training data, or because
	 * the spec has standardise=no. Then gt_dataset_fit() measures nothing. */
	bool known;
};

enum gt_csv_task { GT_CSV_TASK_AUTO, GT_CSV_CLASSIFICATION, GT_CSV_REGRESSION };
enum gt_csv_header { GT_CSV_HEADER_AUTO, GT_CSV_HEADER_YES, GT_CSV_HEADER_NO };

/* A word of a column. `number` is the count of different words that the file has before it. */
struct gt_csv_word {
	const char *text;
	int number;
};

/* The words of one column, collected while rows are read. */
struct gt_csv_words {
	struct gt_csv_word *items; /* [count], sorted by their bytes */
	size_t count, capacity;
	bool text;       /* the column has words, not numbers */
	bool categories; /* the setting categories= names the column, so numbers are words, too */
	long line;       /* line of the first row, for messages */
	char *first;     /* the first row's field */
};

/* The state while tables are read: one table with targets, or all inputs of a request. */
struct gt_csv_table {
	struct gt_csv *csv;
	const struct gt_spec *spec;
	const struct gt_data_request *request;
	const struct gt_data_description *like; /* describes the expected columns; NULL: unknown */
	const char *path;                       /* name of the file that is being read */
	char separator;
	int header; /* enum gt_csv_header */
	int task;   /* enum gt_csv_task */
	bool standardise;
	struct gt_arena arena;
	size_t fields, target;      /* number of fields in a row, and index of the target */
	char **names;               /* [fields]; NULL: no header */
	int *place;                 /* [fields] index of the field's column, or GT_CSV_NOWHERE */
	size_t columns;             /* number of columns */
	struct gt_csv_words *words; /* [columns]; NULL before the first row */
	size_t rows, cell_capacity; /* rows read so far, and rows that csv->cells has memory for */
	char **targets;             /* [rows] targets as written; for inputs, names of the rows */
	size_t target_capacity;
	long *lines; /* [rows] number of each row's line in its file */
	size_t line_capacity;
};

/* Parse a number. Return false unless it is finite and in the range of float32. */
bool gt_csv_parse_number(const char *s, double *value);

/* Return whether a field stands for a missing value: empty, NA, NaN and the like. */
bool gt_csv_is_missing(const char *s);

/* Write "column 3" or "column 'age'", the name of a field for messages, to text [size]. Return
 * text. */
const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char *text, size_t size);

/* ---- csv_columns.c ---- */

/* Choose the field of the target and the column of every other field: set t->target, t->place and
 * t->columns. */
int gt_csv_choose_columns(struct gt_csv_table *t, struct gt_err *err);

/* Write the fields of a row to row t->rows of the cells. The caller has allocated this row. */
int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);

/* After the last row: renumber the words of each column in the order of their bytes, and describe
 * columns and features in the source. */
int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err);

/* Free t->words. */
void gt_csv_release_words(struct gt_csv_table *t);

/* ---- csv_target.c ---- */

/* Convert the texts in t->targets to classes or numbers in t->csv->targets. */
int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err);

#endif
