/* opt_value.c - one option's value: from text, checked, into its field. */
#include "lib/base/opt_value.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/folder.h"
#include "lib/base/suggest.h"
#include "lib/base/text.h"

static bool has_limits(const struct gt_opt *row)
{
	return row->min != 0 || row->max != 0;
}

static bool within_limits(const struct gt_opt *row, double value)
{
	if (!has_limits(row))
		return true;
	if (row->flags & GT_OPT_ABOVE ? value <= row->min : value < row->min)
		return false;
	return row->flags & GT_OPT_BELOW ? value < row->max : value <= row->max;
}

/* Write the limits: " from 1 to 65536", " above 0", " of at least 0", or nothing. */
static const char *print_limits(char *out, size_t size, const struct gt_opt *row)
{
	bool above = row->flags & GT_OPT_ABOVE, below = row->flags & GT_OPT_BELOW;

	if (!has_limits(row))
		*out = '\0';
	else if (isinf(row->max))
		snprintf(out, size, " %s %.15g", above ? "above" : "of at least", row->min);
	else if (above)
		snprintf(out, size, " above %.15g and %s %.15g", row->min,
		    below ? "below" : "at most", row->max);
	else
		snprintf(
		    out, size, " from %.15g to %s%.15g", row->min, below ? "below " : "", row->max);
	return out;
}

/* "20%" is 0.2 where numbers up to 1 are expected. */
static bool is_percent(double *value, const struct gt_opt *row, const char *text)
{
	size_t length = strlen(text);
	char number[40];

	if (length < 2 || length >= sizeof(number) || text[length - 1] != '%' || row->max > 1)
		return false;
	memcpy(number, text, length - 1);
	number[length - 1] = '\0';
	if (!gt_text_parse_double(value, number))
		return false;
	*value /= 100;
	return within_limits(row, *value);
}

static int fail_on_value(
    const struct gt_opt *row, const char *what, const char *text, struct gt_err *err)
{
	const char *word = row->type == GT_OPT_INT && row->words ? *row->words : NULL;
	char limits[80];
	double value;

	gt_err_set(err, GT_EINVAL, "'%s' is not %s%s%s%s", text, what,
	    print_limits(limits, sizeof(limits), row), word ? ", nor " : "", word ? word : "");
	if (is_percent(&value, row, text))
		gt_err_hint(err, "did you mean '%.15g'?", value);
	else
		gt_err_hint(err, "%s", row->help);
	return GT_EINVAL;
}

/* ---- fields ---- */

void gt_opt_set_bool(struct gt_opts *opts, const struct gt_opt *row, bool value)
{
	*(bool *)gt_opt_field(opts, row) = value != (bool)(row->flags & GT_OPT_INVERTED);
}

bool gt_opt_bool(const struct gt_opts *opts, const struct gt_opt *row)
{
	return *(const bool *)gt_opt_field(opts, row) != (bool)(row->flags & GT_OPT_INVERTED);
}

static void store_int(struct gt_opts *opts, const struct gt_opt *row, int64_t value)
{
	void *field = gt_opt_field(opts, row);

	if (row->size == sizeof(int))
		*(int *)field = (int)value;
	else
		*(int64_t *)field = value;
}

int64_t gt_opt_int(const struct gt_opts *opts, const struct gt_opt *row)
{
	const void *field = gt_opt_field(opts, row);

	return row->size == sizeof(int) ? *(const int *)field : *(const int64_t *)field;
}

static unsigned *given_set(const struct gt_opts *opts, const struct gt_opt *row)
{
	return (unsigned *)((char *)opts->values + row->given.offset);
}

void gt_opt_set_source(struct gt_opts *opts, const struct gt_opt *row, enum gt_opt_source source)
{
	unsigned *given = given_set(opts, row);

	opts->source[row - opts->table] = (unsigned char)source;
	if (row->given.bit)
		*given =
		    source == GT_OPT_DEFAULT ? *given & ~row->given.bit : *given | row->given.bit;
}

bool gt_opt_has_value(const struct gt_opts *opts, const struct gt_opt *row)
{
	const void *field = gt_opt_field(opts, row);

	if (row->given.bit)
		return *given_set(opts, row) & row->given.bit;
	switch (row->type) {
	case GT_OPT_INT:
	case GT_OPT_SIZE:
		return gt_opt_int(opts, row) || within_limits(row, 0);
	case GT_OPT_DOUBLE:
	case GT_OPT_DURATION:
		return *(const double *)field != 0 || within_limits(row, 0);
	case GT_OPT_STRING:
		return *(const char *const *)field != NULL;
	case GT_OPT_CHOICE:
		return *(const int *)field >= 0;
	default:
		return true;
	}
}

