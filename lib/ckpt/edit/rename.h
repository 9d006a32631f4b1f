/* rename.h - rewrite names by rules REGEX=REPLACEMENT. */
#ifndef GT_CKPT_EDIT_RENAME_H
#define GT_CKPT_EDIT_RENAME_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

struct gt_renames {
	struct gt_rename *rules;
	size_t count;
};

/*
 * Compile rules "REGEX=REPLACEMENT", cut at the last "="; the texts must outlive `out`. REGEX is an
 * expression of PCRE2 over Unicode characters: "." and "[äö]" match one character, and \d and \w
 * match characters of any script. \0 to \9 in the replacement stand for the text of the groups,
 * other characters for themselves. The list ends with NULL, or is NULL. Errors: GT_EINVAL names the
 * rule and the byte of REGEX. Release it in any case.
 */
int gt_renames_init(struct gt_renames *out, const char *const *rules, struct gt_err *err);
void gt_renames_release(struct gt_renames *r);

/*
 * Apply all rules to `name` in order; each replaces its first match. Returns `name` itself or a
 * string in the arena. Only one thread may call this at a time. NULL with err set: GT_EINVAL for a
 * match that takes too many steps or too much memory, GT_ENOMEM.
 */
const char *gt_renames_apply(
    const struct gt_renames *r, const char *name, struct gt_arena *a, struct gt_err *err);

#endif
