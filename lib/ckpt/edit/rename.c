/* rename.c - names rewritten by regular expressions. */
#include "lib/ckpt/edit/rename.h"

#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 10 };

struct gt_rename {
	regex_t regex;
	const char *replacement; /* in the rule's text */
};

/* "\d" is a digit elsewhere; here it would be the letter. Nor does POSIX know any other class of
 * letters by a backslash. */
static int check_escapes(const char *pattern, const char *rule, struct gt_err *err)
{
	for (const char *p = strchr(pattern, '\\'); p && p[1]; p = strchr(p + 1, '\\')) {
		p++;
		if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) {
			gt_err_set(err, GT_EINVAL,
			    "'%.200s': '\\%c' means nothing in a POSIX expression", rule, *p);
			return gt_err_hint(
			    err, "[0-9], [[:alnum:]_] and [[:space:]] stand for \\d, \\w and \\s");
		}
	}
	return 0;
}

static int compile(struct gt_rename *out, const char *rule, struct gt_err *err)
{
	const char *equals = strrchr(rule, '=');
	char *pattern, why[128];
	int rc;

	if (!equals)
		return gt_err_set(err, GT_EINVAL, "'%s' is not REGEX=REPLACEMENT", rule);
	pattern = strndup(rule, (size_t)(equals - rule));
	if (!pattern)
		return gt_err_set(err, GT_ENOMEM, "out of memory");
	rc = check_escapes(pattern, rule, err);
	if (rc) {
		free(pattern);
		return rc;
	}
	rc = regcomp(&out->regex, pattern, REG_EXTENDED);
	free(pattern);
	out->replacement = equals + 1;
	if (!rc)
		return 0;
	regerror(rc, &out->regex, why, sizeof(why));
	return gt_err_set(err, GT_EINVAL, "'%s' is no regular expression: %s", rule, why);
}

int gt_renames_init(struct gt_renames *r, const char *const *rules, struct gt_err *err)
{
	size_t count = 0;

	*r = (struct gt_renames){ 0 };
	while (rules && rules[count])
		count++;
	r->rules = gt_calloc(count, sizeof(*r->rules), err);
	if (!r->rules)
		return GT_ENOMEM;
	for (; r->count < count; r->count++) {
		int rc = compile(&r->rules[r->count], rules[r->count], err);

		if (rc)
			return rc;
	}
	return 0;
}

void gt_renames_release(struct gt_renames *r)
{
	for (size_t i = 0; i < r->count; i++)
		regfree(&r->rules[i].regex);
	free(r->rules);
	*r = (struct gt_renames){ 0 };
}

/* The replacement, with \0..\9 as matched in `name`. */
static void expand(FILE *out, const char *text, const char *name, const regmatch_t *groups)
{
	for (const char *p = text; *p; p++) {
		const regmatch_t *g;

		if (p[0] != '\\' || p[1] < '0' || p[1] > '9') {
			fputc(*p, out);
			continue;
		}
		g = &groups[*++p - '0'];
		if (g->rm_so >= 0)
			fwrite(name + g->rm_so, 1, (size_t)(g->rm_eo - g->rm_so), out);
	}
}

static const char *apply(
    const struct gt_rename *rule, const char *name, struct gt_arena *a, struct gt_err *err)
{
	regmatch_t groups[GROUPS];
	const char *result = NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	if (regexec(&rule->regex, name, GROUPS, groups, 0))
		return name;
	out = open_memstream(&text, &size);
	if (!out) {
		gt_err_sys(err, "cannot rename '%s'", name);
		return NULL;
	}
	fwrite(name, 1, (size_t)groups[0].rm_so, out);
	expand(out, rule->replacement, name, groups);
	fputs(name + groups[0].rm_eo, out);
	if (fclose(out))
		gt_err_sys(err, "cannot rename '%s'", name);
	else
		result = gt_arena_strdup(a, text, err);
	free(text);
	return result;
}

const char *gt_renames_apply(
    const struct gt_renames *r, const char *name, struct gt_arena *a, struct gt_err *err)
{
	for (size_t i = 0; name && i < r->count; i++)
		name = apply(&r->rules[i], name, a, err);
	return name;
}
