/* shard_names.c - data-{000..009}.tar and data-*.tar: the files that a pattern names. */
#include "lib/data/core/shard_names.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add_shard_name(
    struct gt_shard_names *out, const char *name, size_t length, struct gt_err *err)
{
	char *copy;
	int rc;

	if (out->count == GT_MAX_SHARDS)
		return gt_err_set(
		    err, GT_EINVAL, "the pattern names more than %d files", GT_MAX_SHARDS);
	rc = gt_grow(&out->names, out->count, &out->capacity, sizeof(*out->names), err);
	if (rc)
		return rc;
	copy = gt_arena_alloc(&out->arena, length + 1, err);
	if (!copy)
		return GT_ENOMEM;
	memcpy(copy, name, length);
	out->names[out->count++] = copy;
	return 0;
}

/* The files that match, in the order of their names. The error calls the pattern `name`. */
static int add_matches(
    struct gt_shard_names *out, const char *pattern, const char *name, struct gt_err *err)
{
	glob_t found = { 0 };
	int rc = glob(pattern, 0, NULL, &found);

	if (rc)
		rc = gt_err_set(err, GT_EIO,
		    rc == GLOB_NOMATCH ? "there is no file '%s'" : "cannot list '%s'", name);
	for (size_t i = 0; !rc && i < found.gl_pathc; i++)
		rc = add_shard_name(out, found.gl_pathv[i], strlen(found.gl_pathv[i]), err);
	globfree(&found);
	return rc;
}

static int expand_shard_pattern(
    struct gt_shard_names *out, const char *pattern, struct gt_err *err);

/* The pattern with `word` in place of its first braces, which end before `rest`. */
static int expand_word(struct gt_shard_names *out, const char *pattern, size_t before,
    const char *word, size_t length, const char *rest, struct gt_err *err)
{
	char *one = gt_asprintf(err, "%.*s%.*s%s", (int)before, pattern, (int)length, word, rest);
	int rc = one ? expand_shard_pattern(out, one, err) : GT_ENOMEM;

	free(one);
	return rc;
}

static bool is_digits(const char *p, size_t length)
{
	return length && length <= 9 && strspn(p, "0123456789") >= length;
}

/* "{000..009}": numbers, with as many digits as the longer end where one begins with a 0. */
static int expand_range(struct gt_shard_names *out, const char *pattern, size_t before,
    const char *dots, size_t length, struct gt_err *err)
{
	const char *low = pattern + before + 1, *high = dots + 2;
	size_t low_digits = (size_t)(dots - low), high_digits = length - low_digits - 2;
	long first = strtol(low, NULL, 10), last = strtol(high, NULL, 10);
	bool padded = (*low == '0' && low_digits > 1) || (*high == '0' && high_digits > 1);
	int width = (int)(low_digits > high_digits ? low_digits : high_digits), rc = 0;

	if (first > last || last - first >= GT_MAX_SHARDS)
		return gt_err_set(err, GT_EINVAL,
		    "the range '{%.*s}' does not go up, or has more than %d numbers", (int)length,
		    low, GT_MAX_SHARDS);
	for (long n = first; !rc && n <= last; n++) {
		char word[16];
		int size = snprintf(word, sizeof(word), "%0*ld", padded ? width : 1, n);

		rc = expand_word(
		    out, pattern, before, word, (size_t)size, high + high_digits + 1, err);
	}
	return rc;
}

/* "{train,val}": words. */
static int expand_list(struct gt_shard_names *out, const char *pattern, size_t before,
    size_t length, struct gt_err *err)
{
	const char *p = pattern + before + 1, *end = p + length;
	int rc = 0;

	for (bool more = true; !rc && more;) {
		size_t size = strcspn(p, ",}");

		rc = expand_word(out, pattern, before, p, size, end + 1, err);
		p += size + 1;
		more = p <= end;
	}
	return rc;
}

