/* zero_cut.c - a store laid out in buckets that divide among ranks, at tensors where need be. */
#include <stdlib.h>

#include "lib/parallel/zero.h"

enum { UNIT = 16 }; /* elements: parts begin where vectors of any kernel may */

/* A parameter, and where it goes in a bucket of whole ones. */
struct item {
	size_t slot;
	int64_t offset, count; /* in the layout before; padded */
	int rank;
	int64_t at; /* in the rank's part */
};

/* Parameters of one kind, collected until they make a bucket. */
struct kind {
	bool whole;
	struct item *items; /* [slot_count] */
	size_t size;
	int64_t count, largest; /* elements */
};

struct cut {
	struct gt_buckets *buckets;
	struct gt_store *store;
	int ranks;
	int64_t bytes;
	int64_t *loads;   /* [ranks] */
	int64_t *offsets; /* [slot_count] */
	int64_t end;      /* of the layout so far */
};

static int by_offset(const void *x, const void *y)
{
	const struct item *a = x, *b = y;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

static int by_size(const void *x, const void *y)
{
	const struct item *a = x, *b = y;

	return a->count != b->count ? (a->count < b->count) - (a->count > b->count)
	                            : by_offset(x, y);
}

/* One after the other. Returns how many elements each part has. */
static int64_t lay_out_in_a_row(struct cut *c, const struct kind *k)
{
	int64_t at = c->end, step = (int64_t)UNIT * c->ranks;

	for (size_t i = 0; i < k->size; i++) {
		c->offsets[k->items[i].slot] = at;
		at += k->items[i].count;
	}
	return (at - c->end + step - 1) / step * UNIT;
}

static int least_loaded(const struct cut *c)
{
	int least = 0;

	for (int i = 1; i < c->ranks; i++)
		if (c->loads[i] < c->loads[least])
			least = i;
	return least;
}

/* Each with one rank. Returns the same. */
static int64_t lay_out_whole(struct cut *c, struct kind *k)
{
	int64_t most = 0;

	for (int i = 0; i < c->ranks; i++)
		c->loads[i] = 0;
	qsort(k->items, k->size, sizeof(*k->items), by_size);
	for (size_t i = 0; i < k->size; i++) {
		struct item *item = &k->items[i];

		item->rank = least_loaded(c);
		item->at = c->loads[item->rank];
		c->loads[item->rank] += item->count;
		if (c->loads[item->rank] > most)
			most = c->loads[item->rank];
	}
	most = (most + UNIT - 1) / UNIT * UNIT;
	for (size_t i = 0; i < k->size; i++)
		c->offsets[k->items[i].slot] = c->end + k->items[i].rank * most + k->items[i].at;
	return most;
}

static void end_bucket(struct cut *c, struct kind *k)
{
	struct gt_buckets *b = c->buckets;
	int64_t part = k->whole ? lay_out_whole(c, k) : lay_out_in_a_row(c, k);

	b->first[b->size] = c->end;
	b->count[b->size] = part * c->ranks;
	c->end += b->count[b->size++];
	k->size = 0;
	k->count = k->largest = 0;
}

static void add(struct cut *c, struct kind *k, const struct item *item)
{
	k->items[k->size++] = *item;
	k->count += item->count;
	if (item->count > k->largest)
		k->largest = item->count;
	if (k->count >= gt_buckets_limit(c->store, c->buckets->size, c->bytes) &&
	    (!k->whole || k->count >= k->largest * c->ranks))
		end_bucket(c, k);
}

/* The parameters that are here, in the order of the layout. Returns how many. */
static size_t list(struct item *items, const struct gt_store *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role == GT_PARAMETER && !slot->elsewhere)
			items[n++] = (struct item){
				.slot = i, .offset = slot->offset, .count = gt_slot_padded(slot)
			};
	}
	qsort(items, n, sizeof(*items), by_offset);
	return n;
}

int gt_zero_cut(struct gt_buckets *out, struct gt_store *s, int ranks, int64_t bytes,
    bool (*whole)(const struct gt_slot *slot), struct gt_err *err)
{
	struct item *items = gt_calloc(3 * s->slot_count, sizeof(*items), err);
	struct cut c = { .buckets = out,
		.store = s,
		.ranks = ranks,
		.bytes = bytes,
		.loads = gt_calloc((size_t)ranks, sizeof(*c.loads), err),
		.offsets = gt_calloc(s->slot_count, sizeof(*c.offsets), err) };
	struct kind kinds[2] = { { .items = items + s->slot_count },
		{ .items = items + 2 * s->slot_count, .whole = true } };
	int rc = gt_buckets_alloc(out, s, err);

	if (!items || !c.loads || !c.offsets)
		rc = GT_ENOMEM;
	for (size_t i = 0, n = rc ? 0 : list(items, s); i < n; i++)
		add(&c, &kinds[whole && whole(&s->slots[items[i].slot])], &items[i]);
	for (int i = 0; !rc && i < 2; i++)
		if (kinds[i].size)
			end_bucket(&c, &kinds[i]);
	if (!rc)
		gt_store_place(s, c.offsets, c.end);
	free(items);
	free(c.loads);
	free(c.offsets);
	return rc;
}
