/* chars.c - tokenizers of characters: normalized as they are read, and cut into words. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/*
 * Without a pre_tokenizer a whole segment is one word, and its merges are taken by their rank all
 * over it. But merges that lie apart do not know of each other: if no merge joins a symbol that
 * ends with 'e' to one that begins with a U+2581, then nothing is ever merged across "e\u2581", and
 * both sides may be merged alone. Such places make words of a segment, mostly those between spaces,
 * which are found again among the words that were met before; and chunks may begin there.
 */

/* ---- pairs that are joined ---- */

static bool is_joined(const struct gt_bpe_joins *j, uint32_t a, uint32_t b)
{
	uint64_t pair = (uint64_t)a << 32 | b;
	uint32_t at;

	if (a < 128 && b < 128)
		return j->ascii[a][b >> 6] >> (b & 63) & 1;
	at = (uint32_t)gt_bpe_hash_pair(j->key, a, b) & j->mask;
	for (; j->pairs[at] != UINT64_MAX; at = (at + 1) & j->mask)
		if (j->pairs[at] == pair)
			return true;
	return false;
}

static void join_char_pair(struct gt_bpe_joins *j, uint32_t a, uint32_t b)
{
	uint64_t pair = (uint64_t)a << 32 | b;
	uint32_t at = (uint32_t)gt_bpe_hash_pair(j->key, a, b) & j->mask;

	if (a < 128 && b < 128) {
		j->ascii[a][b >> 6] |= (uint64_t)1 << (b & 63);
		return;
	}
	while (j->pairs[at] != UINT64_MAX && j->pairs[at] != pair)
		at = (at + 1) & j->mask;
	j->pairs[at] = pair;
}

static uint32_t first_char(const unsigned char *p, size_t n)
{
	uint32_t code = 0;

	if (n)
		gt_text_utf8(p, n, &code);
	return code;
}

static uint32_t last_char(const unsigned char *p, size_t n)
{
	size_t at = n;

	while (at && n - at < 4 && (p[--at] & 0xC0) == 0x80)
		;
	return first_char(p + at, n - at);
}

/* Symbols that stand for other characters than their own. */
static bool is_stand_in(const struct gt_bpe *bpe, uint32_t id)
{
	for (int b = 0; b < 256 && bpe->byte_fallback; b++)
		if ((uint32_t)bpe->byte_ids[b] == id)
			return true;
	return bpe->unk >= 0 && id == (uint32_t)bpe->unk;
}

static int find_joins(struct gt_bpe *bpe, struct gt_err *err)
{
	const struct gt_bpe_vocab *v = &bpe->vocab;
	struct gt_bpe_joins *j = &bpe->chars.joins;

	/* There are at most as many pairs as merges, and half of the slots are free. */
	j->key = &v->key;
	j->mask = v->merge_mask;
	j->pairs = gt_calloc((size_t)j->mask + 1, sizeof(*j->pairs), err);
	if (!j->pairs)
		return GT_ENOMEM;
	memset(j->pairs, 0xFF, ((size_t)j->mask + 1) * sizeof(*j->pairs));
	for (size_t i = 0; i <= v->merge_mask; i++) {
		const struct gt_bpe_merge *m = &v->merges[i];
		const struct gt_bpe_string *a, *b;

		if (m->id == UINT32_MAX)
			continue;
		a = &v->tokens[m->left];
		b = &v->tokens[m->right];
		join_char_pair(j, last_char(a->p, a->n), first_char(b->p, b->n));
		if (is_stand_in(bpe, m->left) || is_stand_in(bpe, m->right))
			bpe->chars.soft = false;
	}
	return 0;
}

int gt_bpe_chars_prepare(struct gt_bpe *bpe, struct gt_err *err)
{
	struct gt_bpe_chars *c = &bpe->chars;

	for (int i = 0; i < 128; i++)
		c->ascii[i] =
		    gt_bpe_vocab_find(&bpe->vocab, &(unsigned char){ (unsigned char)i }, 1);
	c->to_first = first_char(c->to, (size_t)c->to_size);
	c->to_last = last_char(c->to, (size_t)c->to_size);
	/* A whole word is looked up first: it must not be cut. Other models than merges look at
	 * whole words. */
	c->soft = !bpe->ignore_merges && bpe->word == gt_bpe_word_of_merges;
	return c->soft ? find_joins(bpe, err) : 0;
}

void gt_bpe_chars_release(struct gt_bpe_chars *c)
{
	free(c->joins.pairs);
}

/* ---- where words end ---- */

