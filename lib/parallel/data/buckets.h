/* buckets.h - private: buckets, the ranges of gradients that one collective sums. */
#ifndef GT_PARALLEL_DATA_BUCKETS_H
#define GT_PARALLEL_DATA_BUCKETS_H

#include "lib/parallel/state.h"

enum { GT_BUCKET_NAME = 32 };

/* Buckets: ranges [first[i], first[i] + count[i]) of the flat gradients (lib/store/store.h), in
 * elements, without gaps, in the order in which the backward pass finishes them. None divides a
 * parameter. */
struct gt_buckets {
	int64_t *first, *count;
	char (*name)[GT_BUCKET_NAME]; /* the name in messages: "bucket 3" */
	size_t size;                  /* number of buckets */
};

/* Allocate a bucket for each slot. The caller calls gt_buckets_release() in any case. */
int gt_buckets_alloc(struct gt_buckets *out, const struct gt_store *store, struct gt_err *err);

/* Return how many elements close bucket `i`, for buckets of about `bytes` bytes. */
int64_t gt_buckets_limit(const struct gt_store *store, size_t i, int64_t bytes);

/* Divide the store into such buckets. The caller calls gt_buckets_release() in any case. */
int gt_buckets_cut(
    struct gt_buckets *out, const struct gt_store *store, int64_t bytes, struct gt_err *err);
void gt_buckets_release(struct gt_buckets *b);

/* Return the bucket of an element. */
size_t gt_buckets_find(const struct gt_buckets *b, int64_t offset);

/* Return an array [b->size]: for each bucket, after how many nodes its gradients are complete. The
 * graph must be final. The caller frees the array. */
size_t *gt_buckets_ends(const struct gt_buckets *b, const struct gt_store *store,
    const struct gt_graph *g, struct gt_err *err);

/* Allocate p->events: a reduction and up to `gathers` gathers for each bucket; none for one
 * rank. */
int gt_buckets_events(
    struct gt_parallel *p, const struct gt_buckets *b, int gathers, struct gt_err *err);

/* Return where the time span of a bucket's collective goes, or NULL. `gather` is 0 for the
 * reduction. */
struct gt_span *gt_buckets_span(
    const struct gt_parallel *p, const struct gt_buckets *b, int bucket, int gather);

/* Return the data type in which gradients are sent: that of the store without `compress`. */
enum gt_dtype gt_buckets_sent_as(const struct gt_parallel *p);

/* Check that gradients can be sent in the type that `compress` names. Errors: GT_ENOTSUP. */
int gt_buckets_check_compress(
    const struct gt_parallel *p, const struct gt_store *store, struct gt_err *err);

/* Lend memory of the data axis's group to a plane. The caller gives *memory back by
 * gt_group_release(). */
int gt_buckets_lend(
    struct gt_parallel *p, struct gt_plane *plane, void **memory, struct gt_err *err);

/* Add a plane for all gradients as they are sent, for `compress`, and lend it memory. In a dry run
 * *memory is NULL. */
int gt_buckets_add_sent(
    struct gt_parallel *p, struct gt_store *store, void **memory, struct gt_err *err);

#endif
