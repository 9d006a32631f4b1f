/* buckets.h - inside parallel: ranges of the flat gradient buffer, one collective each. */
#ifndef GT_PARALLEL_DATA_BUCKETS_H
#define GT_PARALLEL_DATA_BUCKETS_H

#include "lib/parallel/data/modes.h"

enum { GT_BUCKET_NAME = 32 };

/* A list of buckets. Bucket i is the range [first[i], first[i] + count[i]) of the flat gradient
 * buffer, in elements. The ranges have no gaps between them, and are in the order in which the
 * backward pass finishes the gradients. Each bucket begins with the beginning of a parameter. */
struct gt_buckets {
	int64_t *first, *count;
	char (*name)[GT_BUCKET_NAME]; /* "bucket 3", for messages */
	size_t size;                  /* number of buckets */
};

/* Allocate memory for the largest number of buckets that a store can have, one for each slot. The
 * caller calls gt_buckets_release() in any case. Errors: GT_ENOMEM. */
int gt_buckets_alloc(struct gt_buckets *out, const struct gt_store *store, struct gt_err *err);

/* Return the size in elements at which bucket `i` is closed, if buckets should have `bytes` bytes.
 * The first bucket is closed at 1 MiB at the latest, which lets its collective start early. */
int64_t gt_buckets_limit(const struct gt_store *store, size_t i, int64_t bytes);

/* Divide the store into buckets of about `bytes` bytes each. A bucket is closed with the parameter
 * that reaches gt_buckets_limit(); a parameter is never divided. The caller calls
 * gt_buckets_release() in any case. */
int gt_buckets_cut(
    struct gt_buckets *out, const struct gt_store *store, int64_t bytes, struct gt_err *err);
void gt_buckets_release(struct gt_buckets *b);

/* Return the index of the bucket that contains the element at `offset`. */
size_t gt_buckets_find(const struct gt_buckets *b, int64_t offset);

/* Return an array [b->size] for a graph that has been through its passes, or NULL on error. Element
 * i is the number of nodes, counted from the start of the list, after which all gradients of bucket
 * i are complete; 0 if no node writes the bucket. The caller frees the array. */
size_t *gt_buckets_ends(const struct gt_buckets *b, const struct gt_store *store,
    const struct gt_graph *g, struct gt_err *err);

/* Allocate the list p->events, which profiles read. In a step each bucket is reduced once, and
 * gathered up to `gathers` times. If the data axis has one seat, the list stays empty. */
int gt_buckets_events(
    struct gt_parallel *p, const struct gt_buckets *b, int gathers, struct gt_err *err);

/* Return the record of the time span of one collective of a bucket: the reduction (gather 0), or
 * the gather number `gather` (1 to `gathers`). Returns NULL if p->events is empty. */
struct gt_span *gt_buckets_span(
    const struct gt_parallel *p, const struct gt_buckets *b, int bucket, int gather);

#endif
