/* train.c - merges of byte-pair encoding are chosen by the counts of words. */
#include "lib/data/bpe/train.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/count.h"

/*
 * Each word is a list of ids, at first of its bytes. A pair of adjacent ids has the number of its
 * occurrences, and waits in a queue together with the words that have it. When a pair is merged,
 * the pairs around it disappear, so their numbers sink; the queue learns of that when they come up.
 * New pairs are counted word by word, and then enter the queue.
 *
 *   words      t h e (9 times)   t h (2)      pairs   t h: 11   h e: 9
 *   merge t h  th e (9)          th (2)       pairs   h e: 0    th e: 9
 *
 * The text of a merged token may be that of another one; then it is the same token. Its pairs may
 * then be in the queue several times, each time with other words. As in the package, what is merged
 * at a time are the words of one entry.
 */

/* Places of words in the list of words. */
struct places {
	uint32_t *list; /* [count] */
	size_t count, capacity;
};

struct pair {
	uint32_t left, right;
	int64_t times;
	struct places places; /* words in which the pair is new since it was put in the queue */
};

struct entry {
	int64_t times;
	uint32_t left, right, pair;
	struct places places;
};

struct word {
	uint32_t *ids; /* [n] */
	uint32_t n;
	int64_t times;
};

struct trainer {
	struct gt_bpe_training *t;
	struct gt_bpe_vocab vocab; /* tokens as letters */
	int tokens;
	struct word *words; /* [count] */
	size_t count;
	uint32_t *ids; /* memory of all words */
	struct pair *pairs;
	size_t pair_count, pair_capacity;
	uint32_t *slots; /* [mask + 1], hash table of places in pairs plus 1 */
	uint32_t mask;
	struct entry *queue; /* [queued], a heap */
	size_t queued, queue_capacity;
	uint32_t *changed; /* [changes] pairs that have got new places */
	size_t changes, change_capacity;
	struct gt_bpe_merge *merges; /* [merge_count], in their order */
	size_t merge_count, merge_capacity;
};

/* ---- pairs ---- */

static int grow_slots(struct trainer *r, struct gt_err *err)
{
	size_t size = r->slots ? 2 * ((size_t)r->mask + 1) : 1 << 14;
	uint32_t *slots = gt_calloc(size, sizeof(*slots), err);

	if (!slots || size > UINT32_MAX / 2) {
		free(slots);
		return gt_err_set(err, GT_ENOMEM, "out of memory: pairs of tokens");
	}
	free(r->slots);
	r->slots = slots;
	r->mask = (uint32_t)size - 1;
	for (size_t i = 0; i < r->pair_count; i++) {
		uint32_t at =
		    (uint32_t)gt_bpe_hash_pair(&r->vocab.key, r->pairs[i].left, r->pairs[i].right);

		for (at &= r->mask; slots[at]; at = (at + 1) & r->mask)
			;
		slots[at] = (uint32_t)i + 1;
	}
	return 0;
}

/* Find a pair, or add it. Return its place in r->pairs, or UINT32_MAX with err set. */
static uint32_t find_pair(struct trainer *r, uint32_t left, uint32_t right, struct gt_err *err)
{
	uint32_t at;

	if ((!r->slots || 2 * r->pair_count > r->mask) && grow_slots(r, err))
		return UINT32_MAX;
	at = (uint32_t)gt_bpe_hash_pair(&r->vocab.key, left, right) & r->mask;
	for (; r->slots[at]; at = (at + 1) & r->mask) {
		const struct pair *p = &r->pairs[r->slots[at] - 1];

		if (p->left == left && p->right == right)
			return r->slots[at] - 1;
	}
	if (gt_grow(&r->pairs, r->pair_count, &r->pair_capacity, sizeof(*r->pairs), err))
		return UINT32_MAX;
	r->pairs[r->pair_count++] = (struct pair){ .left = left, .right = right };
	r->slots[at] = (uint32_t)r->pair_count;
	return (uint32_t)r->pair_count - 1;
}

