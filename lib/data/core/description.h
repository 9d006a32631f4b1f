/* description.h - properties of a data set that other data for the same model must share. */
#ifndef GT_DATA_CORE_DESCRIPTION_H
#define GT_DATA_CORE_DESCRIPTION_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/mem.h"
#include "lib/data/core/data.h"
#include "lib/data/images/image_fit.h"

enum {
	GT_DATA_MAX_ENDS = 16,   /* tokens that end a text */
	GT_DATA_DIGEST = 65,     /* bytes: SHA-256 in hexadecimal, and a terminating zero */
	GT_DATA_MAX_WORDS = 4096 /* different words of a column */
};

/* The treatment of missing values in a table (`missing` in gtrain-data(7)). */
enum gt_data_missing {
	GT_DATA_MISSING_ERROR, /* a missing value is an error */
	/* Numbers: the mean or the median of the column in the training data. Words: a missing
	 * value is a category of its own, the word "". */
	GT_DATA_MISSING_MEAN,
	GT_DATA_MISSING_MEDIAN,
	GT_DATA_MISSING_DROP,    /* rows with a missing value are left out */
	GT_DATA_MISSING_CATEGORY /* words: as above; a missing number is an error */
};

/* The names of the above, ended by NULL: "error", "mean", ... */
extern const char *const gt_data_missing_names[];

/* The characters of a table's text: between two fields, and before the fraction of a number. 0: not
 * known. */
struct gt_data_dialect {
	char separator, decimal;
};

/* Return whether missing numbers are replaced: by the mean or the median. */
bool gt_data_fills_numbers(enum gt_data_missing missing);

/* A column of a table. A column of numbers is one feature. A column of words has one feature for
 * each word of its list: the feature of the row's word is 1, and the other features are 0. */
struct gt_data_column {
	const char *name;         /* NULL: the column has no name */
	int count;                /* number of words in the list; 0: a column of numbers */
	const char *const *words; /* [count], in the order of their bytes */
	/* for numbers: the feature is (number - mean) / std */
	double mean, std;
	/* for numbers: if `filled`, `fill` is used in place of a missing value */
	bool filled;
	double fill;
};

/* Special tokens of a text model: the token that was put before every text in training, and the
 * tokens that the model writes after a text. */
struct gt_data_specials {
	bool begin_known;               /* false: use the tokenizer's token, gt_tokenizer_begin() */
	int32_t begin;                  /* the token before every text; -1: none */
	int end_count;                  /* 0: no token is known that ends a text */
	int32_t ends[GT_DATA_MAX_ENDS]; /* [end_count] a text ends with any of these tokens */
};

/* The properties that all data for one model must share. In a zeroed struct, nothing is known. */
struct gt_data_description {
	bool kind_known;
	/* Members that are not known are 0; `kind`, `mean` and `std` may be 0 where they are known.
	 * Readers of a description ignore `block`. */
	struct gt_sample_form form;
	bool normalization_known; /* form.mean and form.std are known */
	/* `images` and `webdataset`: large JPEGs are decoded at a reduced size */
	bool reduce_known, reduce;
	/* the same kinds: how pictures are resized and cropped; the default if !fit_known */
	bool fit_known;
	struct gt_fit fit;
	const char *const *class_names;   /* [form.classes]; NULL: the names are 0, 1, ... */
	const char *const *feature_names; /* [form.features]; NULL: columns have no names */
	/* tables: number of columns, without the target; 0: columns are not described, and features
	 * are the unscaled numbers of the file */
	int column_count;
	const struct gt_data_column *columns; /* [column_count] */
	enum gt_data_missing missing;         /* tables: the treatment of missing values */
	struct gt_data_dialect dialect;       /* tables */
	/* tables: the target's name; for regression also its mean and std */
	struct gt_data_column target;
	int target_place; /* tables: 1 + the number of columns before the target; 0: not known */
	const struct gt_tokenizer *tokenizer; /* text; NULL: not known */
	/* For a tokenizer of byte-pair encoding, the digest of its file. "": the digest is not
	 * known, or the tokenizer is of another kind. */
	char tokenizer_digest[GT_DATA_DIGEST];
	struct gt_data_specials specials; /* text */
	struct gt_arena arena;            /* owns names that were read from JSON */
	struct gt_tokenizer *own;         /* a tokenizer that was read from JSON; NULL: none */
};

/* Return the token that was put before every text in training; -1: none. The token comes from `s`
 * if s->begin_known is set, otherwise from the tokenizer, which may be NULL. */
int32_t gt_data_begin(const struct gt_data_specials *s, const struct gt_tokenizer *tok);

/* Describe an open data set. Names and tokenizer are borrowed from the data set, so *out needs no
 * release. */
void gt_data_describe(struct gt_data_description *out, const struct gt_dataset *data);

/* Return the description as a JSON object, which the caller frees. A name that is not UTF-8 becomes
 * an array of its bytes. For a tokenizer of byte-pair encoding, the object has only the digest. For
 * other tokenizers, it has all tokens if `whole` is true. `whole` is false for a run directory,
 * which has the vocabulary in a file (vocab.json). Return NULL on failure. Errors: GT_ENOMEM. */
json_t *gt_data_description_to_json(
    const struct gt_data_description *d, bool whole, struct gt_err *err);

/* Read an object that gt_data_description_to_json() wrote. After an error *out is zeroed. Errors:
 * GT_EFORMAT, GT_ENOMEM. */
int gt_data_description_from_json(
    struct gt_data_description *out, const json_t *json, struct gt_err *err);

/*
 * Check, by the digests, that a tokenizer is the one that the model was trained with. `like` is the
 * description of the training data; if it is NULL or has no digest, there is nothing to check.
 *
 *   tok    the tokenizer; NULL: it is missing
 *   from   the tokenizer's file; from.folder is set if the file is in the run's folder
 *
 * Errors: GT_EFORMAT if a tokenizer from the run's folder differs; GT_EINVAL if a tokenizer that
 * the user named differs; GT_EIO if the tokenizer is missing.
 */
int gt_tokenizer_check(const struct gt_tokenizer *tok, const struct gt_data_description *like,
    struct gt_file_name from, struct gt_err *err);

void gt_data_description_release(struct gt_data_description *d);

#endif
