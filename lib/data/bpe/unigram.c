/* unigram.c - models of type Unigram: a word to the tokens whose product is most probable. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* How much less likely an unknown character is than the least likely token. */
static const double UNK_PENALTY = 10;

/* The best path to a place of a word: its last token begins at `from`. */
struct gt_bpe_node {
	double score;
	size_t from;
	int32_t id; /* -1: no path ends here */
};

/*
 * Tokens are found by a trie, whose edges are the vocabulary's table of merges: from node `left` by
 * the byte `right` to node `rank`; `id` is that of the token that ends there, plus 1, or 0.
 */

/* ---- read ---- */

static int compare_texts(const void *x, const void *y)
{
	const struct gt_bpe_string *a = *(struct gt_bpe_string *const *)x;
	const struct gt_bpe_string *b = *(struct gt_bpe_string *const *)y;
	int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);

	return order ? order : a->n < b->n ? -1 : a->n > b->n;
}

static size_t common_bytes(const struct gt_bpe_string *a, const struct gt_bpe_string *b)
{
	size_t n = 0;

	while (n < a->n && n < b->n && a->p[n] == b->p[n])
		n++;
	return n;
}

static void add_to_trie(struct gt_bpe_vocab *v, const struct gt_bpe_string *text, uint32_t *nodes)
{
	uint32_t node = 0;

	for (uint32_t i = 0; i < text->n; i++) {
		const struct gt_bpe_merge *found = gt_bpe_merges_find(v, node, text->p[i]);
		struct gt_bpe_merge edge = { .left = node, .right = text->p[i] };

		if (found)
			edge = *found;
		else
			edge.rank = ++*nodes;
		if (i + 1 == text->n)
			edge.id = (uint32_t)(text - v->tokens) + 1;
		gt_bpe_merges_add(v, &edge);
		node = edge.rank;
	}
}

/* Sorted, tokens show how many edges there are before any is added. */
static int make_trie(struct gt_bpe *bpe, struct gt_err *err)
{
	struct gt_bpe_vocab *v = &bpe->vocab;
	size_t count = (size_t)bpe->model_size, edges = 0;
	struct gt_bpe_string **sorted = gt_calloc(count, sizeof(*sorted), err);
	uint32_t nodes = 0;
	int rc;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		sorted[i] = &v->tokens[i];
	qsort(sorted, count, sizeof(*sorted), compare_texts);
	for (size_t i = 0; i < count; i++)
		edges += sorted[i]->n - (i ? common_bytes(sorted[i - 1], sorted[i]) : 0);
	rc = gt_bpe_merges_init(v, edges, err);
	for (size_t i = 0; i < count && !rc; i++)
		add_to_trie(v, sorted[i], &nodes);
	free(sorted);
	return rc;
}

/* One entry of the vocabulary: ["token", -3.2]. */
static int read_entry(struct gt_bpe *bpe, const json_t *entry, int id, struct gt_err *err)
{
	const json_t *text = json_array_get(entry, 0), *score = json_array_get(entry, 1);
	size_t n = json_string_length(text);

	if (json_array_size(entry) != 2 || !json_is_string(text) || !json_is_number(score) ||
	    !isfinite(json_number_value(score)) || n > GT_BPE_MAX_TOKEN)
		return gt_err_set(err, GT_EFORMAT,
		    "'model': token %d is not a pair of a text of at most %d bytes and a number",
		    id, GT_BPE_MAX_TOKEN);
	bpe->scores[id] = json_number_value(score);
	if (!id || bpe->scores[id] < bpe->unk_score)
		bpe->unk_score = bpe->scores[id];
	return gt_bpe_vocab_add(&bpe->vocab, id, json_string_value(text), n, err);
}

static int read_entries(
    struct gt_bpe *bpe, const json_t *vocab, const json_t *added, struct gt_err *err)
{
	int size = (int)json_array_size(vocab), rc;
	json_t *entry;
	size_t i;

	if (!json_is_array(vocab) || !size || json_array_size(vocab) > GT_BPE_MAX_TOKENS)
		return gt_err_set(err, GT_EFORMAT,
		    "'model': 'vocab' of Unigram must be a list of 1 to %d pairs",
		    GT_BPE_MAX_TOKENS);
	bpe->model_size = size;
	rc = gt_bpe_find_added_size(&size, added, err);
	if (!rc)
		rc = gt_bpe_vocab_init(&bpe->vocab, size, err);
	if (!rc) {
		bpe->scores = gt_calloc((size_t)bpe->model_size, sizeof(*bpe->scores), err);
		rc = bpe->scores ? 0 : GT_ENOMEM;
	}
	json_array_foreach(vocab, i, entry)
	{
		if (!rc)
			rc = read_entry(bpe, entry, (int)i, err);
	}
	bpe->unk_score -= UNK_PENALTY;
	return rc;
}

