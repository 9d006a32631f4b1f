/* fields.c - fields of a tokenizer.json: their types, and refusals of unknown ones. */
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* Whether a word stands in a list of words with spaces between. */
static bool is_listed(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

int gt_bpe_check_keys(
    const json_t *object, const char *where, const char *known, struct gt_err *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return gt_err_set(err, GT_EFORMAT, "'%s' must be an object", where);
	json_object_foreach((json_t *)object, key, value)
	{
		if (!*key || strchr(key, ' ') || !is_listed(known, key))
			return gt_err_set(err, GT_ENOTSUP,
			    "'%s': the field '%.60s' is not supported", where, key);
	}
	return 0;
}

const char *gt_bpe_type(const json_t *object)
{
	const char *type = json_string_value(json_object_get(object, "type"));

	return type ? type : "";
}

int gt_bpe_unsupported(const json_t *object, const char *where, struct gt_err *err)
{
	const char *type = json_string_value(json_object_get(object, "type"));

	if (!type)
		return gt_err_set(err, GT_EFORMAT, "'%s' has no type", where);
	return gt_err_set(err, GT_ENOTSUP, "'%s' of type '%.60s' is not supported", where, type);
}

int gt_bpe_read_bool(bool *out, const json_t *object, const char *key, bool otherwise,
    const char *where, struct gt_err *err)
{
	const json_t *value = json_object_get(object, key);

	*out = otherwise;
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_boolean(value))
		return gt_err_set(err, GT_EFORMAT, "'%s': '%s' must be true or false", where, key);
	*out = json_is_true(value);
	return 0;
}

int gt_bpe_read_char(uint32_t *out, const json_t *string, const char *where, struct gt_err *err)
{
	size_t n = json_string_length(string);

	if (!n ||
	    (size_t)gt_text_utf8((const unsigned char *)json_string_value(string), n, out) != n)
		return gt_err_set(
		    err, GT_ENOTSUP, "'%s': only a single character is supported here", where);
	return 0;
}