bool gt_opt_is_sound(const struct gt_opt *row)
{
	static const size_t sizes[] = {
		[GT_OPT_FLAG] = sizeof(bool),
		[GT_OPT_YESNO] = sizeof(bool),
		[GT_OPT_INT] = sizeof(int64_t),
		[GT_OPT_DOUBLE] = sizeof(double),
		[GT_OPT_PAIR] = sizeof(double[2]),
		[GT_OPT_SIZE] = sizeof(int64_t),
		[GT_OPT_DURATION] = sizeof(double),
		[GT_OPT_STRING] = sizeof(char *),
		[GT_OPT_CHOICE] = sizeof(int),
		[GT_OPT_LIST] = sizeof(struct gt_opt_list),
	};

	if (row->type == GT_OPT_PAIR && !row->initial && !row->given.bit)
		return false;
	if (row->type == GT_OPT_INT && row->size == sizeof(int))
		return row->min >= INT_MIN && row->max > row->min && row->max <= INT_MAX;
	return row->size == sizes[row->type];
}

/* ---- values ---- */

int gt_opt_set_int(struct gt_opts *opts, const struct gt_opt *row, int64_t value, const char *text,
    struct gt_err *err)
{
	if (!within_limits(row, (double)value))
		return fail_on_value(
		    row, row->type == GT_OPT_SIZE ? "a size" : "a number", text, err);
	store_int(opts, row, value);
	return 0;
}

int gt_opt_set_double(struct gt_opts *opts, const struct gt_opt *row, double value,
    const char *text, struct gt_err *err)
{
	if (!within_limits(row, value))
		return fail_on_value(row,
		    row->type == GT_OPT_DURATION ? "a time in seconds" : "a number", text, err);
	*(double *)gt_opt_field(opts, row) = value;
	return 0;
}

static int set_pair(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err)
{
	double *field = gt_opt_field(opts, row), value[2];
	const char *comma = strchr(text, ',');
	char first[40];

	if (!comma || (size_t)(comma - text) >= sizeof(first))
		return fail_on_value(row, "two numbers A,B, each", text, err);
	memcpy(first, text, (size_t)(comma - text));
	first[comma - text] = '\0';
	if (!gt_text_parse_double(&value[0], first) ||
	    !gt_text_parse_double(&value[1], comma + 1) || !within_limits(row, value[0]) ||
	    !within_limits(row, value[1]))
		return fail_on_value(row, "two numbers A,B, each", text, err);
	memcpy(field, value, sizeof(value));
	return 0;
}

/* Write the words: "sgd, adam, adamw". */
void gt_opt_join_words(char *out, size_t size, const char *const *words)
{
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; words[i] && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", words[i]);
}

/* Return the value for a word of other programs, such as "zero3" for "fsdp", or NULL. */
static const char *find_other_value(
    const struct gt_opts *opts, const struct gt_opt *row, const char *text)
{
	const char *value;

	for (const struct gt_opt_synonym *s = opts->synonyms; s && s->words; s++)
		if (row->name && !strcmp(s->option, row->name) &&
		    gt_opt_is_synonym(s, row, text, &value) && value)
			return value;
	return NULL;
}

static int set_choice(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err)
{
	struct gt_suggest near = { .word = text };
	const char *meant = find_other_value(opts, row, text);
	char all[240];

	for (int i = 0; row->words[i]; i++) {
		if (!strcasecmp(row->words[i], text)) {
			*(int *)gt_opt_field(opts, row) = i;
			return 0;
		}
		gt_suggest_offer(&near, row->words[i]);
	}
	gt_opt_join_words(all, sizeof(all), row->words);
	gt_err_set(err, GT_EINVAL, "'%s' is not one of %s", text, all);
	if (!meant)
		meant = near.best;
	if (meant)
		gt_err_hint(err, "did you mean '%s'?", meant);
	return GT_EINVAL;
}

static int set_yesno(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err)
{
	bool yes = !strcasecmp(text, "yes");

	if (!yes && strcasecmp(text, "no") != 0) {
		gt_err_set(err, GT_EINVAL, "'%s' is neither yes nor no", text);
		if (gt_suggest_has_word("true on 1 y t", text))
			gt_err_hint(err, "did you mean 'yes'?");
		else if (gt_suggest_has_word("false off 0 n f none", text))
			gt_err_hint(err, "did you mean 'no'?");
		return GT_EINVAL;
	}
	gt_opt_set_bool(opts, row, yes);
	return 0;
}

/* Limit a list, because each pattern of a list is compared with every parameter. */
enum { MAX_VALUES = 1000 };

