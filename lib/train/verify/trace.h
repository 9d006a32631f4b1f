/* trace.h - private: record losses, gradients and weights of a run; compare other runs. */
#ifndef GT_TRAIN_VERIFY_TRACE_H
#define GT_TRAIN_VERIFY_TRACE_H

#include "lib/train/state.h"
#include "lib/train/verify/verify.h"

/* A parameter: elements [offset, offset + count) of a flat buffer (lib/store/store.h). */
struct gt_trace_tensor {
	char *name;
	int64_t offset, count;
};

/* The losses, gradients and weights of each step of a run on one rank. */
struct gt_trace {
	int64_t samples; /* 0: no run is recorded */
	/* number of equal parts in which this run computes a micro-batch of all ranks */
	int parts;
	struct gt_trace_tensor *tensors; /* [count] */
	size_t count;
	int64_t flat; /* elements of a flat buffer */
	double loss[GT_VERIFY_STEPS];
	float *gradients; /* [GT_VERIFY_STEPS, flat] */
	float *weights;   /* [GT_VERIFY_STEPS + 1, flat]; row 0: before the first step */
};

void gt_trace_release(struct gt_trace *trace);

/* The gradients or parameters that a rank holds. */
struct gt_watched {
	const struct gt_plane *plane;
	int64_t count;
	/* [count]: element i belongs to gt_trace.tensors[tensor[i] - 1]; 0: padding */
	uint32_t *tensor;
	float *wanted; /* [count] values of the trace */
	float *held;   /* [count] values of this rank, on the host */
};

/* An observer of one rank, which records the trace or compares with it. It cuts its shards out of
 * the trace without collectives, as when it loads a checkpoint, so that faults in collectives
 * cannot hide. */
struct gt_watcher {
	const struct gt_train *t;
	struct gt_trace *trace;
	bool records; /* record the trace; otherwise compare with it */
	struct gt_watched gradients, weights;
	/* [trace->count] largest difference of each tensor */
	double *differences;
	struct gt_verify_row row; /* findings of this rank */
	/* index of row.what in its step: gradient of each tensor, loss, weight of each tensor */
	size_t comparison;
};

/* Return the observer. The caller sets t, trace, records and, in `row`, the bounds and good =
 * true. */
struct gt_observer gt_watcher_observer(struct gt_watcher *w);
void gt_watcher_release(struct gt_watcher *w);

/* Add w->row to *row, the row of all ranks: keep the largest differences, and the first one beyond
 * bounds, whose index in its step is *comparison. */
void gt_watcher_add(struct gt_verify_row *row, size_t *comparison, const struct gt_watcher *w);

#endif
