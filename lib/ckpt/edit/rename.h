/* rename.h - change names of tensors by rules of the form REGEX=REPLACEMENT. */
#ifndef GT_CKPT_EDIT_RENAME_H
#define GT_CKPT_EDIT_RENAME_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

struct gt_renames {
	struct gt_rename *rules;
	size_t count;
};

/*
 * Compile rules of the form "REGEX=REPLACEMENT". The last "=" separates the two parts. `rules` ends
 * with a NULL pointer, or is NULL for no rules. The texts must outlive `out`.
 *
 * REGEX is a PCRE2 expression over Unicode characters: "." and "[äö]" match one character, and \d
 * and \w match characters of any script. In REPLACEMENT, \0 to \9 stand for the text of the groups;
 * all other characters stand for themselves.
 *
 * Errors: GT_EINVAL; the message contains the rule and the position, in bytes, at which REGEX is
 * wrong. Call gt_renames_release() even after an error.
 */
int gt_renames_init(struct gt_renames *out, const char *const *rules, struct gt_err *err);
void gt_renames_release(struct gt_renames *r);

/*
 * Apply all rules to `name`, in order. Each rule replaces its first match. Return `name` itself or
 * a string in the arena. Only one thread may call this function at a time.
 *
 * Errors: NULL with err set. GT_EINVAL for a match that takes too many steps or too much memory;
 * GT_ENOMEM.
 */
const char *gt_renames_apply(
    const struct gt_renames *r, const char *name, struct gt_arena *a, struct gt_err *err);

#endif
