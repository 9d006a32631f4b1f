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

/* ended by the name NULL */
extern const struct gt_cmd_recipe gt_cmd_recipes[];
/* ended by NULL */
extern const char *const gt_cmd_recipe_names[];

/* Return the recipe that --config names, or NULL; an existing file has priority. */
const struct gt_cmd_recipe *gt_cmd_recipe_find(const char *config);

/* Set the options that are not on the command line from the recipe or the file `config`. */
int gt_cmd_config_load(struct gt_opts *opts, const char *config, struct gt_err *err);

/* If `config` is a recipe, set the hint to an example of --data. Return err->code. */
int gt_cmd_recipe_hint_data(const char *config, struct gt_err *err);

/* Print the recipes as text, or return them as a JSON array, which the caller frees. */
int gt_cmd_recipes_print(FILE *out, struct gt_err *err);
json_t *gt_cmd_recipes_describe(struct gt_err *err);

#endif
