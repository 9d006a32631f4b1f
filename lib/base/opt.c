/* opt.c - reading a command line by an option table. */
#include "lib/base/opt.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_value.h"

const struct gt_opt *gt_opt_find(const struct gt_opt *table, const char *name, size_t length)
{
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++)
		if (row->name && strlen(row->name) == length && !memcmp(row->name, name, length))
			return row;
	return NULL;
}

static const struct gt_opt *find_letter(const struct gt_opt *table, char letter)
{
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++)
		if (row->letter && row->letter == letter)
			return row;
	return NULL;
}

bool gt_opt_takes_value(const struct gt_opt *row)
{
	return row->type != GT_OPT_FLAG;
}

bool gt_opt_needs_value(const struct gt_opt *row)
{
	return gt_opt_takes_value(row) && !row->implied;
}

enum gt_opt_complete gt_opt_completes(const struct gt_opt *row)
{
	return row->type == GT_OPT_CHOICE ? GT_COMPLETE_WORDS : row->complete;
}

int gt_opts_init(struct gt_opts *opts, const struct gt_opt *table, void *values, struct gt_err *err)
{
	size_t rows = 0;
	int rc;

	*opts = (struct gt_opts){ .table = table, .values = values };
	while (table[rows].type != GT_OPT_END)
		rows++;
	opts->source = gt_calloc(rows, 1, err);
	opts->agrees = gt_calloc(rows, sizeof(*opts->agrees), err);
	if (!opts->source || !opts->agrees)
		return GT_ENOMEM;
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++) {
		if (row->type == GT_OPT_HEADING)
			continue;
		assert(gt_opt_is_sound(row));
		rc = gt_opt_set_initial(opts, row, err);
		if (rc)
			return gt_err_prefix(err, "default of --%s", row->name);
	}
	return 0;
}

void gt_opt_set_defaults(const struct gt_opt *table, void *values)
{
	struct gt_opts opts = { .table = table, .values = values };
	int rc = 0;

	for (const struct gt_opt *row = table; !rc && row->type != GT_OPT_END; row++)
		if (row->type != GT_OPT_HEADING && row->size)
			rc = gt_opt_store_initial(&opts, row, GT_ERR_IGNORED);
	assert(!rc);
}

void gt_opts_release(struct gt_opts *opts)
{
	free(opts->source);
	free(opts->agrees);
	gt_arena_release(&opts->arena);
	*opts = (struct gt_opts){ 0 };
}

enum gt_opt_source gt_opts_source(const struct gt_opts *opts, const char *name)
{
	const struct gt_opt *row = gt_opt_find(opts->table, name, strlen(name));

	assert(row);
	return opts->source[row - opts->table];
}

static bool contains(const char *const *names, const char *name)
{
	while (names && *names && strcmp(*names, name))
		names++;
	return names && *names;
}

/* Return whether the option is on the command line with another value than in the configuration
 * file. */
static bool gives_another_value(const struct gt_opts *opts, const char *name)
{
	const struct gt_opt *row = gt_opt_find(opts->table, name, strlen(name));

	assert(row);
	return opts->source[row - opts->table] == GT_OPT_COMMAND_LINE &&
	       !opts->agrees[row - opts->table];
}

static bool follows_another(
    const struct gt_opts *opts, const struct gt_opt *row, const char *const *except)
{
	for (const char *const *name = row->follows; name && *name; name++)
		if (gives_another_value(opts, *name) && !contains(except, *name))
			return true;
	return false;
}

int gt_opts_reset_stale(struct gt_opts *opts, const char *const *except, struct gt_err *err)
{
	int rc = 0;

	for (const struct gt_opt *row = opts->table; !rc && row->type != GT_OPT_END; row++)
		if (opts->source[row - opts->table] == GT_OPT_CONFIG &&
		    follows_another(opts, row, except))
			rc = gt_opt_set_initial(opts, row, err);
	return rc;
}

int gt_opts_check_operands(struct gt_opts *opts, int max, struct gt_err *err)
{
	const struct gt_opt *row;

	if (opts->operand_count <= max)
		return 0;
	row = opts->before[max];
	if (row && gt_opt_set_text(opts, row, opts->operands[max], err))
		return gt_err_prefix(err, "--%s", row->name);
	gt_err_set(err, GT_EINVAL, "unexpected argument '%s'", opts->operands[max]);
	if (row && !row->words)
		gt_err_hint(
		    err, "write '--%s=%s' if it is the value", row->name, opts->operands[max]);
	return GT_EINVAL;
}

int gt_opts_require(const struct gt_opts *opts, struct gt_err *err)
{
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (row->flags & GT_OPT_REQUIRED &&
		    opts->source[row - opts->table] == GT_OPT_DEFAULT)
			return gt_err_set(err, GT_EINVAL, "--%s %s is missing", row->name,
			    row->metavar ? row->metavar : "");
	return 0;
}

/* The position of the parser. */
struct cursor {
	int argc, next;
	char **argv;
	const struct gt_opt *open; /* the last option, if a value might have followed */
};

static int unknown_option(
    const struct gt_opts *opts, const char *name, size_t length, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "unknown option '--%.*s'", (int)length, name);
	return gt_opt_hint_unknown(opts, name, length, true, err);
}

