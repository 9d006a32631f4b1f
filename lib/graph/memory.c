/* memory.c - greedy offsets for blocks with lifetimes. */
#include "lib/graph/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/device/backend.h"

/* Large blocks go first, because small ones still fit into the gaps between them. Ties are broken
 * by time and then by position, so that the plan, and its addresses, are the same in every run. */
static int larger_first(const void *x, const void *y)
{
	const struct gt_lifetime *a = *(struct gt_lifetime *const *)x;
	const struct gt_lifetime *b = *(struct gt_lifetime *const *)y;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a < b ? -1 : a > b);
}

/*
 * Blocks that have their places, sorted by offset: the bytes [offset, end) in the steps
 * [first, last]. They stand on shelves of limited length, so that inserting one moves few of them.
 * Each block is compared with the placed ones, and most of these are not in use at its steps, so
 * the members lie side by side: a loop over `first` and `last` alone compares several at once.
 */
enum { SHELF = 256, GROUP = 8 };

struct shelf {
	size_t count;
	int first[SHELF], last[SHELF]; /* from `count` on, `first` is later than all steps */
	size_t offset[SHELF], end[SHELF];
};

struct places {
	struct shelf **shelves; /* [count], none of them empty */
	size_t count, capacity;
};

static bool is_near(const struct shelf *s, size_t i, const struct gt_lifetime *b)
{
	return (s->first[i] <= b->last) & (s->last[i] >= b->first);
}

/* Return whether a block of a group is in use beside b. The loop has no branch, so the compiler
 * compares several blocks at once. */
static bool any_near(const struct shelf *s, size_t group, const struct gt_lifetime *b)
{
	const int *first = s->first + group, *last = s->last + group;
	int before = b->first, behind = b->last, any = 0;

	for (int i = 0; i < GROUP; i++)
		any |= (first[i] <= behind) & (last[i] >= before);
	return any;
}

/* Raise *end, the end of the last block that is in the way of b, by a group of blocks on a shelf.
 * Return whether b fits before one of them. Later blocks have higher offsets, so they cannot narrow
 * the gap. */
static bool fits_before(
    size_t *end, const struct shelf *s, size_t group, const struct gt_lifetime *b)
{
	for (size_t i = group; i < group + GROUP; i++) {
		if (!is_near(s, i, b))
			continue;
		if (s->offset[i] >= *end + b->bytes)
			return true;
		if (s->end[i] > *end)
			*end = s->end[i];
	}
	return false;
}

/* Return the lowest offset at which b fits. */
static size_t lowest_fit(const struct places *p, const struct gt_lifetime *b)
{
	size_t end = 0;

	for (size_t i = 0; i < p->count; i++)
		for (size_t group = 0; group < p->shelves[i]->count; group += GROUP)
			if (any_near(p->shelves[i], group, b) &&
			    fits_before(&end, p->shelves[i], group, b))
				return end;
	return end;
}

/* Add an empty shelf at `index`. */
static struct shelf *add_shelf(struct places *p, size_t index, struct gt_err *err)
{
	struct shelf *s = gt_calloc(1, sizeof(*s), err);

	if (!s || gt_grow(&p->shelves, p->count, &p->capacity, sizeof(*p->shelves), err)) {
		free(s);
		return NULL;
	}
	for (int i = 0; i < SHELF; i++)
		s->first[i] = INT_MAX;
	memmove(
	    &p->shelves[index + 1], &p->shelves[index], (p->count++ - index) * sizeof(*p->shelves));
	p->shelves[index] = s;
	return s;
}

/* Move `count` blocks from `at` on to another place. */
static void move_blocks(struct shelf *to, size_t at, struct shelf *from, size_t from_at, size_t n)
{
	memmove(&to->first[at], &from->first[from_at], n * sizeof(*to->first));
	memmove(&to->last[at], &from->last[from_at], n * sizeof(*to->last));
	memmove(&to->offset[at], &from->offset[from_at], n * sizeof(*to->offset));
	memmove(&to->end[at], &from->end[from_at], n * sizeof(*to->end));
}

/* Move the second half of a full shelf to a new one behind it. */
static int split_shelf(struct places *p, size_t index, struct gt_err *err)
{
	struct shelf *s = p->shelves[index], *next = add_shelf(p, index + 1, err);

	if (!next)
		return GT_ENOMEM;
	move_blocks(next, 0, s, SHELF / 2, SHELF / 2);
	s->count = next->count = SHELF / 2;
	for (int i = SHELF / 2; i < SHELF; i++)
		s->first[i] = INT_MAX;
	return 0;
}

/* Return the index of the last shelf that begins at this offset or below, or 0. */
static size_t find_shelf(const struct places *p, size_t offset)
{
	size_t low = 0, high = p->count;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (p->shelves[middle]->offset[0] > offset)
			high = middle;
		else
			low = middle;
	}
	return low;
}

