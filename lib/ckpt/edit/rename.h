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
 * Compile rules "REGEX=REPLACEMENT" (rename.c), ended by NULL, which must outlive `out`. Release
 * `out` also after an error. GT_EINVAL: a rule is wrong.
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