/* A word that starts like a long option is almost always one, and the value was forgotten. */
static bool looks_like_option(const char *word)
{
	return word[0] == '-' && word[1] == '-' && isalpha((unsigned char)word[2]);
}

/* Return whether the word can be the value of an option whose value is optional. Only a choice can
 * be a word of its own; other values are joined to the option by '='. */
static bool is_choice_of(const struct gt_opt *row, const char *word)
{
	for (int i = 0; row->words && row->words[i]; i++)
		if (!strcmp(row->words[i], word))
			return true;
	return false;
}

/* Return the option's value: the next word, or the implied value, or NULL. */
static const char *next_value(const struct gt_opt *row, struct cursor *at)
{
	const char *next = at->next < at->argc ? at->argv[at->next] : NULL;

	if (!next || (row->implied ? !is_choice_of(row, next) : looks_like_option(next))) {
		at->open = row->implied ? row : NULL;
		return row->implied;
	}
	at->next++;
	return next;
}

/* Return whether the user may mean the next word as the value of a flag, which has to be joined by
 * '='. */
static bool is_yes_or_no(const struct cursor *at)
{
	const char *next = at->next < at->argc ? at->argv[at->next] : "";

	return !strcmp(next, "yes") || !strcmp(next, "no");
}

/* Store one option. `value` is the text after "=" in the same word, or NULL. */
static int set_option(struct gt_opts *opts, const struct gt_opt *row, const char *value,
    struct cursor *at, struct gt_err *err)
{
	if (row->type == GT_OPT_FLAG && !value) {
		at->open = is_yes_or_no(at) ? row : NULL;
		gt_opt_set_bool(opts, row, true);
		gt_opt_set_source(opts, row, GT_OPT_COMMAND_LINE);
		return 0;
	}
	if (!value)
		value = next_value(row, at);
	if (!value) {
		gt_err_set(err, GT_EINVAL, "--%s: needs a value, %s", row->name,
		    row->metavar ? row->metavar : "as --help says");
		if (at->next < at->argc)
			gt_err_hint(err,
			    "'%s' looks like an option; write '--%s=%s' if it is the value",
			    at->argv[at->next], row->name, at->argv[at->next]);
		return GT_EINVAL;
	}
	/* The first value given replaces the default list. */
	if (row->type == GT_OPT_LIST && opts->source[row - opts->table] != GT_OPT_COMMAND_LINE)
		gt_opt_clear(opts, row);
	gt_opt_set_source(opts, row, GT_OPT_COMMAND_LINE);
	if (gt_opt_set_text(opts, row, value, err))
		return gt_err_prefix(err, "--%s", row->name);
	return 0;
}

static int parse_long(struct gt_opts *opts, const char *word, struct cursor *at, struct gt_err *err)
{
	size_t length = strcspn(word, "=");
	const struct gt_opt *row = gt_opt_find(opts->table, word, length);

	if (!row)
		return unknown_option(opts, word, length, err);
	return set_option(opts, row, word[length] ? word + length + 1 : NULL, at, err);
}

/* Parse "-qv" or "-ofile": letters without values, and perhaps a last one with a value. */
static int parse_letters(
    struct gt_opts *opts, const char *letters, struct cursor *at, struct gt_err *err)
{
	for (const char *p = letters; *p; p++) {
		const struct gt_opt *row = find_letter(opts->table, *p);
		const char *value = NULL;
		int rc;

		if (!row)
			return gt_err_set(err, GT_EINVAL, "unknown option '-%c'", *p);
		if (gt_opt_takes_value(row) && p[1])
			value = p + 1;
		rc = set_option(opts, row, value, at, err);
		if (rc || value)
			return rc;
	}
	return 0;
}

int gt_opt_check_exclusions(
    const struct gt_opts *opts, enum gt_opt_source source, struct gt_err *err)
{
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (row->excludes && opts->source[row - opts->table] == source &&
		    gt_opts_source(opts, row->excludes) == source)
			return gt_err_set(err, GT_EINVAL, "--%s cannot be combined with --%s",
			    row->name, row->excludes);
	return 0;
}

int gt_opts_parse(struct gt_opts *opts, int argc, char **argv, struct gt_err *err)
{
	struct cursor at = { .argc = argc, .next = 1, .argv = argv };
	size_t words = (size_t)argc + 1;
	bool options = true;
	int rc = 0;

	opts->operands = gt_arena_alloc(&opts->arena, words * sizeof(*opts->operands), err);
	opts->before = gt_arena_alloc(&opts->arena, words * sizeof(*opts->before), err);
	if (!opts->operands || !opts->before)
		return GT_ENOMEM;
	while (!rc && at.next < argc) {
		const struct gt_opt *before = at.open;
		char *word = argv[at.next++];

		at.open = NULL;
		if (!options || word[0] != '-' || !word[1]) {
			opts->before[opts->operand_count] = before;
			opts->operands[opts->operand_count++] = word;
		} else if (!strcmp(word, "--")) {
			options = false;
		} else if (word[1] == '-') {
			rc = parse_long(opts, word + 2, &at, err);
		} else {
			rc = parse_letters(opts, word + 1, &at, err);
		}
	}
	return rc ? rc : gt_opt_check_exclusions(opts, GT_OPT_COMMAND_LINE, err);
}
