/* spec.c - parse KIND:PATH[,key=value...]. */
#include "lib/data/core/spec.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/folder.h"
#include "lib/base/mem.h"
#include "lib/base/suggest.h"
#include "lib/data/get/sets.h"

/*
 * Cut `p` at its first bare comma, turning `\,` into a comma; returns the text behind it, or NULL.
 */
static char *cut_at_comma(char *p)
{
	char *to = p;

	for (; *p && *p != ','; p++) {
		if (p[0] == '\\' && p[1] == ',')
			p++;
		*to++ = *p;
	}
	p = *p ? p + 1 : NULL;
	*to = '\0';
	return p;
}

static int parse_option(struct gt_spec *spec, char *option, struct gt_err *err)
{
	char *equals = strchr(option, '=');

	if (!equals || equals == option) {
		gt_err_set(err, GT_EINVAL, "data option '%s' is not of the form key=value", option);
		return gt_err_hint(err, "a comma inside a path is written '\\,'");
	}
	*equals = '\0';
	if (gt_spec_value(spec, option))
		return gt_err_set(err, GT_EINVAL, "data option '%s' is given twice", option);
	if (spec->count == GT_SPEC_MAX_OPTIONS)
		return gt_err_set(err, GT_EINVAL, "more than %d data options", GT_SPEC_MAX_OPTIONS);
	spec->keys[spec->count] = option;
	spec->values[spec->count++] = equals + 1;
	return 0;
}

/* A name without a path may be that of a well-known data set. */
static int find_set(struct gt_spec *spec, struct gt_err *err)
{
	const struct gt_set *set = gt_set_find(spec->kind);
	char *folder;

	if (!set || !set->kind)
		return 0;
	spec->set = set;
	spec->kind = set->kind;
	folder = gt_sets_folder();
	if (!folder)
		return 0;
	spec->set_path = gt_set_path(set, folder, set->path, err);
	free(folder);
	if (!spec->set_path)
		return GT_ENOMEM;
	spec->path = spec->set_path;
	return 0;
}

/* Write HOME with '\' before its commas, as in the path of a spec. */
static char *put_home(char *to, const char *home)
{
	for (; *home; home++) {
		if (*home == ',')
			*to++ = '\\';
		*to++ = *home;
	}
	return to;
}

/* A copy of the text. "~/" at the beginning of the path or of a value is the user's folder: a shell
 * expands it at the beginning of a word only. */
static char *expand_home(const char *text, struct gt_err *err)
{
	const char *home = gt_home_of("~/");
	size_t most = strlen(text) + 1, colon = strcspn(text, ":,");
	char *copy, *to;

	for (const char *p = text; home && (p = strstr(p, "~/")); p++)
		most += 2 * strlen(home);
	to = copy = gt_calloc(most, 1, err);
	for (const char *p = text; copy && *p; p++) {
		bool begins = p == text || p[-1] == '=' || p == text + colon + 1;

		if (home && begins && p[0] == '~' && p[1] == '/')
			to = put_home(to, home);
		else
			*to++ = *p;
	}
	return copy;
}

/*
 * Parse a spec. "~/" at the beginning of the path or of a value is the folder in the variable HOME.
 * In the path and in values, `\,` is a comma; any other backslash is an ordinary character. If
 * there is a colon before the first comma, it separates kind and path. Otherwise there is no path,
 * as in `random,samples=8`. If there is no path, and the kind is the name of a well-known data set,
 * *out gets the kind of this data set and its path in the user's cache.
 *
 * Release *out with gt_spec_release(). Errors: GT_EINVAL, GT_ENOMEM.
 */
