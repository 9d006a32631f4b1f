/* sentencepiece.c - a model of SentencePiece as a tokenizer.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/protobuf.h"
#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/*
 * The file is a message of protocol buffers: pieces (field 1: text, score, type), the settings of
 * training (field 2), of which few matter, and those of the normalizer (field 3). The
 * tokenizer.json has the same vocabulary:
 *
 *   Unigram   pieces with their scores, as they are.
 *   BPE       A piece is merged of each two pieces that give its text; a piece with a higher score
 *             comes first. The scores of trained models are minus their positions.
 *
 * Control pieces, such as </s>, become special tokens, and pieces that a user defined become added
 * tokens.
 * Source: SentencePiece, sentencepiece_model.proto.
 */
enum type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum model { UNIGRAM = 1, BPE, WORD, CHAR };

struct piece {
	const char *text; /* [n], borrowed from the file */
	size_t n;
	float score;
	enum type type;
	int32_t id;
};

struct model_file {
	struct piece *pieces; /* [count] */
	size_t count, capacity;
	int32_t unknown; /* id of the piece for unknown characters; -1: none */
	enum model model;
	bool byte_fallback, suffix;
	bool prefix, single_spaces, escaped; /* settings of the normalizer */
	const unsigned char *charsmap;       /* [charsmap_size] */
	size_t charsmap_size;
};

/* ---- the file ---- */

static int read_piece(
    struct model_file *m, const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	struct gt_protobuf_field f;
	struct piece p = { .type = NORMAL, .id = (int32_t)m->count };
	int rc;

	while ((rc = gt_protobuf_next(&r, &f, err)) > 0) {
		if (f.number == 1) {
			p.text = (const char *)f.bytes;
			p.n = f.size;
		} else if (f.number == 2) {
			p.score = gt_protobuf_float_of(&f);
		} else if (f.number == 3) {
			p.type = (enum type)f.value;
		}
	}
	if (rc)
		return rc;
	if (!p.text || !p.n || p.n > GT_BPE_MAX_TOKEN || gt_text_utf8_bytes(p.text, p.n) != p.n ||
	    !isfinite(p.score) || m->count == GT_BPE_MAX_TOKENS)
		return gt_err_set(err, GT_EFORMAT, "piece %zu is damaged", m->count);
	if (p.type < NORMAL || p.type > BYTE || p.type == UNUSED)
		return gt_err_set(err, GT_ENOTSUP,
		    "piece %zu has the type %d, which is not supported", m->count, (int)p.type);
	if (p.type == UNKNOWN)
		m->unknown = p.id;
	rc = gt_grow(&m->pieces, m->count, &m->capacity, sizeof(*m->pieces), err);
	if (!rc)
		m->pieces[m->count++] = p;
	return rc;
}

static int read_trainer(
    struct model_file *m, const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	struct gt_protobuf_field f;
	int rc;

	while ((rc = gt_protobuf_next(&r, &f, err)) > 0) {
		if (f.number == 3)
			m->model = (enum model)f.value;
		else if (f.number == 24)
			m->suffix = f.value != 0;
		else if (f.number == 35)
			m->byte_fallback = f.value != 0;
	}
	return rc;
}

static int read_normalizer(
    struct model_file *m, const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	struct gt_protobuf_field f;
	int rc;

	while ((rc = gt_protobuf_next(&r, &f, err)) > 0) {
		if (f.number == 2) {
			m->charsmap = f.bytes;
			m->charsmap_size = f.size;
		} else if (f.number == 3) {
			m->prefix = f.value != 0;
		} else if (f.number == 4) {
			m->single_spaces = f.value != 0;
		} else if (f.number == 5) {
			m->escaped = f.value != 0;
		}
	}
	return rc;
}

static int read_file(struct model_file *m, const char *text, size_t size, struct gt_err *err)
{
	struct gt_protobuf_reader r = { (const unsigned char *)text, size };
	struct gt_protobuf_field f;
	int rc;

	m->unknown = -1;
	m->model = UNIGRAM;
	m->prefix = m->single_spaces = m->escaped = true;
	while ((rc = gt_protobuf_next(&r, &f, err)) > 0) {
		int failed = 0;

		if (f.number == 1 && f.bytes)
			failed = read_piece(m, &f, err);
		else if (f.number == 2 && f.bytes)
			failed = read_trainer(m, &f, err);
		else if (f.number == 3 && f.bytes)
			failed = read_normalizer(m, &f, err);
		if (failed)
			return failed;
	}
	if (rc)
		return rc;
	if (m->model != UNIGRAM && m->model != BPE)
		return gt_err_set(err, GT_ENOTSUP,
		    "only models of SentencePiece of the types unigram and bpe are supported");
	if (m->suffix || !m->escaped)
		return gt_err_set(err, GT_ENOTSUP, "'%s' of SentencePiece is not supported",
		    m->suffix ? "treat_whitespace_as_suffix" : "escape_whitespaces=false");
	return m->unknown >= 0 && m->count
	           ? 0
	           : gt_err_set(err, GT_EFORMAT, "there is no piece for unknown characters");
}

