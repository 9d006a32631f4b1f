/* state.h - private: the state of a rank, for all axes of the grid of ranks. */
#ifndef GT_PARALLEL_STATE_H
#define GT_PARALLEL_STATE_H

#include <pthread.h>

#include "lib/comm/device_group.h"
#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

struct gt_parallel_mode; /* lib/parallel/data/modes.h */

/* The state of one rank, for all axes of the grid of ranks (lib/parallel/axis.h). Kernels find this
 * struct in call->context. */
struct gt_parallel {
	const struct gt_parallel_mode *mode; /* mode of the data axis */
	struct gt_parallel_options o;
	struct gt_group *world; /* all ranks; in a dry run it points to `nobody` */
	bool dry;               /* a dry run: allocate no memory, and call no function of a group */
	/* dry run: a group without functions; its rank and size are o.rank and o.ranks */
	struct gt_group nobody;
	/* axes[i] is the group of the ranks on axis i. If this group does not exist, axes[i] points
	 * to seats[i]. */
	struct gt_group *axes[GT_AXES];
	/* Groups without functions. Each has only a rank, the seat of this rank on the axis, and a
	 * size, the number of seats on the axis. */
	struct gt_group seats[GT_AXES];
	/* the group over which losses and statistics are summed (gt_parallel_results()) */
	struct gt_group *results;
	/* Groups for device memory, with the same ranks as world, axes and results. They exist from
	 * gt_parallel_attach() on. Kernels pass them a stream. If device memory is host memory,
	 * they are the groups above. */
	struct gt_group *device_world, *device_axes[GT_AXES], *device_results;
	/* the kind of the groups for device memory (lib/comm/device_group.h) */
	struct gt_device_way way;
	struct gt_store *store;
	/* mode dp: rank 0's weights have changed since rank 0 last sent them to all ranks */
	bool stale;
	struct gt_parallel_event *events; /* [event_count], see gt_buckets_events(); or NULL */
	size_t event_count;
	/* set by gt_parallel_watch(): `marks` measures the time span of each collective, which is
	 * then written to `spans`; marks NULL: no measurement */
	struct gt_marks *marks;
	struct gt_span *spans;
	void *axis_state[GT_AXES]; /* private to each axis, see its folder; NULL: it has none */
	bool divides_rows;         /* sequence axis: a graph has rows that ranks divide */
	/* Checksums of the weights, [1 + ranks of the data axis][slots], for replicas.c. Row 0 has
	 * the checksums of this rank. Rows 1, 2, ... have those of all ranks of the data axis.
	 * NULL: weights are not compared. */
	uint32_t *sums;
	/* For norm.c, which computes the norm of the gradients: the ranges of the gradients whose
	 * squares this rank adds to the norm. norm_ranges[i].at is the index in store->gradients of
	 * the first element of range i. */
	struct gt_part *norm_ranges;
	size_t norm_range_count;
	/* this rank also holds gradients whose squares another rank adds to the norm */
	bool counts_some;
	/* device memory in which norm.c sums the squares of norm_ranges; NULL if counts_some is
	 * false */
	struct gt_step_scalars *scalars;
	pthread_mutex_t fetching; /* held by the thread that gathers for gt_parallel_fetch() */
	const struct gt_device *device; /* the store's device; the store is freed first */
	struct gt_plan_extra extra;     /* kernels of the nodes that this module inserts */
};

#endif
