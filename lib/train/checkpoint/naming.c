/* naming.c - the prefix that all names of a checkpoint have, and the model has not. */
#include "lib/train/checkpoint/naming.h"

#include <stdio.h>
#include <string.h>

static const char word_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* The end of the word that all names have from `start` on, behind its '.'; 0: there is none. */
static size_t common_word(const char *const *names, size_t count, size_t start)
{
	size_t end = start + strspn(names[0] + start, word_letters);

	if (end == start || names[0][end] != '.')
		return 0;
	end++;
	for (size_t i = 1; i < count; i++)
		if (strncmp(names[i], names[0], end))
			return 0;
	return end;
}

/* Whether the model knows one of the names without the first `length` letters. */
static bool knows_any(const char *const *names, size_t count, size_t length,
    bool (*knows)(void *self, const char *name), void *self)
{
	for (size_t i = 0; i < count; i++)
		if (knows(self, names[i] + length))
			return true;
	return false;
}

/* Write the rule that removes a prefix. */
static void write_rule(struct gt_naming *n)
{
	size_t used = 0;

	n->cut[used++] = '^';
	for (const char *p = n->prefix; *p; p++) {
		if (*p == '.')
			n->cut[used++] = '\\';
		n->cut[used++] = *p;
	}
	n->cut[used++] = '=';
	n->own[0] = n->cut;
	n->maps = n->own;
}

/*
 * Set *out to the rules of the user, `maps`. If there are none, look at the first words of the
 * names, where a word ends at a '.'. If all names have the same first words, and the model knows
 * some of the names only without these words, set *out to a rule that removes them. An example is
 * "net." in "net.conv1.weight": a LightningModule puts the name of its attribute before the names.
 * The prefixes of wrappers, such as "module.", have been removed from the names already, whatever
 * the model is (gt_state_dict_bare_name()).
 *
 * `knows` returns whether a name stands for a tensor of the model; `self` is passed to it.
 */
void gt_naming_find(struct gt_naming *out, const char *const *maps, const char *const *names,
    size_t count, bool (*knows)(void *self, const char *name), void *self)
{
	size_t length = 0;

	*out = (struct gt_naming){ .maps = maps && *maps ? maps : NULL };
	if (out->maps || !count)
		return;
	while (!knows_any(names, count, length, knows, self)) {
		length = common_word(names, count, length);
		if (!length || length >= sizeof(out->prefix))
			return;
	}
	if (!length)
		return;
	snprintf(out->prefix, sizeof(out->prefix), "%.*s", (int)length, names[0]);
	write_rule(out);
}
