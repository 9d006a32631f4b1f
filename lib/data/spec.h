/* spec.h - inside data: KIND:PATH[,key=value...] taken apart. */
#ifndef GT_DATA_SPEC_H
#define GT_DATA_SPEC_H

#include "lib/base/err.h"
#include "lib/data/data.h"

enum { GT_SPEC_MAX_OPTIONS = 16 };

struct gt_set;

struct gt_spec {
	char *buffer;             /* the text that the pointers below point into */
	const struct gt_set *set; /* the well-known data set that stood in place of KIND:PATH */
	char *set_path;           /* where it is or would be; NULL: there is no folder for it */
	const char *kind;         /* never empty */
	const char *path;         /* "" where none was written */
	const char *keys[GT_SPEC_MAX_OPTIONS], *values[GT_SPEC_MAX_OPTIONS];
	int count; /* of options */
};

/*
 * Take `text` apart. `\,` stands for a comma in the path or a value; any other backslash for
 * itself. Only the first colon divides, and only before the first comma: `random,samples=8` has
 * no path. Without one, the name of a well-known data set (get/sets.h) stands for its kind and
 * its path in the user's cache. Errors: GT_EINVAL. Release with gt_spec_release().
 */
int gt_spec_parse(struct gt_spec *out, const char *text, struct gt_err *err);
void gt_spec_release(struct gt_spec *spec);

/* GT_EINVAL, listing the known keys, unless every key is in `known` (ended by NULL). */
int gt_spec_check_keys(const struct gt_spec *spec, const char *const *known, struct gt_err *err);

/* The value of `key`, borrowed; NULL where it was not given. */
const char *gt_spec_value(const struct gt_spec *spec, const char *key);

/* A whole number from min to max; *out is left alone where the key was not given. */
int gt_spec_integer(const struct gt_spec *spec, const char *key, int64_t min, int64_t max,
    int64_t *out, struct gt_err *err);

/* One of `names` (ended by NULL) as its position; *out is left alone where it was not given. */
int gt_spec_choice(const struct gt_spec *spec, const char *key, const char *const *names, int *out,
    struct gt_err *err);

/* Read `mean` and `std` into info (which holds the defaults and the number of channels): one
 * number for each channel divided by `/`, or a single number for all. */
int gt_spec_normalization(
    const struct gt_spec *spec, struct gt_data_info *info, struct gt_err *err);

#endif
