/* pipeline.h - pipeline parallelism: ranks that hold consecutive stages of a model. */
#ifndef GT_PARALLEL_PIPELINE_PIPELINE_H
#define GT_PARALLEL_PIPELINE_PIPELINE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/*
 * The forward graph is cut into consecutive stages, one for each rank of the pipeline axis. A stage
 * begins with the first reader of a parameter, at a place where exactly one computed value passes
 * from the earlier to the later nodes. Inputs (targets, random numbers) exist on all ranks. That
 * value is sent by node `pipe_send` and received by `pipe_recv`, and its gradient comes back the
 * same way: each is the other's gradient. A stage that does not make the loss (or the statistics of
 * an evaluation) has a zero of that name instead, so that the sum over all ranks is the model's.
 *
 * A batch is divided into chunks, whose gradients are added up. While one stage works on a chunk,
 * other stages work on other chunks. With P stages and C chunks, a stage waits (P - 1) / (C + P -
 * 1) of the time.
 *
 * A parameter that several stages read (an embedding that is the head too) is held by each; their
 * gradients are added up once a step, so that copies stay the same. In reproducible training chunks
 * are virtual ranks (virtual/rewrite.h), and each sends such gradients to the first of the stages.
 *
 * Sources: GPipe, Huang et al., arXiv 1811.06965; 1F1B, Narayanan et al., arXiv 2006.09503
 * (PipeDream-Flush) and 2104.04473.
 */

/* One pass through a chunk. */
struct gt_pipeline_task {
	int chunk;
	bool backward;
};

/*
 * The tasks of stage `stage` of `stages` for `chunks` chunks: tasks[2 * chunks], in order.
 *
 * GPipe: all chunks forward, then all backward. 1F1B: as many chunks forward as there are later
 * stages, then one forward and one backward in turn. So at most as many chunks are in progress as
 * there are stages, for any number of chunks. Both go backward with the first chunk first (in the
 * GPipe paper it is the last one, which takes as long): gradients are then added up in the order of
 * one rank that accumulates.
 *
 * Example: 1F1B with 3 stages and 4 chunks. F2 is chunk 2 forward, B2 backward, each one unit of
 * time. A stage waits (.) until its neighbour has sent the values or gradients that it reads.
 *
 *   time      1  2  3  4  5  6  7  8  9 10 11 12
 *   stage 0  F0 F1 F2  .  . B0 F3 B1  . B2  . B3
 *   stage 1   . F0 F1  . B0 F2 B1 F3 B2  . B3  .
 *   stage 2   .  . F0 B0 F1 B1 F2 B2 F3 B3  .  .
 *
 * Stage 0 keeps the values of at most 3 chunks for their backward pass, stage 2 of one. Each stage
 * waits (3 - 1) / (4 + 3 - 1) = 1/3 of the time. With GPipe the waits are as long, but stage 0
 * keeps the values of all 4 chunks.
 */
void gt_pipeline_order(struct gt_pipeline_task *tasks, enum gt_pipeline_schedule schedule,
    int stages, int stage, int chunks);

/* ---- stages: pipeline/cut.c ---- */

struct gt_pipeline_cut {
	int stages;
	const char **first; /* [stages] the parameter whose first reader begins it */
	double *flops;      /* [stages] of the graph that was cut, forward */
};

/*
 * Divide a forward graph into stages so that the largest work of a stage is as small as possible.
 * The places of division are recorded as names of parameters, so that graphs of other batch sizes
 * and purposes are divided in the same way. (The backward pass is about twice the forward pass
 * everywhere, so it changes nothing.) Owned by the caller. Errors: GT_EINVAL when there are not so
 * many places.
 */
int gt_pipeline_cut(
    struct gt_pipeline_cut *out, const struct gt_graph *g, int stages, struct gt_err *err);
void gt_pipeline_cut_release(struct gt_pipeline_cut *cut);

/* The stages as chosen for the graph of the store. */
const struct gt_pipeline_cut *gt_pipeline_stages(const struct gt_parallel *p);

#endif