int gt_spec_parse(struct gt_spec *out, const char *text, struct gt_err *err)
{
	char *colon, *rest;
	int rc = 0;

	*out = (struct gt_spec){ 0 };
	out->buffer = expand_home(text, err);
	if (!out->buffer)
		return GT_ENOMEM;
	out->kind = out->buffer;
	colon = out->buffer + strcspn(out->buffer, ":,");
	if (*colon == ':') {
		*colon = '\0';
		out->path = colon + 1;
		rest = cut_at_comma(colon + 1);
	} else {
		out->path = "";
		rest = cut_at_comma(out->buffer);
		rc = find_set(out, err);
	}
	while (rest && !rc) {
		char *option = rest;

		rest = cut_at_comma(option);
		rc = parse_option(out, option, err);
	}
	if (rc)
		gt_spec_release(out);
	return rc;
}

void gt_spec_release(struct gt_spec *spec)
{
	free(spec->buffer);
	free(spec->set_path);
	*spec = (struct gt_spec){ 0 };
}

/* Settings of {model} that are sometimes given to the data. */
static const char model_settings[] = "block layers heads width dropout bias vocab classes image";

static int fail_key(const struct gt_spec *spec, int i, const char *const *known, struct gt_err *err)
{
	struct gt_suggest near = { .word = spec->keys[i] };
	char list[160] = "";

	for (const char *const *k = known; *k; k++) {
		size_t used = strlen(list);

		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", *k);
		gt_suggest_offer(&near, *k);
	}
	gt_err_set(err, GT_EINVAL, "unknown option '%s' for '%s' data", spec->keys[i], spec->kind);
	if (near.best)
		return gt_err_hint(err, "did you mean '%s=%s'? Known options: %s", near.best,
		    spec->values[i], list);
	if (gt_suggest_has_word(model_settings, spec->keys[i]))
		return gt_err_hint(err, "%s is a setting of {model}, as in NAME:%s=%s",
		    spec->keys[i], spec->keys[i], spec->values[i]);
	return gt_err_hint(
	    err, *list ? "known options: %s" : "'%s' data have none", *list ? list : spec->kind);
}

/* Return whether a key is a known one, which may end with ".NAME" for any name. */
static bool is_key(const char *key, const char *known)
{
	const char *dot = strrchr(known, '.');
	size_t prefix = dot ? (size_t)(dot - known) + 1 : 0;

	return !strcmp(key, known) ||
	       (dot && !strcmp(dot, ".NAME") && !strncmp(key, known, prefix) && key[prefix]);
}

int gt_spec_check_keys(const struct gt_spec *spec, const char *const *known, struct gt_err *err)
{
	for (int i = 0; i < spec->count; i++) {
		const char *const *k = known;

		while (*k && !is_key(spec->keys[i], *k))
			k++;
		if (!*k)
			return fail_key(spec, i, known, err);
	}
	return 0;
}

const char *gt_spec_value(const struct gt_spec *spec, const char *key)
{
	for (int i = 0; i < spec->count; i++)
		if (!strcmp(spec->keys[i], key))
			return spec->values[i];
	return NULL;
}

int gt_spec_integer(const struct gt_spec *spec, const char *key, int64_t min, int64_t max,
    int64_t *out, struct gt_err *err)
{
	const char *value = gt_spec_value(spec, key);
	char *end;
	long long n;

	if (!value)
		return 0;
	errno = 0;
	n = strtoll(value, &end, 10);
	if (end == value || *end || errno || n < min || n > max)
		return gt_err_set(err, GT_EINVAL,
		    "data option '%s=%s': not a whole number from %lld to %lld", key, value,
		    (long long)min, (long long)max);
	*out = n;
	return 0;
}

int gt_spec_choice(const struct gt_spec *spec, const char *key, const char *const *names, int *out,
    struct gt_err *err)
{
	const char *value = gt_spec_value(spec, key);
	char list[120] = "";

	if (!value)
		return 0;
	for (int i = 0; names[i]; i++) {
		size_t used = strlen(list);

		if (!strcmp(names[i], value)) {
			*out = i;
			return 0;
		}
		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", names[i]);
	}
	gt_err_set(err, GT_EINVAL, "data option '%s=%s': no such choice", key, value);
	return gt_err_hint(err, "one of: %s", list);
}

