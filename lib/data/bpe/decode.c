/* decode.c - ids to text: the decoder of a tokenizer.json, a row for each kind. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/*
 * The reference decodes all tokens of a text at once; here each token has a text, and another one
 * if it is the first. For the kinds below that is the same, in the order of `place`.
 */
enum place { START, TOKENS, BYTES, FUSE, ENDS };

/* A step of a decoder. */
struct step {
	const struct kind *kind;
	const char *from, *to; /* [from_size], [to_size], borrowed from the JSON: replaced text */
	size_t from_size, to_size;
	int start, stop;
	bool drops;   /* Metaspace: the first token loses its marks */
	bool cleanup; /* WordPiece */
	bool fused;   /* the step reads the whole text, so it changes the first token alone */
};

/* The text of a token while it is decoded. */
struct token {
	struct gt_bpe_buffer text;
	bool first;
};

struct kind {
	const char *type, *keys;
	enum place place;
	int (*read)(struct step *step, const json_t *json, struct gt_err *err);
	int (*apply)(const struct step *step, struct token *token, struct gt_err *err);
};

/* ---- their settings ---- */

/* A number of characters: 0 where there is none, -1 for anything else. */
static int count_of(const json_t *json)
{
	json_int_t n = json_is_integer(json) ? json_integer_value(json) : json ? -1 : 0;

	return n < 0 || n > GT_BPE_MAX_TOKEN ? -1 : (int)n;
}

static void borrow(const char **out, size_t *size, const json_t *string)
{
	*out = json_string_value(string);
	*size = json_string_length(string);
}

static int read_strip(struct step *step, const json_t *json, struct gt_err *err)
{
	uint32_t content;
	int rc = gt_bpe_read_char(&content, json_object_get(json, "content"), "decoder", err);

	step->start = count_of(json_object_get(json, "start"));
	step->stop = count_of(json_object_get(json, "stop"));
	borrow(&step->from, &step->from_size, json_object_get(json, "content"));
	if (!rc && (step->start < 0 || step->stop < 0))
		rc = gt_err_set(err, GT_EFORMAT,
		    "'decoder': 'start' and 'stop' of Strip must be numbers of characters");
	return rc;
}

static int read_replace(struct step *step, const json_t *json, struct gt_err *err)
{
	const json_t *pattern = json_object_get(json, "pattern");
	const json_t *content = json_object_get(json, "content");

	borrow(&step->from, &step->from_size, json_object_get(pattern, "String"));
	borrow(&step->to, &step->to_size, content);
	if (!json_is_string(content) || !step->from_size || json_object_size(pattern) != 1)
		return gt_err_set(err, GT_ENOTSUP,
		    "'decoder': Replace is supported with a pattern {\"String\": ...} and a "
		    "'content' alone");
	return 0;
}

static int read_metaspace(struct step *step, const json_t *json, struct gt_err *err)
{
	enum gt_bpe_prefix when;
	uint32_t mark;
	bool split;
	int rc = gt_bpe_read_metaspace(&mark, &when, &split, json, "decoder", err);

	borrow(&step->from, &step->from_size, json_object_get(json, "replacement"));
	step->drops = when != GT_BPE_PREFIX_NEVER;
	return rc;
}

static int read_wordpiece(struct step *step, const json_t *json, struct gt_err *err)
{
	const json_t *prefix = json_object_get(json, "prefix");

	borrow(&step->from, &step->from_size, prefix);
	if (!json_is_string(prefix))
		return gt_err_set(err, GT_EFORMAT, "'decoder': WordPiece has no 'prefix'");
	return gt_bpe_read_bool(&step->cleanup, json, "cleanup", true, "decoder", err);
}

/* ---- their work ---- */

/* Replace each occurrence of a text. */
static int replace(struct gt_bpe_buffer *text, const char *from, size_t from_size, const char *to,
    size_t to_size, struct gt_err *err)
{
	struct gt_bpe_buffer out = { .limit = text->limit };
	const unsigned char *p = text->p, *end = p + text->n, *found;
	int rc = gt_bpe_buffer_put(&out, NULL, 0, err);

	for (; !rc && (found = memmem(p, (size_t)(end - p), from, from_size));
	     p = found + from_size) {
		rc = gt_bpe_buffer_put(&out, p, (size_t)(found - p), err);
		if (!rc)
			rc = gt_bpe_buffer_put(&out, (const unsigned char *)to, to_size, err);
	}
	if (!rc)
		rc = gt_bpe_buffer_put(&out, p, (size_t)(end - p), err);
	if (rc) {
		free(out.p);
		return rc;
	}
	free(text->p);
	*text = out;
	return 0;
}

static void cut_start(struct gt_bpe_buffer *text, size_t n)
{
	text->n -= n;
	memmove(text->p, text->p + n, text->n);
}

static int apply_replace(const struct step *step, struct token *token, struct gt_err *err)
{
	return replace(&token->text, step->from, step->from_size, step->to, step->to_size, err);
}

