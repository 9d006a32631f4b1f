/* template.c - the special tokens that tokenizer.json puts around a text, and between two. */
#include <string.h>

#include "lib/base/python_json.h"
#include "lib/data/bpe/inside.h"

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

static int add_token(struct reader *r, json_int_t id, json_int_t type, struct gt_err *err)
{
	return add_part(r, 0, id, type, err);
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
			rc = add_token(
			    r, json_is_integer(id) ? json_integer_value(id) : -1, type, err);
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
			rc = add_text(r, name && !name[1] ? *name - 'A' + 1 : 0, type, err);
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
	int rc = add_token(r, begin, 0, err);

	if (!rc)
		rc = add_text(r, 1, 0, err);
	if (!rc)
		rc = add_token(r, end, 0, err);
	if (!rc && r->two && roberta)
		rc = add_token(r, end, 0, err);
	if (!rc && r->two)
		rc = add_text(r, 2, type, err);
	return rc || !r->two ? rc : add_token(r, end, type, err);
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

/* The token behind short texts. */
static int32_t find_padding(const struct gt_bpe *bpe, const json_t *json)
{
	static const char *const names[] = { "[PAD]", "<pad>" };
	const json_t *id = json_object_get(json_object_get(json, "padding"), "pad_id");
	int32_t found = -1;

	if (json_is_integer(id) && json_integer_value(id) >= 0 &&
	    json_integer_value(id) < gt_bpe_size(bpe))
		return (int32_t)json_integer_value(id);
	for (size_t i = 0; found < 0 && i < sizeof(names) / sizeof(*names); i++)
		found = gt_bpe_vocab_find(
		    &bpe->vocab, (const unsigned char *)names[i], strlen(names[i]));
	return found < 0 ? 0 : found;
}

int gt_bpe_template_read(
    struct gt_bpe_template *out, const struct gt_bpe *bpe, bool two, struct gt_err *err)
{
	size_t size;
	const char *source = gt_bpe_source(bpe, &size);
	struct reader r = { .out = out, .bpe = bpe, .two = two };
	json_error_t where;
	json_t *json = gt_python_json_loadb(source, size, JSON_ALLOW_NUL, &where);
	const json_t *processor = json_object_get(json, "post_processor");
	int rc = 0;

	*out = (struct gt_bpe_template){ 0 };
	if (!json)
		return gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");
	if (processor && !json_is_null(processor))
		rc = read_processor(&r, processor, err);
	out->padding = find_padding(bpe, json);
	json_decref(json);
	if (!rc && !r.seen)
		rc = add_text(&r, 1, 0, err);
	if (!rc && !r.seen && two)
		rc = add_text(&r, 2, 1, err);
	return rc ? rc : check_texts(&r, err);
}
