/* memory.c - greedy offsets for blocks with lifetimes. */
#include "lib/graph/memory.h"

#include <stdbool.h>
#include <stdlib.h>

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

static bool overlap_in_time(const struct gt_lifetime *a, const struct gt_lifetime *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/* Return the lowest offset at which b fits. placed[0..count) is sorted by offset. */
static size_t lowest_fit(
    struct gt_lifetime *const *placed, size_t count, const struct gt_lifetime *b)
{
	size_t end = 0;

	for (size_t i = 0; i < count; i++) {
		const struct gt_lifetime *p = placed[i];

		if (!overlap_in_time(p, b))
			continue;
		/* The gap before p is large enough. Later blocks have higher offsets, so they
		 * cannot narrow it. */
		if (p->offset >= end + b->bytes)
			break;
		if (p->offset + p->bytes > end)
			end = p->offset + p->bytes;
	}
	return end;
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
	struct gt_lifetime **placed = gt_calloc(count, sizeof(*placed), err);

	*total = 0;
	if (!order || !placed) {
		free(order);
		free(placed);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		blocks[i].bytes =
		    (blocks[i].bytes + GT_DEVICE_ALIGN - 1) / GT_DEVICE_ALIGN * GT_DEVICE_ALIGN;
		order[i] = &blocks[i];
	}
	qsort(order, count, sizeof(*order), larger_first);
	for (size_t i = 0; i < count; i++) {
		struct gt_lifetime *b = order[i];
		size_t at = i;

		b->offset = lowest_fit(placed, i, b);
		if (b->offset + b->bytes > *total)
			*total = b->offset + b->bytes;
		/* Insertion keeps the list sorted by offset. That is quadratic in the number of
		 * blocks, which is a few thousand for the largest models: some milliseconds, once
		 * per plan. */
		for (; at > 0 && placed[at - 1]->offset > b->offset; at--)
			placed[at] = placed[at - 1];
		placed[at] = b;
	}
	free(order);
	free(placed);
	return 0;
}
