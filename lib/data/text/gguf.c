/* gguf.c - a tokenizer.json as the keys that llama.cpp reads. */
#include "lib/data/text/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/data/text/config.h"
#include "lib/data/text/tokenizer.h"

/*
 * llama.cpp has no general form of tokenizers. It knows three models:
 *
 *   gpt2    byte-pair encoding of bytes; a name stands for the regular expressions that cut words
 *   llama   byte-pair encoding of characters, unknown ones as bytes: SentencePiece's. It merges the
 *           pair whose token has the highest score
 *   t5      Unigram
 *
 * Source: llama.cpp, src/llama-vocab.cpp; gguf-py/gguf/constants.py (keys and types of tokens).
 */
enum type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum kind { BYTES, CHARACTERS, UNIGRAM };

static const char *const kind_names[] = { "gpt2", "llama", "t5" };

struct token {
	const char *text; /* [n], borrowed from the JSON; NULL: no token has this id */
	size_t n;
	enum type type;
	float score;
};

struct vocabulary {
	struct gt_gguf *g;
	const json_t *json, *model;
	enum kind kind;
	const char *words; /* llama.cpp's name of a pre_tokenizer */
	bool prefix;       /* a space is put before a text */
	bool single_spaces;
	const char *charsmap; /* base64; NULL: none */
	struct token *tokens; /* [count] */
	int count;
	int unknown; /* -1: none */
};

#define MARK "\u2581"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static int fail_part(const char *part, const json_t *object, struct gt_err *err)
{
	const char *type = text_of(object, "type");

	gt_err_set(err, GT_ENOTSUP,
	    "llama.cpp does not apply this tokenizer: '%s'%s%.60s%s is not one of its own", part,
	    *type ? " of type '" : "", type, *type ? "'" : "");
	return gt_err_hint(err, "safetensors and hf take any tokenizer: {to} hf");
}

/* Step i of a field that is null, a step, or a Sequence; NULL behind the last one. */
static const json_t *step_of(const json_t *field, const char *list, size_t i)
{
	const json_t *steps = json_object_get(field, list);

	if (!strcmp(text_of(field, "type"), "Sequence"))
		return json_array_get(steps, i);
	return i || !json_is_object(field) ? NULL : field;
}

/* ---- byte-pair encoding of bytes ---- */

#define WORDS_OF(DIGITS)                                                                           \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" DIGITS                       \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The steps of pre_tokenizers, a line each, and their names. */
static const struct {
	const char *steps, *name;
} known_words[] = {
	{ "ByteLevel regex\n", "gpt-2" },
	{ "Split " WORDS_OF("\\p{N}{1,3}") "\nByteLevel\n", "llama-bpe" },
	{ "Split " WORDS_OF("\\p{N}") "\nByteLevel\n", "qwen2" },
	{ "Digits each\nByteLevel regex\n", "smollm" },
};

static void put_step(struct gt_buf *b, const json_t *step)
{
	const char *type = text_of(step, "type");
	const json_t *pattern = json_object_get(step, "pattern");

	gt_buf_puts(b, type);
	if (!strcmp(type, "Split") && !strcmp(text_of(step, "behavior"), "Isolated") &&
	    !json_is_true(json_object_get(step, "invert")))
		gt_buf_printf(b, " %s", text_of(pattern, "Regex"));
	if (!strcmp(type, "ByteLevel") && !json_is_false(json_object_get(step, "use_regex")))
		gt_buf_puts(b, " regex");
	if (!strcmp(type, "ByteLevel") && json_is_true(json_object_get(step, "add_prefix_space")))
		gt_buf_puts(b, " prefix");
	if (!strcmp(type, "Digits") && json_is_true(json_object_get(step, "individual_digits")))
		gt_buf_puts(b, " each");
	gt_buf_puts(b, "\n");
}

