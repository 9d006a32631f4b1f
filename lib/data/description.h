/* description.h - properties of a data set that other data for the same model must share. */
#ifndef GT_DATA_DESCRIPTION_H
#define GT_DATA_DESCRIPTION_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/mem.h"
#include "lib/data/data.h"

enum {
	GT_DATA_MAX_ENDS = 16,   /* tokens that end a text */
	GT_DATA_DIGEST = 65,     /* SHA-256 in hexadecimal, with a zero at the end */
	GT_DATA_MAX_WORDS = 4096 /* of a column */
};

/* A column of a table. A column of numbers is one feature. A column of words from a list is one
 * feature for each word of the list: 1 for the row's word, and 0 for the other words. */
struct gt_data_column {
	const char *name;         /* NULL: it has none */
	int count;                /* number of words; 0: a column of numbers */
	const char *const *words; /* [count], in the order of their bytes */
	float mean, std;          /* of numbers; the feature is (number - mean) / std */
};

/* Special tokens: the token that a model was trained to see before every text, and the tokens that
 * it writes after a text. */
struct gt_data_specials {
	bool begin_known;
	int32_t begin; /* -1: none; if begin_known is false, the tokenizer's token */
	int end_count; /* 0: no token that ends a text is known */
	int32_t ends[GT_DATA_MAX_ENDS]; /* a text ends with any of these tokens */
};

/* The properties that all data for one model must share. A zeroed struct knows none. */
struct gt_data_description {
	bool kind_known;
	enum gt_data_kind kind;
	int height, width, channels; /* images; 0: not known */
	bool normalization_known;
	float mean[GT_DATA_MAX_CHANNELS], std[GT_DATA_MAX_CHANNELS];
	int classes;                          /* or the size of the vocabulary; 0: not known */
	const char *const *class_names;       /* [classes]; NULL: classes are called 0, 1, ... */
	int features;                         /* vectors; 0: not known */
	const char *const *feature_names;     /* [features]; NULL: columns have no names */
	int column_count;                     /* tables; 0: each feature is a number as it is */
	const struct gt_data_column *columns; /* [column_count] */
	bool regression;                      /* the target is a number, not a class */
	struct gt_data_column target;         /* name and scale of the target of a regression */
	const struct gt_tokenizer *tokenizer; /* text; NULL: not known here */
	/* For a tokenizer of byte pairs, the digest of its file. "": it is not known, or the
	 * tokenizer is of another kind. */
	char tokenizer_digest[GT_DATA_DIGEST];
	struct gt_data_specials specials; /* text */
	struct gt_arena arena;            /* owns names that were read from JSON */
	struct gt_tokenizer *own;         /* the tokenizer that was read from JSON; NULL: none */
};

/* The token that a model has seen before every text: from the specials if they are known, else from
 * the tokenizer, which may be NULL; -1: none. */
int32_t gt_data_begin(const struct gt_data_specials *s, const struct gt_tokenizer *tok);

/* Describe an open data set. Names and tokenizer are borrowed from it: nothing to release. */
void gt_data_describe(struct gt_data_description *out, const struct gt_dataset *data);

/* Return the description as a JSON object, which the caller frees. A name that is not UTF-8 becomes
 * an array of its bytes. With `whole`, the object includes the tokenizer; a run directory has it in
 * vocab.json instead. Errors: GT_ENOMEM. */
json_t *gt_data_description_to_json(
    const struct gt_data_description *d, bool whole, struct gt_err *err);

/* Read an object that gt_data_description_to_json() wrote. Errors: GT_EFORMAT, GT_ENOMEM; *out is
 * zeroed. */
int gt_data_description_from_json(
    struct gt_data_description *out, const json_t *json, struct gt_err *err);

/* Read size and normalization from the words KIND:PATH[,key=value...]; no file is opened. Errors:
 * GT_EINVAL, GT_ENOMEM; *out is zeroed. */
int gt_data_description_from_spec(
    struct gt_data_description *out, const char *spec, struct gt_err *err);

/*
 * Compare a tokenizer with the one in the description, by their digests. `tok` and `like` may be
 * NULL. Errors: GT_EFORMAT if a tokenizer from the run's folder (`from` has a folder) differs;
 * GT_EINVAL if a tokenizer that the user named differs; GT_EIO if `tok` is NULL although the
 * description has a digest, so the tokenizer is missing.
 */
int gt_tokenizer_check(const struct gt_tokenizer *tok, const struct gt_data_description *like,
    struct gt_file_name from, struct gt_err *err);

void gt_data_description_release(struct gt_data_description *d);

#endif