/* Whether the character becomes symbols of its own, which nothing around it changes. */
static bool is_known(const struct gt_bpe *bpe, uint32_t code)
{
	unsigned char text[4];
	int32_t id;

	if (bpe->byte_fallback && bpe->all_bytes)
		return true;
	id = code < 128
	         ? bpe->chars.ascii[code]
	         : gt_bpe_vocab_find(&bpe->vocab, text, (size_t)gt_text_put_utf8(text, code));
	return id >= 0;
}

/* Whether a word ends between these two. */
static bool is_end(const struct gt_bpe *bpe, uint32_t a, uint32_t b)
{
	const struct gt_bpe_chars *c = &bpe->chars;

	if (c->split && b == c->split)
		return true;
	return c->soft && !is_joined(&c->joins, a, b) && is_known(bpe, a) && is_known(bpe, b);
}

size_t gt_bpe_chars_cut(const struct gt_bpe *bpe, const unsigned char *p, size_t n, size_t at)
{
	const struct gt_bpe_chars *c = &bpe->chars;
	uint32_t before = 0, code;

	if (!at || at >= n)
		return at < n ? at : n;
	do
		at--;
	while (at && (p[at] & 0xC0) == 0x80);
	for (bool first = true; at < n; first = false) {
		int length = gt_text_utf8(p + at, n - at, &code);
		bool replaced = c->from && code == c->from;

		if (!first && is_end(bpe, before, replaced ? c->to_first : code))
			return at;
		before = replaced ? c->to_last : code;
		at += (size_t)(length ? length : 1);
	}
	return n;
}

/* ---- words ---- */

struct word_splitter {
	struct gt_bpe_worker *w;
	struct gt_bpe_ids *out;
	size_t n;        /* bytes of the word so far */
	uint32_t before; /* last character of the word so far */
};

static int end_word(struct word_splitter *c, struct gt_err *err)
{
	size_t n = c->n;

	c->n = 0;
	return n ? gt_bpe_word(c->w, c->w->buffers[0], n, c->out, err) : 0;
}

/* Add a normalized character, of these bytes. */
static int feed(
    struct word_splitter *c, uint32_t code, const unsigned char *p, int n, struct gt_err *err)
{
	int rc = 0;

	if (c->n && is_end(c->w->bpe, c->before, code))
		rc = end_word(c, err);
	if (!rc && c->n + 4 > c->w->sizes[0])
		rc = gt_bpe_worker_reserve(c->w, 0, c->n + 4, err);
	if (rc)
		return rc;
	for (int i = 0; i < n; i++)
		c->w->buffers[0][c->n + (size_t)i] = p[i];
	c->n += (size_t)n;
	c->before = code;
	return 0;
}

static int feed_text(struct word_splitter *c, const unsigned char *p, size_t n, struct gt_err *err)
{
	uint32_t code;
	int rc = 0;

	for (size_t i = 0; i < n && !rc;) {
		int length = gt_text_utf8(p + i, n - i, &code);

		rc = feed(c, code, p + i, length, err);
		i += (size_t)length;
	}
	return rc;
}

/* Whether the segment, once normalized, begins with the prefix. */
static bool has_prefix(const struct gt_bpe_chars *c, const unsigned char *p, size_t n)
{
	if (c->from && first_char(p, n) == c->from)
		return c->to_size >= c->prefix_size &&
		       !memcmp(c->to, c->prefix, (size_t)c->prefix_size);
	return n >= (size_t)c->prefix_size && !memcmp(p, c->prefix, (size_t)c->prefix_size);
}

int gt_bpe_split_chars(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err)
{
	const struct gt_bpe_chars *c = &w->bpe->chars;
	struct word_splitter splitter = { .w = w, .out = &chunk->ids };
	const unsigned char *p = chunk->p;
	uint32_t code;
	int rc = 0;

	chunk->end = chunk->until;
	if (chunk->prefixed && !(c->unless_there && has_prefix(c, p, chunk->n)))
		rc = feed_text(&splitter, c->prefix, (size_t)c->prefix_size, err);
	for (size_t i = chunk->from; i < chunk->until && !rc;) {
		unsigned char own[4]; /* others may write to the text: it is read once */
		size_t left = chunk->n - i < 4 ? chunk->n - i : 4;
		int length;

		memcpy(own, p + i, left);
		length = gt_text_utf8(own, left, &code);
		if (!length)
			return gt_err_set(err, GT_EFORMAT, "the text changed while it was read");
		if (c->from && code == c->from)
			rc = feed_text(&splitter, c->to, (size_t)c->to_size, err);
		else
			rc = feed(&splitter, code, own, length, err);
		i += (size_t)length;
	}
	return rc ? rc : end_word(&splitter, err);
}
