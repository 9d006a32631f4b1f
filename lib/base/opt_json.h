/* opt_json.h - read and write options as config.json, and describe option tables as JSON. */
#ifndef GT_BASE_OPT_JSON_H
#define GT_BASE_OPT_JSON_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/base/opt.h"

/*
 * The format of config.json: one object. Its keys are names of options, and the values are:
 *
 *   FLAG, YESNO      true or false
 *   INT, DOUBLE      a number
 *   SIZE, DURATION   a number (bytes, seconds), or a string with a unit ("25M", "10m")
 *   STRING, CHOICE   a string
 *   PAIR, LIST       an array
 *   all types        null: the default, as if the option were not given
 *
 * The name of an option with the flag GT_OPT_ONCE (opt.h), such as `help`, is an error: these
 * options are only for the command line. The key GT_OPT_ABOUT is not an option. Its value is an
 * object with facts about the run that wrote the file. Readers of options ignore this value,
 * whatever its type. Any other unknown key is an error.
 */
#define GT_OPT_ABOUT "about"

/*
 * Set options from a JSON object of this format. Call this after gt_opts_parse(): options that are
 * given on the command line keep their values. An option of the object is ignored if it cannot be
 * combined with an option of the command line. Strings are copied.
 *
 * Errors: GT_EINVAL, with the key in the text; GT_ENOMEM.
 */
int gt_opts_from_json(struct gt_opts *opts, const json_t *object, struct gt_err *err);

/* Read a JSON file, given by its path or by its name in an open folder (struct gt_file_name,
 * folder.h), and call gt_opts_from_json() with its content. Errors: GT_EIO; GT_EFORMAT if the file
 * is not a JSON object; the errors of gt_opts_from_json(). The text of an error begins with the
 * path. */
int gt_opts_load(struct gt_opts *opts, const char *path, struct gt_err *err);
int gt_opts_load_at(struct gt_opts *opts, struct gt_file_name file, struct gt_err *err);

/* Return a JSON object with the current values of all options, in the order of the table. The
 * caller frees the object. Options with the flag GT_OPT_ONCE and rows without a field are left out.
 * gt_opts_from_json() restores the same values from the object. NULL with err set if memory runs
 * out or a string is not UTF-8. */
json_t *gt_opts_to_json(const struct gt_opts *opts, struct gt_err *err);

/* As gt_opts_to_json(), but return only the options that must not change when earlier work is
 * resumed (GT_RESUME_FIXED). */
json_t *gt_opts_fixed_to_json(const struct gt_opts *opts, struct gt_err *err);

/* Return whether two JSON values are equal. 1 and 1.0 are equal, also in arrays; "1K" and 1024 are
 * not. */
bool gt_opt_json_equal(const json_t *a, const json_t *b);

/* Return a description of an option table as a JSON array, which the caller frees. The array has
 * one object per option. The keys name, letter, metavar, implied, otherwise, words and help of an
 * object are the members of struct gt_opt (opt.h) with these names. `type` is a word for the type,
 * such as "int"; `default` is gt_opt.initial; `required` is the flag GT_OPT_REQUIRED. Keys without
 * a value are left out. NULL with err set if memory runs out. */
json_t *gt_opt_describe(const struct gt_opt *table, struct gt_err *err);

/* Return a JSON document as text, which the caller frees. One precision is used for all numbers of
 * the document: the smallest of 15, 16 and 17 digits with which every number is read back exactly
 * (0.9, not 0.90000000000000002). `flags` are the flags of json_dumps(). NULL if memory runs out.
 */
char *gt_json_dumps(const json_t *json, size_t flags);

#endif