static int find_words(struct vocabulary *v, struct gt_err *err)
{
	const json_t *field = json_object_get(v->json, "pre_tokenizer"), *step;
	struct gt_buf steps = { 0 };
	int rc;

	for (size_t i = 0; (step = step_of(field, "pretokenizers", i)); i++)
		put_step(&steps, step);
	rc = gt_buf_check(&steps, err);
	for (size_t i = 0; i < sizeof(known_words) / sizeof(*known_words); i++)
		if (!strcmp(known_words[i].steps, gt_buf_text(&steps)))
			v->words = known_words[i].name;
	gt_buf_release(&steps);
	return rc || v->words ? rc : fail_part("pre_tokenizer", field, err);
}

static int read_byte_steps(struct vocabulary *v, struct gt_buf *note, struct gt_err *err)
{
	const json_t *normalizer = json_object_get(v->json, "normalizer"), *step;
	const bool ignores = json_is_true(json_object_get(v->model, "ignore_merges"));
	int rc = find_words(v, err);

	for (size_t i = 0; !rc && (step = step_of(normalizer, "normalizers", i)); i++) {
		if (strcmp(text_of(step, "type"), "NFC") != 0)
			return fail_part("normalizer", step, err);
		gt_buf_puts(
		    note, "llama.cpp does not normalize text, as NFC of the tokenizer does\n");
	}
	if (!rc && ignores != !strcmp(v->words, "llama-bpe"))
		gt_buf_printf(note, "llama.cpp %s of words that are tokens, and the tokenizer %s\n",
		    ignores ? "applies merges" : "ignores merges",
		    ignores ? "ignores them" : "applies them");
	return rc;
}

/* ---- SentencePiece ---- */

/* A pattern of a Replace or a Split: a text, or a regular expression. */
static const char *pattern_of(const json_t *step)
{
	const json_t *pattern = json_object_get(step, "pattern");
	const char *text = text_of(pattern, "String");

	return *text ? text : text_of(pattern, "Regex");
}

static bool read_normalizer(struct vocabulary *v, const json_t *step)
{
	const char *type = text_of(step, "type"), *pattern = pattern_of(step);

	if (!strcmp(type, "Prepend")) {
		v->prefix = true;
		return !strcmp(text_of(step, "prepend"), MARK);
	}
	if (!strcmp(type, "Precompiled") && v->kind == UNIGRAM) {
		v->charsmap = text_of(step, "precompiled_charsmap");
		return true;
	}
	if (strcmp(type, "Replace") != 0)
		return false;
	if (!strcmp(pattern, " "))
		return !strcmp(text_of(step, "content"), MARK);
	/* spaces at both ends, and several of them */
	v->single_spaces = true;
	return v->kind == UNIGRAM &&
	       (!strcmp(pattern, "(?<!\\p{L}|\\P{L}) +") ||
	           !strcmp(pattern, " +(?!\\p{L}|\\P{L})") || !strcmp(pattern, " {2,}"));
}

static bool read_pre_tokenizer(struct vocabulary *v, const json_t *step)
{
	const char *type = text_of(step, "type"), *scheme = text_of(step, "prepend_scheme");

	if (!strcmp(type, "Split")) /* words are no more than a way to compute */
		return !strcmp(pattern_of(step), " ") || !strcmp(pattern_of(step), MARK);
	if (strcmp(type, "Metaspace") != 0 || strcmp(text_of(step, "replacement"), MARK) != 0)
		return false;
	v->prefix = *scheme ? strcmp(scheme, "never") != 0
	                    : !json_is_false(json_object_get(step, "add_prefix_space"));
	return true;
}

static int read_piece_steps(struct vocabulary *v, struct gt_err *err)
{
	const json_t *normalizer = json_object_get(v->json, "normalizer");
	const json_t *words = json_object_get(v->json, "pre_tokenizer"), *step;

	for (size_t i = 0; (step = step_of(normalizer, "normalizers", i)); i++)
		if (!read_normalizer(v, step))
			return fail_part("normalizer", step, err);
	for (size_t i = 0; (step = step_of(words, "pretokenizers", i)); i++)
		if (!read_pre_tokenizer(v, step))
			return fail_part("pre_tokenizer", step, err);
	return 0;
}

