/* trace.h - inside train: the trace of one rank, and how far ranks of a mode are from it. */
#ifndef GT_TRAIN_VERIFY_TRACE_H
#define GT_TRAIN_VERIFY_TRACE_H

#include "lib/train/state.h"
#include "lib/train/verify/verify.h"

struct gt_trace_tensor {
	char *name;
	int64_t offset, count; /* in the flat layout of one rank */
};

/* The steps of one rank, which holds everything. */
struct gt_trace {
	int64_t samples; /* trained on; 0: nothing is recorded */
	int parts;       /* micro-batches that one of all ranks was taken in */
	struct gt_trace_tensor *tensors;
	size_t count;
	int64_t flat;
	double loss[GT_VERIFY_STEPS];
	float *gradients; /* [steps, flat] */
	float *weights;   /* [steps + 1, flat]: the first ones before any step */
};

void gt_trace_release(struct gt_trace *trace);

/* A rank's part of the flat gradients or parameters: for each element the number of its tensor,
 * from 1 on, or 0, and the value that it should have. */
struct gt_watched {
	int64_t count;
	uint32_t *tensor; /* [count] */
	float *wanted;    /* [count] */
	float *held;      /* [count], a copy */
};

/*
 * One rank of a run: it makes the trace, or compares its own part with it. Ranks hold parts, and
 * each gets the part of the trace that the mode gives it of weights from a file. No rank asks
 * another, so that a fault in collectives does not get into the comparison.
 */
struct gt_watcher {
	const struct gt_train *t;
	struct gt_trace *trace;
	bool records;
	struct gt_watched gradients, weights;
	double *far; /* [trace->count], for one comparison */
	struct gt_verify_row row;
	size_t place; /* of the row's difference: which comparison of its step it was */
};

/* The watcher's callbacks; fill in t, trace and records. */
struct gt_observer gt_watcher_observer(struct gt_watcher *w);
void gt_watcher_release(struct gt_watcher *w);

/* Add a rank's findings to those of all: the largest differences, the first mistake. */
void gt_watcher_add(struct gt_verify_row *row, size_t *place, const struct gt_watcher *w);

#endif