/* Count a pair `times` more in a word; the words come in ascending order. */
static int change_pair(struct trainer *r, uint32_t left, uint32_t right, int64_t times,
    uint32_t word, struct gt_err *err)
{
	uint32_t at = find_pair(r, left, right, err);
	struct pair *p;

	if (at == UINT32_MAX)
		return err->code;
	p = &r->pairs[at];
	p->times += times;
	if (times < 0 || (p->places.count && p->places.list[p->places.count - 1] == word))
		return 0;
	if (!p->places.count) {
		if (gt_grow(&r->changed, r->changes, &r->change_capacity, sizeof(*r->changed), err))
			return GT_ENOMEM;
		r->changed[r->changes++] = at;
	}
	if (gt_grow(&p->places.list, p->places.count, &p->places.capacity, sizeof(*p->places.list),
	        err))
		return GT_ENOMEM;
	p->places.list[p->places.count++] = word;
	return 0;
}

/* ---- the queue ---- */

/* The pair that occurs more often comes first; of the same number, the one with lower ids. */
static bool is_before(const struct entry *a, const struct entry *b)
{
	if (a->times != b->times)
		return a->times > b->times;
	return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static int push(struct trainer *r, struct entry e, struct gt_err *err)
{
	size_t i = r->queued;

	if (gt_grow(&r->queue, r->queued, &r->queue_capacity, sizeof(*r->queue), err))
		return GT_ENOMEM;
	r->queued++;
	for (; i && is_before(&e, &r->queue[(i - 1) / 2]); i = (i - 1) / 2)
		r->queue[i] = r->queue[(i - 1) / 2];
	r->queue[i] = e;
	return 0;
}

/* Put an entry in the place of the first one. */
static void sink(struct trainer *r, struct entry e)
{
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < r->queued; i = child) {
		if (child + 1 < r->queued && is_before(&r->queue[child + 1], &r->queue[child]))
			child++;
		if (!is_before(&r->queue[child], &e))
			break;
		r->queue[i] = r->queue[child];
	}
	r->queue[i] = e;
}

static struct entry pop(struct trainer *r)
{
	struct entry first = r->queue[0], last = r->queue[--r->queued];

	if (r->queued)
		sink(r, last);
	return first;
}

/* Put the changed pairs in the queue, with their new places. */
static int push_changed(struct trainer *r, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < r->changes && !rc; i++) {
		struct pair *p = &r->pairs[r->changed[i]];
		struct entry e = { p->times, p->left, p->right, r->changed[i], p->places };

		if (p->times > 0)
			rc = push(r, e, err);
		else
			free(p->places.list);
		p->places = (struct places){ 0 };
	}
	r->changes = 0;
	return rc;
}

/* ---- merges ---- */

/* Merge a pair wherever a word has it. */
static int merge_in_word(
    struct trainer *r, const struct entry *e, uint32_t id, uint32_t place, struct gt_err *err)
{
	struct word *w = &r->words[place];
	uint32_t kept = 0;
	int rc = 0;

	for (uint32_t i = 0; i < w->n && !rc; i++) {
		bool found = i + 1 < w->n && w->ids[i] == e->left && w->ids[i + 1] == e->right;

		if (!found) {
			w->ids[kept++] = w->ids[i];
			continue;
		}
		if (kept) {
			rc = change_pair(r, w->ids[kept - 1], e->left, -w->times, place, err);
			if (!rc)
				rc = change_pair(r, w->ids[kept - 1], id, w->times, place, err);
		}
		if (!rc && i + 2 < w->n) {
			rc = change_pair(r, e->right, w->ids[i + 2], -w->times, place, err);
			if (!rc)
				rc = change_pair(r, id, w->ids[i + 2], w->times, place, err);
		}
		w->ids[kept++] = id;
		i++;
	}
	w->n = kept;
	return rc;
}

/* The id of the token that a pair becomes. */
static int name_token(struct trainer *r, const struct entry *e, uint32_t *id, struct gt_err *err)
{
	struct gt_bpe_string a = r->vocab.tokens[e->left], b = r->vocab.tokens[e->right];
	char *text = gt_calloc((size_t)a.n + b.n + 1, 1, err);
	int32_t known;
	int rc = 0;

	if (!text)
		return GT_ENOMEM;
	memcpy(text, a.p, a.n);
	memcpy(text + a.n, b.p, b.n);
	known = gt_bpe_vocab_find(&r->vocab, (unsigned char *)text, (size_t)a.n + b.n);
	*id = (uint32_t)(known >= 0 ? known : r->tokens);
	if (known < 0)
		rc = gt_bpe_vocab_add(&r->vocab, r->tokens++, text, (size_t)a.n + b.n, err);
	free(text);
	return rc;
}

