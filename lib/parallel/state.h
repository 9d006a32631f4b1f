/* state.h - private: the state of a rank, for all axes of the grid of ranks. */
#ifndef GT_PARALLEL_STATE_H
#define GT_PARALLEL_STATE_H

#include <pthread.h>

#include "lib/comm/device_group.h"
#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

struct gt_parallel_mode; /* lib/parallel/data/modes.h */

/* The state of a rank, for all axes (axis.h). Kernels find it in call->context. */
struct gt_parallel {
	const struct gt_parallel_mode *mode;
	struct gt_parallel_options o;
	struct gt_group *world; /* all ranks; `nobody` in a dry run */
	bool dry;               /* allocate no memory, and call no functions of groups */
	/* a group without functions, for a dry run */
	struct gt_group nobody;
	/* the groups of axes, or their `seats` if there is none */
	struct gt_group *axes[GT_AXES];
	/* groups with only a rank, the seat on the axis, and a size */
	struct gt_group seats[GT_AXES];
	/* see gt_parallel_results() */
	struct gt_group *results;
	/* the groups above for device memory, from gt_parallel_attach() on; they may be the same */
	struct gt_group *device_world, *device_axes[GT_AXES], *device_results;
	/* the kind of the groups for device memory (lib/comm/device_group.h) */
	struct gt_device_way way;
	struct gt_store *store;
	/* dp: rank 0 has not sent its changed weights yet */
	bool stale;
	struct gt_parallel_event *events;  /* gt_buckets_events(), or NULL */
	size_t event_count, event_buckets; /* and the buckets that they are of */
	/* set by gt_parallel_watch(): measures collectives, and gets their time spans; or NULL */
	struct gt_marks *marks;
	struct gt_span *spans;
	void *axis_state[GT_AXES]; /* private to each axis; or NULL */
	bool divides_rows;         /* sequence axis: ranks divide rows */
	/* replicas.c: checksums of weights, [1 + data seats][slots], this rank's in row 0; or
	 * NULL */
	uint32_t *sums;
	/* norm.c: ranges of store->gradients whose squares this rank adds */
	struct gt_part *norm_ranges;
	size_t norm_range_count;
	/* another rank adds the squares of some of this rank's gradients */
	bool counts_some;
	/* norm.c: sums of squares, in device memory; NULL unless counts_some */
	struct gt_step_scalars *scalars;
	pthread_mutex_t fetching;       /* held during gt_parallel_fetch() */
	const struct gt_device *device; /* outlives the store */
	struct gt_plan_extra extra;     /* kernels of this module's nodes */
};

#endif
