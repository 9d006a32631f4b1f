/* methods.c - methods of strings and dicts, and the functions that every template can call. */
#include <ctype.h>
#include <string.h>
#include <time.h>

#include "lib/data/jinja/inside.h"

/* ---- strings ---- */

static int check_ascii(const struct gt_jinja_value *v, const char *what, struct gt_err *err)
{
	for (size_t i = 0; i < v->size; i++)
		if ((unsigned char)v->text[i] > 127)
			return gt_err_set(err, GT_ENOTSUP,
			    "%s of characters beyond ASCII is not supported", what);
	return 0;
}

/* How the case of a letter changes, by its place: at the beginning of the text, of a word, or
 * elsewhere. */
enum casing { UPPER, LOWER, CAPITAL, TITLE };

static int change_case(
    struct gt_jinja_run *r, struct gt_jinja_value *v, enum casing casing, struct gt_err *err)
{
	static const char *const names[] = { "upper()", "lower()", "capitalize()", "title()" };
	int rc = check_ascii(v, names[casing], err);
	struct gt_buf b = { 0 };

	if (rc)
		return rc;
	for (size_t i = 0; i < v->size; i++) {
		unsigned char c = (unsigned char)v->text[i];
		bool upper = casing == UPPER || (casing == CAPITAL && !i) ||
		             (casing == TITLE && (!i || !isalpha((unsigned char)v->text[i - 1])));
		char to = (char)(upper ? toupper(c) : tolower(c));

		gt_buf_add(&b, &to, 1);
	}
	return gt_jinja_take_string(v, r, &b, err);
}

static int method_upper(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return change_case(r, v, UPPER, err);
}

static int method_lower(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return change_case(r, v, LOWER, err);
}

static int method_capitalize(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return change_case(r, v, CAPITAL, err);
}

static int method_title(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return change_case(r, v, TITLE, err);
}

static int strip(struct gt_jinja_run *r, struct gt_jinja_value *v, const struct gt_jinja_args *args,
    bool left, bool right, struct gt_err *err)
{
	struct gt_jinja_value set;
	bool given = args->count && args->values[0].kind != GT_JINJA_NONE;
	int rc = given ? gt_jinja_string_arg(&set, args, 0, "chars", err) : 0;

	return rc ? rc : gt_jinja_strip(v, r, given ? &set : NULL, left, right, err);
}

static int method_strip(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return strip(r, v, args, true, true, err);
}

static int method_lstrip(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return strip(r, v, args, true, false, err);
}

static int method_rstrip(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return strip(r, v, args, false, true, err);
}

/* Whether the text begins, or ends, with one of the arguments: a string or a tuple of strings. */
static int has_end(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, bool begins, struct gt_err *err)
{
	const struct gt_jinja_value *wanted = gt_jinja_arg(args, 0, "prefix");
	size_t count = wanted && wanted->kind == GT_JINJA_LIST ? wanted->list->count : 1;
	bool found = false;

	for (size_t i = 0; i < count; i++) {
		const struct gt_jinja_value *s =
		    wanted && wanted->kind == GT_JINJA_LIST ? &wanted->list->items[i] : wanted;

		if (!s || s->kind != GT_JINJA_STRING)
			return gt_err_set(err, GT_EFORMAT, "the argument is not a string");
		if (gt_jinja_spend(r, 1 + gt_jinja_bytes_cost(s->size), err))
			return err->code;
		found |= s->size <= v->size &&
		         !memcmp(begins ? v->text : v->text + v->size - s->size, s->text, s->size);
	}
	*v = gt_jinja_bool(found);
	return 0;
}

static int method_startswith(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return has_end(r, v, args, true, err);
}

static int method_endswith(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return has_end(r, v, args, false, err);
}

static int method_replace(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *most = gt_jinja_arg(args, 2, "count");
	int64_t left = most && most->kind == GT_JINJA_INT ? most->integer : -1;
	const char *p = v->text, *end = v->text + v->size, *found;
	struct gt_jinja_value from, to;
	struct gt_buf b = { 0 };
	int rc = gt_jinja_string_arg(&from, args, 0, "old", err);

	if (!rc)
		rc = gt_jinja_string_arg(&to, args, 1, "new", err);
	if (!rc && !from.size)
		rc = gt_err_set(err, GT_ENOTSUP, "replace of an empty string is not supported");
	if (rc)
		return rc;
	while (left && p < end && (found = memmem(p, (size_t)(end - p), from.text, from.size))) {
		gt_buf_add(&b, p, (size_t)(found - p));
		gt_buf_add(&b, to.text, to.size);
		p = found + from.size;
		left--;
		if (b.length > GT_JINJA_MAX_OUTPUT) {
			gt_buf_release(&b);
			return gt_err_set(err, GT_ENOTSUP, "the text of replace is too long");
		}
	}
	gt_buf_add(&b, p, (size_t)(end - p));
	return gt_jinja_take_string(v, r, &b, err);
}

