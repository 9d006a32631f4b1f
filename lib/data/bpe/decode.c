/* decode.c - ids to text: the decoder of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* ---- the fields ---- */

/* A number of characters: 0 where there is none, -1 for anything else. */
static json_int_t count_of(const json_t *json)
{
	return json_is_integer(json) ? json_integer_value(json) : json ? -1 : 0;
}

static int read_strip(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	json_int_t start = count_of(json_object_get(json, "start"));
	uint32_t content = 0;
	int rc = gt_bpe_check_keys(json, "decoder", "type content start stop", err);

	if (!rc)
		rc = gt_bpe_read_char(&content, json_object_get(json, "content"), "decoder", err);
	if (rc)
		return rc;
	if (content != ' ' || start < 0 || start > 1 || count_of(json_object_get(json, "stop")))
		return gt_err_set(err, GT_ENOTSUP,
		    "'decoder': Strip is supported for a single space at the start alone");
	bpe->strip_first = start == 1;
	return 0;
}

static int read_replace(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const char *content = json_string_value(json_object_get(json, "content"));
	const json_t *literal;
	int rc = gt_bpe_check_keys(json, "decoder", "type pattern content", err);

	if (rc)
		return rc;
	literal = gt_bpe_read_literal(json_object_get(json, "pattern"), "decoder", err);
	if (!literal)
		return GT_ENOTSUP;
	if (!content || strcmp(content, " ") != 0)
		return gt_err_set(
		    err, GT_ENOTSUP, "'decoder': Replace is supported by a space alone");
	return gt_bpe_read_char(&bpe->space, literal, "decoder", err);
}

static int read_mark(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	enum gt_bpe_prefix when;
	bool split;
	int rc = gt_bpe_read_metaspace(&bpe->space, &when, &split, json, "decoder", err);

	bpe->drop_first = !rc && when != GT_BPE_PREFIX_NEVER;
	return rc;
}

static int read_fallback(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	bpe->plain_bytes = true;
	return gt_bpe_check_keys(json, "decoder", "type", err);
}

static int read_fuse(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	(void)bpe;
	return gt_bpe_check_keys(json, "decoder", "type", err);
}

/* The parts of a decoder of characters, in their only order. */
static const struct {
	const char *type;
	int place;
	int (*read)(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
} parts[] = {
	{ "Replace", 1, read_replace },
	{ "Metaspace", 1, read_mark },
	{ "ByteFallback", 2, read_fallback },
	{ "Fuse", 3, read_fuse },
	{ "Strip", 4, read_strip },
};

enum { PARTS = sizeof(parts) / sizeof(*parts) };

static int read_part(struct gt_bpe *bpe, const json_t *json, int *place, struct gt_err *err)
{
	for (int i = 0; i < PARTS; i++) {
		if (strcmp(parts[i].type, gt_bpe_type(json)) != 0)
			continue;
		/* Strip looks at the whole text once its tokens are fused, else at each token. */
		if (parts[i].place <= *place || (parts[i].place == 4 && *place != 3))
			return gt_err_set(err, GT_ENOTSUP,
			    "'decoder': '%s' is not supported in this place", parts[i].type);
		*place = parts[i].place;
		return parts[i].read(bpe, json, err);
	}
	return gt_bpe_unsupported(json, "decoder", err);
}

int gt_bpe_read_decoder(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "decoders");
	bool none = !json || json_is_null(json);
	json_t *part;
	size_t i;
	int place = 0, rc;

	if (bpe->bytes) {
		if (none)
			return 0;
		if (strcmp(gt_bpe_type(json), "ByteLevel") != 0)
			return gt_bpe_unsupported(json, "decoder", err);
		return gt_bpe_check_keys(
		    json, "decoder", "type add_prefix_space trim_offsets use_regex", err);
	}
	if (none) {
		/* The reference puts a space between tokens; here the text comes back. */
		bpe->plain_bytes = bpe->byte_fallback;
		if (bpe->chars.from == ' ' &&
		    (size_t)gt_text_utf8(bpe->chars.to, (size_t)bpe->chars.to_size, &bpe->space) !=
		        (size_t)bpe->chars.to_size)
			bpe->space = 0;
		return 0;
	}
	if (strcmp(gt_bpe_type(json), "Sequence") != 0)
		return read_part(bpe, json, &place, err);
	rc = gt_bpe_check_keys(json, "decoder", "type decoders", err);
	json_array_foreach(list, i, part)
	{
		if (!rc)
			rc = read_part(bpe, part, &place, err);
	}
	return rc;
}

