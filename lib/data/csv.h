/* csv.h - inside data: a table, and how one is read. */
#ifndef GT_DATA_CSV_H
#define GT_DATA_CSV_H

#include "lib/data/csv_reader.h"
#include "lib/data/source.h"

enum { GT_CSV_MAX_CLASSES = 1 << 20, GT_CSV_NOWHERE = -1 };

/* A table that is open. Its columns are source.columns. */
struct gt_csv {
	struct gt_source source;
	float *cells; /* [samples, columns] numbers as in the file; for a word, its number */
	/* [samples]; for regression, the bits of the numbers as in the file. NULL: the table has no
	 * targets; its rows then have names. */
	int32_t *targets;
	const char **names; /* [samples] */
	bool known;         /* the columns are those of other data: nothing is measured here */
};

enum gt_csv_task { GT_CSV_TASK_AUTO, GT_CSV_CLASSIFICATION, GT_CSV_REGRESSION };
enum gt_csv_header { GT_CSV_HEADER_AUTO, GT_CSV_HEADER_YES, GT_CSV_HEADER_NO };

/* A word of a column, and how many others came before it. */
struct gt_csv_word {
	const char *text;
	int number;
};

/* A column of features while the words are found; sorted by the words. */
struct gt_csv_words {
	struct gt_csv_word *items;
	size_t count, capacity;
	bool text;  /* the column has words, not numbers */
	bool asked; /* by categories=: the words may be numbers */
	long line;  /* its first row */
	char *first;
};

/* A table while it is being read. */
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
	size_t fields, target; /* number of fields, and index of the target */
	char **names;          /* [fields]; NULL: no header */
	int *place;            /* [fields] the number of each one's column, or GT_CSV_NOWHERE */
	size_t columns;        /* of features */
	struct gt_csv_words *words; /* [columns]; NULL before the first row */
	size_t rows, cell_capacity;
	char **targets; /* [rows] as written */
	size_t target_capacity;
	long *lines; /* [rows] */
	size_t line_capacity;
};

/* A finite number that a float32 holds. */
bool gt_csv_parse_number(const char *s, double *value);

/* Whether a field stands for a missing value: empty, NA, NaN and the like. */
bool gt_csv_is_missing(const char *s);

/* "column 3" or "column 'age'" of the file into text [size]. */
const char *gt_csv_field_name(const struct gt_csv_table *t, size_t field, char *text, size_t size);

/* ---- csv_columns.c ---- */

/* Find the field of the target, and the column of features for each other field. */
int gt_csv_place(struct gt_csv_table *t, struct gt_err *err);

/* Write the fields of a row to row t->rows of cells, which is allocated. */
int gt_csv_add_cells(struct gt_csv_table *t, const struct gt_csv_reader *r, struct gt_err *err);

/* After the last row: number the words of each column in the order of their bytes, and describe the
 * columns and features in the source. */
int gt_csv_finish_columns(struct gt_csv_table *t, struct gt_err *err);

void gt_csv_release_words(struct gt_csv_table *t);

/* ---- csv_target.c ---- */

/* Turn the words in t->targets into targets. */
int gt_csv_number_targets(struct gt_csv_table *t, struct gt_err *err);

#endif
