/* zero.h - inside parallel: data parallelism whose ranks divide what ddp has on each of them. */
#ifndef GT_PARALLEL_ZERO_H
#define GT_PARALLEL_ZERO_H

#include "lib/parallel/buckets.h"
#include "lib/parallel/modes.h"

/*
 * Of each bucket (buckets.h) rank r owns the r-th of as many equal parts as there are ranks; the
 * layout is padded so that there are. A rank updates what it owns, and keeps optimizer state for
 * that alone. Then
 *
 *   zero1  Gradients are whole. A bucket is reduce-scattered in the background as soon as it is
 *          full; after the update the parameters are all-gathered. That is as many bytes as ddp's
 *          all-reduce, whose two halves these are.
 *
 * Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020 (arXiv 1910.02054).
 */
struct gt_zero {
	int stage;
	struct gt_buckets buckets;
	struct gt_part *parts;        /* [buckets.size] this rank's */
	void *gradients, *parameters; /* the store's, in memory of the group's; NULL: its own */
};

/* The mode's insert(): zero_nodes.c. */
int gt_zero_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

#endif
