/* spec.h - private: parse a spec, the value of --data: KIND:PATH[,key=value...]. */
#ifndef GT_DATA_CORE_SPEC_H
#define GT_DATA_CORE_SPEC_H

#include "lib/base/err.h"
#include "lib/data/core/data.h"

enum { GT_SPEC_MAX_OPTIONS = 32 };

struct gt_set;

/* A parsed spec. */
struct gt_spec {
	char *buffer; /* copy of the text, which the others point into */
	/* the well-known data set that it names (lib/data/get/sets.h), and its path in the cache,
	 * if there is one; NULL: none */
	const struct gt_set *set;
	char *set_path;
	const char *kind;
	const char *path;                                                    /* "" if it has none */
	const char *keys[GT_SPEC_MAX_OPTIONS], *values[GT_SPEC_MAX_OPTIONS]; /* [count] */
	int count;
};

/* Parse a spec KIND:PATH[,key=value...], or the name of a well-known data set. Release *out.
 * Errors: GT_EINVAL, GT_ENOMEM. */
int gt_spec_parse(struct gt_spec *out, const char *text, struct gt_err *err);
void gt_spec_release(struct gt_spec *spec);

/* Check that every key is in `known`, ended by NULL. There, "input.NAME" stands for all keys that
 * begin with "input.". Errors: GT_EINVAL. */
int gt_spec_check_keys(const struct gt_spec *spec, const char *const *known, struct gt_err *err);

/* Return the value of a key, borrowed, or NULL. */
const char *gt_spec_value(const struct gt_spec *spec, const char *key);

/* Parse a whole number from min to max. A missing key leaves *out as it is, here and below. Errors:
 * GT_EINVAL. */
int gt_spec_integer(const struct gt_spec *spec, const char *key, int64_t min, int64_t max,
    int64_t *out, struct gt_err *err);

/* Set *out to the index of the value in `names`, ended by NULL. */
int gt_spec_choice(const struct gt_spec *spec, const char *key, const char *const *names, int *out,
    struct gt_err *err);

/* Parse `yes` or `no`. */
int gt_spec_yes_no(const struct gt_spec *spec, const char *key, bool *out, struct gt_err *err);

/* Read `mean` and `std`, for each channel or for all, or `norm` in place of both, into info->form,
 * which has the defaults and the channels. */
int gt_spec_normalization(
    const struct gt_spec *spec, struct gt_data_info *info, struct gt_err *err);

/* Return whether the spec gives the mean, or the standard deviation, by name or by `norm`. */
bool gt_spec_gives_mean(const struct gt_spec *spec);
bool gt_spec_gives_std(const struct gt_spec *spec);

/* The settings that gt_spec_normalization() reads, with the defaults as texts. */
/* clang-format off */
#define GT_NORMALIZATION_SETTINGS(default_mean, default_std) \
	{ "norm", "imagenet|none", "none", "mean and std by name, in place of both" }, \
	{ "mean", "a/b/c", default_mean, \
	    "mean of pixels (scale 0 to 1) to subtract, per channel or one for all" }, \
	{ "std", "a/b/c", default_std, \
	    "standard deviation to divide by, per channel or one for all" }
/* clang-format on */

#endif
