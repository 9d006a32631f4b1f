/* rename.c - names rewritten by regular expressions. */
#include "lib/ckpt/edit/rename.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"

/*
 * A name is one line of UTF-8, so a dot matches each of its characters and "$" its end alone. A
 * name need not be UTF-8 in a hostile file: no expression matches across its invalid bytes. "\C"
 * could cut a character in two. The limits bound one match: some 10 ms, a few MiB.
 */
enum {
	GROUPS = 10,
	MATCH_LIMIT = 1000000,
	HEAP_LIMIT_KIB = 20000,
	OPTIONS = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
	          PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY
};

struct gt_rename {
	const char *rule;
	const char *replacement; /* points into the rule's text */
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

/* The digit of \0..\9 at p, or -1. */
static int group_at(const char *p)
{
	return p[0] == '\\' && p[1] >= '0' && p[1] <= '9' ? p[1] - '0' : -1;
}

static int check_groups(const struct gt_rename *r, struct gt_err *err)
{
	uint32_t groups = 0;

	pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &groups);
	for (const char *p = r->replacement; *p; p++)
		if (group_at(p) > (int)groups)
			return gt_err_set(err, GT_EINVAL,
			    "'%s': the replacement has \\%d, and the regular expression has %u "
			    "group%s",
			    r->rule, group_at(p), groups, groups == 1 ? "" : "s");
	return 0;
}

static int compile(struct gt_rename *r, const char *rule, struct gt_err *err)
{
	const char *equals = strrchr(rule, '=');
	unsigned char why[128] = "";
	size_t at = 0;
	int rc;

	if (!equals)
		return gt_err_set(err, GT_EINVAL, "'%s' is not REGEX=REPLACEMENT", rule);
	r->rule = rule;
	r->replacement = equals + 1;
	r->code = pcre2_compile((PCRE2_SPTR)rule, (size_t)(equals - rule), OPTIONS, &rc, &at, NULL);
	if (!r->code) {
		pcre2_get_error_message(rc, why, sizeof(why));
		return gt_err_set(err, GT_EINVAL,
		    "'%s': the regular expression is wrong at byte %zu: %s", rule, at, (char *)why);
	}
	if (check_groups(r, err))
		return err->code;
	r->match = pcre2_match_data_create(GROUPS, NULL);
	r->limits = pcre2_match_context_create(NULL);
	if (!r->match || !r->limits)
		return gt_err_set(err, GT_ENOMEM, "out of memory");
	pcre2_set_match_limit(r->limits, MATCH_LIMIT);
	pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
	return 0;
}

/*
 * Compile rules of the form "REGEX=REPLACEMENT". The last "=" separates the two parts. `rules` ends
 * with a NULL pointer, or is NULL for no rules. The texts must outlive `out`.
 *
 * REGEX is a PCRE2 expression over Unicode characters: "." and "[äö]" match one character, and \d
 * and \w match characters of any script. In REPLACEMENT, \0 to \9 stand for the text of the groups;
 * all other characters stand for themselves.
 *
 * Errors: GT_EINVAL; the message contains the rule and the position, in bytes, at which REGEX is
 * wrong. Call gt_renames_release() even after an error.
 */
int gt_renames_init(struct gt_renames *r, const char *const *rules, struct gt_err *err)
{
	size_t count = 0;
	int rc = 0;

	*r = (struct gt_renames){ 0 };
	while (rules && rules[count])
		count++;
	r->rules = gt_calloc(count, sizeof(*r->rules), err);
	if (!r->rules)
		return GT_ENOMEM;
	r->count = count;
	for (size_t i = 0; !rc && i < count; i++)
		rc = compile(&r->rules[i], rules[i], err);
	return rc;
}

void gt_renames_release(struct gt_renames *r)
{
	for (size_t i = 0; i < r->count; i++) {
		pcre2_code_free(r->rules[i].code);
		pcre2_match_data_free(r->rules[i].match);
		pcre2_match_context_free(r->rules[i].limits);
	}
	free(r->rules);
	*r = (struct gt_renames){ 0 };
}

/* The replacement, with \0..\9 as matched in `name`; nothing for a group that took no part. */
static void expand_replacement(
    struct gt_buf *out, const struct gt_rename *r, const char *name, int groups)
{
	const size_t *at = pcre2_get_ovector_pointer(r->match);

	for (const char *p = r->replacement; *p; p++) {
		int group = group_at(p);

		if (group < 0) {
			gt_buf_add(out, p, 1);
			continue;
		}
		p++;
		if (group < groups && at[2 * group] != PCRE2_UNSET)
			gt_buf_add(out, name + at[2 * group], at[2 * group + 1] - at[2 * group]);
	}
}

static const char *rename_by_pattern(
    const struct gt_rename *r, const char *name, struct gt_arena *a, struct gt_err *err)
{
	const size_t *at = pcre2_get_ovector_pointer(r->match);
	struct gt_buf text = { 0 };
	int groups =
	    pcre2_match(r->code, (PCRE2_SPTR)name, strlen(name), 0, 0, r->match, r->limits);

	if (groups == PCRE2_ERROR_NOMATCH)
		return name;
	if (groups < 0) {
		gt_err_set(err, groups == PCRE2_ERROR_NOMEMORY ? GT_ENOMEM : GT_EINVAL,
		    "'%s': matching '%.200s' takes more than %d steps or %d MiB", r->rule, name,
		    MATCH_LIMIT, HEAP_LIMIT_KIB >> 10);
		gt_err_hint(err, "a repeat within a repeat, such as (a+)+, tries very many ways");
		return NULL;
	}
	/* 0: more groups matched than are kept. \K moves the start, at most to the end. */
	gt_buf_add(&text, name, at[0]);
	expand_replacement(&text, r, name, groups ? groups : GROUPS);
	gt_buf_puts(&text, name + at[1]);
	return gt_buf_keep(&text, a, err);
}

const char *gt_renames_apply(
    const struct gt_renames *r, const char *name, struct gt_arena *a, struct gt_err *err)
{
	for (size_t i = 0; name && i < r->count; i++)
		name = rename_by_pattern(&r->rules[i], name, a, err);
	return name;
}
