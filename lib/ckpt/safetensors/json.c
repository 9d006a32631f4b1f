/* json.c - large JSON objects, read one member at a time. */
#include "lib/ckpt/safetensors/json.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

enum { KEY_LIMIT = 1 << 20 };

bool gt_json_at_end(struct gt_json *j)
{
	while (j->at < j->size && j->text[j->at] && strchr(" \t\r\n", j->text[j->at]))
		j->at++;
	return j->at == j->size;
}

/* Pass `c` if it comes next. */
static bool accept(struct gt_json *j, char c)
{
	if (gt_json_at_end(j) || j->text[j->at] != c)
		return false;
	j->at++;
	return true;
}

static int expected(const struct gt_json *j, const char *what, struct gt_err *err)
{
	if (j->at == j->size)
		return gt_err_set(err, GT_EFORMAT, "JSON: it ends at byte %zu where %s is due",
		    j->base + j->at, what);
	return gt_err_set(
	    err, GT_EFORMAT, "JSON: byte %zu is not %s, which is due", j->base + j->at, what);
}

int gt_json_enter(struct gt_json *j, struct gt_err *err)
{
	return accept(j, '{') ? 0 : expected(j, "'{'", err);
}

static int parse_value(
    struct gt_json *j, size_t limit, size_t flags, json_t **value, struct gt_err *err)
{
	size_t left;
	json_error_t why;

	*value = NULL;
	if (gt_json_at_end(j))
		return expected(j, "a value", err);
	left = j->size - j->at;
	*value = json_loadb(j->text + j->at, left < limit ? left : limit,
	    flags | JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &why);
	if (*value) {
		j->at += (size_t)why.position;
		return 0;
	}
	if (json_error_code(&why) == json_error_premature_end_of_input && left > limit)
		return gt_err_set(err, GT_EFORMAT,
		    "JSON: the value at byte %zu is longer than %zu bytes", j->base + j->at, limit);
	if (json_error_code(&why) == json_error_out_of_memory)
		return gt_err_set(err, GT_ENOMEM, "out of memory: JSON");
	return gt_err_set(err, GT_EFORMAT, "JSON: %.120s, at byte %zu", why.text,
	    j->base + j->at + (size_t)why.position);
}

int gt_json_value(struct gt_json *j, size_t limit, json_t **value, struct gt_err *err)
{
	return parse_value(j, limit, 0, value, err);
}

int gt_json_skip(struct gt_json *j, size_t limit, struct gt_err *err)
{
	json_t *value;
	int rc = parse_value(j, limit, JSON_DECODE_INT_AS_REAL, &value, err);

	json_decref(value);
	return rc;
}

int gt_json_key(
    struct gt_json *j, bool first, char **key, size_t *at, size_t *length, struct gt_err *err)
{
	json_t *string;
	int rc;

	*key = NULL;
	if (accept(j, '}'))
		return 0;
	if (!first && !accept(j, ','))
		return expected(j, "',' or '}'", err);
	if (gt_json_at_end(j) || j->text[j->at] != '"')
		return expected(j, "a key", err);
	*at = j->at;
	rc = gt_json_value(j, KEY_LIMIT, &string, err);
	if (rc)
		return rc;
	*length = j->at - *at;
	if (json_is_string(string))
		*key = gt_strdup(json_string_value(string), err);
	else
		rc = gt_err_set(
		    err, GT_EFORMAT, "JSON: the key at byte %zu is no string", j->base + *at);
	json_decref(string);
	if (!*key)
		return rc ? rc : GT_ENOMEM;
	if (accept(j, ':'))
		return 0;
	free(*key);
	*key = NULL;
	return expected(j, "':'", err);
}

int gt_json_members(struct gt_json *j, gt_json_member *member, void *self, struct gt_err *err)
{
	int rc = gt_json_enter(j, err);

	for (bool first = true; !rc; first = false) {
		struct gt_json_key key;

		rc = gt_json_key(j, first, &key.text, &key.at, &key.length, err);
		if (rc || !key.text)
			break;
		rc = member(self, j, &key, err);
		free(key.text);
	}
	return rc;
}

json_int_t gt_json_count(const json_t *value)
{
	json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;

	return n < 0 ? -1 : n;
}
