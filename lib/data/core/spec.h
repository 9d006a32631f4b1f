/* spec.h - private: parse a spec, the value of --data: KIND:PATH[,key=value...]. */
#ifndef GT_DATA_CORE_SPEC_H
#define GT_DATA_CORE_SPEC_H

#include "lib/base/err.h"
#include "lib/data/core/data.h"

enum { GT_SPEC_MAX_OPTIONS = 16 };

struct gt_set;

/* A parsed spec. An option is a pair key=value. */
struct gt_spec {
	char *buffer; /* copy of the text; the pointers below point into it */
	/* The well-known data set (lib/data/get/sets.h) that the spec names instead of KIND:PATH;
	 * NULL: the spec names none. */
	const struct gt_set *set;
	/* The path of this data set in the user's cache; the file or folder may be missing. NULL:
	 * `set` is NULL, or the user has no cache folder for data sets. */
	char *set_path;
	const char *kind;
	const char *path; /* "" if the spec has no path */
	const char *keys[GT_SPEC_MAX_OPTIONS], *values[GT_SPEC_MAX_OPTIONS]; /* [count] */
	int count;
};

/*
 * Parse a spec. "~/" at the beginning of the path or of a value is the folder in the variable HOME.
 * In the path and in values, `\,` is a comma; any other backslash is an ordinary character. If
 * there is a colon before the first comma, it separates kind and path. Otherwise there is no path,
 * as in `random,samples=8`. If there is no path, and the kind is the name of a well-known data set,
 * *out gets the kind of this data set and its path in the user's cache.
 *
 * Release *out with gt_spec_release(). Errors: GT_EINVAL, GT_ENOMEM.
 */
int gt_spec_parse(struct gt_spec *out, const char *text, struct gt_err *err);
void gt_spec_release(struct gt_spec *spec);

/* Check that every key is in `known`, which is ended by NULL. Errors: GT_EINVAL; the hint lists the
 * known keys. */
int gt_spec_check_keys(const struct gt_spec *spec, const char *const *known, struct gt_err *err);

/* Return the value of a key, borrowed; NULL if the key is not given. */
const char *gt_spec_value(const struct gt_spec *spec, const char *key);

/* Parse the value of a key as a whole number from min to max. If the key is not given, *out does
 * not change. Errors: GT_EINVAL. */
int gt_spec_integer(const struct gt_spec *spec, const char *key, int64_t min, int64_t max,
    int64_t *out, struct gt_err *err);

/* Find the value of a key in `names`, which is ended by NULL, and set *out to its index. If the key
 * is not given, *out does not change. Errors: GT_EINVAL. */
int gt_spec_choice(const struct gt_spec *spec, const char *key, const char *const *names, int *out,
    struct gt_err *err);

/* Parse the value of a key as `yes` or `no`. If the key is not given, *out does not change. Errors:
 * GT_EINVAL. */
int gt_spec_yes_no(const struct gt_spec *spec, const char *key, bool *out, struct gt_err *err);

/* Read the options `mean` and `std` into info->form: one number for each channel, separated by `/`,
 * or a single number for all channels. `norm` names both (`imagenet`, or `none` for 0 and 1), and
 * cannot be combined with them. Before the call, `info` has the default values and the number of
 * channels. Errors: GT_EINVAL. */
int gt_spec_normalization(
    const struct gt_spec *spec, struct gt_data_info *info, struct gt_err *err);

/* Return whether the spec gives the mean, or the standard deviation: by its own option, or by
 * `norm`. */
bool gt_spec_gives_mean(const struct gt_spec *spec);
bool gt_spec_gives_std(const struct gt_spec *spec);

/* The settings that gt_spec_normalization() reads: rows of struct gt_setting, with the default
 * values of mean and std as texts. */
/* clang-format off */
#define GT_NORMALIZATION_SETTINGS(default_mean, default_std) \
	{ "norm", "imagenet|none", "none", "mean and std by name, in place of both" }, \
	{ "mean", "a/b/c", default_mean, \
	    "mean of pixels (scale 0 to 1) to subtract, per channel or one for all" }, \
	{ "std", "a/b/c", default_std, \
	    "standard deviation to divide by, per channel or one for all" }
/* clang-format on */

#endif
