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

static int read_begins(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "processors");
	json_t *part;
	size_t i;

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
		             ? read_begins(bpe, part, err)
		             : gt_bpe_unsupported(part, "post_processor", err);

		if (rc)
			return rc;
	}
	return 0;
}

int gt_bpe_read_post_processor(struct gt_bpe *bpe, json_t *json, struct gt_err *err)
{
	if (!json || json_is_null(json))
		return 0;
	bpe->post_processor = json_incref(json);
	return read_begins(bpe, json, err);
}

/* ---- the order of texts and special tokens ---- */

/* A template that is being read. */
struct reader {
	struct gt_bpe_template *out;
	const struct gt_bpe *bpe;
	bool two;  /* for two texts */
	bool seen; /* a part of the post_processor has given it */
};

static int add_part(struct reader *r, int text, json_int_t id, json_int_t type, struct gt_err *err)
{
	if (r->out->count == GT_BPE_PARTS)
		return gt_err_set(
		    err, GT_ENOTSUP, "'post_processor' has more than %d parts", GT_BPE_PARTS);
	if (!text && (id < 0 || id >= gt_bpe_size(r->bpe)))
		return gt_err_set(err, GT_EFORMAT,
		    "'post_processor' has the id %lld, which is not a token", (long long)id);
	if (type < 0 || type > GT_BPE_MAX_TYPE)
		return gt_err_set(err, GT_EFORMAT,
		    "'post_processor' has the type %lld, not 0 to %d", (long long)type,
		    GT_BPE_MAX_TYPE);
	r->out->part[r->out->count++] = (struct gt_bpe_part){ text, (int32_t)id, (int)type };
	return 0;
}

static int add_text(struct reader *r, int text, json_int_t type, struct gt_err *err)
{
	if (text < 1 || text > 2)
		return gt_err_set(
		    err, GT_EFORMAT, "'post_processor' has a part that is no token or text");
	return add_part(r, text, 0, type, err);
}

/* {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, one or several tokens of "special_tokens". */
static int add_named(
    struct reader *r, const json_t *tokens, const char *name, json_int_t type, struct gt_err *err)
{
	const json_t *ids = json_object_get(json_object_get(tokens, name ? name : ""), "ids");
	json_t *id;
	size_t i;
	int rc = 0;

	if (!json_array_size(ids))
		return gt_err_set(err, GT_EFORMAT,
		    "'post_processor': 'special_tokens' has no ids for '%.40s'", name ? name : "?");
	json_array_foreach(ids, i, id)
	{
		if (!rc)
			rc = add_part(
			    r, 0, json_is_integer(id) ? json_integer_value(id) : -1, type, err);
	}
	return rc;
}

/* {"single": [part, ...], "pair": [part, ...], "special_tokens": {...}} */
static int read_template(struct reader *r, const json_t *json, struct gt_err *err)
{
	const json_t *parts = json_object_get(json, r->two ? "pair" : "single");
	json_t *part;
	size_t i;
	int rc = 0;

	json_array_foreach(parts, i, part)
	{
		const json_t *token = json_object_get(part, "SpecialToken");
		const json_t *text = json_object_get(part, "Sequence");
		const json_t *id = json_object_get(token ? token : text, "id");
		json_int_t type =
		    json_integer_value(json_object_get(token ? token : text, "type_id"));
		const char *name = json_string_value(id);

		if (rc)
			break;
		if (token)
			rc = add_named(r, json_object_get(json, "special_tokens"), name, type, err);
		else
			rc =
			    add_text(r, name && *name && !name[1] ? *name - 'A' + 1 : 0, type, err);
	}
	return rc;
}

/* The id of ["[SEP]", 102], or -1. */
static json_int_t id_of(const json_t *json, const char *key)
{
	const json_t *id = json_array_get(json_object_get(json, key), 1);

	return json_is_integer(id) ? json_integer_value(id) : -1;
}

/* BERT's [CLS] A [SEP] B [SEP], where B and what is behind it have type 1, and RoBERTa's
 * <s> A </s></s> B </s>, all of type 0. */
static int read_fixed(struct reader *r, const json_t *json, bool roberta, struct gt_err *err)
{
	json_int_t begin = id_of(json, "cls"), end = id_of(json, "sep"), type = !roberta;
	int rc = add_part(r, 0, begin, 0, err);

	if (!rc)
		rc = add_text(r, 1, 0, err);
	if (!rc)
		rc = add_part(r, 0, end, 0, err);
	if (!rc && r->two && roberta)
		rc = add_part(r, 0, end, 0, err);
	if (!rc && r->two)
		rc = add_text(r, 2, type, err);
	return rc || !r->two ? rc : add_part(r, 0, end, type, err);
}

static int read_processor(struct reader *r, const json_t *json, struct gt_err *err)
{
	const char *type = gt_bpe_type(json);
	const json_t *list = json_object_get(json, "processors");
	json_t *part;
	size_t i;
	int rc = 0;

	if (!strcmp(type, "ByteLevel"))
		return 0;
	if (!strcmp(type, "Sequence")) {
		json_array_foreach(list, i, part)
		{
			/* The file was accepted, so no sequence is inside another. */
			if (!rc)
				rc = read_processor(r, part, err);
		}
		return rc;
	}
	if (r->seen)
		return gt_err_set(
		    err, GT_ENOTSUP, "'post_processor' adds special tokens more than once");
	r->seen = true;
	if (!strcmp(type, "TemplateProcessing"))
		return read_template(r, json, err);
	return read_fixed(r, json, !strcmp(type, "RobertaProcessing"), err);
}

/* Each text has to be there once, in its order. */
static int check_texts(const struct reader *r, struct gt_err *err)
{
	int seen = 0;

	for (int i = 0; i < r->out->count; i++)
		if (r->out->part[i].text && r->out->part[i].text != ++seen)
			seen = GT_BPE_PARTS;
	if (seen == (r->two ? 2 : 1))
		return 0;
	return gt_err_set(err, GT_ENOTSUP, "'post_processor' does not have %s once, in their order",
	    r->two ? "both texts" : "the text");
}

int gt_bpe_template_read(
    struct gt_bpe_template *out, const struct gt_bpe *bpe, bool two, struct gt_err *err)
{
	struct reader r = { .out = out, .bpe = bpe, .two = two };
	int rc = 0;

	*out = (struct gt_bpe_template){ 0 };
	if (bpe->is_gpt2) {
		gt_err_set(err, GT_ENOTSUP,
		    "vocab.json and merges.txt do not say which special tokens a text has");
		return gt_err_hint(err,
		    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers "
		    "writes tokenizer.json, which does");
	}
	if (bpe->post_processor)
		rc = read_processor(&r, bpe->post_processor, err);
	if (!rc && !r.seen)
		rc = add_text(&r, 1, 0, err);
	if (!rc && !r.seen && two)
		rc = add_text(&r, 2, 1, err);
	return rc ? rc : check_texts(&r, err);
}

void gt_bpe_choose_padding(struct gt_bpe *bpe, const json_t *json)
{
	static const char *const names[] = { "[PAD]", "<pad>" };
	const json_t *id = json_object_get(json, "pad_id");
	int32_t found = -1;

	if (json_is_integer(id) && json_integer_value(id) >= 0 &&
	    json_integer_value(id) < bpe->vocab.size) {
		bpe->padding = (int32_t)json_integer_value(id);
		return;
	}
	for (size_t i = 0; found < 0 && i < sizeof(names) / sizeof(*names); i++)
		found = gt_bpe_find(bpe, names[i]);
	bpe->padding = found < 0 ? 0 : found;
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