/* Return the number of blocks on a shelf whose offsets are at most this one. */
static size_t first_above(const struct shelf *s, size_t offset)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->offset[middle] > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Put b, whose offset is set, on its shelf, behind blocks with the same offset. */
static int place_block(struct places *p, const struct gt_lifetime *b, struct gt_err *err)
{
	size_t index = find_shelf(p, b->offset), at;
	struct shelf *s;

	if (!p->count && !add_shelf(p, 0, err))
		return GT_ENOMEM;
	if (p->shelves[index]->count == SHELF) {
		if (split_shelf(p, index, err))
			return GT_ENOMEM;
		index = find_shelf(p, b->offset);
	}
	s = p->shelves[index];
	at = first_above(s, b->offset);
	move_blocks(s, at + 1, s, at, s->count++ - at);
	s->first[at] = b->first;
	s->last[at] = b->last;
	s->offset[at] = b->offset;
	s->end[at] = b->offset + b->bytes;
	return 0;
}

static void release_places(struct places *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->shelves[i]);
	free(p->shelves);
}

/*
 * Most blocks are in use for a few of all steps. So where there are many, overlapping windows of
 * steps have the blocks that are in use in them, and a block that lies within a window is compared
 * with those of this window alone. Example: a stride of 4 steps.
 *
 *   step       0 1 2 3 4 5 6 7 8 9 10 11
 *   window 0   + + + + + + + +
 *   window 1           + + + + + + +  +      a block of the steps 6 to 8 lies within it
 *
 * A block begins in the first half of a window, and so lies within it if it is no longer than a
 * stride.
 */
enum { WINDOWS = 64, MANY_BLOCKS = 1024 };

struct table {
	struct places all;
	struct places windows[WINDOWS];
	int first, stride; /* the first step, and half the steps of a window; 0: no windows */
};

static void open_table(struct table *t, const struct gt_lifetime *blocks, size_t count)
{
	int first = INT_MAX, last = INT_MIN;

	*t = (struct table){ .stride = 0 };
	if (count < MANY_BLOCKS)
		return;
	for (size_t i = 0; i < count; i++) {
		first = blocks[i].first < first ? blocks[i].first : first;
		last = blocks[i].last > last ? blocks[i].last : last;
	}
	t->first = first;
	t->stride = (last - first) / WINDOWS + 1;
}

static void release_table(struct table *t)
{
	release_places(&t->all);
	for (int i = 0; i < WINDOWS; i++)
		release_places(&t->windows[i]);
}

/* Return places among which are all that are in use beside b. */
static const struct places *places_beside(const struct table *t, const struct gt_lifetime *b)
{
	int window = t->stride ? (b->first - t->first) / t->stride : 0;

	if (!t->stride || (b->last - t->first) / t->stride > window + 1)
		return &t->all;
	return &t->windows[window];
}

/* Put b, whose offset is set, among all places, and among those of each window that it reaches. */
static int add_to_table(struct table *t, const struct gt_lifetime *b, struct gt_err *err)
{
	int rc = place_block(&t->all, b, err), window, last;

	if (rc || !t->stride)
		return rc;
	window = (b->first - t->first) / t->stride - 1;
	last = (b->last - t->first) / t->stride;
	for (window = window < 0 ? 0 : window; !rc && window <= last; window++)
		rc = place_block(&t->windows[window], b, err);
	return rc;
}

/*
 * The method is greedy: take the blocks by size, the largest first, and put each at the lowest
 * offset where it fits. Source: Pisarchyk and Lee, "Efficient memory management for deep neural net
 * inference", arXiv 2001.03288 ("greedy by size for offset calculation").
 *
 * Example: four blocks, placed in the order A, C, B, D.
 *
 *   block  bytes  steps   offset
 *   A        512   0-1         0  nothing is placed yet
 *   B        256   1-2       512  A and C use 0..511
 *   C        512   2-3         0  A is no longer needed
 *   D        256   3-4       512  C uses 0..511 at step 3, B is no longer needed
 *
 *   in use at step   0  1  2  3  4
 *   bytes 512..767   -  B  B  D  D
 *   bytes   0..511   A  A  C  C  -
 *
 * *total is 768 bytes, although the blocks have 1536 bytes. A smaller total is not possible: at
 * step 1, A and B need 768 bytes at the same time.
 */
int gt_memory_plan(struct gt_lifetime *blocks, size_t count, size_t *total, struct gt_err *err)
{
	struct gt_lifetime **order = gt_calloc(count, sizeof(*order), err);
	struct table table;
	int rc = order ? 0 : GT_ENOMEM;

	*total = 0;
	for (size_t i = 0; !rc && i < count; i++) {
		blocks[i].bytes =
		    (blocks[i].bytes + GT_DEVICE_ALIGN - 1) / GT_DEVICE_ALIGN * GT_DEVICE_ALIGN;
		order[i] = &blocks[i];
	}
	if (!rc)
		qsort(order, count, sizeof(*order), larger_first);
	open_table(&table, blocks, count);
	for (size_t i = 0; !rc && i < count; i++) {
		order[i]->offset = lowest_fit(places_beside(&table, order[i]), order[i]);
		if (order[i]->offset + order[i]->bytes > *total)
			*total = order[i]->offset + order[i]->bytes;
		rc = add_to_table(&table, order[i], err);
	}
	free(order);
	release_table(&table);
	return rc;
}
