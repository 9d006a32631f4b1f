/* zero_cut.c - a store laid out in buckets that divide among ranks, at tensors where need be. */
#include <stdlib.h>

#include "lib/parallel/data/zero.h"

/*
 * Change the layout of the store: divide it into buckets of about `bytes` bytes each. Each bucket
 * can be divided into `ranks` equal shards. If whole() returns true for a parameter, the parameter
 * must stay whole. A shard may begin or end in the middle of any other parameter. If `whole` is
 * NULL, no parameter must stay whole.
 *
 * Parameters that must stay whole are in separate buckets, called whole buckets here. No shard of a
 * whole bucket begins or ends in the middle of a parameter. To divide the bucket, the parameters
 * are taken by size, the largest first, and each goes to the rank with the fewest elements so far.
 * Then all shards are padded to the size of the largest shard. A whole bucket gets parameters until
 * it has at least `ranks` times the elements of its largest parameter, so at most half of the
 * bucket is padding. If the last whole bucket is smaller, it is merged with earlier whole buckets
 * until it is that large. If there are too few parameters that must stay whole, other parameters
 * take the place of padding where they fit.
 *
 * The shards that ranks of the tensor axis hold of a parameter may differ in size. All of them have
 * the room of the largest, so that these ranks have the same layout, and the ranks of one data seat
 * own the shards of the same parameters.
 *
 * Example: two ranks, parameters A of 128 elements, b of 16, C of 48 and D of 32.
 *
 *   whole() is true for:
 *   no parameter    | A b C D |   224 elements: rank 0 owns the first 112 of A, rank 1 the rest
 *   A, C and D      | A C D b p |   256 elements: rank 0 owns A; rank 1 owns C, D, b and the
 *                                 padding p of 32 elements
 *
 * The caller calls gt_buckets_release() for *out in any case. Errors: GT_ENOMEM.
 */

enum { UNIT = 16 }; /* elements: parts begin where vectors of any kernel may */

/* A parameter, and where it goes. */
struct item {
	size_t slot;
	bool whole;
	int64_t offset; /* in the old layout */
	int64_t count;  /* elements, padded */
	int bucket;
	int rank;   /* the owner, if the bucket is whole */
	int64_t at; /* offset in the owner's shard */
};

/* Parameters that make a bucket. */
struct bucket {
	bool whole;
	int64_t count, largest; /* elements */
};

struct cut {
	struct gt_store *store;
	int ranks;
	int64_t bytes;
	struct item *items;  /* [item_count], in the order of the layout before */
	struct item *chosen; /* [item_count], for those of one bucket */
	size_t item_count;
	struct bucket *buckets; /* [bucket_count], in the order in which they begin */
	int *order;             /* [ended] in which they end */
	int bucket_count, ended;
	int64_t *loads;   /* [ranks] */
	int64_t *offsets; /* [slot_count] */
	int64_t end;      /* end of the layout so far */
};