/* ---- tokens ---- */

static int set_token(
    struct vocabulary *v, json_int_t id, const json_t *text, enum type type, struct gt_err *err)
{
	if (id < 0 || id >= v->count)
		return gt_err_set(err, GT_EINVAL,
		    "the tokenizer has a token with the id %lld, but the model has %d tokens",
		    (long long)id, v->count);
	v->tokens[id].text = json_string_value(text);
	v->tokens[id].n = json_string_length(text);
	v->tokens[id].type = type;
	return 0;
}

/* "<0x0A>" stands for a byte. */
static bool is_byte(const char *text)
{
	return strlen(text) == 6 && !strncmp(text, "<0x", 3) && text[5] == '>' &&
	       strspn(text + 3, "0123456789ABCDEF") == 2;
}

static int read_vocab(struct vocabulary *v, struct gt_err *err)
{
	json_t *vocab = json_object_get(v->model, "vocab"), *value;
	const char *text;
	size_t i;
	int rc = 0;

	json_array_foreach(vocab, i, value)
	{
		rc = rc ? rc : set_token(v, (json_int_t)i, json_array_get(value, 0), NORMAL, err);
		if (!rc)
			v->tokens[i].score = (float)json_number_value(json_array_get(value, 1));
	}
	json_object_foreach(vocab, text, value)
	{
		const json_int_t id = json_integer_value(value);

		rc = rc ? rc : set_token(v, id, NULL, NORMAL, err);
		if (rc)
			break;
		v->tokens[id].text = text;
		v->tokens[id].n = strlen(text);
		if (v->kind == CHARACTERS && is_byte(text))
			v->tokens[id].type = BYTE;
		if (v->kind == CHARACTERS && !strcmp(text, text_of(v->model, "unk_token")))
			v->unknown = (int)id;
	}
	if (json_is_integer(json_object_get(v->model, "unk_id")))
		v->unknown = (int)json_integer_value(json_object_get(v->model, "unk_id"));
	return rc;
}

static int read_added(struct vocabulary *v, struct gt_err *err)
{
	const json_t *list = json_object_get(v->json, "added_tokens");
	int rc = 0;

	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		const json_t *token = json_array_get(list, i);
		const bool special = json_is_true(json_object_get(token, "special"));

		rc = set_token(v, json_integer_value(json_object_get(token, "id")),
		    json_object_get(token, "content"), special ? CONTROL : USER_DEFINED, err);
	}
	if (!rc && v->unknown >= 0 && v->unknown < v->count)
		v->tokens[v->unknown].type = UNKNOWN;
	return rc;
}

/* ---- merges ---- */

/* Split a merge, "a b" or ["a", "b"]. */
static bool split_merge(const json_t *merge, struct token part[2])
{
	const char *text = json_string_value(merge);
	const char *space = text ? strchr(text, ' ') : NULL;

	for (size_t i = 0; !text && i < 2; i++) {
		part[i].text = json_string_value(json_array_get(merge, i));
		part[i].n = json_string_length(json_array_get(merge, i));
	}
	if (space) {
		part[0] = (struct token){ .text = text, .n = (size_t)(space - text) };
		part[1] = (struct token){ .text = space + 1, .n = strlen(space + 1) };
	}
	return part[0].text && part[1].text;
}

static int add_merges(struct vocabulary *v, struct gt_err *err)
{
	const json_t *merges = json_object_get(v->model, "merges");
	struct gt_buf *b = gt_gguf_add_array(
	    v->g, "tokenizer.ggml.merges", GT_GGUF_STRING, json_array_size(merges));
	struct gt_buf text = { 0 };
	int rc = 0;

	for (size_t i = 0; !rc && i < json_array_size(merges); i++) {
		struct token part[2] = { { 0 } };

		if (!split_merge(json_array_get(merges, i), part))
			rc = gt_err_set(err, GT_EFORMAT, "merge %zu is damaged", i);
		if (rc)
			break;
		gt_buf_cut(&text, 0);
		gt_buf_add(&text, part[0].text, part[0].n);
		gt_buf_puts(&text, " ");
		gt_buf_add(&text, part[1].text, part[1].n);
		rc = gt_buf_check(&text, err);
		gt_gguf_put_string(b, gt_buf_text(&text), text.length);
	}
	gt_buf_release(&text);
	return rc;
}