static int merge(struct trainer *r, const struct entry *e, struct gt_err *err)
{
	uint32_t id;
	int rc = name_token(r, e, &id, err);

	if (!rc)
		rc = gt_grow(
		    &r->merges, r->merge_count, &r->merge_capacity, sizeof(*r->merges), err);
	if (!rc)
		r->merges[r->merge_count++] =
		    (struct gt_bpe_merge){ .left = e->left, .right = e->right, .id = id };
	for (size_t i = 0; i < e->places.count && !rc; i++)
		rc = merge_in_word(r, e, id, e->places.list[i], err);
	return rc ? rc : push_changed(r, err);
}

static int choose_merges(struct trainer *r, struct gt_err *err)
{
	const int first = r->tokens;
	struct gt_progress outer =
	    gt_progress_enter(r->t->progress, "merge", r->t->size - r->tokens);
	int rc = 0;

	while (r->tokens < r->t->size && r->queued && !rc) {
		struct entry e = pop(r);
		int64_t times = r->pairs[e.pair].times;

		gt_progress_update(r->t->progress, r->tokens - first, NULL);
		if (e.times != times) {
			e.times = times;
			rc = push(r, e, err);
			continue;
		}
		if (times < 1 || times < r->t->min_frequency) {
			free(e.places.list);
			break;
		}
		rc = merge(r, &e, err);
		free(e.places.list);
	}
	gt_progress_leave(r->t->progress, &outer);
	return rc;
}

/* ---- the beginning ---- */

static int compare_letters(const void *x, const void *y)
{
	const uint32_t *a = x, *b = y;

	return *a < *b ? -1 : *a > *b;
}

/* The special token, then the letters of bytes in the order of their characters. */
static int add_alphabet(struct trainer *r, uint32_t ids[256], struct gt_err *err)
{
	static const char special[] = "<|endoftext|>";
	uint32_t letters[256];
	unsigned char text[4];
	int rc = gt_bpe_vocab_init(&r->vocab, r->t->size, err);

	if (!rc)
		rc = gt_bpe_vocab_add(&r->vocab, r->tokens++, special, sizeof(special) - 1, err);
	for (int b = 0; b < 256; b++)
		letters[b] = gt_bpe_letter_of((unsigned char)b);
	qsort(letters, 256, sizeof(*letters), compare_letters);
	for (int i = 0; i < 256 && !rc; i++) {
		int n = gt_text_put_utf8(text, letters[i]);

		ids[gt_bpe_byte_of(letters[i])] = (uint32_t)r->tokens;
		rc = gt_bpe_vocab_add(&r->vocab, r->tokens++, (char *)text, (size_t)n, err);
	}
	return rc;
}

static int add_words(
    struct trainer *r, const struct gt_bpe_counts *counts, const uint32_t *ids, struct gt_err *err)
{
	size_t bytes = 0;
	uint32_t *next;
	int rc = 0;

	for (size_t i = 0; i < counts->count; i++)
		bytes += counts->words[i].n;
	next = r->ids = gt_calloc(bytes, sizeof(*r->ids), err);
	r->words = next ? gt_calloc(counts->count, sizeof(*r->words), err) : NULL;
	if (!r->words)
		return GT_ENOMEM;
	r->count = counts->count;
	for (size_t i = 0; i < r->count && !rc; i++) {
		const struct gt_bpe_counted *c = &counts->words[i];
		struct word *w = &r->words[i];

		*w = (struct word){ next, (uint32_t)c->n, c->times };
		for (size_t k = 0; k < c->n; k++)
			next[k] = ids[c->p[k]];
		for (size_t k = 0; k + 1 < c->n && !rc; k++)
			rc = change_pair(r, next[k], next[k + 1], c->times, (uint32_t)i, err);
		next += c->n;
	}
	return rc ? rc : push_changed(r, err);
}

static int count_files(struct gt_bpe_counts *counts, struct gt_bpe_training *t, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < t->count && !rc; i++) {
		const unsigned char *p = t->files[i].data;
		size_t size = t->files[i].size;
		unsigned char *copy = NULL;
		int64_t parts = 0;

		t->bytes += (int64_t)size;
		rc = gt_bpe_repair(&copy, &size, &parts, p, size, err);
		if (!rc && size)
			rc = gt_bpe_count(counts, copy ? copy : p, size, t->progress, err);
		t->repaired += parts;
		free(copy);
	}
	t->words = counts->count;
	return rc;
}

