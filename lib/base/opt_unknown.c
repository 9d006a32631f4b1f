/* opt_unknown.c - the option that a user meant by an unknown name. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/opt_value.h"
#include "lib/base/suggest.h"

enum { NAME = 64, FORM = 160 };

static const struct gt_opt *find_row(const struct gt_opt *table, const char *name)
{
	return name ? gt_opt_find(table, name, strlen(name)) : NULL;
}

/* Find the value of a CHOICE option in a word such as "adam" or "use-adam". */
static const char *find_own_value(const struct gt_opt *row, const char *word)
{
	const char *rest = strncasecmp(word, "use", 3) ? word : word + 3;

	for (const char *const *value = row->words; *value; value++)
		if (gt_suggest_same_letters(*value, word) || gt_suggest_same_letters(*value, rest))
			return *value;
	return NULL;
}

bool gt_opt_is_synonym(
    const struct gt_opt_synonym *s, const struct gt_opt *row, const char *word, const char **value)
{
	*value = s->value;
	if (strcmp(s->words, "*") != 0)
		return gt_suggest_has_word(s->words, word);
	*value = find_own_value(row, word);
	return *value;
}

static const struct gt_opt_synonym *find_synonym(
    const struct gt_opts *opts, const char *name, const char **value)
{
	for (const struct gt_opt_synonym *s = opts->synonyms; s && s->words; s++) {
		const struct gt_opt *row = find_row(opts->table, s->option);

		if (row && (!s->beside || find_row(opts->table, s->beside)) &&
		    gt_opt_is_synonym(s, row, name, value))
			return s;
	}
	return NULL;
}

void gt_opt_form(char *out, size_t size, const struct gt_opt *row)
{
	size_t used = 0;

	*out = '\0';
	if (row->type == GT_OPT_FLAG)
		return;
	if (row->type == GT_OPT_YESNO) {
		snprintf(out, size, "=yes|no");
	} else if (row->type != GT_OPT_CHOICE) {
		snprintf(out, size, row->implied ? "[=%s]" : " %s", row->metavar);
	} else {
		for (size_t i = 0; row->words[i] && used < size; i++)
			used += (size_t)snprintf(out + used, size - used, "%s%s",
			    i              ? "|"
			    : row->implied ? "[="
			                   : " ",
			    row->words[i]);
		if (row->implied && used < size)
			snprintf(out + used, size - used, "]");
	}
}

static int hint_synonym(const struct gt_opts *opts, const struct gt_opt_synonym *s,
    const char *value, bool command_line, struct gt_err *err)
{
	char form[FORM];

	if (s->note)
		return gt_err_hint(err, "%s", s->note);
	if (!command_line && value)
		return gt_err_hint(
		    err, "did you mean '%s', as in \"%s\": \"%s\"?", s->option, s->option, value);
	if (!command_line)
		return gt_err_hint(err, "did you mean '%s'?", s->option);
	if (value)
		snprintf(form, sizeof(form), " %s", value);
	else
		gt_opt_form(form, sizeof(form), find_row(opts->table, s->option));
	return gt_err_hint(err, "did you mean '--%s%s'?", s->option, form);
}

static bool is_named(const struct gt_opt *row, bool command_line)
{
	return row->name && (command_line || !(row->flags & GT_OPT_ONCE));
}

static const char *find_same_letters(
    const struct gt_opts *opts, const char *name, bool command_line)
{
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (is_named(row, command_line) && gt_suggest_same_letters(row->name, name))
			return row->name;
	return NULL;
}

static const char *find_similar(const struct gt_opts *opts, const char *name, bool command_line)
{
	struct gt_suggest near = { .word = name };

	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (is_named(row, command_line))
			gt_suggest_offer(&near, row->name);
	return near.best;
}

/* Find the option in "no-pin-memory", which means pin-memory=no. */
static const struct gt_opt *find_negated(const struct gt_opts *opts, const char *name)
{
	if (strncmp(name, "no-", 3) && strncmp(name, "no_", 3))
		return NULL;
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if ((row->type == GT_OPT_FLAG || row->type == GT_OPT_YESNO) &&
		    gt_suggest_same_letters(row->name, name + 3))
			return row;
	return NULL;
}

int gt_opt_hint_unknown(const struct gt_opts *opts, const char *name, size_t length,
    bool command_line, struct gt_err *err)
{
	const struct gt_opt_synonym *synonym = NULL;
	const struct gt_opt *negated;
	const char *near, *value = NULL;
	char word[NAME];

	if (length >= sizeof(word))
		return err->code;
	memcpy(word, name, length);
	word[length] = '\0';
	negated = command_line ? find_negated(opts, word) : NULL;
	if (negated)
		return gt_err_hint(err, "did you mean '--%s=no'?", negated->name);
	near = find_same_letters(opts, word, command_line);
	if (!near)
		synonym = find_synonym(opts, word, &value);
	if (synonym)
		return hint_synonym(opts, synonym, value, command_line, err);
	if (!near)
		near = find_similar(opts, word, command_line);
	if (near)
		gt_err_hint(err, "did you mean '%s%s'?", command_line ? "--" : "", near);
	return err->code;
}