/* ---- the bytes of each token ---- */

/* Letters to bytes; false where one is no byte's. */
static bool decode_letters(unsigned char *out, uint32_t *n, const struct gt_bpe_string *s)
{
	uint32_t code;

	*n = 0;
	for (uint32_t i = 0; i < s->n;) {
		int length = gt_text_utf8(s->p + i, s->n - i, &code);
		int byte = length ? gt_bpe_byte_of(code) : -1;

		if (byte < 0)
			return false;
		out[(*n)++] = (unsigned char)byte;
		i += (uint32_t)length;
	}
	return true;
}

/* "<0xE2>" to 0xE2, else -1. */
static int plain_byte(const struct gt_bpe_string *s)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *a, *b;

	if (s->n != 6 || memcmp(s->p, "<0x", 3) || s->p[5] != '>' || !s->p[3] || !s->p[4])
		return -1;
	a = strchr(digits, s->p[3]);
	b = strchr(digits, s->p[4]);
	return a && b ? (int)((a - digits) * 16 + (b - digits)) : -1;
}

static void decode_chars(
    const struct gt_bpe *bpe, unsigned char *out, uint32_t *n, const struct gt_bpe_string *s)
{
	int byte = bpe->plain_bytes ? plain_byte(s) : -1;
	unsigned char mark[4];
	size_t length = bpe->space ? (size_t)gt_text_put_utf8(mark, bpe->space) : 0;

	*n = 0;
	if (byte >= 0) {
		out[(*n)++] = (unsigned char)byte;
		return;
	}
	for (uint32_t i = 0; i < s->n;) {
		if (length && s->n - i >= length && !memcmp(s->p + i, mark, length)) {
			out[(*n)++] = ' ';
			i += (uint32_t)length;
		} else {
			out[(*n)++] = s->p[i++];
		}
	}
}

int gt_bpe_prepare_texts(struct gt_bpe *bpe, struct gt_err *err)
{
	struct gt_bpe_vocab *v = &bpe->vocab;

	bpe->texts = gt_calloc((size_t)v->size, sizeof(*bpe->texts), err);
	if (!bpe->texts)
		return GT_ENOMEM;
	for (int i = 0; i < v->size; i++) {
		const struct gt_bpe_string *s = &v->tokens[i];
		unsigned char *out;
		uint32_t n = 0;

		if (!s->p)
			continue;
		out = gt_arena_alloc(&v->arena, s->n + 1, err);
		if (!out)
			return GT_ENOMEM;
		if (!bpe->bytes)
			decode_chars(bpe, out, &n, s);
		else if (!decode_letters(out, &n, s))
			memcpy(out, s->p, n = s->n);
		bpe->texts[i] = (struct gt_bpe_string){ out, n };
	}
	return 0;
}

/* The first token of a text loses its first space, or all; those are at its beginning. */
static size_t skipped(const struct gt_bpe *bpe, const struct gt_bpe_string *text)
{
	size_t n = 0, max = bpe->drop_first ? text->n : bpe->strip_first;

	while (n < max && n < text->n && text->p[n] == ' ')
		n++;
	return n;
}

const char *gt_bpe_text(
    const struct gt_bpe *bpe, int32_t id, bool first, size_t *length, size_t *skip)
{
	const struct gt_bpe_string *text;

	*length = *skip = 0;
	if (id < 0 || id >= bpe->vocab.size || !bpe->texts[id].p)
		return NULL;
	text = &bpe->texts[id];
	*length = text->n;
	if (first)
		*skip = skipped(bpe, text);
	return (const char *)text->p;
}
