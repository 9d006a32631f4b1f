/* opt_partners.c - options that have an effect only together with others. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_value.h"
#include "lib/base/text.h"

/* Return the default as a number. */
static double default_number(const struct gt_opt *row)
{
	int64_t bytes = 0;
	double number = 0;

	if (!row->initial)
		return 0;
	if (row->type == GT_OPT_SIZE)
		return gt_text_parse_size(&bytes, row->initial) ? (double)bytes : 0;
	if (row->type == GT_OPT_DURATION)
		gt_text_parse_duration(&number, row->initial);
	else
		gt_text_parse_double(&number, row->initial);
	return number;
}

static bool differs(const char *value, const char *initial)
{
	return value && (!initial || strcmp(value, initial));
}

/* Return the value of an option of text or a choice, or NULL if it has none. */
static const char *find_option_word(const struct gt_opts *opts, const struct gt_opt *row)
{
	const void *field = gt_opt_field(opts, row);

	switch (row->type) {
	case GT_OPT_FLAG:
	case GT_OPT_YESNO:
		return gt_opt_bool(opts, row) ? "yes" : "no";
	case GT_OPT_CHOICE:
		return *(const int *)field < 0 ? NULL : row->words[*(const int *)field];
	case GT_OPT_STRING:
		return *(const char *const *)field;
	default:
		return NULL;
	}
}

bool gt_opts_is_changed(const struct gt_opts *opts, const struct gt_opt *row)
{
	const void *field = gt_opt_field(opts, row);

	switch (row->type) {
	case GT_OPT_INT:
	case GT_OPT_SIZE:
		return (double)gt_opt_int(opts, row) != default_number(row);
	case GT_OPT_DOUBLE:
	case GT_OPT_DURATION:
		return *(const double *)field != default_number(row);
	case GT_OPT_LIST:
		return ((const struct gt_opt_list *)field)->count > 0;
	case GT_OPT_FLAG:
		return gt_opt_bool(opts, row);
	default:
		return differs(find_option_word(opts, row), row->initial);
	}
}

static bool holds(const struct gt_opts *opts, const struct gt_opt_condition *c)
{
	const struct gt_opt *row = gt_opt_find(opts->table, c->option, strlen(c->option));
	const char *word;

	assert(row);
	if (!c->is && !c->is_not)
		return gt_opts_is_changed(opts, row);
	word = find_option_word(opts, row);
	return word && (c->is ? !strcmp(word, c->is) : strcmp(word, c->is_not) != 0);
}

/* Return the first of the row's conditions that holds, or NULL. */
static const struct gt_opt_condition *find_true(
    const struct gt_opts *opts, const struct gt_opt_condition conditions[GT_OPT_CONDITIONS])
{
	for (int i = 0; i < GT_OPT_CONDITIONS && conditions[i].option; i++)
		if (holds(opts, &conditions[i]))
			return &conditions[i];
	return NULL;
}

static int fail_need(const struct gt_opt *row, struct gt_err *err)
{
	const struct gt_opt_condition *need = row->needs;

	gt_err_set(err, GT_EINVAL, "{%s} has no effect with these options", row->name);
	if (need[1].option)
		return gt_err_hint(err, "use it with {%s} or {%s}", need->option, need[1].option);
	if (need->is_not)
		return gt_err_hint(err, "use it with another {%s}", need->option);
	return gt_err_hint(err, "use it with {%s}%s%s", need->option, need->is ? " " : "",
	    need->is ? need->is : "");
}

static int fail_without(
    const struct gt_opt *row, const struct gt_opt_condition *c, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "{%s} has no effect with {%s}%s%s", row->name, c->option,
	    c->is ? " " : "", c->is ? c->is : "");
	return gt_err_hint(err, "leave one of the two out");
}

int gt_opts_check_partners(const struct gt_opts *opts, struct gt_err *err)
{
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++) {
		const struct gt_opt_condition *without = find_true(opts, row->without);

		if (opts->source[row - opts->table] != GT_OPT_COMMAND_LINE)
			continue;
		if (without)
			return fail_without(row, without, err);
		if (row->needs->option && !find_true(opts, row->needs))
			return fail_need(row, err);
	}
	return 0;
}