static int expand_shard_pattern(struct gt_shard_names *out, const char *pattern, struct gt_err *err)
{
	size_t before = strcspn(pattern, "{"), length;
	const char *inside = pattern + before + 1, *dots;

	if (!access(pattern, F_OK) || !strpbrk(pattern, "{*?["))
		return add_shard_name(out, pattern, strlen(pattern), err);
	if (!pattern[before])
		return add_matches(out, pattern, pattern, err);
	length = strcspn(inside, "{}");
	if (inside[length] != '}')
		return gt_err_set(err, GT_EINVAL,
		    "the braces of '%s' are not closed, or stand within others", pattern);
	dots = strstr(inside, "..");
	if (dots && dots < inside + length && is_digits(inside, (size_t)(dots - inside)) &&
	    is_digits(dots + 2, (size_t)(inside + length - dots) - 2))
		return expand_range(out, pattern, before, dots, length, err);
	return expand_list(out, pattern, before, length, err);
}

/*
 * Each pair of braces is a level of recursion with a copy of the pattern, and a file's name that
 * has more of them is none that people give.
 */
static int check_size(const char *pattern, struct gt_err *err)
{
	size_t size = strnlen(pattern, GT_SHARD_PATTERN_MAX + 1), braces = 0;

	if (size > GT_SHARD_PATTERN_MAX)
		return gt_err_set(err, GT_EINVAL, "'%.60s...': a pattern of more than %d bytes",
		    pattern, GT_SHARD_PATTERN_MAX);
	for (size_t i = 0; i < size; i++)
		braces += pattern[i] == '{';
	if (braces <= GT_SHARD_BRACES_MAX)
		return 0;
	gt_err_set(err, GT_EINVAL, "'%.60s%s': a pattern with %zu pairs of braces, %d at most",
	    pattern, size > 60 ? "..." : "", braces, GT_SHARD_BRACES_MAX);
	return gt_err_hint(err, "'*' stands for any part of a file's name");
}

/*
 * Expand a pattern as a shell does. Release the result with gt_shard_names_release().
 *
 *   {0..12}    Each number of the range. If the first or last number has a leading zero, as in
 *              {000..009}, all numbers get as many digits as the longer of these two.
 *   {a,b}      Each word of the list. Braces do not nest.
 *   * ? [      All files that match, in the order of their names. This is done after braces are
 *              expanded.
 *
 * If a file has the pattern itself as its name, only this file is used. A name without the
 * characters {, *, ? and [ is used unchanged, even if there is no such file.
 *
 *   example    x-{0..1}-{a,b}.tar gives x-0-a.tar x-0-b.tar x-1-a.tar x-1-b.tar
 *
 * Errors: GT_EINVAL, also for more than the limits of shard_names.h; GT_EIO if no file matches;
 * GT_ENOMEM.
 */
int gt_shard_names(struct gt_shard_names *out, const char *pattern, struct gt_err *err)
{
	int rc;

	*out = (struct gt_shard_names){ 0 };
	rc = check_size(pattern, err);
	if (!rc)
		rc = expand_shard_pattern(out, pattern, err);
	if (rc)
		gt_shard_names_release(out);
	return rc;
}

int gt_shard_names_in(
    struct gt_shard_names *out, const char *folder, const char *ending, struct gt_err *err)
{
	char *name = gt_asprintf(err, "%s/*%s", folder, ending), *pattern, *to;
	int rc = GT_ENOMEM;

	*out = (struct gt_shard_names){ 0 };
	pattern = to = name ? gt_calloc(2 * strlen(name) + 1, 1, err) : NULL;
	if (pattern) {
		for (const char *from = folder; *from; from++) {
			if (strchr("*?[\\", *from))
				*to++ = '\\';
			*to++ = *from;
		}
		strcpy(to, name + strlen(folder));
		rc = add_matches(out, pattern, name, err);
	}
	if (rc)
		gt_shard_names_release(out);
	free(pattern);
	free(name);
	return rc;
}

void gt_shard_names_release(struct gt_shard_names *s)
{
	gt_arena_release(&s->arena);
	free(s->names);
	*s = (struct gt_shard_names){ 0 };
}
