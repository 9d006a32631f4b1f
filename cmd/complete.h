/* complete.h - the answer to a shell that completes a command line. */
#ifndef GT_CMD_COMPLETE_H
#define GT_CMD_COMPLETE_H

#include <stdbool.h>

#include "lib/base/opt.h"

/* The names with which a shell extends the candidates of an answer. */
enum gt_complete_names { GT_COMPLETE_NO_NAMES, GT_COMPLETE_FILES, GT_COMPLETE_FOLDERS };

/* The word to complete. `item` is the part of it that candidates replace. */
struct gt_completion {
	const char *word, *item;
};

/* Begin the answer. With `more`, the shell adds no space after a candidate. */
void gt_complete_begin(const struct gt_completion *c, enum gt_complete_names names, bool more);

/* Offer `text` and `ending` in place of the item, if they fit. */
void gt_complete_offer(
    const struct gt_completion *c, const char *text, const char *ending, const char *meaning);

/* Answer with the values of an option; the item is the part of the value that was typed. */
void gt_complete_value(struct gt_completion *c, const struct gt_opt *row);

#endif
