/* word.c - a word to ids: looked up among those met before, or merged. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* Words of up to MAX_WORD bytes are remembered; when a pool or the table is full, all of them are
 * forgotten. */
enum { SLOTS = 1 << 16, MAX_WORDS = SLOTS / 2, MAX_WORD = 64, KEYS = 1 << 20, IDS = 1 << 19 };

struct slot {
	uint32_t hash, key, ids; /* where in the pools */
	uint8_t n, count;        /* bytes of the word (0: free), ids */
};

struct gt_bpe_words {
	struct slot slots[SLOTS];
	unsigned char keys[KEYS];
	uint32_t ids[IDS];
	size_t words, key_count, id_count;
};

int gt_bpe_ids_put(struct gt_bpe_ids *out, const uint32_t *ids, size_t n, struct gt_err *err)
{
	size_t capacity = out->capacity ? 2 * out->capacity : 1024;

	if (out->count + n > out->capacity) {
		int32_t *grown;

		capacity = capacity < out->count + n ? out->count + n : capacity;
		grown = gt_reallocarray(out->ids, capacity, sizeof(*grown), err);
		if (!grown)
			return GT_ENOMEM;
		out->ids = grown;
		out->capacity = capacity;
	}
	for (size_t i = 0; i < n; i++)
		out->ids[out->count + i] = (int32_t)ids[i];
	out->count += n;
	return 0;
}

/* ---- workers ---- */

int gt_bpe_worker_open(
    struct gt_bpe_worker **out, const struct gt_bpe *bpe, bool remembers, struct gt_err *err)
{
	struct gt_bpe_worker *w = gt_calloc(1, sizeof(*w), err);

	*out = NULL;
	if (!w)
		return GT_ENOMEM;
	w->bpe = bpe;
	w->words = remembers ? gt_calloc(1, sizeof(*w->words), err) : NULL;
	if ((remembers && !w->words) || gt_bpe_matcher_open(&w->matcher, err)) {
		gt_bpe_worker_close(w);
		return GT_ENOMEM;
	}
	*out = w;
	return 0;
}

void gt_bpe_worker_close(struct gt_bpe_worker *w)
{
	if (!w)
		return;
	gt_bpe_matcher_close(w->matcher);
	gt_bpe_scratch_release(&w->scratch);
	for (int i = 0; i <= GT_BPE_MAX_STAGES; i++)
		free(w->buffers[i]);
	free(w->nodes);
	free(w->words);
	free(w);
}

int gt_bpe_worker_reserve(struct gt_bpe_worker *w, int buffer, size_t n, struct gt_err *err)
{
	size_t size = n < 128 ? 256 : 2 * n;
	unsigned char *grown;

	if (n <= w->sizes[buffer])
		return 0;
	grown = gt_reallocarray(w->buffers[buffer], size, 1, err);
	if (!grown)
		return GT_ENOMEM;
	w->buffers[buffer] = grown;
	w->sizes[buffer] = size;
	return 0;
}

/* ---- symbols ---- */

/* An unknown character that waits for its neighbours: with fuse_unk they become one token. */
struct symbols {
	uint32_t *ids;
	size_t n;
	bool unknown;
};

static void add_known(const struct gt_bpe *bpe, struct symbols *s, int32_t id)
{
	if (s->unknown)
		s->ids[s->n++] = (uint32_t)bpe->unk;
	s->unknown = false;
	s->ids[s->n++] = (uint32_t)id;
}

static void add_unknown(const struct gt_bpe *bpe, struct symbols *s)
{
	if (bpe->unk < 0)
		return;
	if (s->unknown && !bpe->fuse_unk)
		s->ids[s->n++] = (uint32_t)bpe->unk;
	s->unknown = true;
}

/* The symbols of a character's bytes, which as in the reference end no run of unknown ones. */
static bool add_bytes(const struct gt_bpe *bpe, struct symbols *s, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bpe->byte_ids[p[i]] < 0)
			return false;
	for (size_t i = 0; i < n; i++)
		s->ids[s->n++] = (uint32_t)bpe->byte_ids[p[i]];
	return true;
}

static void symbols_of_bytes(
    const struct gt_bpe *bpe, struct symbols *s, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bpe->byte_ids[p[i]] >= 0)
			add_known(bpe, s, bpe->byte_ids[p[i]]);
		else
			add_unknown(bpe, s);
	}
}

