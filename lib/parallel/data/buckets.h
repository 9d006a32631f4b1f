/* buckets.h - inside parallel: ranges of the flat gradient buffer, one collective each. */
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

/* Allocate memory for as many buckets as a store can have. Release in any case. Errors: GT_ENOMEM.
 */
int gt_buckets_alloc(struct gt_buckets *out, const struct gt_store *store, struct gt_err *err);

/* The number of elements that bucket `i` should have, for buckets of `bytes`. The first bucket has
 * at most a MiB, so that its collective starts early. */
int64_t gt_buckets_limit(const struct gt_store *store, size_t i, int64_t bytes);

/* Divide the store into buckets of about `bytes` each; the first has at most a MiB. Release in any
 * case. */
int gt_buckets_cut(
    struct gt_buckets *out, const struct gt_store *store, int64_t bytes, struct gt_err *err);
void gt_buckets_release(struct gt_buckets *b);

/* The bucket of an element. */
size_t gt_buckets_find(const struct gt_buckets *b, int64_t offset);

/* For a graph after its passes, return for each bucket the index in the list of nodes after which
 * the bucket's gradients are complete, [b->size]. The index is 0 for a bucket that no node writes.
 * The caller frees the list. */
size_t *gt_buckets_ends(const struct gt_buckets *b, const struct gt_store *store,
    const struct gt_graph *g, struct gt_err *err);

/* Make the list p->events. In a step each bucket is reduced once and gathered up to `gathers`
 * times. The list is empty if all ranks have the same samples. */
int gt_buckets_events(
    struct gt_parallel *p, const struct gt_buckets *b, int gathers, struct gt_err *err);

/* The record of the time in which a bucket is reduced (turn 0) or gathered (turn 1 to `gathers`);
 * NULL if there is none. */
struct gt_span *gt_buckets_span(
    const struct gt_parallel *p, const struct gt_buckets *b, int bucket, int turn);

#endif
