/* run_differ.c - list the options that differ between runs. */
#include "lib/train/run/run_differ.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/base/text.h"

static json_t *value_of(const struct gt_run *run, const char *option)
{
	return json_object_get(run->config, option);
}

static bool is_unset(const json_t *value)
{
	return !value || json_is_null(value);
}

static bool is_same(const json_t *a, const json_t *b)
{
	return is_unset(a) || is_unset(b) ? is_unset(a) && is_unset(b) : gt_opt_json_equal(a, b);
}

/* Return whether an earlier run has the option, so that it is listed already. */
static bool is_listed(const struct gt_run *runs, size_t before, const char *option)
{
	for (size_t r = 0; r < before; r++)
		if (value_of(&runs[r], option))
			return true;
	return false;
}

static bool differs(const struct gt_run *runs, size_t count, const char *option)
{
	if (!strcmp(option, "out") || !strcmp(option, GT_OPT_ABOUT))
		return false;
	for (size_t r = 1; r < count; r++)
		if (!is_same(value_of(&runs[0], option), value_of(&runs[r], option)))
			return true;
	return false;
}

static int add_option(json_t *list, const struct gt_run *runs, size_t count, const char *option)
{
	json_t *values = json_array();

	for (size_t r = 0; values && r < count; r++) {
		json_t *value = value_of(&runs[r], option);

		if (json_array_append_new(values, value ? json_incref(value) : json_null())) {
			json_decref(values);
			return -1;
		}
	}
	return json_array_append_new(
	    list, values ? json_pack("{s:s,s:o}", "option", option, "values", values) : NULL);
}

json_t *gt_run_differ(const struct gt_run *runs, size_t count, struct gt_err *err)
{
	json_t *list = json_array(), *value;
	bool failed = !list;
	const char *option;

	for (size_t r = 0; r < count; r++)
		json_object_foreach(runs[r].config, option, value)
		{
			if (!failed && !is_listed(runs, r, option) && differs(runs, count, option))
				failed = add_option(list, runs, count, option);
		}
	if (!failed)
		return list;
	json_decref(list);
	gt_err_set(err, GT_ENOMEM, "out of memory: the options that differ");
	return NULL;
}

static void put_list(struct gt_buf *out, const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (i)
			gt_buf_puts(out, ",");
		gt_run_put_value(out, item);
	}
}

static void put_object(struct gt_buf *out, const json_t *object)
{
	char *text = gt_json_dumps(object, JSON_COMPACT | JSON_ENCODE_ANY);

	gt_buf_puts(out, text ? text : "?");
	free(text);
}

void gt_run_put_value(struct gt_buf *out, const json_t *value)
{
	char number[GT_TEXT_SIZE];

	if (is_unset(value))
		gt_buf_puts(out, "-");
	else if (json_is_string(value))
		gt_buf_puts(out, json_string_value(value));
	else if (json_is_boolean(value))
		gt_buf_puts(out, json_is_true(value) ? "yes" : "no");
	else if (json_is_integer(value))
		gt_buf_printf(out, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		gt_buf_puts(out, gt_text_number(number, json_real_value(value)));
	else if (json_is_array(value))
		put_list(out, value);
	else
		put_object(out, value);
}
