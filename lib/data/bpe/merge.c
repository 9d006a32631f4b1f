/* merge.c - the symbols of a word become tokens: merges by rank. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/bpe/inside.h"

/* Up to this many symbols the lowest rank is looked for among all pairs; beyond it, in a heap. */
enum { SHORT = 48, NONE = UINT32_MAX };

/* A pair that may be merged. It is out of date once its left symbol is another one. */
struct candidate {
	uint32_t rank, at; /* the left symbol's place */
	uint32_t id;       /* the token that it becomes */
};

struct gt_bpe_heap {
	struct candidate *items; /* [3 * capacity]: a word's pairs, and two for each merge */
	size_t count;
	uint32_t *before, *after; /* [capacity]: the neighbours of each place, or NONE */
	size_t capacity;
};

int gt_bpe_scratch_reserve(struct gt_bpe_scratch *s, size_t n, struct gt_err *err)
{
	size_t capacity = n < 256 ? 256 : n + n / 2;
	uint32_t *ids;

	if (n <= s->capacity)
		return 0;
	if (n >= NONE / 4)
		return gt_err_set(err, GT_ENOMEM, "a word of %zu symbols is too long", n);
	ids = gt_reallocarray(s->ids, capacity, sizeof(*ids), err);
	if (!ids)
		return GT_ENOMEM;
	s->ids = ids;
	s->capacity = capacity;
	return 0;
}

static void heap_free(struct gt_bpe_heap *heap)
{
	if (!heap)
		return;
	free(heap->items);
	free(heap->before);
	free(heap->after);
	free(heap);
}

void gt_bpe_scratch_release(struct gt_bpe_scratch *s)
{
	free(s->ids);
	heap_free(s->heap);
	*s = (struct gt_bpe_scratch){ 0 };
}

/* ---- short words ---- */

static void merge_short(const struct gt_bpe_vocab *v, uint32_t *ids, size_t *count)
{
	const struct gt_bpe_merge *pair[SHORT] = { NULL }; /* [i]: of symbols i and i + 1 */
	size_t n = *count;

	for (size_t i = 0; i + 1 < n; i++)
		pair[i] = gt_bpe_merges_find(v, ids[i], ids[i + 1]);
	for (;;) {
		size_t best = n;

		for (size_t i = 0; i + 1 < n; i++)
			if (pair[i] && (best == n || pair[i]->rank < pair[best]->rank))
				best = i;
		if (best == n)
			break;
		ids[best] = pair[best]->id;
		n--;
		for (size_t i = best + 1; i < n; i++) {
			ids[i] = ids[i + 1];
			pair[i] = pair[i + 1];
		}
		pair[best] = best + 1 < n ? gt_bpe_merges_find(v, ids[best], ids[best + 1]) : NULL;
		if (best)
			pair[best - 1] = gt_bpe_merges_find(v, ids[best - 1], ids[best]);
	}
	*count = n;
}

/* ---- long words ---- */

static bool comes_before(const struct candidate *a, const struct candidate *b)
{
	return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void push(struct gt_bpe_heap *heap, struct candidate c)
{
	size_t i = heap->count++;

	for (; i && comes_before(&c, &heap->items[(i - 1) / 2]); i = (i - 1) / 2)
		heap->items[i] = heap->items[(i - 1) / 2];
	heap->items[i] = c;
}

static struct candidate pop(struct gt_bpe_heap *heap)
{
	struct candidate top = heap->items[0], last = heap->items[--heap->count];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
		if (child + 1 < heap->count &&
		    comes_before(&heap->items[child + 1], &heap->items[child]))
			child++;
		if (!comes_before(&heap->items[child], &last))
			break;
		heap->items[i] = heap->items[child];
	}
	heap->items[i] = last;
	return top;
}

static int heap_reserve(struct gt_bpe_scratch *s, struct gt_err *err)
{
	struct gt_bpe_heap *heap = s->heap;

	if (heap && heap->capacity >= s->capacity)
		return 0;
	heap_free(heap);
	s->heap = heap = gt_calloc(1, sizeof(*heap), err);
	if (!heap)
		return GT_ENOMEM;
	heap->items = gt_calloc(s->capacity, 3 * sizeof(*heap->items), err);
	heap->before = heap->items ? gt_calloc(s->capacity, sizeof(*heap->before), err) : NULL;
	heap->after = heap->before ? gt_calloc(s->capacity, sizeof(*heap->after), err) : NULL;
	if (!heap->after)
		return GT_ENOMEM;
	heap->capacity = s->capacity;
	return 0;
}

/* Note the pair that begins at this place, if it is merged. */
static void consider(
    const struct gt_bpe_vocab *v, struct gt_bpe_heap *heap, const uint32_t *ids, uint32_t at)
{
	const struct gt_bpe_merge *m;

	if (at == NONE || heap->after[at] == NONE)
		return;
	m = gt_bpe_merges_find(v, ids[at], ids[heap->after[at]]);
	if (m)
		push(heap, (struct candidate){ m->rank, at, m->id });
}

/* Whether the pair is there still. `ids` of symbols that were merged away are NONE. */
static bool is_current(const struct gt_bpe_vocab *v, const struct gt_bpe_heap *heap,
    const uint32_t *ids, const struct candidate *c)
{
	const struct gt_bpe_merge *m;

	if (ids[c->at] == NONE || heap->after[c->at] == NONE)
		return false;
	m = gt_bpe_merges_find(v, ids[c->at], ids[heap->after[c->at]]);
	return m && m->id == c->id;
}

static void merge_long(
    const struct gt_bpe_vocab *v, struct gt_bpe_heap *heap, uint32_t *ids, size_t *count)
{
	uint32_t n = (uint32_t)*count, kept = 0;

	heap->count = 0;
	for (uint32_t i = 0; i < n; i++) {
		heap->before[i] = i ? i - 1 : NONE;
		heap->after[i] = i + 1 < n ? i + 1 : NONE;
	}
	for (uint32_t i = 0; i < n; i++)
		consider(v, heap, ids, i);
	while (heap->count) {
		struct candidate c = pop(heap);
		uint32_t right;

		if (!is_current(v, heap, ids, &c))
			continue;
		right = heap->after[c.at];
		ids[c.at] = c.id;
		ids[right] = NONE;
		heap->after[c.at] = heap->after[right];
		if (heap->after[right] != NONE)
			heap->before[heap->after[right]] = c.at;
		consider(v, heap, ids, heap->before[c.at]);
		consider(v, heap, ids, c.at);
	}
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] != NONE)
			ids[kept++] = ids[i];
	*count = kept;
}

int gt_bpe_merge_word(
    const struct gt_bpe_vocab *v, struct gt_bpe_scratch *s, size_t *n, struct gt_err *err)
{
	if (*n <= SHORT) {
		merge_short(v, s->ids, n);
		return 0;
	}
	if (heap_reserve(s, err))
		return GT_ENOMEM;
	merge_long(v, s->heap, s->ids, n);
	return 0;
}
