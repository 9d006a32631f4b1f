/* recipes.h - recipes for --config NAME: options of well-known runs, built into gtrain. */
#ifndef GT_CMD_RECIPES_H
#define GT_CMD_RECIPES_H

#include <jansson.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/base/opt.h"

/*
 * A recipe is a set of options for `gtrain train`. Its file cmd/recipes/NAME.json has the format of
 * config.json, a JSON object of options and their values (lib/base/opt_json.h), but no key `data`.
 * The Makefile turns each file into a row of gt_cmd_recipes[]. The object `about` in the file has
 * these texts:
 *
 *   title     the purpose of the recipe: a short phrase in lower case, without a full stop
 *   data      an example of the value of --data
 *   val       an example of the value of --val; may be absent
 *   init-from an example of the value of --init-from; may be absent
 *   text      the data that the recipe needs, and the source of its settings
 *   measured  the machine and the time of a measured run; absent if no run was measured
 */
struct gt_cmd_recipe {
	const char *name, *json; /* NAME, and the text of the file */
};

/* All recipes. The last row has the name NULL. */
extern const struct gt_cmd_recipe gt_cmd_recipes[];
/* The names of all recipes, ended by NULL. */
extern const char *const gt_cmd_recipe_names[];

/* Return the recipe with the name `config`, the value of --config. Return NULL if there is no such
 * recipe. Also return NULL if `config` is the path of an existing file that is not a folder,
 * because files have priority over recipes. */
const struct gt_cmd_recipe *gt_cmd_recipe_find(const char *config);

/* Read the recipe or the file `config`, and set the options that are not on the command line.
 * Errors: the errors of gt_opts_load(). If neither a recipe nor a file has this name, and the name
 * contains no "." or "/", the hint suggests a recipe with a similar name, or the command that lists
 * all recipes. */
int gt_cmd_config_load(struct gt_opts *opts, const char *config, struct gt_err *err);

/* Set the hint of `err` to an example of --data for the recipe `config`. Do nothing if `config` is
 * NULL or not a recipe. Return err->code. */
int gt_cmd_recipe_hint_data(const char *config, struct gt_err *err);

/* The output of `gtrain help recipes`. gt_cmd_recipes_print() prints it as text.
 * gt_cmd_recipes_describe() returns it as a JSON array, which the caller frees. */
int gt_cmd_recipes_print(FILE *out, struct gt_err *err);
json_t *gt_cmd_recipes_describe(struct gt_err *err);

#endif
