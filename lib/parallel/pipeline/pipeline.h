/* pipeline.h - pipeline parallelism: each rank holds one of several consecutive model stages. */
#ifndef GT_PARALLEL_PIPELINE_PIPELINE_H
#define GT_PARALLEL_PIPELINE_PIPELINE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/* A pipeline: the forward graph is cut into stages, one for each rank of the axis, that send values
 * forward and gradients backward (pipe_send, pipe_recv), chunk by chunk of a batch. Parameters of
 * several stages are called tied. pipeline.c says more. Sources: GPipe, arXiv 1811.06965; 1F1B,
 * arXiv 2006.09503 and 2104.04473. */

/* A pass of one chunk through a stage. */
struct gt_pipeline_task {
	int chunk;
	bool backward;
};

/* Write the tasks of a stage to tasks[2 * chunks], in their order. Backward passes begin with chunk
 * 0. */
void gt_pipeline_order(struct gt_pipeline_task *tasks, enum gt_pipeline_schedule schedule,
    int stages, int stage, int chunks);

/* ---- stages: pipeline/cut.c ---- */

/* The division of a model into stages. */
struct gt_pipeline_cut {
	int stages;
	/* [stages]; a stage begins with the first reader of this parameter */
	const char **first;
	double *flops; /* [stages]; FLOPs of the forward pass */
};

/* A byte that a stage sends or receives counts as this many FLOPs. Machines do 10 to 1000 FLOPs in
 * the time of sending a byte; but they do so while they send. */
enum { GT_PIPELINE_FLOPS_PER_BYTE = 16 };

/* Divide a forward graph so that the most FLOPs of a stage are as few as possible. The cuts suit
 * all graphs of the model. The caller calls gt_pipeline_cut_release(). Errors: GT_EINVAL if there
 * are too few places. */
int gt_pipeline_cut(
    struct gt_pipeline_cut *out, const struct gt_graph *g, int stages, struct gt_err *err);
void gt_pipeline_cut_release(struct gt_pipeline_cut *cut);

/* Return the stages, borrowed from `p`, which has a pipeline. */
const struct gt_pipeline_cut *gt_pipeline_stages(const struct gt_parallel *p);

#endif
