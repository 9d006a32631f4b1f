/* naming.h - private: rules by which the names in a checkpoint become names of the model. */
#ifndef GT_TRAIN_CHECKPOINT_NAMING_H
#define GT_TRAIN_CHECKPOINT_NAMING_H

#include <stdbool.h>
#include <stddef.h>

enum { GT_NAMING_PREFIX = 120 };

/* Rules that rename the keys of a checkpoint. Do not copy or move it. */
struct gt_naming {
	/* rules "REGEX=REPLACEMENT", applied in order; NULL: no rules */
	const char *const *maps;
	/* the prefix that is removed from every name, such as "net."; "": none */
	char prefix[GT_NAMING_PREFIX];
	/* the rule that removes the prefix: `maps` is then `own`, and own[0] is `cut` */
	const char *own[2];
	char cut[2 * GT_NAMING_PREFIX]; /* each '.' of the prefix takes two bytes */
};

/* Set *out to the rules `maps` or, if there are none, to the removal of first words that all names
 * share and the model's names lack. `knows` returns whether a name stands for a tensor of the
 * model. */
void gt_naming_find(struct gt_naming *out, const char *const *maps, const char *const *names,
    size_t count, bool (*knows)(void *self, const char *name), void *self);

#endif