/* ---- the file ---- */

static void write_text(FILE *out, const struct gt_bpe_string *s)
{
	fputc('"', out);
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->p[i] == '"' || s->p[i] == '\\')
			fputc('\\', out);
		fputc(s->p[i], out);
	}
	fputc('"', out);
}

/* The package keeps the last rank of a pair that was merged twice. */
static int mark_repeated(struct trainer *r, struct gt_err *err)
{
	int rc = gt_bpe_merges_init(&r->vocab, r->merge_count, err);

	for (size_t i = r->merge_count; i-- > 0 && !rc;) {
		struct gt_bpe_merge *m = &r->merges[i];

		m->rank = gt_bpe_merges_find(&r->vocab, m->left, m->right) != NULL;
		if (!m->rank)
			gt_bpe_merges_add(&r->vocab, m);
		r->t->merges += !m->rank;
	}
	return rc;
}

static void write_file(const struct trainer *r, FILE *out)
{
	bool first = true;

	fputs("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
	      "  \"added_tokens\": [\n    {\n      \"id\": 0,\n"
	      "      \"content\": \"<|endoftext|>\",\n      \"single_word\": false,\n"
	      "      \"lstrip\": false,\n      \"rstrip\": false,\n      \"normalized\": false,\n"
	      "      \"special\": true\n    }\n  ],\n  \"normalizer\": null,\n"
	      "  \"pre_tokenizer\": {\n    \"type\": \"ByteLevel\",\n"
	      "    \"add_prefix_space\": false,\n    \"trim_offsets\": true,\n"
	      "    \"use_regex\": true\n  },\n  \"post_processor\": null,\n  \"decoder\": {\n"
	      "    \"type\": \"ByteLevel\",\n    \"add_prefix_space\": true,\n"
	      "    \"trim_offsets\": true,\n    \"use_regex\": true\n  },\n  \"model\": {\n"
	      "    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
	      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
	      "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n"
	      "    \"ignore_merges\": false,\n    \"vocab\": {",
	    out);
	for (int i = 0; i < r->tokens; i++) {
		fputs(i ? ",\n      " : "\n      ", out);
		write_text(out, &r->vocab.tokens[i]);
		fprintf(out, ": %d", i);
	}
	fputs("\n    },\n    \"merges\": [", out);
	for (size_t i = 0; i < r->merge_count; i++) {
		if (r->merges[i].rank)
			continue;
		fputs(first ? "\n      [\n        " : ",\n      [\n        ", out);
		write_text(out, &r->vocab.tokens[r->merges[i].left]);
		fputs(",\n        ", out);
		write_text(out, &r->vocab.tokens[r->merges[i].right]);
		fputs("\n      ]", out);
		first = false;
	}
	fputs(first ? "]\n  }\n}" : "\n    ]\n  }\n}", out);
}

static void release_trainer(struct trainer *r)
{
	for (size_t i = 0; i < r->queued; i++)
		free(r->queue[i].places.list);
	for (size_t i = 0; i < r->pair_count; i++)
		free(r->pairs[i].places.list);
	free(r->queue);
	free(r->pairs);
	free(r->slots);
	free(r->changed);
	free(r->merges);
	free(r->words);
	free(r->ids);
	gt_bpe_vocab_release(&r->vocab);
}

int gt_bpe_train(struct gt_bpe_training *t, FILE *out, struct gt_err *err)
{
	struct trainer r = { .t = t };
	struct gt_bpe_counts counts = { 0 };
	uint32_t ids[256];
	int rc;

	if (t->size < 257 || t->size > GT_BPE_MAX_TOKENS)
		return gt_err_set(err, GT_EINVAL,
		    "a vocabulary of %d tokens: it has 256 bytes and <|endoftext|>, and at most %d",
		    t->size, GT_BPE_MAX_TOKENS);
	rc = count_files(&counts, t, err);
	if (!rc)
		rc = add_alphabet(&r, ids, err);
	if (!rc)
		rc = add_words(&r, &counts, ids, err);
	gt_bpe_counts_release(&counts);
	if (!rc)
		rc = choose_merges(&r, err);
	if (!rc)
		rc = mark_repeated(&r, err);
	if (!rc)
		write_file(&r, out);
	t->tokens = r.tokens;
	release_trainer(&r);
	return rc;
}
