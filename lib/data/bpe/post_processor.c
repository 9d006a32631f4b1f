/* post_processor.c - the part of tokenizer.json that puts special tokens around texts. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/base/python_json.h"
#include "lib/data/bpe/inside.h"

/* ---- read ---- */

/* The id of the special token that a TemplateProcessing puts before a text, if it does:
 * {"single": [{"SpecialToken": {"id": "<s>"}}, ...], "special_tokens": {"<s>": {"ids": [1]}}}. */
static int read_begin(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *single = json_object_get(json, "single"), *first, *ids;
	const char *name;

	for (size_t i = 1; i < json_array_size(single); i++)
		bpe->adds_others |=
		    json_object_get(json_array_get(single, i), "SpecialToken") != NULL;
	first = json_object_get(json_array_get(single, 0), "SpecialToken");
	name = json_string_value(json_object_get(first, "id"));
	if (!first)
		return 0;
	ids = json_object_get(json_object_get(json, "special_tokens"), name ? name : "");
	ids = json_object_get(ids, "ids");
	if (json_array_size(ids) != 1 || !json_is_integer(json_array_get(ids, 0)) ||
	    json_integer_value(json_array_get(ids, 0)) < 0 ||
	    json_integer_value(json_array_get(ids, 0)) >= GT_BPE_MAX_TOKENS)
		return gt_err_set(err, GT_EFORMAT,
		    "'post_processor': 'special_tokens' has no id for '%.40s'", name ? name : "?");
	bpe->adds_others |= bpe->begin >= 0; /* another processor has put one there */
	bpe->begin = (int32_t)json_integer_value(json_array_get(ids, 0));
	return 0;
}

int gt_bpe_read_post_processor(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "processors");
	json_t *part;
	size_t i;

	if (!json || json_is_null(json))
		return 0;
	if (!strcmp(gt_bpe_type(json), "TemplateProcessing"))
		return read_begin(bpe, json, err);
	if (!strcmp(gt_bpe_type(json), "ByteLevel"))
		return 0;
	if (!strcmp(gt_bpe_type(json), "RobertaProcessing") ||
	    !strcmp(gt_bpe_type(json), "BertProcessing")) {
		bpe->adds_others = true; /* one before the text, one after it */
		return 0;
	}
	if (strcmp(gt_bpe_type(json), "Sequence") != 0)
		return gt_bpe_unsupported(json, "post_processor", err);
	json_array_foreach(list, i, part)
	{
		int rc = strcmp(gt_bpe_type(part), "Sequence") != 0
		             ? gt_bpe_read_post_processor(bpe, part, err)
		             : gt_bpe_unsupported(part, "post_processor", err);

		if (rc)
			return rc;
	}
	return 0;
}

/* ---- written for another beginning ---- */

static json_t *token_json(const char *key, const char *id, int type)
{
	return json_pack("{s:{s:s,s:i}}", key, "id", id, "type_id", type);
}

/* Puts the token before a text, and before each of two. */
static json_t *template_of(const char *token, int32_t id)
{
	static const char special[] = "SpecialToken", text[] = "Sequence";

	return json_pack("{s:s,s:[o,o],s:[o,o,o,o],s:{s:{s:s,s:[i],s:[s]}}}", "type",
	    "TemplateProcessing", "single", token_json(special, token, 0), token_json(text, "A", 0),
	    "pair", token_json(special, token, 0), token_json(text, "A", 0),
	    token_json(special, token, 1), token_json(text, "B", 1), "special_tokens", token, "id",
	    token, "ids", (int)id, "tokens", token);
}

/* The parts of a post_processor that add no tokens. */
static json_t *neutral_parts(json_t *json)
{
	json_t *list = json_object_get(json, "processors"), *out = json_array(), *part;
	size_t i;

	if (!strcmp(gt_bpe_type(json), "ByteLevel"))
		json_array_append(out, json);
	json_array_foreach(list, i, part)
	{
		if (!strcmp(gt_bpe_type(part), "ByteLevel"))
			json_array_append(out, part);
	}
	return out;
}

/* Replace the post_processor of a tokenizer. Return true if memory runs out. */
static bool set_begin(json_t *json, const char *token, int32_t id)
{
	json_t *parts = neutral_parts(json_object_get(json, "post_processor")), *all;
	bool failed = !parts || (token && json_array_append_new(parts, template_of(token, id)));

	if (json_array_size(parts) > 1)
		all = json_pack("{s:s,s:O}", "type", "Sequence", "processors", parts);
	else
		all = json_array_size(parts) ? json_incref(json_array_get(parts, 0)) : json_null();
	failed |= json_object_set_new(json, "post_processor", all) != 0;
	json_decref(parts);
	return failed;
}

/* The tokenizer.json with another post_processor. */
static int rewrite_source(char **out, const char *source, size_t size, const char *token,
    int32_t begin, struct gt_err *err)
{
	json_error_t where;
	json_t *json = gt_python_json_loadb(source, size, JSON_ALLOW_NUL, &where);
	bool failed = !json || set_begin(json, token, begin);

	*out = failed ? NULL : gt_json_dumps(json, JSON_INDENT(2));
	json_decref(json);
	return *out ? 0 : gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");
}

int gt_bpe_source_with_begin(
    char **out, const struct gt_bpe *bpe, int32_t begin, struct gt_err *err)
{
	const struct gt_bpe_string *token = begin >= 0 ? &bpe->vocab.tokens[begin] : NULL;
	char *name = token ? gt_asprintf(err, "%.*s", (int)token->n, (const char *)token->p) : NULL;
	char *hidden = NULL, *written = NULL;
	size_t size = bpe->source_size;
	int rc = token && !name
	             ? GT_ENOMEM
	             : gt_bpe_hide_nul(&hidden, &size, bpe->source, bpe->source_size, err);

	*out = NULL;
	if (!rc)
		rc =
		    rewrite_source(&written, hidden ? hidden : bpe->source, size, name, begin, err);
	if (!rc && hidden)
		rc = gt_bpe_escape_nul(out, written, err);
	else if (!rc) {
		*out = written;
		written = NULL;
	}
	free(written);
	free(hidden);
	free(name);
	return rc;
}