/* The score of a token is minus the position of the first merge that makes it. */
static int score_merges(struct vocabulary *v, struct gt_err *err)
{
	const json_t *merges = json_object_get(v->model, "merges");
	const json_t *vocab = json_object_get(v->model, "vocab");
	int rc = 0;

	for (size_t i = json_array_size(merges); !rc && i-- > 0;) {
		struct token part[2] = { { 0 } };
		struct gt_buf text = { 0 };
		const json_t *id;

		if (!split_merge(json_array_get(merges, i), part))
			return gt_err_set(err, GT_EFORMAT, "merge %zu is damaged", i);
		gt_buf_add(&text, part[0].text, part[0].n);
		gt_buf_add(&text, part[1].text, part[1].n);
		rc = gt_buf_check(&text, err);
		id = json_object_get(vocab, gt_buf_text(&text));
		if (!rc && id)
			v->tokens[json_integer_value(id)].score = -(float)(i + 1);
		gt_buf_release(&text);
	}
	return rc;
}

/* ---- the keys ---- */

static void add_tokens(struct vocabulary *v)
{
	struct gt_buf *b =
	    gt_gguf_add_array(v->g, "tokenizer.ggml.tokens", GT_GGUF_STRING, (size_t)v->count);

	for (int i = 0; i < v->count; i++) {
		char unused[32];

		snprintf(unused, sizeof(unused), "[PAD%d]", i);
		if (v->tokens[i].text)
			gt_gguf_put_string(b, v->tokens[i].text, v->tokens[i].n);
		else
			gt_gguf_put_string(b, unused, strlen(unused));
	}
	b = gt_gguf_add_array(v->g, "tokenizer.ggml.token_type", GT_GGUF_I32, (size_t)v->count);
	for (int i = 0; i < v->count; i++)
		gt_gguf_put_i32(b, v->tokens[i].text ? (int32_t)v->tokens[i].type : UNUSED);
	if (v->kind == BYTES)
		return;
	b = gt_gguf_add_array(v->g, "tokenizer.ggml.scores", GT_GGUF_F32, (size_t)v->count);
	for (int i = 0; i < v->count; i++)
		gt_gguf_put_f32(b, v->tokens[i].score);
}

/* The table of normalization of a model of SentencePiece. */
static int add_charsmap(struct vocabulary *v, struct gt_err *err)
{
	struct gt_buf bytes = { 0 };
	int rc;

	if (!v->charsmap || !*v->charsmap)
		return 0;
	rc = gt_base64_decode(&bytes, v->charsmap, strlen(v->charsmap), err);
	if (!rc)
		gt_buf_add(gt_gguf_add_array(v->g, "tokenizer.ggml.precompiled_charsmap",
		               GT_GGUF_U8, bytes.length),
		    gt_buf_text(&bytes), bytes.length);
	gt_buf_release(&bytes);
	return rc ? gt_err_prefix(err, "'precompiled_charsmap'") : 0;
}

static void add_specials(struct vocabulary *v, const struct gt_tokenizer *tok,
    const struct gt_data_specials *s, struct gt_buf *note)
{
	const int32_t begin = gt_data_begin(s, tok);
	static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
		"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id" };

	if (begin >= 0)
		gt_gguf_add_u32(v->g, "tokenizer.ggml.bos_token_id", (uint32_t)begin);
	for (int i = 0; i < s->end_count && i < 3; i++)
		gt_gguf_add_u32(v->g, ends[i], (uint32_t)s->ends[i]);
	if (v->unknown >= 0)
		gt_gguf_add_u32(v->g, "tokenizer.ggml.unknown_token_id", (uint32_t)v->unknown);
	gt_gguf_add_bool(v->g, "tokenizer.ggml.add_bos_token", begin >= 0);
	gt_gguf_add_bool(v->g, "tokenizer.ggml.add_eos_token", false);
	if (!s->end_count)
		gt_buf_puts(note, "no token is known to end a text: llama.cpp takes one of its own "
		                  "choice\n");
}

