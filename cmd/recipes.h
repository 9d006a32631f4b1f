/* recipes.h - complete sets of options for well-known runs, built into gtrain: --config NAME. */
#ifndef GT_CMD_RECIPES_H
#define GT_CMD_RECIPES_H

#include <jansson.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/base/opt.h"

/*
 * A recipe is a file cmd/recipes/NAME.json. It is a config.json without `data`; the Makefile turns
 * it into a row of gt_cmd_recipes[]. Its object `about` has the texts
 *   title     half a line: lower case, no full stop
 *   data      a value of --data for it, as an example
 *   text      the data that it needs, and the source of its settings
 *   measured  machine and time, or "not measured here"
 */
struct gt_cmd_recipe {
	const char *name, *json;
};

/* All recipes, ended by one without a name; and their names, ended by NULL. */
extern const struct gt_cmd_recipe gt_cmd_recipes[];
extern const char *const gt_cmd_recipe_names[];

/* The recipe that the argument of --config names; NULL if there is none, or if a file has this
 * path. */
const struct gt_cmd_recipe *gt_cmd_recipe_find(const char *config);

/* Set the options that are not on the command line, from the recipe or the file that `config`
 * names. Errors: those of gt_opts_load(), with the nearest name of a recipe as a hint. */
int gt_cmd_config_load(struct gt_opts *opts, const char *config, struct gt_err *err);

/* Set the hint to the data that the recipe needs. Do nothing if `config` does not name a recipe.
 * Returns err->code. */
int gt_cmd_recipe_hint_data(const char *config, struct gt_err *err);

/* `gtrain help recipes`: print it as text; return it as a JSON array, which the caller frees. */
int gt_cmd_recipes_print(FILE *out, struct gt_err *err);
json_t *gt_cmd_recipes_describe(struct gt_err *err);

#endif