/* ---- merges of BPE ---- */

struct merge {
	const struct piece *whole;
	size_t left; /* bytes of the left part */
};

static int compare_pieces(const void *x, const void *y)
{
	const struct piece *a = *(const struct piece *const *)x;
	const struct piece *b = *(const struct piece *const *)y;
	int order = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);

	return order ? order : a->n < b->n ? -1 : a->n > b->n;
}

/* The highest score first; of one piece, the longest left part. */
static int compare_merges(const void *x, const void *y)
{
	const struct merge *a = x, *b = y;

	if (a->whole->score != b->whole->score)
		return a->whole->score > b->whole->score ? -1 : 1;
	if (a->whole != b->whole)
		return a->whole->id < b->whole->id ? -1 : 1;
	return a->left > b->left ? -1 : a->left < b->left;
}

struct merge_list {
	struct merge *list; /* [count] */
	size_t count, capacity;
};

/* Whether a text is a normal piece; `sorted` has all of them [n]. */
static bool is_piece(const struct piece *const *sorted, size_t n, const char *text, size_t size)
{
	struct piece piece = { .text = text, .n = size };
	const struct piece *key = &piece;

	return bsearch(&key, sorted, n, sizeof(*sorted), compare_pieces) != NULL;
}

static int find_merges(struct merge_list *out, const struct model_file *m, struct gt_err *err)
{
	const struct piece **sorted = gt_calloc(m->count, sizeof(*sorted), err);
	size_t n = 0;
	int rc = sorted ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < m->count && !rc; i++)
		if (m->pieces[i].type == NORMAL)
			sorted[n++] = &m->pieces[i];
	if (!rc)
		qsort(sorted, n, sizeof(*sorted), compare_pieces);
	for (size_t i = 0; i < n && !rc; i++)
		for (size_t k = 1; k < sorted[i]->n && !rc; k++) {
			const struct piece *p = sorted[i];

			if ((p->text[k] & 0xC0) == 0x80 || !is_piece(sorted, n, p->text, k) ||
			    !is_piece(sorted, n, p->text + k, p->n - k))
				continue;
			rc = gt_grow(
			    &out->list, out->count, &out->capacity, sizeof(*out->list), err);
			if (!rc)
				out->list[out->count++] = (struct merge){ p, k };
		}
	if (!rc && out->count)
		qsort(out->list, out->count, sizeof(*out->list), compare_merges);
	free(sorted);
	return rc;
}

/* ---- the JSON ---- */

static int json_model_bpe(json_t **out, const struct model_file *m, struct gt_err *err)
{
	struct merge_list merges = { 0 };
	json_t *vocab = json_object(), *list = json_array();
	int rc = find_merges(&merges, m, err);

	*out = NULL;
	for (size_t i = 0; i < m->count && !rc; i++) {
		const struct piece *p = &m->pieces[i];

		/* jansson takes no NUL in keys. */
		if (memchr(p->text, 0, p->n) || json_object_getn(vocab, p->text, p->n))
			rc = gt_err_set(
			    err, GT_EFORMAT, "piece %zu is there twice, or has U+0000", i);
		else
			json_object_setn_new_nocheck(vocab, p->text, p->n, json_integer(p->id));
	}
	for (size_t i = 0; i < merges.count && !rc; i++) {
		const struct merge *merge = &merges.list[i];

		json_array_append_new(
		    list, json_pack("[s%,s%]", merge->whole->text, merge->left,
		              merge->whole->text + merge->left, merge->whole->n - merge->left));
	}
	if (!rc)
		*out = json_pack("{s:s,s:s%,s:b,s:b,s:O,s:O}", "type", "BPE", "unk_token",
		    m->pieces[m->unknown].text, m->pieces[m->unknown].n, "fuse_unk", 1,
		    "byte_fallback", m->byte_fallback, "vocab", vocab, "merges", list);
	json_decref(vocab);
	json_decref(list);
	free(merges.list);
	return rc;
}

static json_t *json_model_unigram(const struct model_file *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->count; i++)
		json_array_append_new(list, json_pack("[s%,f]", m->pieces[i].text, m->pieces[i].n,
		                                (double)m->pieces[i].score));
	return json_pack("{s:s,s:i,s:b,s:o}", "type", "Unigram", "unk_id", (int)m->unknown,
	    "byte_fallback", m->byte_fallback, "vocab", list);
}

