/* description.h - properties of a data set that other data for the same model must share. */
#ifndef GT_DATA_CORE_DESCRIPTION_H
#define GT_DATA_CORE_DESCRIPTION_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/mem.h"
#include "lib/data/core/data.h"
#include "lib/data/images/image_fit.h"

enum {
	GT_DATA_MAX_ENDS = 16,
	GT_DATA_DIGEST = 65,     /* SHA-256 in hexadecimal */
	GT_DATA_MAX_WORDS = 4096 /* words of a column */
};

/* The treatment of missing values of a table (gtrain-data(7)). */
enum gt_data_missing {
	GT_DATA_MISSING_ERROR,
	/* numbers: the mean or median in training; words: the word "" */
	GT_DATA_MISSING_MEAN,
	GT_DATA_MISSING_MEDIAN,
	GT_DATA_MISSING_DROP,    /* leave out the row */
	GT_DATA_MISSING_CATEGORY /* words: the word ""; a missing number is an error */
};

/* The names of these treatments, ended by NULL. */
extern const char *const gt_data_missing_names[];

/* Characters of a table: between fields, and before a fraction. 0: not known. */
struct gt_data_dialect {
	char separator, decimal;
};

/* Return whether missing numbers are replaced by the mean or the median. */
bool gt_data_fills_numbers(enum gt_data_missing missing);

/* A column of a table: one feature for numbers; for words, one for each word of its list, 1 in the
 * rows that have this word and otherwise 0. */
struct gt_data_column {
	const char *name; /* NULL: it has none */
	/* the field of form.fields that the column is a part of; 0 if there are no fields */
	int field;
	/* the field has whole numbers or truth values: the column is one, or the index of a word */
	bool whole;
	int count;                /* number of words; 0: a column of numbers */
	const char *const *words; /* [count], in order of their bytes */
	/* numbers: the feature is (number - mean) / std */
	double mean, std;
	/* numbers: `fill` replaces a missing value, if `filled` */
	bool filled;
	double fill;
};

/* Return the number of values that a column has in a sample. */
int gt_data_column_width(const struct gt_data_column *c);

/* Tokens that were put before a text in training, and that end a text. */
struct gt_data_specials {
	bool begin_known;               /* false: `begin` is gt_tokenizer_begin() */
	int32_t begin;                  /* token before every text; -1: none */
	int end_count;                  /* 0: no token is known to end a text */
	int32_t ends[GT_DATA_MAX_ENDS]; /* [end_count] each of them ends a text */
};

/* Return whether a token ends a text. */
static inline bool gt_data_token_ends(const struct gt_data_specials *s, int32_t token)
{
	int i = 0;

	while (i < s->end_count && s->ends[i] != token)
		i++;
	return i < s->end_count;
}

/* The properties that all data for one model share. Nothing is known in a zeroed struct. */
struct gt_data_description {
	bool kind_known;
	/* unknown members are 0; `block` is ignored */
	struct gt_sample_form form;
	bool normalization_known; /* form.mean and form.std are known */
	/* images: decode large JPEGs at a reduced size; how they are resized and cropped */
	bool reduce_known, reduce;
	bool fit_known;
	struct gt_fit fit;
	const char *const *class_names;   /* [form.classes]; NULL: 0, 1, ... */
	const char *const *feature_names; /* [form.features]; NULL: no names */
	/* tables: columns without the target; 0: not described, and features are not scaled */
	int column_count;
	const struct gt_data_column *columns; /* [column_count] */
	enum gt_data_missing missing;         /* tables */
	struct gt_data_dialect dialect;       /* tables */
	/* tables: name and, for regression, mean and std */
	struct gt_data_column target;
	int target_place; /* tables: 1 + the columns before the target; 0: not known */
	/* labelled texts: the members of a row with its text, and with its second text if samples
	 * are pairs; NULL: none. target.name is that of its class. */
	const char *texts[2];
	const struct gt_tokenizer *tokenizer; /* text; NULL: not known */
	/* digest of the file of a byte-pair tokenizer; "": not known */
	char tokenizer_digest[GT_DATA_DIGEST];
	struct gt_data_specials specials; /* text */
	struct gt_arena arena;            /* owns names read from JSON */
	struct gt_tokenizer *own;         /* the tokenizer that was read from JSON, or NULL */
};

/* Return the token before every text: that of `s` if known, else that of `tok`, which may be NULL;
 * -1: none. */
int32_t gt_data_begin(const struct gt_data_specials *s, const struct gt_tokenizer *tok);

/* Describe an open data set, from which *out borrows; it needs no release. */
void gt_data_describe(struct gt_data_description *out, const struct gt_dataset *data);

/* Return whether the inputs of samples without pixels or tokens are known. The folder of a model
 * that takes fields describes its classes alone. */
static inline bool gt_data_knows_inputs(const struct gt_data_description *d)
{
	return d->form.field_count || d->form.features;
}

/* Return the kind of data that reads inputs for predictions: samples of `kind`, for a model trained
 * on `like`. */
const char *gt_data_kind_of_inputs(
    const struct gt_data_description *like, enum gt_sample_kind kind);

/* Return the description as JSON, which the caller frees; NULL on failure. With `whole` it has all
 * tokens, unless they are byte pairs; run directories have them in vocab.json. */
json_t *gt_data_description_to_json(
    const struct gt_data_description *d, bool whole, struct gt_err *err);

/* Read what gt_data_description_to_json() wrote. After an error *out is zeroed. */
int gt_data_description_from_json(
    struct gt_data_description *out, const json_t *json, struct gt_err *err);

/* Check by digests that `tok` (NULL: missing) is the tokenizer of `like`, which may be NULL.
 * Errors: GT_EFORMAT if the file `from` is in the run's folder, GT_EINVAL if the user named it,
 * GT_EIO if it is missing. */
int gt_tokenizer_check(const struct gt_tokenizer *tok, const struct gt_data_description *like,
    struct gt_file_name from, struct gt_err *err);

void gt_data_description_release(struct gt_data_description *d);

#endif
