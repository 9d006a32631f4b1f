/* memory.c - greedy offsets for blocks with lifetimes. */
#include "lib/graph/memory.h"

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

/* A block that has its place: the bytes [offset, end) in the steps [first, last]. Placed blocks lie
 * side by side in memory, because lowest_fit() reads them all for each block. */
struct place {
	size_t offset, end;
	int first, last;
};

/* Return the lowest offset at which b fits. placed[0..count) is sorted by offset. */
static size_t lowest_fit(const struct place *placed, size_t count, const struct gt_lifetime *b)
{
	size_t end = 0;

	for (size_t i = 0; i < count; i++) {
		const struct place *p = &placed[i];

		if (p->first > b->last || b->first > p->last)
			continue;
		/* The gap before p is large enough. Later blocks have higher offsets, so they
		 * cannot narrow it. */
		if (p->offset >= end + b->bytes)
			break;
		if (p->end > end)
			end = p->end;
	}
	return end;
}

/* Return the number of places whose offsets are at most this one. */
static size_t first_above(const struct place *placed, size_t count, size_t offset)
{
	size_t low = 0;

	while (low < count) {
		size_t middle = low + (count - low) / 2;

		if (placed[middle].offset > offset)
			count = middle;
		else
			low = middle + 1;
	}
	return low;
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
	struct place *placed = gt_calloc(count, sizeof(*placed), err);

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
	/* Each block is compared with all those that have their places. That is quadratic in the
	 * number of blocks, which is a few thousand for the largest models: some milliseconds, once
	 * per plan. */
	for (size_t i = 0; i < count; i++) {
		struct gt_lifetime *b = order[i];
		size_t at;

		b->offset = lowest_fit(placed, i, b);
		if (b->offset + b->bytes > *total)
			*total = b->offset + b->bytes;
		at = first_above(placed, i, b->offset);
		memmove(&placed[at + 1], &placed[at], (i - at) * sizeof(*placed));
		placed[at] = (struct place){ b->offset, b->offset + b->bytes, b->first, b->last };
	}
	free(order);
	free(placed);
	return 0;
}