static int apply_metaspace(const struct step *step, struct token *token, struct gt_err *err)
{
	bool drop = token->first && step->drops;

	return replace(&token->text, step->from, step->from_size, drop ? "" : " ", !drop, err);
}

static bool starts_with(const struct gt_bpe_buffer *text, const char *start, size_t n)
{
	return text->n >= n && !memcmp(text->p, start, n);
}

/* The end of a text is not known when its tokens are decoded one by one: it is never cut. */
static int apply_strip(const struct step *step, struct token *token, struct gt_err *err)
{
	struct gt_bpe_buffer *text = &token->text;
	size_t n = step->from_size;

	(void)err;
	if (step->fused && !token->first)
		return 0;
	for (int i = 0; i < step->start && starts_with(text, step->from, n); i++)
		cut_start(text, n);
	for (int i = 0; i < step->stop && text->n >= n; i++) {
		if (memcmp(text->p + text->n - n, step->from, n) != 0)
			break;
		text->n -= n;
	}
	return 0;
}

/* A token inside a word loses its prefix; before others stands a space. Punctuation moves to the
 * word before it. */
static int apply_wordpiece(const struct step *step, struct token *token, struct gt_err *err)
{
	static const char *const cleanups[][2] = { { " .", "." }, { " ?", "?" }, { " !", "!" },
		{ " ,", "," }, { " ' ", "'" }, { " n't", "n't" }, { " 'm", "'m" },
		{ " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" } };
	struct gt_bpe_buffer *text = &token->text;
	int rc = 0;

	if (!token->first && starts_with(text, step->from, step->from_size)) {
		cut_start(text, step->from_size);
	} else if (!token->first) {
		rc = gt_bpe_buffer_put(text, (const unsigned char *)" ", 1, err);
		if (!rc) {
			memmove(text->p + 1, text->p, text->n - 1);
			text->p[0] = ' ';
		}
	}
	for (size_t i = 0; i < sizeof(cleanups) / sizeof(*cleanups) && !rc && step->cleanup; i++)
		rc = replace(text, cleanups[i][0], strlen(cleanups[i][0]), cleanups[i][1],
		    strlen(cleanups[i][1]), err);
	return rc;
}

/* Letters to bytes; a token with a letter that is no byte's stays as it is. */
static int apply_letters(const struct step *step, struct token *token, struct gt_err *err)
{
	struct gt_bpe_buffer *text = &token->text;
	size_t used = 0;

	(void)step;
	(void)err;
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < text->n;) {
			uint32_t code;
			int length = gt_text_utf8(text->p + i, text->n - i, &code);
			int byte = length ? gt_bpe_byte_of(code) : -1;

			if (byte < 0)
				return 0;
			i += (size_t)length;
			if (pass)
				text->p[used++] = (unsigned char)byte;
		}
	text->n = used;
	return 0;
}

/* "<0xE2>" to the byte 0xE2. */
static int apply_bytes(const struct step *step, struct token *token, struct gt_err *err)
{
	static const char digits[] = "0123456789ABCDEF";
	unsigned char *p = token->text.p;
	const char *a, *b;

	(void)step;
	(void)err;
	if (token->text.n != 6 || memcmp(p, "<0x", 3) || p[5] != '>' || !p[3] || !p[4])
		return 0;
	a = strchr(digits, p[3]);
	b = strchr(digits, p[4]);
	if (a && b) {
		p[0] = (unsigned char)((a - digits) * 16 + (b - digits));
		token->text.n = 1;
	}
	return 0;
}

/* ---- the table ---- */

static const struct kind kinds[] = {
	{ "ByteLevel", "type add_prefix_space trim_offsets use_regex", TOKENS, NULL,
	    apply_letters },
	{ "WordPiece", "type prefix cleanup", TOKENS, read_wordpiece, apply_wordpiece },
	{ "Metaspace", "type replacement str_rep add_prefix_space prepend_scheme split", TOKENS,
	    read_metaspace, apply_metaspace },
	{ "Replace", "type pattern content", TOKENS, read_replace, apply_replace },
	{ "ByteFallback", "type", BYTES, NULL, apply_bytes },
	{ "Fuse", "type", FUSE, NULL, NULL },
	{ "Strip", "type content start stop", ENDS, read_strip, apply_strip },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds), MAX_STEPS = 8 };

struct steps {
	struct step list[MAX_STEPS]; /* [count] */
	int count;
	enum place last; /* the place of the last step */
	bool fused;
};

static int read_step(struct steps *steps, const json_t *json, struct gt_err *err)
{
	struct step *step = &steps->list[steps->count];

	for (int i = 0; i < KINDS; i++) {
		if (strcmp(kinds[i].type, gt_bpe_type(json)) != 0)
			continue;
		if (kinds[i].place < steps->last || steps->count == MAX_STEPS)
			return gt_err_set(err, GT_ENOTSUP,
			    "'decoder': '%s' is not supported in this place", kinds[i].type);
		if (gt_bpe_check_keys(json, "decoder", kinds[i].keys, err))
			return err->code;
		*step = (struct step){ .kind = &kinds[i], .fused = steps->fused };
		steps->last = kinds[i].place;
		steps->fused |= kinds[i].place == FUSE;
		steps->count++;
		if (kinds[i].read && kinds[i].read(step, json, err))
			return err->code;
		if (step->fused && step->stop)
			return gt_err_set(err, GT_ENOTSUP,
			    "'decoder': Strip at the end of a text is not supported");
		return 0;
	}
	return gt_bpe_unsupported(json, "decoder", err);
}