static int compare_item_offsets(const void *x, const void *y)
{
	const struct item *a = x, *b = y;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Whole ones first, the largest of them first. */
static int by_size(const void *x, const void *y)
{
	const struct item *a = x, *b = y;

	if (a->whole != b->whole)
		return a->whole ? -1 : 1;
	return a->count != b->count ? (a->count < b->count) - (a->count > b->count)
	                            : compare_item_offsets(x, y);
}

/* ---- which parameters make a bucket ---- */

/*
 * Ranks that get its largest parameter each have no more than the bucket holds. All parts of a
 * bucket are as long as the longest. In a bucket below this size the others would be filled with
 * padding, which is sent and stored like elements.
 */
static bool is_full(const struct cut *c, const struct bucket *b)
{
	return !b->whole || b->count >= b->largest * c->ranks;
}

static void move_to(struct cut *c, struct item *item, int bucket)
{
	struct bucket *b = &c->buckets[bucket];

	if (item->bucket >= 0)
		c->buckets[item->bucket].count -= item->count;
	item->bucket = bucket;
	b->count += item->count;
	if (item->whole && item->count > b->largest)
		b->largest = item->count;
}

/* Fill buckets of each kind in the order of the layout; the last ones may remain short. Returns the
 * last one of whole parameters, or -1. */
static int fill_buckets(struct cut *c)
{
	int open[2] = { -1, -1 }, last = -1;

	for (size_t i = 0; i < c->item_count; i++) {
		struct item *item = &c->items[i];
		int *now = &open[item->whole];

		if (*now < 0) {
			*now = c->bucket_count++;
			c->buckets[*now] = (struct bucket){ .whole = item->whole };
		}
		if (item->whole)
			last = *now;
		move_to(c, item, *now);
		if (c->buckets[*now].count >=
		        gt_buckets_limit(c->store, (size_t)c->ended, c->bytes) &&
		    is_full(c, &c->buckets[*now])) {
			c->order[c->ended++] = *now;
			*now = -1;
		}
	}
	for (int whole = 0; whole < 2; whole++)
		if (open[whole] >= 0)
			c->order[c->ended++] = open[whole];
	return last;
}

/* Take the buckets of whole parameters that ended before this one, from the back, until it is
 * full. */
static void merge_back(struct cut *c, int bucket)
{
	for (int i = c->ended; i-- > 0 && !is_full(c, &c->buckets[bucket]);) {
		if (c->order[i] == bucket || !c->buckets[c->order[i]].whole)
			continue;
		for (size_t k = 0; k < c->item_count; k++)
			if (c->items[k].bucket == c->order[i])
				move_to(c, &c->items[k], bucket);
	}
}

static int least_loaded(const struct cut *c)
{
	int least = 0;

	for (int i = 1; i < c->ranks; i++)
		if (c->loads[i] < c->loads[least])
			least = i;
	return least;
}

/* Collect the items of a bucket, in the order of the old layout. Return how many there are. */
static size_t items_of(const struct cut *c, int bucket)
{
	size_t n = 0;

	for (size_t i = 0; i < c->item_count; i++)
		if (c->items[i].bucket == bucket)
			c->chosen[n++] = c->items[i];
	return n;
}

/*
 * Give each of c->chosen[n] to one rank: the largest first, each to the rank with the least so
 * far, as in Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2),
 * 1969. Returns how many elements the largest part has. Example: two ranks, and parameters of 64,
 * 48 and 16 elements.
 *
 *   parameter   rank   at   loads
 *   64          0      0    64, 0
 *   48          1      0    64, 48
 *   16          1      48   64, 64      the largest part has 64, so the bucket has 2 * 64
 */
static int64_t deal(struct cut *c, size_t n)
{
	int64_t max = 0;

	for (int i = 0; i < c->ranks; i++)
		c->loads[i] = 0;
	qsort(c->chosen, n, sizeof(*c->chosen), by_size);
	for (size_t i = 0; i < n; i++) {
		struct item *item = &c->chosen[i];

		item->rank = least_loaded(c);
		item->at = c->loads[item->rank];
		c->loads[item->rank] += item->count;
		if (c->loads[item->rank] > max)
			max = c->loads[item->rank];
	}
	return max;
}

/* Where all whole parameters together leave a bucket short, let others, the largest first, take the
 * place of padding: they may lie anywhere. */
static void fill_up(struct cut *c, int bucket)
{
	int64_t max = deal(c, items_of(c, bucket));
	size_t n = 0;

	for (size_t i = 0; i < c->item_count; i++)
		if (!c->items[i].whole)
			c->chosen[n++] = c->items[i];
	qsort(c->chosen, n, sizeof(*c->chosen), by_size);
	for (size_t i = 0; i < n; i++) {
		int rank = least_loaded(c);

		if (c->loads[rank] + c->chosen[i].count > max)
			continue;
		c->loads[rank] += c->chosen[i].count;
		for (size_t k = 0; k < c->item_count; k++)
			if (c->items[k].slot == c->chosen[i].slot)
				move_to(c, &c->items[k], bucket);
	}
}

/* ---- where they lie in it ---- */

/* One after the other. Returns how many elements each part has. */
static int64_t lay_out_in_a_row(struct cut *c, size_t n)
{
	int64_t at = c->end, step = (int64_t)UNIT * c->ranks;

	for (size_t i = 0; i < n; i++) {
		c->offsets[c->chosen[i].slot] = at;
		at += c->chosen[i].count;
	}
	return (at - c->end + step - 1) / step * UNIT;
}

/* Each with one rank. Returns the same. */
static int64_t lay_out_whole(struct cut *c, size_t n)
{
	int64_t max = (deal(c, n) + UNIT - 1) / UNIT * UNIT;

	for (size_t i = 0; i < n; i++)
		c->offsets[c->chosen[i].slot] = c->end + c->chosen[i].rank * max + c->chosen[i].at;
	return max;
}

static void lay_out_buckets(struct cut *c, struct gt_buckets *out)
{
	for (int i = 0; i < c->ended; i++) {
		size_t n = items_of(c, c->order[i]);
		int64_t part;

		if (!n)
			continue;
		part = c->buckets[c->order[i]].whole ? lay_out_whole(c, n) : lay_out_in_a_row(c, n);
		out->first[out->size] = c->end;
		out->count[out->size] = part * c->ranks;
		c->end += out->count[out->size++];
	}
}

/* The parameters that are here, in the order of the layout. */
static void list(struct cut *c, bool (*whole)(const struct gt_slot *slot))
{
	const struct gt_store *s = c->store;

	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role == GT_PARAMETER && !slot->on_other_ranks)
			c->items[c->item_count++] = (struct item){ .slot = i,
				.whole = whole && whole(slot),
				.offset = slot->offset,
				.count = gt_round_up(slot->largest, UNIT),
				.bucket = -1 };
	}
	qsort(c->items, c->item_count, sizeof(*c->items), compare_item_offsets);
}

int gt_zero_cut(struct gt_buckets *out, struct gt_store *s, int ranks, int64_t bytes,
    bool (*whole)(const struct gt_slot *slot), struct gt_err *err)
{
	struct cut c = { .store = s,
		.ranks = ranks,
		.bytes = bytes,
		.items = gt_calloc(s->slot_count, sizeof(*c.items), err),
		.chosen = gt_calloc(s->slot_count, sizeof(*c.chosen), err),
		.buckets = gt_calloc(s->slot_count, sizeof(*c.buckets), err),
		.order = gt_calloc(s->slot_count, sizeof(*c.order), err),
		.loads = gt_calloc((size_t)ranks, sizeof(*c.loads), err),
		.offsets = gt_calloc(s->slot_count, sizeof(*c.offsets), err) };
	int rc = gt_buckets_alloc(out, s, err), last;

	if (!c.items || !c.chosen || !c.buckets || !c.order || !c.loads || !c.offsets)
		rc = GT_ENOMEM;
	if (rc)
		goto out;
	list(&c, whole);
	last = fill_buckets(&c);
	if (last >= 0)
		merge_back(&c, last);
	if (last >= 0 && !is_full(&c, &c.buckets[last]))
		fill_up(&c, last);
	lay_out_buckets(&c, out);
	gt_store_place(s, c.offsets, c.end);
out:
	free(c.items);
	free(c.chosen);
	free(c.buckets);
	free(c.order);
	free(c.loads);
	free(c.offsets);
	return rc;
}
