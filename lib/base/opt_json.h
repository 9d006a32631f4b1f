/* opt_json.h - option tables and JSON: config.json read and written, tables described. */
#ifndef GT_BASE_OPT_JSON_H
#define GT_BASE_OPT_JSON_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/base/opt.h"

/*
 * The shape of config.json: one object whose keys are option names. Flags and yes/no are true or
 * false; numbers are numbers; sizes and times are numbers (bytes, seconds) or text with a unit
 * ("25M", "10m"); choices are their word; pairs and lists are arrays; null means that the option is
 * absent. Options marked GT_OPT_ONCE do not occur. The key GT_OPT_ABOUT is not an option: it holds
 * an object with facts about the run that wrote the file, and is ignored when options are read. Any
 * other unknown key is an error.
 */
#define GT_OPT_ABOUT "about"

/*
 * Set options from an object. Call it after gt_opts_parse(): options of the command line keep their
 * values, and options that cannot be combined with them stay unset. Strings are copied.
 *
 * Errors: GT_EINVAL, text begins with the key; GT_ENOMEM.
 */
int gt_opts_from_json(struct gt_opts *opts, const json_t *object, struct gt_err *err);

/* The same from a file. Errors: GT_EIO; GT_EFORMAT if it is not a JSON object; and those of
 * gt_opts_from_json(). All errors name the file. */
int gt_opts_load(struct gt_opts *opts, const char *path, struct gt_err *err);
int gt_opts_load_at(struct gt_opts *opts, struct gt_file_name file, struct gt_err *err);

/* All options except those marked GT_OPT_ONCE, with the current values of their fields, in the
 * table's order. gt_opts_from_json() restores the same values from it. NULL with err set if memory
 * runs out. */
json_t *gt_opts_to_json(const struct gt_opts *opts, struct gt_err *err);

/* A table as an array of objects, one per option: name, letter, type, metavar, default, otherwise,
 * words, required, help; keys without a value are absent. NULL with err set if memory runs out. */
json_t *gt_opt_describe(const struct gt_opt *table, struct gt_err *err);

/* Return a document as text, yours to free(). It is written by json_dumps() with the fewest digits
 * from which all of its numbers are read back exactly: 0.9, not 0.90000000000000002. NULL: out of
 * memory. */
char *gt_json_dumps(const json_t *json, size_t flags);

#endif
