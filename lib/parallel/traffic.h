/* traffic.h - the communication of a plan's nodes and of a step, for predictions of its time. */
#ifndef GT_PARALLEL_TRAFFIC_H
#define GT_PARALLEL_TRAFFIC_H

#include "lib/parallel/parallel.h"

/* What a node does with other ranks. */
enum gt_traffic_role {
	GT_TRAFFIC_NONE,    /* nothing: it computes */
	GT_TRAFFIC_CALL,    /* a collective for which later nodes wait */
	GT_TRAFFIC_START,   /* begin a collective in the background */
	GT_TRAFFIC_WAIT,    /* wait for the collective `id`, or, if it is -1, for all */
	GT_TRAFFIC_SEND,    /* begin to send a message over link `id` */
	GT_TRAFFIC_RECEIVE, /* receive a message over link `id` */
	GT_TRAFFIC_SENT,    /* wait until the latest message over link `id` is received */
	GT_TRAFFIC_ROLES
};

/* The links of a stage of a pipeline to its neighbors. A message that one stage sends over
 * GT_LINK_TO_NEXT is received by the next one over GT_LINK_FROM_BEFORE, and a gradient that it
 * sends over GT_LINK_TO_BEFORE by the one before over GT_LINK_FROM_NEXT. */
enum gt_traffic_link {
	GT_LINK_FROM_BEFORE,
	GT_LINK_TO_NEXT,
	GT_LINK_FROM_NEXT,
	GT_LINK_TO_BEFORE,
	GT_LINKS
};

struct gt_traffic {
	enum gt_traffic_role role;
	enum gt_collective_kind kind; /* of a collective */
	enum gt_axis axis;            /* the ranks of the group differ in their seat on this axis */
	int ranks, apart; /* number of these ranks; distance of neighbors in the world */
	/* Bytes of the larger buffer: that of all ranks for a reduce-scatter or an all-gather.
	 * With several `calls`, of all together. */
	int64_t bytes;
	int calls; /* collectives of about the same size, one after the other */
	int id;
};

/* Describe a node of a graph of gt_parallel_insert(). Errors: GT_ENOTSUP for nodes of a mode in
 * which rank 0 reads for all, and for gradients that stages exchange chunk by chunk. */
int gt_parallel_traffic(struct gt_traffic *out, const struct gt_parallel *p,
    const struct gt_node *node, struct gt_err *err);

/* When in a step the collectives outside of plans are called. */
enum gt_traffic_time {
	GT_TRAFFIC_BEFORE, /* before the first micro-batch */
	GT_TRAFFIC_AGREE,  /* behind the last one */
	GT_TRAFFIC_NORM,   /* when the gradients' norm is computed, before the update */
	GT_TRAFFIC_UPDATE, /* during the update */
	GT_TRAFFIC_UPDATED /* behind the update */
};

enum { GT_STEP_TRAFFIC = 1 + GT_AXES }; /* the most collectives of one time */

/* Write the collectives of a time to out[GT_STEP_TRAFFIC], and return their number. */
int gt_parallel_step_traffic(
    struct gt_traffic *out, const struct gt_parallel *p, enum gt_traffic_time time);

/* Return the bytes that each rank of the group sends. */
double gt_traffic_sent(const struct gt_traffic *traffic);

#endif
