/* opt_json.h - read and write options as config.json, and describe option tables as JSON. */
#ifndef GT_BASE_OPT_JSON_H
#define GT_BASE_OPT_JSON_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/base/opt.h"

/*
 * config.json is one object, whose keys are names of options:
 *
 *   FLAG, YESNO      true or false
 *   INT, DOUBLE      a number
 *   SIZE, DURATION   a number (bytes, seconds), or a string with a unit ("25M", "10m")
 *   STRING, CHOICE   a string
 *   PAIR, LIST       an array
 *   all types        null: the default
 *
 * Unknown keys and options with GT_OPT_ONCE are errors. The value of the key GT_OPT_ABOUT, facts
 * about the run, is ignored.
 */
#define GT_OPT_ABOUT "about"

/* Set options from an object. Options of the command line, parsed before, stay, and those that
 * cannot be combined with them are ignored. Strings are copied. Errors: GT_EINVAL, GT_ENOMEM. */
int gt_opts_from_json(struct gt_opts *opts, const json_t *object, struct gt_err *err);

/* Read the object from a file. Errors, whose text begins with the path: GT_EIO, GT_EFORMAT if it is
 * no JSON object, and those above. */
int gt_opts_load(struct gt_opts *opts, const char *path, struct gt_err *err);
int gt_opts_load_at(struct gt_opts *opts, struct gt_file_name file, struct gt_err *err);

/* Return an object, which the caller frees, with the values of all options, except GT_OPT_ONCE and
 * rows without a field. NULL with err set if memory runs out or a string is not UTF-8. */
json_t *gt_opts_to_json(const struct gt_opts *opts, struct gt_err *err);

/* The same, but only options that must not change when work is resumed (GT_RESUME_FIXED). */
json_t *gt_opts_fixed_to_json(const struct gt_opts *opts, struct gt_err *err);

/* Return whether two values are equal. 1 equals 1.0; "1K" does not equal 1024. */
bool gt_opt_json_equal(const json_t *a, const json_t *b);

/* Describe a table as a JSON array, an object per option, whose keys are members of struct gt_opt,
 * `default` (initial) and `required` (a flag). The caller frees it. NULL with err set if memory
 * runs out. */
json_t *gt_opt_describe(const struct gt_opt *table, struct gt_err *err);

/* Return a document as text, which the caller frees. Numbers have the smallest precision that
 * restores all of them exactly: 15, 16 or 17 digits. NULL if memory runs out. */
char *gt_json_dumps(const json_t *json, size_t flags);

#endif