int gt_bpe_read_unigram(
    struct gt_bpe *bpe, const json_t *model, const json_t *added, struct gt_err *err)
{
	const json_t *unk = json_object_get(model, "unk_id");
	int rc = gt_bpe_check_keys(model, "model", "type vocab unk_id byte_fallback", err);

	if (!rc)
		rc = gt_bpe_read_bool(
		    &bpe->byte_fallback, model, "byte_fallback", false, "model", err);
	if (!rc)
		rc = read_entries(bpe, json_object_get(model, "vocab"), added, err);
	if (rc)
		return rc;
	bpe->unk = -1;
	if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
	    json_integer_value(unk) >= bpe->model_size)
		return gt_err_set(
		    err, GT_ENOTSUP, "'model': Unigram is supported with an 'unk_id' alone");
	bpe->unk = (int32_t)json_integer_value(unk);
	bpe->fuse_unk = true;
	bpe->word = gt_bpe_word_of_scores;
	return make_trie(bpe, err);
}

/* ---- words ---- */

static int reserve_nodes(struct gt_bpe_worker *w, size_t n, struct gt_err *err)
{
	struct gt_bpe_node *grown;

	if (n <= w->node_capacity)
		return 0;
	grown = gt_reallocarray(w->nodes, 2 * n, sizeof(*grown), err);
	if (!grown)
		return GT_ENOMEM;
	w->nodes = grown;
	w->node_capacity = 2 * n;
	return 0;
}

/* A path to `node` whose last token begins at `from`. The first of equal paths is kept. */
static void offer(struct gt_bpe_node *node, double score, size_t from, int32_t id)
{
	if (node->id < 0 || score > node->score)
		*node = (struct gt_bpe_node){ score, from, id };
}

/* Extend the best path to byte `at` by each token that begins there. */
static void extend(const struct gt_bpe *bpe, struct gt_bpe_node *nodes, const unsigned char *p,
    size_t n, size_t at, size_t length)
{
	double score = nodes[at].score;
	uint32_t node = 0;
	bool single = false; /* a token is the first character alone */

	for (size_t i = at; i < n; i++) {
		const struct gt_bpe_merge *edge = gt_bpe_merges_find(&bpe->vocab, node, p[i]);

		if (!edge)
			break;
		if (edge->id) {
			int32_t id = (int32_t)edge->id - 1;

			offer(&nodes[i + 1], score + bpe->scores[id], at, id);
			single |= i + 1 - at == length;
		}
		node = edge->rank;
	}
	if (!single)
		offer(&nodes[at + length], score + bpe->unk_score, at, bpe->unk);
}

/* Append the ids of a token, or of unknown characters p [n], from the last one to the first. */
static void put_backwards(
    const struct gt_bpe *bpe, uint32_t *ids, size_t *count, const unsigned char *p, size_t n)
{
	int32_t id = gt_bpe_vocab_find(&bpe->vocab, p, n);
	bool all = id < 0 && bpe->byte_fallback;

	for (size_t i = 0; i < n && all; i++)
		all = bpe->byte_ids[p[i]] >= 0;
	if (!all) {
		ids[(*count)++] = (uint32_t)(id >= 0 && id < bpe->model_size ? id : bpe->unk);
		return;
	}
	for (size_t i = n; i-- > 0;)
		ids[(*count)++] = (uint32_t)bpe->byte_ids[p[i]];
}

/* Adjacent unknown characters are taken together. */
static void put_path(struct gt_bpe_worker *w, const unsigned char *p, size_t n, size_t *count)
{
	const struct gt_bpe_node *nodes = w->nodes;
	uint32_t *ids = w->scratch.ids;

	*count = 0;
	for (size_t end = n, from; end; end = from) {
		from = nodes[end].from;
		while (nodes[end].id == w->bpe->unk && from && nodes[from].id == w->bpe->unk)
			from = nodes[from].from;
		put_backwards(w->bpe, ids, count, p + from, end - from);
	}
	for (size_t i = 0; i < *count / 2; i++) {
		uint32_t id = ids[i];

		ids[i] = ids[*count - 1 - i];
		ids[*count - 1 - i] = id;
	}
}

/* The best path is found from left to right (Viterbi): that to a place goes on from the best path
 * to the place where its last token begins. */
int gt_bpe_word_of_scores(
    struct gt_bpe_worker *w, const unsigned char *p, size_t n, size_t *count, struct gt_err *err)
{
	int rc = gt_bpe_scratch_reserve(&w->scratch, n + 1, err);
	uint32_t code;

	if (!rc)
		rc = reserve_nodes(w, n + 1, err);
	if (rc)
		return rc;
	for (size_t i = 0; i <= n; i++)
		w->nodes[i] = (struct gt_bpe_node){ .id = -1 };
	for (size_t at = 0; at < n;) {
		/* A text that others write to may be no UTF-8. */
		size_t length = (size_t)gt_text_utf8(p + at, n - at, &code) ?: 1;

		extend(w->bpe, w->nodes, p, n, at, length);
		at += length;
	}
	put_path(w, p, n, count);
	return 0;
}
