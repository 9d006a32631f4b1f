/* wordpiece.c - models of type WordPiece: a word to its longest tokens from left to right. */
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* The longest token that begins at byte `at` of a word; *length is its bytes there. */
static int32_t find_longest(struct gt_bpe_worker *w, const unsigned char *p, size_t n, size_t at,
    size_t *length, struct gt_err *err)
{
	const struct gt_bpe_string *prefix = &w->bpe->prefix;
	size_t before = at ? prefix->n : 0;
	unsigned char *text;
	int rc = gt_bpe_worker_reserve(w, GT_BPE_MAX_STAGES, before + n, err);

	*length = 0;
	if (rc)
		return rc;
	text = w->buffers[GT_BPE_MAX_STAGES];
	if (before)
		memcpy(text, prefix->p, before);
	memcpy(text + before, p + at, n - at);
	for (*length = n - at; *length; --*length) {
		int32_t id;

		if (at + *length < n && (p[at + *length] & 0xC0) == 0x80)
			continue;
		id = gt_bpe_vocab_find(&w->bpe->vocab, text, before + *length);
		if (id >= 0)
			return id;
	}
	return w->bpe->unk;
}

static size_t count_chars(const unsigned char *p, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += (p[i] & 0xC0) != 0x80;
	return count;
}

/* A word of which some part is no token, or that is too long, is unknown as a whole. */
int gt_bpe_word_of_pieces(
    struct gt_bpe_worker *w, const unsigned char *p, size_t n, size_t *count, struct gt_err *err)
{
	int rc = gt_bpe_scratch_reserve(&w->scratch, n + 1, err);
	size_t length;

	*count = 0;
	if (rc)
		return rc;
	if (count_chars(p, n) > (size_t)w->bpe->max_chars) {
		w->scratch.ids[(*count)++] = (uint32_t)w->bpe->unk;
		return 0;
	}
	for (size_t at = 0; at < n; at += length) {
		int32_t id = find_longest(w, p, n, at, &length, err);

		if (id < 0)
			return id;
		if (!length) {
			w->scratch.ids[0] = (uint32_t)w->bpe->unk;
			*count = 1;
			return 0;
		}
		w->scratch.ids[(*count)++] = (uint32_t)id;
	}
	return 0;
}

int gt_bpe_read_wordpiece(
    struct gt_bpe *bpe, const json_t *model, const json_t *added, struct gt_err *err)
{
	const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
	const json_t *chars = json_object_get(model, "max_input_chars_per_word");
	size_t n = json_string_length(prefix);
	unsigned char *copy;
	int rc = gt_bpe_check_keys(model, "model",
	    "type vocab unk_token continuing_subword_prefix max_input_chars_per_word", err);

	if (!rc)
		rc = gt_bpe_read_vocab(bpe, json_object_get(model, "vocab"), added, err);
	if (!rc)
		rc = gt_bpe_read_unk(bpe, model, err);
	if (rc)
		return rc;
	if (bpe->unk < 0)
		return gt_err_set(err, GT_EFORMAT, "'model': WordPiece has no 'unk_token'");
	if (!json_is_string(prefix) || n > GT_BPE_MAX_REPLACED || !json_is_integer(chars) ||
	    json_integer_value(chars) < 0 || json_integer_value(chars) > GT_BPE_MAX_TOKEN)
		return gt_err_set(err, GT_EFORMAT,
		    "'model': WordPiece needs a 'continuing_subword_prefix' of at most %d bytes "
		    "and a 'max_input_chars_per_word' from 0 to %d",
		    GT_BPE_MAX_REPLACED, GT_BPE_MAX_TOKEN);
	copy = gt_arena_alloc(&bpe->vocab.arena, n + 1, err);
	if (!copy)
		return GT_ENOMEM;
	memcpy(copy, json_string_value(prefix), n);
	bpe->prefix = (struct gt_bpe_string){ copy, (uint32_t)n };
	bpe->max_chars = (int)json_integer_value(chars);
	bpe->word = gt_bpe_word_of_pieces;
	return gt_bpe_merges_init(&bpe->vocab, 0, err);
}
