/* opt_json.c - option tables and JSON. */
#include "lib/base/opt_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/opt_value.h"

/* ---- values ---- */

static json_t *list_to_json(const struct gt_opt_list *list)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < list->count; i++) {
		if (json_array_append_new(array, json_string(list->items[i]))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *value_to_json(const struct gt_opts *opts, const struct gt_opt *row)
{
	const void *field = gt_opt_field(opts, row);
	const double *real = field;

	if (row->type == GT_OPT_INT && row->words && !gt_opt_int(opts, row))
		return json_string(*row->words);
	if (!gt_opt_has_value(opts, row))
		return json_null();
	switch (row->type) {
	case GT_OPT_FLAG:
	case GT_OPT_YESNO:
		return json_boolean(gt_opt_bool(opts, row));
	case GT_OPT_INT:
	case GT_OPT_SIZE:
		return json_integer(gt_opt_int(opts, row));
	case GT_OPT_DOUBLE:
	case GT_OPT_DURATION:
		return json_real(*real);
	case GT_OPT_PAIR:
		return json_pack("[ff]", real[0], real[1]);
	case GT_OPT_LIST:
		return list_to_json(field);
	case GT_OPT_CHOICE:
		return json_string(row->words[*(const int *)field]);
	default:
		return json_string(*(const char *const *)field);
	}
}

/* Numbers are compared by value: a file may have 1 for 1.0. */
bool gt_opt_json_equal(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return json_number_value(a) == json_number_value(b);
	if (!json_is_array(a) || !json_is_array(b) || json_array_size(a) != json_array_size(b))
		return json_equal(a, b);
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!gt_opt_json_equal(json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

/* ---- reading ---- */

static int wrong_kind(const char *wanted, struct gt_err *err)
{
	return gt_err_set(err, GT_EINVAL, "must be %s", wanted);
}

/* The string is copied, because the JSON is freed before it. */
static int set_copy(
    struct gt_opts *opts, const struct gt_opt *row, const json_t *value, struct gt_err *err)
{
	char *copy;

	/* json_string_value() would hide the text behind a zero byte. */
	if (strlen(json_string_value(value)) != json_string_length(value))
		return gt_err_set(err, GT_EINVAL, "contains a zero byte");
	copy = gt_arena_strdup(&opts->arena, json_string_value(value), err);
	return copy ? gt_opt_set_text(opts, row, copy, err) : GT_ENOMEM;
}

static int set_bool(
    struct gt_opts *opts, const struct gt_opt *row, const json_t *value, struct gt_err *err)
{
	if (!json_is_boolean(value))
		return wrong_kind("true or false", err);
	gt_opt_set_bool(opts, row, json_is_true(value));
	return 0;
}

static int set_number(
    struct gt_opts *opts, const struct gt_opt *row, const json_t *value, struct gt_err *err)
{
	bool unit = row->type == GT_OPT_SIZE || row->type == GT_OPT_DURATION;
	bool whole = row->type == GT_OPT_INT || row->type == GT_OPT_SIZE;
	bool word = row->type == GT_OPT_INT && row->words;
	char text[40];

	if ((unit || word) && json_is_string(value))
		return set_copy(opts, row, value, err);
	if (whole ? !json_is_integer(value) : !json_is_number(value))
		return wrong_kind(whole ? "a whole number" : "a number", err);
	if (whole) {
		snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return gt_opt_set_int(opts, row, json_integer_value(value), text, err);
	}
	snprintf(text, sizeof(text), "%.15g", json_number_value(value));
	return gt_opt_set_double(opts, row, json_number_value(value), text, err);
}

static int set_pair(
    struct gt_opts *opts, const struct gt_opt *row, const json_t *value, struct gt_err *err)
{
	const json_t *a = json_array_get(value, 0), *b = json_array_get(value, 1);
	char text[80];

	if (json_array_size(value) != 2 || !json_is_number(a) || !json_is_number(b))
		return wrong_kind("an array of two numbers", err);
	/* 17 digits give the same double back. */
	snprintf(text, sizeof(text), "%.17g,%.17g", json_number_value(a), json_number_value(b));
	return gt_opt_set_text(opts, row, text, err);
}

static int set_list(
    struct gt_opts *opts, const struct gt_opt *row, const json_t *value, struct gt_err *err)
{
	int rc = 0;

	if (!json_is_array(value))
		return wrong_kind("an array of strings", err);
	gt_opt_clear(opts, row);
	for (size_t i = 0; !rc && i < json_array_size(value); i++) {
		const json_t *item = json_array_get(value, i);

		rc = json_is_string(item) ? set_copy(opts, row, item, err)
		                          : wrong_kind("an array of strings", err);
	}
	return rc;
}

static int set_value(
    struct gt_opts *opts, const struct gt_opt *row, const json_t *value, struct gt_err *err)
{
	if (json_is_null(value)) {
		return gt_opt_set_initial(opts, row, err);
	}
	switch (row->type) {
	case GT_OPT_FLAG:
	case GT_OPT_YESNO:
		return set_bool(opts, row, value, err);
	case GT_OPT_INT:
	case GT_OPT_SIZE:
	case GT_OPT_DOUBLE:
	case GT_OPT_DURATION:
		return set_number(opts, row, value, err);
	case GT_OPT_PAIR:
		return set_pair(opts, row, value, err);
	case GT_OPT_LIST:
		return set_list(opts, row, value, err);
	default:
		return json_is_string(value) ? set_copy(opts, row, value, err)
		                             : wrong_kind("a string", err);
	}
}

/* Return whether the command line has priority over the file for this option. */
static bool overruled(const struct gt_opts *opts, const struct gt_opt *row)
{
	return opts->source[row - opts->table] == GT_OPT_COMMAND_LINE ||
	       (row->excludes && gt_opts_source(opts, row->excludes) == GT_OPT_COMMAND_LINE);
}

static void note_agreement(struct gt_opts *opts, const struct gt_opt *row, const json_t *value)
{
	json_t *own = value_to_json(opts, row);

	opts->agrees[row - opts->table] = gt_opt_json_equal(own, value);
	json_decref(own);
}

int gt_opts_from_json(struct gt_opts *opts, const json_t *object, struct gt_err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		const struct gt_opt *row = gt_opt_find(opts->table, key, strlen(key));

		if (!strcmp(key, GT_OPT_ABOUT))
			continue;
		if (!row) {
			gt_err_set(err, GT_EINVAL, "unknown option '%s'", key);
			return gt_opt_hint_unknown(opts, key, strlen(key), false, err);
		}
		if (row->flags & GT_OPT_ONCE)
			return gt_err_set(err, GT_EINVAL,
			    "'%s' belongs on the command line, not in a configuration file", key);
		if (overruled(opts, row)) {
			note_agreement(opts, row, value);
			continue;
		}
		if (set_value(opts, row, value, err))
			return gt_err_prefix(err, "'%s'", key);
		gt_opt_set_source(opts, row, json_is_null(value) ? GT_OPT_DEFAULT : GT_OPT_CONFIG);
	}
	return gt_opt_check_exclusions(opts, GT_OPT_CONFIG, err);
}

int gt_opts_load(struct gt_opts *opts, const char *path, struct gt_err *err)
{
	return gt_opts_load_at(opts, (struct gt_file_name){ .path = path }, err);
}

int gt_opts_load_at(struct gt_opts *opts, struct gt_file_name file, struct gt_err *err)
{
	struct gt_mapping map;
	json_error_t where;
	json_t *object;
	int rc = gt_map_at(&map, file, err);

	if (rc)
		return rc;
	object = json_loadb(
	    map.data ? (const char *)map.data : "", map.size, JSON_REJECT_DUPLICATES, &where);
	if (!object)
		rc = gt_err_set(err, GT_EFORMAT, "line %d: %s", where.line, where.text);
	else if (!json_is_object(object))
		rc = gt_err_set(err, GT_EFORMAT, "not a JSON object of options");
	else
		rc = gt_opts_from_json(opts, object, err);
	if (rc)
		gt_err_prefix(err, "%s", file.path);
	json_decref(object);
	gt_unmap(&map);
	return rc;
}

/* ---- writing ---- */

static void fail_to_write(const struct gt_opt *row, struct gt_err *err)
{
	if (errno == ENOMEM) {
		gt_err_set(err, GT_ENOMEM, "no memory for the options");
		return;
	}
	gt_err_set(
	    err, GT_EINVAL, "{%s}: not UTF-8, so a JSON file cannot hold the value", row->name);
	gt_err_hint(err, "if it is a path, rename the file or the folder");
}

/* Return whether the value of a row is saved, and, if `fixed` is set, must not change. */
static bool is_saved(const struct gt_opt *row, bool fixed)
{
	if (row->type == GT_OPT_HEADING || row->flags & GT_OPT_ONCE || !row->size)
		return false;
	return !fixed || row->resume.kind == GT_RESUME_FIXED;
}

static json_t *options_to_json(const struct gt_opts *opts, bool fixed, struct gt_err *err)
{
	json_t *object = json_object();

	for (const struct gt_opt *row = opts->table; object && row->type != GT_OPT_END; row++) {
		if (!is_saved(row, fixed))
			continue;
		errno = 0;
		if (json_object_set_new(object, row->name, value_to_json(opts, row))) {
			fail_to_write(row, err);
			json_decref(object);
			return NULL;
		}
	}
	if (!object)
		gt_err_set(err, GT_ENOMEM, "no memory for the options");
	return object;
}

json_t *gt_opts_to_json(const struct gt_opts *opts, struct gt_err *err)
{
	return options_to_json(opts, false, err);
}

json_t *gt_opts_fixed_to_json(const struct gt_opts *opts, struct gt_err *err)
{
	return options_to_json(opts, true, err);
}

/* ---- describing ---- */

static const char *type_name(enum gt_opt_type type)
{
	static const char *const name[] = {
		[GT_OPT_FLAG] = "flag",
		[GT_OPT_YESNO] = "yes-no",
		[GT_OPT_INT] = "int",
		[GT_OPT_DOUBLE] = "double",
		[GT_OPT_PAIR] = "pair",
		[GT_OPT_SIZE] = "size",
		[GT_OPT_DURATION] = "duration",
		[GT_OPT_STRING] = "string",
		[GT_OPT_CHOICE] = "choice",
		[GT_OPT_LIST] = "list",
	};

	return name[type];
}

static json_t *words_to_json(const char *const *words)
{
	struct gt_opt_list list = { .items = words };

	if (!words)
		return NULL;
	while (words[list.count])
		list.count++;
	return list_to_json(&list);
}

static json_t *describe_row(const struct gt_opt *row)
{
	const char letter[2] = { row->letter };

	return json_pack("{ss ss* ss ss* ss* ss* ss* so* sb ss}", "name", row->name, "letter",
	    row->letter ? letter : NULL, "type", type_name(row->type), "metavar", row->metavar,
	    "default", row->initial, "implied", row->implied, "otherwise", row->otherwise, "words",
	    words_to_json(row->words), "required", (row->flags & GT_OPT_REQUIRED) != 0, "help",
	    row->help);
}

json_t *gt_opt_describe(const struct gt_opt *table, struct gt_err *err)
{
	json_t *array = json_array();

	for (const struct gt_opt *row = table; array && row->type != GT_OPT_END; row++) {
		if (row->type == GT_OPT_HEADING)
			continue;
		if (json_array_append_new(array, describe_row(row))) {
			json_decref(array);
			array = NULL;
			break;
		}
	}
	if (!array)
		gt_err_set(err, GT_ENOMEM, "no memory for the description of the options");
	return array;
}

char *gt_json_dumps(const json_t *json, size_t flags)
{
	char *text = NULL;
	bool same = false;

	for (size_t digits = 15; digits <= 17 && !same; digits++) {
		json_t *back;

		free(text);
		text = json_dumps(json, flags | JSON_REAL_PRECISION(digits));
		if (!text)
			return NULL;
		back = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		same = back && json_equal(json, back);
		json_decref(back);
	}
	return text;
}