static int read_steps(struct steps *steps, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "decoders");
	json_t *part;
	size_t i;
	int rc;

	if (strcmp(gt_bpe_type(json), "Sequence") != 0)
		return read_step(steps, json, err);
	rc = gt_bpe_check_keys(json, "decoder", "type decoders", err);
	json_array_foreach(list, i, part)
	{
		if (!rc)
			rc = read_step(steps, part, err);
	}
	return rc;
}

/* Without a decoder the reference puts a space between tokens; here the text comes back. */
static json_t *default_decoder(const struct gt_bpe *bpe)
{
	const struct gt_bpe_chars *c = &bpe->chars;
	json_t *list = json_array();

	if (bpe->bytes)
		json_array_append_new(list, json_pack("{s:s}", "type", "ByteLevel"));
	else if (bpe->word == gt_bpe_word_of_pieces)
		json_array_append_new(
		    list, json_pack("{s:s,s:s%,s:b}", "type", "WordPiece", "prefix",
		              (const char *)bpe->prefix.p, (size_t)bpe->prefix.n, "cleanup", 0));
	else if (c->from == ' ' && c->to_size)
		json_array_append_new(
		    list, json_pack("{s:s,s:{s:s%},s:s}", "type", "Replace", "pattern", "String",
		              (const char *)c->to, (size_t)c->to_size, "content", " "));
	if (bpe->byte_fallback && !bpe->bytes)
		json_array_append_new(list, json_pack("{s:s}", "type", "ByteFallback"));
	return json_pack("{s:s,s:o}", "type", "Sequence", "decoders", list);
}

/* ---- the bytes of each token ---- */

/* Replacements of replacements could make any number of bytes of a short token. */
enum { MAX_TEXT = 2 * GT_BPE_MAX_TOKEN };

static int decode_token(struct gt_bpe *bpe, struct gt_bpe_string *out, const struct steps *steps,
    const struct gt_bpe_string *s, bool first, struct gt_err *err)
{
	struct token token = { .text.limit = MAX_TEXT, .first = first };
	unsigned char *copy = NULL;
	int rc = gt_bpe_buffer_put(&token.text, s->p, s->n, err);

	for (int i = 0; i < steps->count && !rc; i++)
		if (steps->list[i].kind->apply)
			rc = steps->list[i].kind->apply(&steps->list[i], &token, err);
	if (!rc) {
		copy = gt_arena_alloc(&bpe->vocab.arena, token.text.n + 1, err);
		rc = copy ? 0 : GT_ENOMEM;
	}
	if (!rc)
		memcpy(copy, token.text.p, token.text.n);
	*out = (struct gt_bpe_string){ copy, (uint32_t)token.text.n };
	free(token.text.p);
	return rc;
}

static int decode_tokens(struct gt_bpe *bpe, const struct steps *steps, struct gt_err *err)
{
	const struct gt_bpe_vocab *v = &bpe->vocab;
	bool differ = false; /* first tokens differ from others */
	int rc = 0;

	for (int i = 0; i < steps->count; i++)
		differ |= steps->list[i].fused || steps->list[i].drops ||
		          steps->list[i].kind->read == read_wordpiece;
	for (int i = 0; i < v->size && !rc; i++) {
		if (!v->tokens[i].p)
			continue;
		rc = decode_token(bpe, &bpe->texts[i], steps, &v->tokens[i], false, err);
		if (!rc && differ)
			rc = decode_token(
			    bpe, &bpe->first_texts[i], steps, &v->tokens[i], true, err);
		else
			bpe->first_texts[i] = bpe->texts[i];
	}
	return rc;
}

int gt_bpe_read_decoder(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	struct steps steps = { 0 };
	json_t *own = !json || json_is_null(json) ? default_decoder(bpe) : NULL;
	int rc = read_steps(&steps, own ? own : json, err);

	if (!rc) {
		size_t size = (size_t)bpe->vocab.size;

		bpe->texts = gt_calloc(size, sizeof(*bpe->texts), err);
		bpe->first_texts =
		    bpe->texts ? gt_calloc(size, sizeof(*bpe->first_texts), err) : NULL;
		rc = bpe->first_texts ? decode_tokens(bpe, &steps, err) : GT_ENOMEM;
	}
	json_decref(own);
	return rc;
}

const char *gt_bpe_text(const struct gt_bpe *bpe, int32_t id, bool first, size_t *length)
{
	const struct gt_bpe_string *text;

	*length = 0;
	if (id < 0 || id >= bpe->vocab.size || !bpe->texts[id].p)
		return NULL;
	text = first ? &bpe->first_texts[id] : &bpe->texts[id];
	*length = text->n;
	return (const char *)text->p;
}
