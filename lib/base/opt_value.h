/* opt_value.h - private: check and store the value of one row of an option table (opt.h). */
#ifndef GT_BASE_OPT_VALUE_H
#define GT_BASE_OPT_VALUE_H

#include "lib/base/opt.h"

/*
 * Check a value against the type and the limits in `row`, and store it in the field that the row
 * describes, a member of the struct opts->values. `text` is the value as the user wrote it.
 * gt_opt_set_text() parses `text`; the other functions use `text` only in error messages. An error
 * message does not name the option, so the caller adds the name. Strings are not copied: the field
 * points to `text`. Errors: GT_EINVAL; GT_ENOMEM for a LIST option.
 */
int gt_opt_set_text(
    struct gt_opts *opts, const struct gt_opt *row, const char *text, struct gt_err *err);
int gt_opt_set_int(struct gt_opts *opts, const struct gt_opt *row, int64_t value, const char *text,
    struct gt_err *err);
int gt_opt_set_double(struct gt_opts *opts, const struct gt_opt *row, double value,
    const char *text, struct gt_err *err);

/* Store the value of a FLAG or YESNO option. */
void gt_opt_set_bool(struct gt_opts *opts, const struct gt_opt *row, bool value);

/* Store the default value in the field. gt_opt_set_initial() also sets the source of the value to
 * GT_OPT_DEFAULT. Errors: GT_EINVAL if the default is wrong. */
int gt_opt_store_initial(struct gt_opts *opts, const struct gt_opt *row, struct gt_err *err);
int gt_opt_set_initial(struct gt_opts *opts, const struct gt_opt *row, struct gt_err *err);

/* Set the source of the value. The row may have a bit `given`, which shows that the field has a
 * value (opt.h). Clear this bit if the source is GT_OPT_DEFAULT, and set it otherwise. */
void gt_opt_set_source(struct gt_opts *opts, const struct gt_opt *row, enum gt_opt_source source);

/* Return the current value of an option from its field. */
bool gt_opt_bool(const struct gt_opts *opts, const struct gt_opt *row);
int64_t gt_opt_int(const struct gt_opts *opts, const struct gt_opt *row);

/* Return whether the option has a value. If the row has a bit `given`, this bit decides. Otherwise
 * the option has no value in these cases: the field is NULL (STRING); the field is -1 (CHOICE); the
 * field is 0 and the limits of the row exclude 0 (numbers). */
bool gt_opt_has_value(const struct gt_opts *opts, const struct gt_opt *row);

/* Return whether the row is valid: the field must have the right size for the type, and must be
 * able to store all values that the limits allow. A PAIR option must have `initial` or `given`. */
bool gt_opt_is_sound(const struct gt_opt *row);

/* Return whether a row of synonyms, for the option `row`, has the word. *value is then the value to
 * give, or NULL. */
bool gt_opt_is_synonym(const struct gt_opt_synonym *synonym, const struct gt_opt *row,
    const char *word, const char **value);

/* Check pairs of options that cannot be combined (gt_opt.excludes). Errors: GT_EINVAL if both
 * options of a pair have values from `source`. */
int gt_opt_check_exclusions(
    const struct gt_opts *opts, enum gt_opt_source source, struct gt_err *err);

/* Set the field to NULL, 0, -1, false or an empty list, as its type requires. */
void gt_opt_clear(struct gt_opts *opts, const struct gt_opt *row);

/* Return the address of the field of a row. */
static inline void *gt_opt_field(const struct gt_opts *opts, const struct gt_opt *row)
{
	return (char *)opts->values + row->offset;
}

#endif
