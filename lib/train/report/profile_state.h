/* profile_state.h - private: the events of a profile, and what is made of them. */
#ifndef GT_TRAIN_REPORT_PROFILE_STATE_H
#define GT_TRAIN_REPORT_PROFILE_STATE_H

#include "lib/base/file.h"
#include "lib/train/report/limits.h"
#include "lib/train/report/profile.h"
#include "lib/train/state.h"

enum gt_event_kind {
	GT_EVENT_STEP, /* a step, a phase of it, or work of a host that is the device */
	GT_EVENT_KERNEL,
	GT_EVENT_COLLECTIVE, /* in the background */
	GT_EVENT_COPY,       /* of a batch to the device */
	GT_EVENT_READ,       /* of a batch, by a thread of the loader */
	GT_EVENT_HOST,       /* work of the host, where a device works later than the host */
	GT_EVENT_KINDS
};

/* The rows of a trace. Events of one row come one after the other, or lie within each other, as a
 * row has the work of one stream or of one thread. */
enum gt_profile_row {
	GT_ROW_COMPUTE,      /* the compute stream; on a CPU, the thread of the training loop */
	GT_ROW_COLLECTIVES,  /* kernels of the stream for collectives */
	GT_ROW_COPIES,       /* the copy stream */
	GT_ROW_HOST,         /* the thread of the training loop, if a device works later */
	GT_ROW_COMMUNICATOR, /* one for each axis of ranks */
	GT_ROW_LOADER,       /* one for each thread */
	GT_PROFILE_ROWS
};

struct gt_profile_event {
	enum gt_event_kind kind;
	enum gt_profile_row row;
	int number; /* of the row: enum gt_axis of a communicator, thread of the loader */
	const char *name;
	const struct gt_step *step; /* of a kernel; else NULL */
	/* kernels: bytes of temporaries in use; steps: memory of the rank; copies and reads: bytes
	 * of the batch */
	uint64_t bytes;
	/* collectives: index in gt_parallel_events(), and the events of the plan that it was
	 * beside */
	int collective;
	size_t kernels, kernels_end;
};

/* A plan, and gt_plan_live(). */
struct gt_plan_memory {
	const struct gt_plan *plan;
	size_t *live;
};

struct gt_profile {
	struct gt_profile_options o;
	struct gt_train *t;
	struct gt_profile_summary *summary;
	struct gt_profile_event *events; /* [capacity] */
	struct gt_span *spans;           /* [capacity], of the events; marks fill them later */
	/* The events [base, count) are recorded; those below `base` are of a step of the warm-up.
	 * per_step: the most events of a step. */
	size_t base, count, capacity, per_step;
	struct gt_marks *marks;
	struct gt_plan_memory plans[2];
	uint64_t gpu_bytes;          /* see gt_report_memory() */
	struct gt_limits limits;     /* from the end of the first cycle on */
	size_t step, phase, copy;    /* the events of this step, and of its last phase and copy */
	double began;                /* when the host began this step */
	double looked;               /* when the background was last asked */
	size_t kernels, kernels_end; /* the events of the last run of a plan */
	int64_t index;               /* of this step in the run */
	bool on, active;             /* this step is recorded; and it is not one of the warm-up */
	double finish_s;             /* time for the end of a cycle in this step */
	/* of all recorded steps of the run, and of others; without its first step */
	double recorded_s, other_s;
	int64_t recorded, others;
};

/* the names of the event of a whole step, and of the time in which the host queues a step that a
 * device does later */
#define GT_PROFILE_STEP     "step"
#define GT_PROFILE_QUEUEING "queue step"

/* Return whether an event was done: a node of another run of the plan was not. */
bool gt_profile_has(const struct gt_profile *p, size_t event);

/* ---- profile_trace.c ---- */

/* Write the events as a trace, compressed. */
int gt_profile_write(const struct gt_profile *p, struct gt_file_name file, struct gt_err *err);

/* ---- profile_sums.c ---- */

/* Return the seconds that the limits of the device give to an event, and which limit that is; 0 if
 * it is not known. */
double gt_profile_limit(
    enum gt_cost_bound *bound, const struct gt_profile *p, const struct gt_profile_event *event);

/* Set the members of *s that are sums over the events. Log them, the most expensive ops, and what
 * bounds a step. */
int gt_profile_sum_up(const struct gt_profile *p, struct gt_profile_summary *s, struct gt_err *err);

#endif
