/* buckets.h - private: buckets, the ranges of gradients that one collective sums. */
#ifndef GT_PARALLEL_DATA_BUCKETS_H
#define GT_PARALLEL_DATA_BUCKETS_H

#include "lib/parallel/state.h"

enum { GT_BUCKET_NAME = 32 };

/* A list of buckets. Bucket i is the range [first[i], first[i] + count[i]) of the flat gradient
 * buffer (lib/store/store.h), in elements. The ranges have no gaps between them, and are in the
 * order in which the backward pass finishes the gradients. Each bucket begins where the gradient of
 * a parameter begins. */
struct gt_buckets {
	int64_t *first, *count;
	char (*name)[GT_BUCKET_NAME]; /* "bucket 3", for messages */
	size_t size;                  /* number of buckets */
};

/* Allocate memory for the largest number of buckets that a store can have, one for each slot
 * (struct gt_slot). The caller calls gt_buckets_release() in any case, even after an error. Errors:
 * GT_ENOMEM. */
int gt_buckets_alloc(struct gt_buckets *out, const struct gt_store *store, struct gt_err *err);

/* Return the size limit of bucket `i` in elements. `bytes` is the wanted size of buckets. A bucket
 * that has reached its limit is closed: no more parameters are added to it. The limit of the first
 * bucket is at most 1 MiB, so that its collective can start early. */
int64_t gt_buckets_limit(const struct gt_store *store, size_t i, int64_t bytes);

/* Divide the store into buckets of about `bytes` bytes each. A bucket ends with the parameter that
 * reaches gt_buckets_limit(); a parameter is never divided. The caller calls gt_buckets_release()
 * in any case. */
int gt_buckets_cut(
    struct gt_buckets *out, const struct gt_store *store, int64_t bytes, struct gt_err *err);
void gt_buckets_release(struct gt_buckets *b);

/* Return the index of the bucket that contains the element at `offset`. */
size_t gt_buckets_find(const struct gt_buckets *b, int64_t offset);

/* Return an array [b->size], or NULL on error. Call this after all passes that change the graph. If
 * element i is n, all gradients of bucket i are complete after the first n nodes of the graph. n is
 * 0 if no node writes the bucket. The caller frees the array. */
size_t *gt_buckets_ends(const struct gt_buckets *b, const struct gt_store *store,
    const struct gt_graph *g, struct gt_err *err);

/* Allocate p->events, the list of the collectives of a step, which the profiler reads. In a step
 * each bucket is reduced by one collective, and gathered by up to `gathers` collectives. If the
 * data axis has only one rank, the list stays empty. */
int gt_buckets_events(
    struct gt_parallel *p, const struct gt_buckets *b, int gathers, struct gt_err *err);

/* Return the memory that receives the time span of one collective of a bucket: in p->spans while
 * collectives are watched (gt_parallel_watch()), otherwise in p->events. `gather` is 0 for the
 * reduction, and 1, 2, ... for the gathers. Returns NULL if p->events is empty. */
struct gt_span *gt_buckets_span(
    const struct gt_parallel *p, const struct gt_buckets *b, int bucket, int gather);

#endif