static int append_list_item(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err)
{
	struct gt_opt_list *list = gt_opt_field(opts, row);
	const char **items;

	if (list->count == MAX_VALUES)
		return gt_err_set(err, GT_EINVAL, "more than %d values", MAX_VALUES);
	items = gt_arena_alloc(&opts->arena, (list->count + 1) * sizeof(*items), err);
	if (!items)
		return GT_ENOMEM;
	if (list->count)
		memcpy(items, list->items, list->count * sizeof(*items));
	items[list->count] = text;
	list->items = items;
	list->count++;
	return 0;
}

/* Expand "~/", because a shell expands it at the beginning of a word, but not after "--out=". */
static int set_string(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err)
{
	enum gt_opt_complete complete = gt_opt_completes(row);
	bool is_path = complete == GT_COMPLETE_FILE || complete == GT_COMPLETE_DIR ||
	               complete == GT_COMPLETE_MODEL;
	const char *home = is_path ? gt_home_of(text) : NULL;
	char *path;

	if (home) {
		path = gt_arena_alloc(&opts->arena, strlen(home) + strlen(text), err);
		if (!path)
			return GT_ENOMEM;
		strcpy(stpcpy(path, home), text + 1);
		text = path;
	}
	*(const char **)gt_opt_field(opts, row) = text;
	return 0;
}

int gt_opt_set_text(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err)
{
	int64_t integer;
	double real;

	if (!*text && !(row->flags & GT_OPT_EMPTY))
		return gt_err_set(err, GT_EINVAL, "the value is empty");
	switch (row->type) {
	case GT_OPT_FLAG:
	case GT_OPT_YESNO:
		return set_yesno(opts, row, text, err);
	case GT_OPT_INT:
		if (row->words && !strcasecmp(text, *row->words)) {
			store_int(opts, row, 0);
			return 0;
		}
		if (!gt_text_parse_int(&integer, text))
			return fail_on_value(row, "a whole number", text, err);
		return gt_opt_set_int(opts, row, integer, text, err);
	case GT_OPT_SIZE:
		if (!gt_text_parse_size(&integer, text))
			return fail_on_value(row, "a size in bytes, K, M or G", text, err);
		return gt_opt_set_int(opts, row, integer, text, err);
	case GT_OPT_DOUBLE:
		if (!gt_text_parse_double(&real, text))
			return fail_on_value(row, "a number", text, err);
		return gt_opt_set_double(opts, row, real, text, err);
	case GT_OPT_DURATION:
		if (!gt_text_parse_duration(&real, text))
			return fail_on_value(row, "a time in s, m or h", text, err);
		return gt_opt_set_double(opts, row, real, text, err);
	case GT_OPT_PAIR:
		return set_pair(opts, row, text, err);
	case GT_OPT_CHOICE:
		return set_choice(opts, row, text, err);
	case GT_OPT_LIST:
		return append_list_item(opts, row, text, err);
	case GT_OPT_STRING:
		return set_string(opts, row, text, err);
	case GT_OPT_HEADING:
	case GT_OPT_END:
		break;
	}
	return gt_err_set(err, GT_EINVAL, "takes no value, found '%s'", text);
}

void gt_opt_clear(struct gt_opts *opts, const struct gt_opt *row)
{
	void *field = gt_opt_field(opts, row);

	switch (row->type) {
	case GT_OPT_FLAG:
	case GT_OPT_YESNO:
		gt_opt_set_bool(opts, row, false);
		break;
	case GT_OPT_INT:
	case GT_OPT_SIZE:
		store_int(opts, row, 0);
		break;
	case GT_OPT_PAIR:
	case GT_OPT_DOUBLE:
	case GT_OPT_DURATION:
		memset(field, 0, row->size);
		break;
	case GT_OPT_STRING:
		*(const char **)field = NULL;
		break;
	case GT_OPT_CHOICE:
		*(int *)field = -1;
		break;
	case GT_OPT_LIST:
		*(struct gt_opt_list *)field = (struct gt_opt_list){ 0 };
		break;
	case GT_OPT_HEADING:
	case GT_OPT_END:
		break;
	}
}

int gt_opt_store_initial(struct gt_opts *opts, const struct gt_opt *row, struct gt_err *err)
{
	gt_opt_clear(opts, row);
	return row->initial ? gt_opt_set_text(opts, row, row->initial, err) : 0;
}

int gt_opt_set_initial(struct gt_opts *opts, const struct gt_opt *row, struct gt_err *err)
{
	gt_opt_set_source(opts, row, GT_OPT_DEFAULT);
	return gt_opt_store_initial(opts, row, err);
}