/* Number of parts of a text between separators, at most most + 1. */
static size_t count_parts(
    const struct gt_jinja_value *v, const struct gt_jinja_value *by, int64_t most)
{
	const char *p = v->text, *end = v->text + v->size, *found;
	size_t count = 1;

	while (most-- && p < end && (found = memmem(p, (size_t)(end - p), by->text, by->size))) {
		p = found + by->size;
		count++;
	}
	return count;
}

/* split(SEPARATOR, MOST). Without a separator, Python splits at white space. */
static int method_split(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *most = gt_jinja_arg(args, 1, "maxsplit");
	struct gt_jinja_value by, text = *v;
	size_t count;
	int rc;

	if (!args->count)
		return gt_err_set(err, GT_ENOTSUP, "split() without a separator is not supported");
	rc = gt_jinja_string_arg(&by, args, 0, "sep", err);
	if (!rc && !by.size)
		rc = gt_err_set(err, GT_EFORMAT, "the separator of split() is empty");
	if (rc)
		return rc;
	count = count_parts(v, &by, most && most->kind == GT_JINJA_INT ? most->integer : -1);
	rc = gt_jinja_new_list(v, r, count, err);
	for (size_t i = 0; !rc && i < count; i++) {
		const char *found =
		    i + 1 < count ? memmem(text.text, text.size, by.text, by.size) : NULL;
		size_t n = found ? (size_t)(found - text.text) : text.size;

		rc = gt_jinja_copy_string(&v->list->items[i], r, text.text, n, err);
		n += found ? by.size : 0;
		text = gt_jinja_string(text.text + n, text.size - n);
	}
	return rc;
}

static int method_find(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	struct gt_jinja_value wanted;
	const char *found;
	int rc = gt_jinja_string_arg(&wanted, args, 0, "sub", err);

	if (rc)
		return rc;
	found = wanted.size ? memmem(v->text, v->size, wanted.text, wanted.size) : v->text;
	rc = gt_jinja_spend(r, gt_jinja_bytes_cost(v->size), err);
	*v =
	    gt_jinja_int(found ? (int64_t)gt_jinja_length(v->text, (size_t)(found - v->text)) : -1);
	return rc;
}

/* ---- dicts ---- */

static int method_get(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *otherwise = gt_jinja_arg(args, 1, "default"), *found;
	struct gt_jinja_value key;
	int rc = gt_jinja_string_arg(&key, args, 0, "key", err);

	if (rc)
		return rc;
	found = gt_jinja_get(v->dict, key.text, key.size);
	rc = gt_jinja_spend(r, gt_jinja_get_cost(v->dict, key.size), err);
	*v = found       ? *found
	     : otherwise ? *otherwise
	                 : (struct gt_jinja_value){ .kind = GT_JINJA_NONE };
	return rc;
}

enum parts { KEYS, VALUES, ITEMS };

static int list_dict(
    struct gt_jinja_run *r, struct gt_jinja_value *v, enum parts parts, struct gt_err *err)
{
	const struct gt_jinja_dict *d = v->dict;
	int rc = gt_jinja_new_list(v, r, d->count, err);

	for (size_t i = 0; !rc && i < d->count; i++) {
		struct gt_jinja_value *item = &v->list->items[i];

		if (parts != ITEMS) {
			*item = parts == KEYS ? d->pairs[i].key : d->pairs[i].value;
			continue;
		}
		rc = gt_jinja_new_list(item, r, 2, err);
		if (rc)
			break;
		item->list->items[0] = d->pairs[i].key;
		item->list->items[1] = d->pairs[i].value;
		item->list->tuple = true;
	}
	return rc;
}

static int method_keys(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return list_dict(r, v, KEYS, err);
}

static int method_values(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return list_dict(r, v, VALUES, err);
}

static int method_items(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return list_dict(r, v, ITEMS, err);
}

/* ---- functions ---- */

static int make_dict(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	int rc = gt_jinja_new_dict(v, r, err);

	for (int i = 0; !rc && i < args->count; i++) {
		const char *name = args->names[i];

		if (!name)
			return gt_err_set(err, GT_ENOTSUP, "an argument without a name");
		rc = gt_jinja_put(
		    v->dict, r, gt_jinja_string(name, strlen(name)), args->values[i], err);
	}
	return rc;
}

static int call_namespace(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	int rc = make_dict(r, v, args, err);

	v->kind = GT_JINJA_NAMESPACE;
	return rc;
}

