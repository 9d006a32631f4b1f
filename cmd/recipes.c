/* recipes.c - complete sets of options for well-known runs. */
#include "cmd/recipes.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/opt_json.h"
#include "lib/base/suggest.h"
#include "lib/train/run/run_list.h"

/* A folder may have the name of a recipe, as the directory of its run. */
const struct gt_cmd_recipe *gt_cmd_recipe_find(const char *config)
{
	struct stat st;

	if (!stat(config, &st) && !S_ISDIR(st.st_mode))
		return NULL;
	for (const struct gt_cmd_recipe *r = gt_cmd_recipes; r->name; r++)
		if (!strcmp(r->name, config))
			return r;
	return NULL;
}

static json_t *parse_recipe(const struct gt_cmd_recipe *recipe, struct gt_err *err)
{
	json_error_t where;
	json_t *object = json_loads(recipe->json, JSON_REJECT_DUPLICATES, &where);

	if (!object)
		gt_err_set(err, GT_EFORMAT, "recipe %s: line %d: %s", recipe->name, where.line,
		    where.text);
	return object;
}

static const char *text_of(const json_t *recipe, const char *key)
{
	const char *text =
	    json_string_value(json_object_get(json_object_get(recipe, GT_OPT_ABOUT), key));

	return text ? text : "";
}

static int load_recipe(struct gt_opts *opts, const struct gt_cmd_recipe *recipe, struct gt_err *err)
{
	json_t *object = parse_recipe(recipe, err);
	int rc = object ? gt_opts_from_json(opts, object, err) : err->code;

	json_decref(object);
	return rc ? gt_err_prefix(err, "recipe %s", recipe->name) : 0;
}

/* A word without the looks of a path may be meant as a name. */
static int fail_name(const char *config, struct gt_err *err)
{
	struct gt_suggest near = { .word = config };

	for (const struct gt_cmd_recipe *r = gt_cmd_recipes; r->name; r++)
		gt_suggest_offer(&near, r->name);
	gt_err_set(err, GT_EIO, "--config: there is neither a file nor a recipe '%s'", config);
	return near.best ? gt_err_hint(err, "did you mean '%s'?", near.best)
	                 : gt_err_hint(err, "'gtrain help recipes' lists the recipes");
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* A run directory means its config.json. */
static int load_folder(struct gt_opts *opts, const char *folder, struct gt_err *err)
{
	char path[PATH_MAX], runs[GT_RUN_LIST_SIZE];

	if (snprintf(path, sizeof(path), "%s/config.json", folder) < PATH_MAX &&
	    !access(path, F_OK))
		return gt_opts_load(opts, path, err);
	gt_err_set(err, GT_EIO, "--config: '%s' is a folder without config.json", folder);
	return gt_run_list(runs, sizeof(runs), folder)
	           ? gt_err_hint(err, "name one of its runs: %s", runs)
	           : gt_err_hint(err, "name a configuration file or a run");
}

int gt_cmd_config_load(struct gt_opts *opts, const char *config, struct gt_err *err)
{
	const struct gt_cmd_recipe *recipe = gt_cmd_recipe_find(config);
	int rc;

	if (recipe)
		return load_recipe(opts, recipe, err);
	if (!strpbrk(config, "./") && access(config, F_OK) && errno == ENOENT)
		return fail_name(config, err);
	if (is_folder(config))
		return load_folder(opts, config, err);
	rc = gt_opts_load(opts, config, err);
	if (rc == GT_EFORMAT && !*err->hint)
		gt_err_hint(err, "a configuration is JSON, such as the config.json of a run");
	return rc;
}

int gt_cmd_recipe_hint_data(const char *config, struct gt_err *err)
{
	const struct gt_cmd_recipe *recipe = config ? gt_cmd_recipe_find(config) : NULL;
	json_t *object = recipe ? parse_recipe(recipe, GT_ERR_IGNORED) : NULL;

	if (object)
		gt_err_hint(err, "for example --data %s; 'gtrain help recipes' says more",
		    text_of(object, "data"));
	json_decref(object);
	return err->code;
}

/* ---- help ---- */

enum { WIDTH = 79, INDENT = 6 };

/* A paragraph of words, each line indented. */
static void print_wrapped(FILE *out, const char *text)
{
	int column = 0;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column + 1 + length > WIDTH) {
			fputc('\n', out);
			column = 0;
		}
		column += column ? fprintf(out, " %.*s", length, text)
		                 : fprintf(out, "%*s%.*s", INDENT, "", length, text);
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

/* The options that depend on the user's files. A recipe has examples of them, but no values. */
static const char *const own_options[] = { "data", "val", "init-from", NULL };

/* A value too long for the line is broken behind a comma, as a shell joins it again: so the rest
 * begins in the first column. */
static void print_broken_value(FILE *out, int column, const char *value)
{
	while (*value) {
		int length = (int)strcspn(value, ",");

		length += value[length] == ',';
		if (column + length > WIDTH - (int)strlen("\\"))
			column = fprintf(out, "\\\n") - 2;
		column += fprintf(out, "%.*s", length, value);
		value += length;
	}
}

/* One option per line. Every recipe has an example of --data, the first. */
static void print_example(FILE *out, const json_t *recipe)
{
	int column = fprintf(out, "%*sfor example ", INDENT, "");

	for (const char *const *option = own_options; *option; option++) {
		const char *value = text_of(recipe, *option);

		if (!*value)
			continue;
		if (option > own_options) {
			fputs(" \\\n", out);
			column = fprintf(out, "%*s", INDENT, "");
		}
		column += fprintf(out, "--%s ", *option);
		print_broken_value(out, column, value);
	}
	fputc('\n', out);
}

int gt_cmd_recipes_print(FILE *out, struct gt_err *err)
{
	fputs("gtrain train --config NAME --data DATA takes the other options from a recipe.\n"
	      "Options on the command line win. --dry-run prints the plan.\n",
	    out);
	for (const struct gt_cmd_recipe *r = gt_cmd_recipes; r->name; r++) {
		json_t *object = parse_recipe(r, err);

		if (!object)
			return err->code;
		fprintf(out, "\n  %s: %s\n", r->name, text_of(object, "title"));
		print_wrapped(out, text_of(object, "text"));
		if (*text_of(object, "measured"))
			fprintf(out, "      machine and time: %s\n", text_of(object, "measured"));
		print_example(out, object);
		json_decref(object);
	}
	return 0;
}

json_t *gt_cmd_recipes_describe(struct gt_err *err)
{
	json_t *list = json_array();

	for (const struct gt_cmd_recipe *r = gt_cmd_recipes; list && r->name; r++) {
		json_t *object = parse_recipe(r, err), *about;

		if (!object) {
			json_decref(list);
			return NULL;
		}
		about = json_incref(json_object_get(object, GT_OPT_ABOUT));
		json_object_del(object, GT_OPT_ABOUT);
		json_object_set_new(about, "name", json_string(r->name));
		json_object_set_new(about, "options", object);
		json_array_append_new(list, about);
	}
	return list;
}
