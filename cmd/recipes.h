/* recipes.h - complete sets of options for well-known runs, in the program: --config NAME. */
#ifndef GT_CMD_RECIPES_H
#define GT_CMD_RECIPES_H

#include <jansson.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/base/opt.h"

/*
 * A recipe is a file cmd/recipes/NAME.json, which the Makefile makes a row: a config.json without
 * `data`, whose object `about` has the texts
 *   title     half a line: lower case, no full stop
 *   data      a value of --data for it, as an example
 *   text      the data that it wants, where settings come from
 *   measured  machine and time, or "not measured here"
 */
struct gt_cmd_recipe {
	const char *name, *json;
};

/* Ended by one without a name; and the names, ended by NULL. */
extern const struct gt_cmd_recipe gt_cmd_recipes[];
extern const char *const gt_cmd_recipe_names[];

/* Whether the argument of --config names a recipe: no file has this path. */
const struct gt_cmd_recipe *gt_cmd_recipe_find(const char *config);

/* Set the options that the command line leaves out: from the recipe, or the file of this path.
 * Errors: those of gt_opts_load(), with the nearest name of a recipe as a hint. */
int gt_cmd_config_load(struct gt_opts *opts, const char *config, struct gt_err *err);

/* Hint at the data that a recipe wants; nothing where `config` names none. Returns err->code. */
int gt_cmd_recipe_hint_data(const char *config, struct gt_err *err);

/* `gtrain help recipes`: as text; as a JSON array, yours. */
int gt_cmd_recipes_print(FILE *out, struct gt_err *err);
json_t *gt_cmd_recipes_describe(struct gt_err *err);

#endif
