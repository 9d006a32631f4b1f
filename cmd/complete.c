/* complete.c - gtrain --complete: the candidates for the last word of a command line. */
#include "cmd/complete.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/topics.h"

/*
 * The scripts in completions/ run `gtrain --complete WORD...` with the words of the command line
 * after "gtrain", up to the cursor. The last word, which may be empty, is completed. The answer to
 * `gtrain --complete train --data mnist:m,split=t` is
 *
 *	word nospace mnist:m,split=
 *	mnist:m,split=test
 *	mnist:m,split=train
 *
 * The first line is KIND, SPACE and PREFIX. KIND is "word"; or "file" or "directory" if the shell
 * is to complete such names, too, in the part of the word after PREFIX. SPACE is "nospace" if no
 * space follows a candidate, because the word may go on. Each further line is a candidate for the
 * whole word, followed by a tab and a description if there is one.
 */
void gt_complete_begin(const struct gt_completion *c, enum gt_complete_names names, bool more)
{
	static const char *const kinds[] = { "word", "file", "directory" };

	printf("%s %s %.*s\n", kinds[names], more ? "nospace" : "space", (int)(c->item - c->word),
	    c->word);
}

void gt_complete_offer(
    const struct gt_completion *c, const char *text, const char *ending, const char *meaning)
{
	if (strncmp(text, c->item, strlen(c->item)))
		return;
	printf("%.*s%s%s", (int)(c->item - c->word), c->word, text, ending);
	printf(*meaning ? "\t%s\n" : "%s\n", meaning);
}

/* ---- commands ---- */

static void offer_first_words(const struct gt_completion *c)
{
	const char *word, *summary;

	for (const struct gt_cmd *cmd = gt_cmd_table(); cmd->name; cmd++) {
		word = gt_cmd_first_word(cmd, &summary);
		if (word)
			gt_complete_offer(c, word, "", summary);
	}
}

static void offer_group_words(const struct gt_completion *c, const struct gt_cmd_group *group)
{
	for (const struct gt_cmd *cmd = gt_cmd_table(); cmd->name; cmd++) {
		const char *word = gt_cmd_word_in(cmd, group);

		if (word)
			gt_complete_offer(c, word, "", cmd->summary);
	}
}

/* The operands of `gtrain help`. A topic with the name of a group is offered once. */
static void offer_subjects(const struct gt_completion *c, const struct gt_cmd_group *group)
{
	if (group) {
		offer_group_words(c, group);
		return;
	}
	offer_first_words(c);
	for (const struct gt_cmd_topic *topic = gt_cmd_topics(); topic->name; topic++)
		if (!gt_cmd_group_find(topic->name))
			gt_complete_offer(c, topic->name, "", topic->summary);
}

/* Offer the commands, or those of a group, and the options that stand in place of a command. */
static void complete_command(const struct gt_completion *c, const struct gt_cmd_group *group)
{
	gt_complete_begin(c, GT_COMPLETE_NO_NAMES, false);
	if (*c->word == '-') {
		if (!group)
			gt_complete_offer(c, "--version", "", "print the version");
		gt_complete_offer(c, "--help", "", "list the commands");
	} else if (group) {
		offer_group_words(c, group);
	} else {
		offer_first_words(c);
	}
}

/* ---- options ---- */

static const struct gt_opt *find_letter(const struct gt_opt *table, char letter)
{
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++)
		if (row->letter && row->letter == letter)
			return row;
	return NULL;
}

/* The option that a word names, or NULL. *value is the text after '=', or NULL. */
static const struct gt_opt *find_option(
    const struct gt_opt *table, const char *word, const char **value)
{
	const char *equals = strchr(word, '=');

	*value = NULL;
	if (word[0] != '-' || !word[1])
		return NULL;
	if (word[1] != '-')
		return word[2] ? NULL : find_letter(table, word[1]);
	if (equals)
		*value = equals + 1;
	return gt_opt_find(
	    table, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2));
}

/* An option that was given is not offered again, unless it collects values. */
static bool was_given(
    const struct gt_opt *row, const struct gt_opt *table, char *const *words, int count)
{
	const char *value;

	for (int i = 0; row->type != GT_OPT_LIST && i < count - 1; i++)
		if (find_option(table, words[i], &value) == row)
			return true;
	return false;
}

static void offer_options(
    const struct gt_completion *c, const struct gt_opt *table, char *const *words, int count)
{
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++) {
		char letter[] = { '-', row->letter, 0 }, name[64];

		if (!row->name || was_given(row, table, words, count))
			continue;
		snprintf(name, sizeof(name), "--%s", row->name);
		gt_complete_offer(c, name, "", row->help);
		if (row->letter)
			gt_complete_offer(c, letter, "", row->help);
	}
}

/* `words` are those after the command, `before` is an option whose value may be left out. */
static void complete_operand(const struct gt_completion *c, const struct gt_cmd *cmd,
    const struct gt_opt *before, char *const *words, int count)
{
	bool subjects = cmd->work == &gt_cmd_help, option = *c->word == '-' || !cmd->operands;
	bool files = cmd->operands && !cmd->word && !subjects && !option;

	gt_complete_begin(c, files ? GT_COMPLETE_FILES : GT_COMPLETE_NO_NAMES, false);
	for (size_t i = 0; before && before->words && before->words[i]; i++)
		gt_complete_offer(c, before->words[i], "", "");
	if (option)
		offer_options(c, cmd->work->options, words, count);
	else if (subjects)
		offer_subjects(c, count > 1 ? gt_cmd_group_find(words[count - 2]) : NULL);
	for (int i = 0; !option && cmd->word && cmd->word(i); i++)
		gt_complete_offer(c, cmd->word(i), "", "");
}

static void complete_words_after(
    struct gt_completion *c, const struct gt_cmd *cmd, char *const *words, int count)
{
	const struct gt_opt *table = cmd->work->options, *before = NULL;
	const struct gt_opt *row = find_option(table, c->word, &c->item);
	const char *value;

	if (row && c->item) {
		gt_complete_value(c, row);
		return;
	}
	c->item = c->word;
	if (count > 1)
		before = find_option(table, words[count - 2], &value);
	if (before && (value || !gt_opt_takes_value(before)))
		before = NULL;
	if (before && gt_opt_needs_value(before))
		gt_complete_value(c, before);
	else
		complete_operand(c, cmd, before, words, count);
}

int gt_cmd_complete(int count, char **words)
{
	const char *word = count ? words[count - 1] : "";
	struct gt_completion c = { .word = word, .item = word };
	const struct gt_cmd_group *group = NULL;
	const struct gt_cmd *cmd = NULL;
	struct gt_err err = GT_ERR_INIT;
	int used = 0;

	if (count > 1)
		cmd = gt_cmd_resolve(&group, count - 1, words, &used, &err);
	if (cmd)
		complete_words_after(&c, cmd, words + used, count - used);
	else if (count < 2 || (group && count == 2))
		complete_command(&c, group);
	else
		gt_complete_begin(&c, GT_COMPLETE_NO_NAMES, false);
	return GT_EXIT_DONE;
}