static void symbols_of_chars(
    const struct gt_bpe *bpe, struct symbols *s, const unsigned char *p, size_t n)
{
	uint32_t code = 0;

	for (size_t i = 0; i < n;) {
		/* A text that others write to may be no UTF-8. */
		size_t length = (size_t)gt_text_utf8(p + i, n - i, &code) ?: 1;
		int32_t id = code < 128 ? bpe->chars.ascii[code]
		                        : gt_bpe_vocab_find(&bpe->vocab, p + i, length);

		if (id >= 0)
			add_known(bpe, s, id);
		else if (!bpe->byte_fallback || !add_bytes(bpe, s, p + i, length))
			add_unknown(bpe, s);
		i += length;
	}
}

/* ---- words ---- */

/* The token that is this whole word, or -1. */
static int32_t find_whole(const struct gt_bpe *bpe, const unsigned char *p, size_t n)
{
	unsigned char letters[2 * GT_BPE_MAX_TOKEN];
	size_t at = 0;

	if (n > GT_BPE_MAX_TOKEN)
		return -1;
	if (!bpe->bytes)
		return gt_bpe_vocab_find(&bpe->vocab, p, n);
	for (size_t i = 0; i < n; i++)
		at += (size_t)gt_text_put_utf8(letters + at, bpe->letters[p[i]]);
	return gt_bpe_vocab_find(&bpe->vocab, letters, at);
}

int gt_bpe_word_of_merges(
    struct gt_bpe_worker *w, const unsigned char *p, size_t n, size_t *count, struct gt_err *err)
{
	struct symbols s = { 0 };
	int32_t whole;
	int rc = gt_bpe_scratch_reserve(&w->scratch, n + 1, err);

	if (rc)
		return rc;
	s.ids = w->scratch.ids;
	*count = 1;
	whole = w->bpe->ignore_merges ? find_whole(w->bpe, p, n) : -1;
	if (whole >= 0) {
		s.ids[0] = (uint32_t)whole;
		return 0;
	}
	if (w->bpe->bytes)
		symbols_of_bytes(w->bpe, &s, p, n);
	else
		symbols_of_chars(w->bpe, &s, p, n);
	if (s.unknown)
		s.ids[s.n++] = (uint32_t)w->bpe->unk;
	*count = s.n;
	return gt_bpe_merge_word(&w->bpe->vocab, &w->scratch, count, err);
}

/* The slot of a word, or the free one where it belongs. */
static struct slot *find_slot(
    struct gt_bpe_words *words, uint32_t hash, const unsigned char *p, size_t n)
{
	for (uint32_t at = hash % SLOTS;; at = (at + 1) % SLOTS) {
		struct slot *slot = &words->slots[at];

		if (!slot->n ||
		    (slot->hash == hash && slot->n == n && !memcmp(words->keys + slot->key, p, n)))
			return slot;
	}
}

static void remember(struct gt_bpe_words *words, uint32_t hash, const unsigned char *p, size_t n,
    const uint32_t *ids, size_t count)
{
	struct slot *slot;

	if (words->words == MAX_WORDS || words->key_count + n > KEYS ||
	    words->id_count + count > IDS) {
		memset(words->slots, 0, sizeof(words->slots));
		words->words = words->key_count = words->id_count = 0;
	}
	slot = find_slot(words, hash, p, n);
	*slot = (struct slot){ hash, (uint32_t)words->key_count, (uint32_t)words->id_count,
		(uint8_t)n, (uint8_t)count };
	memcpy(words->keys + words->key_count, p, n);
	memcpy(words->ids + words->id_count, ids, count * sizeof(*ids));
	words->words++;
	words->key_count += n;
	words->id_count += count;
}

int gt_bpe_word(struct gt_bpe_worker *w, const unsigned char *p, size_t n, struct gt_bpe_ids *out,
    struct gt_err *err)
{
	uint32_t hash = 0;
	size_t count;
	int rc;

	if (!n)
		return 0;
	if (w->words && n <= MAX_WORD) {
		const struct slot *slot;

		hash = (uint32_t)gt_bpe_hash(&w->bpe->vocab.key, p, n);
		slot = find_slot(w->words, hash, p, n);
		if (slot->n)
			return gt_bpe_ids_put(out, w->words->ids + slot->ids, slot->count, err);
	}
	rc = w->bpe->word(w, p, n, &count, err);
	if (rc)
		return rc;
	if (w->words && n <= MAX_WORD && count <= UINT8_MAX)
		remember(w->words, hash, p, n, w->scratch.ids, count);
	return gt_bpe_ids_put(out, w->scratch.ids, count, err);
}
