/* trace.h - private: record losses, gradients and weights of a run; compare other runs. */
#ifndef GT_TRAIN_VERIFY_TRACE_H
#define GT_TRAIN_VERIFY_TRACE_H

#include "lib/train/state.h"
#include "lib/train/verify/verify.h"

/* A parameter in the flat buffers of the recorded run: elements [offset, offset + count) of each
 * flat buffer (lib/store/store.h). */
struct gt_trace_tensor {
	char *name;
	int64_t offset, count;
};

/* The trace of a run: its losses, gradients and weights in each step. The run is on one rank, which
 * holds the whole model. */
struct gt_trace {
	int64_t samples; /* number of samples in the run's data; 0: no run is recorded */
	/* A micro-batch of all ranks has ranks * batch samples (struct gt_verify_options). A run on
	 * several ranks computes it on all ranks at once. This run splits it into `parts` equal
	 * parts, and computes one part after the other. */
	int parts;
	struct gt_trace_tensor *tensors; /* [count], all parameters */
	size_t count;
	int64_t flat; /* number of elements of a flat buffer */
	double loss[GT_VERIFY_STEPS];
	float *gradients; /* [GT_VERIFY_STEPS, flat] */
	float *weights;   /* [GT_VERIFY_STEPS + 1, flat]; row 0: before the first step */
};

void gt_trace_release(struct gt_trace *trace);

/* The elements of the gradients, or of the parameters, that one rank of a run holds. */
struct gt_watched {
	const struct gt_plane *plane;
	int64_t count; /* elements of the plane's memory */
	/* [count]: element i belongs to gt_trace.tensors[tensor[i] - 1]; 0: padding */
	uint32_t *tensor;
	float *wanted; /* [count] values from the trace */
	float *held;   /* [count] values of this rank, copied to the host */
};

/*
 * The state of an observer (lib/train/report/observer.h) of one rank in a run. The observer either
 * records the trace, or compares values of this rank with the trace: the loss, and the gradients
 * and weights that the rank holds.
 *
 * The rank cuts its shards out of the tensors in the trace, in the same way as when it loads a
 * checkpoint (gt_parallel_scatter_slot()). The shards from the trace are the expected values. The
 * comparison does not use collectives, so faults in collectives cannot change its result.
 */
struct gt_watcher {
	const struct gt_train *t;
	struct gt_trace *trace;
	bool records; /* record the trace; otherwise compare with it */
	struct gt_watched gradients, weights;
	/* [trace->count] scratch memory for one comparison: largest difference of each tensor */
	double *differences;
	struct gt_verify_row row; /* the findings of this rank */
	/* Index of the first difference (row.what) among the comparisons of its step. The order of
	 * comparisons is: the gradient of each tensor, the loss, the weight of each tensor. */
	size_t comparison;
};

/* Return the observer of a watcher. The caller sets the fields t, trace and records, and, in
 * `row`, the bounds and good = true. */
struct gt_observer gt_watcher_observer(struct gt_watcher *w);
void gt_watcher_release(struct gt_watcher *w);

/* Add the findings w->row of a rank to *row, the findings of all ranks: keep the largest
 * differences, and the first difference that is not within bounds. *comparison is the index of this
 * first difference among the comparisons of its step (gt_watcher.comparison). */
void gt_watcher_add(struct gt_verify_row *row, size_t *comparison, const struct gt_watcher *w);

#endif
