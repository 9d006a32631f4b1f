/* opt_value.h - inside base: storing one value, checked, in its field. */
#ifndef GT_BASE_OPT_VALUE_H
#define GT_BASE_OPT_VALUE_H

#include "lib/base/opt.h"

/*
 * All of these check the value against the row and store it. `text` is the value as it was given,
 * for the message, which does not name the option: whoever knows how it was written puts it
 * before. Strings are kept as they are, not copied. Errors: GT_EINVAL, GT_ENOMEM (lists).
 */
int gt_opt_set_text(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err);
int gt_opt_set_int(struct gt_opts *opts, const struct gt_opt *row, int64_t value, const char *text,
    struct gt_err *err);
int gt_opt_set_double(struct gt_opts *opts, const struct gt_opt *row, double value,
    const char *text, struct gt_err *err);

/* Store the default. */
int gt_opt_set_initial(struct gt_opts *opts, const struct gt_opt *row, struct gt_err *err);

/* Refuse two options that exclude each other if both come from `source`. */
int gt_opt_check_exclusions(
    const struct gt_opts *opts, enum gt_opt_source source, struct gt_err *err);

/* Store "no value": NULL, 0, NaN, -1, false or an empty list. */
void gt_opt_clear(struct gt_opts *opts, const struct gt_opt *row);

/* The field of a row. */
static inline void *gt_opt_field(const struct gt_opts *opts, const struct gt_opt *row)
{
	return (char *)opts->values + row->offset;
}

#endif
