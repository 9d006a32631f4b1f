/* spec.h - inside data: parse KIND:PATH[,key=value...]. */
#ifndef GT_DATA_SPEC_H
#define GT_DATA_SPEC_H

#include "lib/base/err.h"
#include "lib/data/data.h"

enum { GT_SPEC_MAX_OPTIONS = 16 };

struct gt_set;

struct gt_spec {
	char *buffer; /* the text that the pointers below point into */
	/* the well-known data set that was named instead of KIND:PATH; or NULL */
	const struct gt_set *set;
	/* its path, which need not exist; NULL: there is no folder for data sets */
	char *set_path;
	const char *kind; /* never empty */
	const char *path; /* "" where none was written */
	const char *keys[GT_SPEC_MAX_OPTIONS], *values[GT_SPEC_MAX_OPTIONS];
	int count; /* of options */
};

/*
 * Parse `text`. `\,` is a comma in the path or a value; any other backslash is an ordinary
 * character. The first colon divides kind and path if it is before the first comma:
 * `random,samples=8` has no path. Without a path, the name of a well-known data set (get/sets.h)
 * means its kind and its path in the user's cache. Errors: GT_EINVAL. Release with
 * gt_spec_release().
 */
int gt_spec_parse(struct gt_spec *out, const char *text, struct gt_err *err);
void gt_spec_release(struct gt_spec *spec);

/* GT_EINVAL, listing the known keys, unless every key is in `known` (ended by NULL). */
int gt_spec_check_keys(const struct gt_spec *spec, const char *const *known, struct gt_err *err);

/* The value of `key`, borrowed; NULL where it was not given. */
const char *gt_spec_value(const struct gt_spec *spec, const char *key);

/* Parse a whole number from min to max. *out is unchanged if the key is not given. */
int gt_spec_integer(const struct gt_spec *spec, const char *key, int64_t min, int64_t max,
    int64_t *out, struct gt_err *err);

/* Find the value in `names` (ended by NULL), and set *out to its index. *out is unchanged if the
 * key is not given. */
int gt_spec_choice(const struct gt_spec *spec, const char *key, const char *const *names, int *out,
    struct gt_err *err);

/* Read `mean` and `std` into info (which holds the defaults and the number of channels): one
 * number for each channel divided by `/`, or a single number for all. */
int gt_spec_normalization(
    const struct gt_spec *spec, struct gt_data_info *info, struct gt_err *err);

#endif