/* Whether some piece has a mark of a space behind another character: then words may hold spaces. */
static bool spans_words(const struct model_file *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->pieces[i].type == NORMAL && m->pieces[i].n > 3 &&
		    memmem(m->pieces[i].text + 1, m->pieces[i].n - 1, "\u2581", 3))
			return true;
	return false;
}

static json_t *replacement(const char *kind, const char *pattern, const char *content)
{
	return json_pack(
	    "{s:s,s:{s:s},s:s}", "type", "Replace", "pattern", kind, pattern, "content", content);
}

static json_t *json_charsmap(const struct model_file *m)
{
	struct gt_buf text = { 0 };
	json_t *json = NULL;

	gt_base64_add(&text, m->charsmap, m->charsmap_size);
	if (!text.failed)
		json = json_pack(
		    "{s:s,s:s}", "type", "Precompiled", "precompiled_charsmap", gt_buf_text(&text));
	gt_buf_release(&text);
	return json;
}

static json_t *json_normalizer(const struct model_file *m)
{
	json_t *list = json_array();

	if (m->charsmap_size)
		json_array_append_new(list, json_charsmap(m));
	if (m->single_spaces) {
		json_array_append_new(list, replacement("Regex", "(?<!\\p{L}|\\P{L}) +", ""));
		json_array_append_new(list, replacement("Regex", " +(?!\\p{L}|\\P{L})", ""));
		json_array_append_new(list, replacement("Regex", " {2,}", " "));
	}
	if (m->prefix)
		json_array_append_new(
		    list, json_pack("{s:s,s:s}", "type", "Prepend", "prepend", "\u2581"));
	json_array_append_new(list, replacement("String", " ", "\u2581"));
	return json_pack("{s:s,s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *json_added(const struct model_file *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->count; i++) {
		const struct piece *p = &m->pieces[i];

		if (p->type == NORMAL || p->type == BYTE)
			continue;
		json_array_append_new(
		    list, json_pack("{s:i,s:s%,s:b,s:b,s:b,s:b,s:b}", "id", (int)p->id, "content",
		              p->text, p->n, "single_word", 0, "lstrip", 0, "rstrip", 0,
		              "normalized", 0, "special", p->type != USER_DEFINED));
	}
	return list;
}

static json_t *json_decoder(const struct model_file *m)
{
	json_t *list = json_array();

	json_array_append_new(list, replacement("String", "\u2581", " "));
	json_array_append_new(list, json_pack("{s:s}", "type", "ByteFallback"));
	json_array_append_new(list, json_pack("{s:s}", "type", "Fuse"));
	if (m->prefix)
		json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:i}", "type", "Strip",
		                                "content", " ", "start", 1, "stop", 0));
	return json_pack("{s:s,s:o}", "type", "Sequence", "decoders", list);
}

/* Pieces of Unigram begin at a space, so each word may be taken alone. */
static json_t *json_pre_tokenizer(const struct model_file *m)
{
	if (m->model == BPE || spans_words(m))
		return json_null();
	return json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "String", "\u2581",
	    "behavior", "MergedWithNext", "invert", 0);
}

bool gt_bpe_is_sentencepiece(const char *text, size_t size)
{
	struct gt_protobuf_reader r = { (const unsigned char *)text, size }, inner;
	struct gt_protobuf_field f;

	/* It begins with a piece, which begins with a text: 0x0A, a length, 0x0A, a length. */
	if (gt_protobuf_next(&r, &f, GT_ERR_IGNORED) <= 0 || f.number != 1 || !f.bytes)
		return false;
	inner = (struct gt_protobuf_reader){ f.bytes, f.size };
	return gt_protobuf_next(&inner, &f, GT_ERR_IGNORED) > 0 && f.number == 1 && f.bytes;
}

int gt_bpe_convert_sentencepiece(json_t **out, const char *text, size_t size, struct gt_err *err)
{
	struct model_file m = { 0 };
	json_t *model = NULL;
	int rc = read_file(&m, text, size, err);

	*out = NULL;
	if (!rc && m.model == BPE)
		rc = json_model_bpe(&model, &m, err);
	else if (!rc)
		model = json_model_unigram(&m);
	if (!rc) {
		*out = json_pack("{s:s,s:n,s:n,s:o,s:o,s:o,s:n,s:o,s:o}", "version", "1.0",
		    "truncation", "padding", "added_tokens", json_added(&m), "normalizer",
		    json_normalizer(&m), "pre_tokenizer", json_pre_tokenizer(&m), "post_processor",
		    "decoder", json_decoder(&m), "model", model);
		if (!*out)
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");
	}
	free(m.pieces);
	return rc;
}
