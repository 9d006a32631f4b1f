/* buckets.h - inside parallel: the flat gradient buffer cut into ranges that travel at once. */
#ifndef GT_PARALLEL_DATA_BUCKETS_H
#define GT_PARALLEL_DATA_BUCKETS_H

#include "lib/parallel/data/modes.h"

enum { GT_BUCKET_NAME = 32 };

/* Ranges [first[i], first[i] + count[i]) in elements, in the order of the backward pass, without
 * gaps. Each begins where a parameter does. */
struct gt_buckets {
	int64_t *first, *count;
	char (*name)[GT_BUCKET_NAME]; /* "bucket 3", for messages */
	size_t size;
};

/* Room for as many buckets as a store can have. Release in any case. Errors: GT_ENOMEM. */
int gt_buckets_alloc(struct gt_buckets *out, const struct gt_store *store, struct gt_err *err);

/* Elements that bucket number `i` should have: of `bytes`, but the first of a MiB at most so that
 * it starts early. */
int64_t gt_buckets_limit(const struct gt_store *store, size_t i, int64_t bytes);

/* Of about `bytes` each, the first of a MiB at most. Release in any case. */
int gt_buckets_cut(
    struct gt_buckets *out, const struct gt_store *store, int64_t bytes, struct gt_err *err);
void gt_buckets_release(struct gt_buckets *b);

/* The bucket of an element. */
size_t gt_buckets_find(const struct gt_buckets *b, int64_t offset);

/* Of a graph that has been through its passes: behind which node each bucket's gradients are whole,
 * [b->size], 0 for a bucket that no node writes; yours to free(). */
size_t *gt_buckets_ends(const struct gt_buckets *b, const struct gt_store *store,
    const struct gt_graph *g, struct gt_err *err);

/* Make the list of p->events: each bucket is reduced, and gathered up to `gathers` times, in a
 * step. None where no rank has other samples. */
int gt_buckets_events(
    struct gt_parallel *p, const struct gt_buckets *b, int gathers, struct gt_err *err);

/* Where the time is kept in which it is reduced, turn 0, or gathered, turn 1 to `gathers`; NULL
 * where there are none. */
struct gt_span *gt_buckets_span(
    const struct gt_parallel *p, const struct gt_buckets *b, int bucket, int turn);

#endif
