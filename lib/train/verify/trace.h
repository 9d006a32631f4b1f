/* trace.h - inside train: the trace of a run on one rank, and comparisons with it. */
#ifndef GT_TRAIN_VERIFY_TRACE_H
#define GT_TRAIN_VERIFY_TRACE_H

#include "lib/train/state.h"
#include "lib/train/verify/verify.h"

struct gt_trace_tensor {
	char *name;
	int64_t offset, count; /* in the flat layout of one rank */
};

/* The losses, gradients and weights in each step of a run on one rank, which holds the whole
 * model. */
struct gt_trace {
	int64_t samples; /* samples that the run trains on; 0: nothing is recorded */
	/* number of parts into which one rank divides a micro-batch of all ranks */
	int parts;
	struct gt_trace_tensor *tensors;
	size_t count;
	int64_t flat;
	double loss[GT_VERIFY_STEPS];
	float *gradients; /* [steps, flat] */
	float *weights;   /* [steps + 1, flat]: row 0 is before the first step */
};

void gt_trace_release(struct gt_trace *trace);

/* A rank's part of the flat gradients or parameters: each element has the number of its tensor,
 * from 1 on, or 0 for padding, and its expected value. */
struct gt_watched {
	int64_t count;
	uint32_t *tensor; /* [count] */
	float *wanted;    /* [count] */
	float *held;      /* [count], a copy */
};

/*
 * One rank of a run. It records the trace, or compares its own shards with the trace. To find the
 * expected values of its shards, a rank cuts the trace like weights from a file. Ranks do not
 * communicate for the comparison, so faults in collectives cannot change its result.
 */
struct gt_watcher {
	const struct gt_train *t;
	struct gt_trace *trace;
	bool records;
	struct gt_watched gradients, weights;
	double *far; /* [trace->count], for one comparison */
	struct gt_verify_row row;
	size_t place; /* position of the row's difference among the comparisons of its step */
};

/* The watcher's callbacks; fill in t, trace and records. */
struct gt_observer gt_watcher_observer(struct gt_watcher *w);
void gt_watcher_release(struct gt_watcher *w);

/* Add a rank's findings to the findings of all ranks: keep the largest differences and the first
 * mistake. */
void gt_watcher_add(struct gt_verify_row *row, size_t *place, const struct gt_watcher *w);

#endif
