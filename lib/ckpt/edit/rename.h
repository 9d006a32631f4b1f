/* rename.h - names rewritten by REGEX=REPLACEMENT. */
#ifndef GT_CKPT_EDIT_RENAME_H
#define GT_CKPT_EDIT_RENAME_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

struct gt_renames {
	struct gt_rename *rules;
	size_t count;
};

/*
 * Compile rules "REGEX=REPLACEMENT": POSIX extended, cut at the last "="; \0 to \9 in the
 * replacement are what the groups matched. They work on bytes: beyond ASCII a character is several,
 * which a bracket takes apart. A backslash before a letter is refused, since "\d" would be the
 * letter d. The list ends with NULL, or is NULL. Errors: GT_EINVAL names the rule. Release it in
 * any case.
 */
int gt_renames_init(struct gt_renames *out, const char *const *rules, struct gt_err *err);
void gt_renames_release(struct gt_renames *r);

/* `name` after every rule in turn, the first match of each replaced; itself, or in the arena. NULL
 * with err set without memory. */
const char *gt_renames_apply(
    const struct gt_renames *r, const char *name, struct gt_arena *a, struct gt_err *err);

#endif
