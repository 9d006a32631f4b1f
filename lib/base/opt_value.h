/* opt_value.h - inside base: storing one value, checked, in its field. */
#ifndef GT_BASE_OPT_VALUE_H
#define GT_BASE_OPT_VALUE_H

#include "lib/base/opt.h"

/*
 * All of these check the value against the row and store it. `text` is the value as it was given,
 * for the message, which does not name the option: the caller knows its spelling and puts it
 * before. Strings are kept as they are, not copied. Errors: GT_EINVAL, GT_ENOMEM (lists).
 */
int gt_opt_set_text(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err);
int gt_opt_set_int(struct gt_opts *opts, const struct gt_opt *row, int64_t value, const char *text,
    struct gt_err *err);
int gt_opt_set_double(struct gt_opts *opts, const struct gt_opt *row, double value,
    const char *text, struct gt_err *err);

void gt_opt_set_bool(struct gt_opts *opts, const struct gt_opt *row, bool value);

/* Store the default, and record GT_OPT_DEFAULT as the source. */
int gt_opt_set_initial(struct gt_opts *opts, const struct gt_opt *row, struct gt_err *err);

/* Record the source of the value, and set its bit in `given` if the row has one. */
void gt_opt_set_source(struct gt_opts *opts, const struct gt_opt *row, enum gt_opt_source source);

/* The current value of a row's field. */
bool gt_opt_bool(const struct gt_opts *opts, const struct gt_opt *row);
int64_t gt_opt_int(const struct gt_opts *opts, const struct gt_opt *row);

/* Whether the field has a value. The bit in `given` says so; a row without such a bit has a value
 * if it is not NULL, not -1, and not a 0 outside the row's limits. */
bool gt_opt_has_value(const struct gt_opts *opts, const struct gt_opt *row);

/* Whether the field is as large as the row's type, and can hold every value that the row allows. */
bool gt_opt_is_sound(const struct gt_opt *row);

/* Check that no two options that exclude each other both come from `source`. */
int gt_opt_check_exclusions(
    const struct gt_opts *opts, enum gt_opt_source source, struct gt_err *err);

/* Store "no value": NULL, 0, -1, false or an empty list. */
void gt_opt_clear(struct gt_opts *opts, const struct gt_opt *row);

/* The field of a row. */
static inline void *gt_opt_field(const struct gt_opts *opts, const struct gt_opt *row)
{
	return (char *)opts->values + row->offset;
}

#endif