int gt_spec_yes_no(const struct gt_spec *spec, const char *key, bool *out, struct gt_err *err)
{
	static const char *const no_yes[] = { "no", "yes", NULL };
	int yes = *out, rc = gt_spec_choice(spec, key, no_yes, &yes, err);

	*out = yes;
	return rc;
}

/* Read "a/b/c" into values [count]; a single number stands for all. */
static int parse_channels(
    const char *key, const char *text, int count, float *values, struct gt_err *err)
{
	const char *p = text;
	int n = 0;

	for (;;) {
		char *end;
		float v = strtof(p, &end);

		if (end == p || !isfinite(v) || (*end && *end != '/') || n == count)
			break;
		values[n++] = v;
		if (!*end) {
			for (int i = 1; n == 1 && i < count; i++)
				values[i] = v;
			if (n == 1 || n == count)
				return 0;
			break;
		}
		p = end + 1;
	}
	gt_err_set(err, GT_EINVAL, "data option '%s=%s': expected %d number%s", key, text, count,
	    count == 1 ? "" : "s divided by '/', or one for all");
	return gt_err_hint(err, "one for each channel, on the scale from 0 to 1");
}

/* Normalizations by name. Source of imagenet: torchvision's documentation of its pretrained models.
 */
enum { NORM_IMAGENET, NORM_NONE };
static const char *const norm_names[] = { "imagenet", "none", NULL };
static const float imagenet_mean[3] = { 0.485f, 0.456f, 0.406f },
                   imagenet_std[3] = { 0.229f, 0.224f, 0.225f };

/* norm=NAME, which says both numbers. */
static int read_norm(const struct gt_spec *spec, struct gt_data_info *info, struct gt_err *err)
{
	int i = -1, rc = gt_spec_choice(spec, "norm", norm_names, &i, err);

	if (rc || i < 0)
		return rc;
	if (gt_spec_value(spec, "mean") || gt_spec_value(spec, "std")) {
		gt_err_set(err, GT_EINVAL, "data option 'norm=%s' cannot be combined with '%s'",
		    norm_names[i], gt_spec_value(spec, "mean") ? "mean" : "std");
		return gt_err_hint(err, "norm stands for both mean= and std=");
	}
	if (i == NORM_NONE) {
		for (int c = 0; c < GT_MAX_CHANNELS; c++) {
			info->form.mean[c] = 0;
			info->form.std[c] = 1;
		}
		return 0;
	}
	if (info->form.channels < 3) {
		gt_err_set(err, GT_EINVAL,
		    "data option 'norm=%s' is for images of 3 channels, not %d", norm_names[i],
		    info->form.channels);
		return gt_err_hint(err, "give mean= and std= instead");
	}
	memcpy(info->form.mean, imagenet_mean, sizeof(imagenet_mean));
	memcpy(info->form.std, imagenet_std, sizeof(imagenet_std));
	return 0;
}

bool gt_spec_gives_mean(const struct gt_spec *spec)
{
	return gt_spec_value(spec, "mean") || gt_spec_value(spec, "norm");
}

bool gt_spec_gives_std(const struct gt_spec *spec)
{
	return gt_spec_value(spec, "std") || gt_spec_value(spec, "norm");
}

int gt_spec_normalization(const struct gt_spec *spec, struct gt_data_info *info, struct gt_err *err)
{
	const char *mean = gt_spec_value(spec, "mean"), *std = gt_spec_value(spec, "std");
	int rc = read_norm(spec, info, err);

	if (mean && !rc)
		rc = parse_channels("mean", mean, info->form.channels, info->form.mean, err);
	if (std && !rc)
		rc = parse_channels("std", std, info->form.channels, info->form.std, err);
	for (int i = 0; i < info->form.channels && !rc; i++)
		if (info->form.std[i] <= 0)
			rc = gt_err_set(err, GT_EINVAL,
			    "data option 'std=%s': a deviation must be above 0", std);
	return rc;
}
