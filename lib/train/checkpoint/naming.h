/* naming.h - private: rules by which the names in a checkpoint become names of the model. */
#ifndef GT_TRAIN_CHECKPOINT_NAMING_H
#define GT_TRAIN_CHECKPOINT_NAMING_H

#include <stdbool.h>
#include <stddef.h>

enum { GT_NAMING_PREFIX = 120 };

/* Rules for names. Set by gt_naming_find(); *naming must not be copied or moved. */
struct gt_naming {
	/* rules "REGEX=REPLACEMENT", applied one after the other to every name; NULL: no rules */
	const char *const *maps;
	/* the prefix that the rules remove from every name, such as "net."; "": none */
	char prefix[GT_NAMING_PREFIX];
	/* Storage for the rule that removes the prefix. With such a rule, `maps` points to `own`,
	 * and own[0] points to `cut`. */
	const char *own[2];
	char cut[2 * GT_NAMING_PREFIX]; /* a word has a letter or more, and each '.' takes two */
};

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
    size_t count, bool (*knows)(void *self, const char *name), void *self);

#endif