static int call_range(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	enum { MOST = 100000 }; /* as the sandbox of Jinja */
	int64_t bounds[3] = { 0, 0, 1 }, count;
	int rc;

	if (!args->count)
		return gt_err_set(err, GT_EFORMAT, "range() needs a number");
	for (int i = 0; i < args->count; i++) {
		const struct gt_jinja_value *n = &args->values[i];

		if (n->kind != GT_JINJA_INT || n->integer > INT32_MAX || n->integer < -INT32_MAX)
			return gt_err_set(
			    err, GT_EFORMAT, "%s as an argument of range()", gt_jinja_kind_name(n));
		bounds[args->count == 1 ? 1 : i] = n->integer;
	}
	if (!bounds[2])
		return gt_err_set(err, GT_EFORMAT, "the step of range() is 0");
	count = bounds[2] > 0 ? (bounds[1] - bounds[0] + bounds[2] - 1) / bounds[2]
	                      : (bounds[0] - bounds[1] - bounds[2] - 1) / -bounds[2];
	count = count < 0 ? 0 : count;
	if (count > MOST)
		return gt_err_set(err, GT_ENOTSUP, "range() of more than %d numbers", MOST);
	rc = gt_jinja_new_list(v, r, (size_t)count, err);
	for (int64_t i = 0; !rc && i < count; i++)
		v->list->items[i] = gt_jinja_int(bounds[0] + i * bounds[2]);
	return rc;
}

static int call_raise(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	struct gt_buf b = { 0 };
	int rc = args->count ? gt_jinja_append(&b, &args->values[0], err) : 0;

	(void)r;
	(void)v;
	if (!rc)
		rc = gt_err_set(err, GT_EFORMAT, "the template refuses the conversation: %.300s",
		    gt_buf_text(&b));
	gt_buf_release(&b);
	return rc;
}

/* The date is that of the setting, so that runs of different days read the same texts. Times of the
 * day are refused. */
static int call_strftime(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	static const char known[] = "YmdBbAayje%";
	static const char *const months[] = { "January", "February", "March", "April", "May",
		"June", "July", "August", "September", "October", "November", "December" };
	static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday",
		"Friday", "Saturday" };
	struct tm tm = {
		.tm_year = r->date.year - 1900, .tm_mon = r->date.month - 1, .tm_mday = r->date.day
	};
	struct gt_jinja_value format;
	struct gt_buf b = { 0 };
	int rc = gt_jinja_string_arg(&format, args, 0, "format", err);
	char text[32];

	timegm(&tm);
	for (size_t i = 0; !rc && i < format.size; i++) {
		char c = format.text[i], form[3] = "%?";

		if (c != '%') {
			gt_buf_add(&b, &c, 1);
			continue;
		}
		form[1] = i + 1 < format.size ? format.text[++i] : '\0';
		if (!form[1] || !strchr(known, form[1])) {
			rc = gt_err_set(err, GT_ENOTSUP,
			    "'%s' of strftime_now is not supported: only parts of the date are",
			    form);
			break;
		}
		/* Names of months and days are English, whatever the locale is. */
		if (strchr("Bb", form[1])) {
			gt_buf_add(
			    &b, months[tm.tm_mon], form[1] == 'b' ? 3 : strlen(months[tm.tm_mon]));
		} else if (strchr("Aa", form[1])) {
			gt_buf_add(
			    &b, days[tm.tm_wday], form[1] == 'a' ? 3 : strlen(days[tm.tm_wday]));
		} else {
			text[strftime(text, sizeof(text), form, &tm)] = '\0';
			gt_buf_puts(&b, text);
		}
	}
	if (!rc)
		return gt_jinja_take_string(v, r, &b, err);
	gt_buf_release(&b);
	return rc;
}

/* ---- tables ---- */

static const struct gt_jinja_function string_methods[] = {
	{ "strip", "chars", method_strip },
	{ "lstrip", "chars", method_lstrip },
	{ "rstrip", "chars", method_rstrip },
	{ "upper", "", method_upper },
	{ "lower", "", method_lower },
	{ "capitalize", "", method_capitalize },
	{ "title", "", method_title },
	{ "startswith", "prefix", method_startswith },
	{ "endswith", "prefix", method_endswith },
	{ "replace", "old new count", method_replace },
	{ "split", "sep maxsplit", method_split },
	{ "find", "sub", method_find },
};

static const struct gt_jinja_function dict_methods[] = {
	{ "get", "key default", method_get },
	{ "keys", "", method_keys },
	{ "values", "", method_values },
	{ "items", "", method_items },
};

static const struct gt_jinja_function functions[] = {
	{ "namespace", NULL, call_namespace },
	{ "dict", NULL, make_dict },
	{ "range", "start stop step", call_range },
	{ "raise_exception", "message", call_raise },
	{ "strftime_now", "format", call_strftime },
};

const struct gt_jinja_function *gt_jinja_method(enum gt_jinja_kind kind, const char *name)
{
	if (kind == GT_JINJA_STRING)
		return gt_jinja_row(
		    string_methods, sizeof(string_methods) / sizeof(*string_methods), name);
	if (kind == GT_JINJA_DICT)
		return gt_jinja_row(
		    dict_methods, sizeof(dict_methods) / sizeof(*dict_methods), name);
	return NULL;
}

const struct gt_jinja_function *gt_jinja_global(const char *name)
{
	return gt_jinja_row(functions, sizeof(functions) / sizeof(*functions), name);
}
