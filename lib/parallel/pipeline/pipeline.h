/* pipeline.h - pipeline parallelism: each rank holds one of several consecutive model stages. */
#ifndef GT_PARALLEL_PIPELINE_PIPELINE_H
#define GT_PARALLEL_PIPELINE_PIPELINE_H

#include "lib/parallel/parallel.h"
#include "lib/parallel/virtual/replicate.h"

/*
 * The forward graph is cut into consecutive stages, one for each rank of the pipeline axis (enum
 * gt_axis). Each stage except the first begins at a node that is the first reader of a parameter.
 * The graph is cut only where exactly one computed value passes from earlier to later nodes. Inputs
 * (targets, random numbers) exist on all ranks.
 *
 * At each cut, a node `pipe_send` of the earlier stage sends the computed value, and a node
 * `pipe_recv` of the later stage receives it. In the backward pass the gradient of the value is
 * sent back: the gradient of a pipe_send node is a pipe_recv node, and the gradient of a pipe_recv
 * node is a pipe_send node. Only the last stage computes the loss, or the statistics of an
 * evaluation. The other stages have an output with the same name and the value zero. So the sum of
 * this output over all stages is the model's result.
 *
 * A batch is divided into chunks, and the gradients of the chunks are added up. While one stage
 * works on a chunk, other stages work on other chunks. With P equally fast stages and C chunks, a
 * stage waits for its neighbors during (P - 1) / (C + P - 1) of the time.
 *
 * A parameter that several stages read is called tied. Each of these stages holds a copy of the
 * parameter. An example is an embedding table that is also the output layer. At the end of each
 * step, these stages add up their gradients of the parameter, so the copies stay the same.
 * Reproducible training is different: chunks are virtual ranks (virtual/rewrite.h), and for each
 * chunk, the second of these stages sends its gradient to the first one (stage.h).
 *
 * Sources: GPipe, Huang et al., arXiv 1811.06965; 1F1B, Narayanan et al., arXiv 2006.09503
 * (PipeDream-Flush) and 2104.04473.
 */

/* The forward or the backward pass of one chunk on one stage. */
struct gt_pipeline_task {
	int chunk;     /* index of the chunk */
	bool backward; /* false: forward */
};

/*
 * Write the tasks of stage `stage` of `stages` stages, for `chunks` chunks, to tasks[2 * chunks],
 * in the order in which the stage runs them.
 *
 * GPipe: first the forward passes of all chunks, then all backward passes. 1F1B: first as many
 * forward passes as there are stages after this one, then alternately one forward and one backward
 * pass, and at the end the remaining backward passes. So with 1F1B, the number of chunks in
 * progress is at most the number of stages. In both schedules the backward passes begin with the
 * first chunk. So gradients are added up in the same order as on one rank that accumulates
 * micro-batches. (In the GPipe paper the backward passes begin with the last chunk; that order
 * takes the same time.)
 *
 * Example: 1F1B with 3 stages and 4 chunks. F2 is the forward pass of chunk 2, B2 its backward
 * pass; each takes one unit of time. A dot means that the stage waits for a neighbor.
 *
 *   time      1  2  3  4  5  6  7  8  9 10 11 12
 *   stage 0  F0 F1 F2  .  . B0 F3 B1  . B2  . B3
 *   stage 1   . F0 F1  . B0 F2 B1 F3 B2  . B3  .
 *   stage 2   .  . F0 B0 F1 B1 F2 B2 F3 B3  .  .
 *
 * Stage 0 keeps the values of at most 3 chunks for their backward pass, and stage 2 keeps the
 * values of 1 chunk. Each stage waits for (3 - 1) / (4 + 3 - 1) = 1/3 of the time. With GPipe the
 * stages wait for the same time, but each stage keeps the values of all 4 chunks.
 */
void gt_pipeline_order(struct gt_pipeline_task *tasks, enum gt_pipeline_schedule schedule,
    int stages, int stage, int chunks);

/* ---- stages: pipeline/cut.c ---- */

/* The division of a model into stages. */
struct gt_pipeline_cut {
	int stages;
	/* [stages]: for each stage, the name of a parameter. The stage begins with the first node
	 * that reads this parameter. */
	const char **first;
	double *flops; /* [stages]: FLOPs of the forward pass, in the graph that was cut */
};

/*
 * Divide a forward graph into stages, so that the FLOPs of the largest stage are as few as
 * possible. Only the FLOPs of the forward pass are counted, because in each stage the backward pass
 * takes about twice as many. The places of the cuts are stored as names of parameters. So graphs of
 * the model for other batch sizes, or for evaluation, can be cut at the same places. The caller
 * calls gt_pipeline_cut_release() on *out. Errors: GT_EINVAL if the graph has too few places where
 * it can be cut; GT_ENOMEM.
 */
int gt_pipeline_cut(
    struct gt_pipeline_cut *out, const struct gt_graph *g, int stages, struct gt_err *err);
void gt_pipeline_cut_release(struct gt_pipeline_cut *cut);

/* Return the stages of the model. The result is borrowed from `p`, which must have a pipeline. */
const struct gt_pipeline_cut *gt_pipeline_stages(const struct gt_parallel *p);

#endif