static int add_vocabulary(struct vocabulary *v, struct gt_err *err)
{
	int rc = read_vocab(v, err);

	if (!rc)
		rc = read_added(v, err);
	if (!rc && v->kind == CHARACTERS)
		rc = score_merges(v, err);
	if (rc)
		return rc;
	gt_gguf_add_text(v->g, "tokenizer.ggml.model", kind_names[v->kind]);
	gt_gguf_add_text(v->g, "tokenizer.ggml.pre", v->words);
	add_tokens(v);
	if (v->kind == BYTES)
		return add_merges(v, err);
	gt_gguf_add_bool(v->g, "tokenizer.ggml.add_space_prefix", v->prefix);
	if (v->kind == CHARACTERS)
		return 0;
	gt_gguf_add_bool(v->g, "tokenizer.ggml.remove_extra_whitespaces", v->single_spaces);
	return add_charsmap(v, err);
}

static int read_kind(struct vocabulary *v, struct gt_buf *note, struct gt_err *err)
{
	const char *type = text_of(v->model, "type");
	const bool fallback = json_is_true(json_object_get(v->model, "byte_fallback"));

	v->words = "default";
	if (!strcmp(type, "Unigram") && !fallback)
		v->kind = UNIGRAM;
	else if (!strcmp(type, "BPE") || !json_is_string(json_object_get(v->model, "type")))
		v->kind = fallback ? CHARACTERS : BYTES;
	else
		return fail_part("model", v->model, err);
	return v->kind == BYTES ? read_byte_steps(v, note, err) : read_piece_steps(v, err);
}

static int add_tokenizer_json(struct vocabulary *v, const struct gt_tokenizer *tok,
    const struct gt_data_specials *specials, struct gt_buf *note, struct gt_err *err)
{
	int rc = read_kind(v, note, err);

	v->tokens = gt_calloc((size_t)v->count, sizeof(*v->tokens), err);
	if (!rc)
		rc = v->tokens ? add_vocabulary(v, err) : GT_ENOMEM;
	if (!rc)
		add_specials(v, tok, specials, note);
	free(v->tokens);
	return rc;
}

int gt_tokenizer_to_gguf(struct gt_gguf *g, const struct gt_tokenizer *tok, int vocab,
    const struct gt_data_specials *specials, const json_t *config, struct gt_buf *note,
    struct gt_err *err)
{
	const char *template = gt_tokenizer_chat_template(config);
	const struct gt_bpe *bpe = tok ? gt_tokenizer_bpe(tok) : NULL;
	struct vocabulary v = { .g = g, .count = vocab, .unknown = -1 };
	const char *source;
	json_t *json;
	size_t size;
	int rc;

	if (!bpe) {
		gt_gguf_add_text(g, "tokenizer.ggml.model", "none");
		gt_buf_printf(note, "no tokenizer is written: %s\n",
		    tok ? "llama.cpp has none for a vocabulary of characters or bytes"
		        : "the model was trained on ids of tokens");
		return 0;
	}
	source = gt_bpe_source(bpe, &size);
	json = json_loadb(source, size, 0, NULL);
	if (!json)
		return gt_err_set(err, GT_ENOTSUP,
		    "the tokenizer has a token with U+0000, which llama.cpp does not have");
	v.json = json;
	v.model = json_object_get(json, "model");
	rc = add_tokenizer_json(&v, tok, specials, note, err);
	if (!rc && template)
		gt_gguf_add_text(g, "tokenizer.chat_template", template);
	json_decref(json);
	return rc;
}
