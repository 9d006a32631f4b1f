/* schedule.c - in which order a stage goes through the chunks. */
#include "lib/parallel/pipeline/pipeline.h"

static void gpipe(struct gt_pipeline_task *tasks, int chunks)
{
	for (int i = 0; i < chunks; i++) {
		tasks[i] = (struct gt_pipeline_task){ i, false };
		tasks[chunks + i] = (struct gt_pipeline_task){ i, true };
	}
}

/*
 * Example: three stages, four chunks. f2 is chunk 2 forward, b2 backward.
 *
 *   stage 0, 2 behind   f0 f1   f2 b0 f3 b1   b2 b3     keeps activations of 3 chunks at most
 *   stage 1, 1 behind   f0   f1 b0 f2 b1 f3 b2   b3     of 2
 *   stage 2, 0 behind   f0 b0 f1 b1 f2 b2 f3 b3         of 1
 */
static void one_forward_one_backward(struct gt_pipeline_task *tasks, int behind, int chunks)
{
	int forward = 0, n = 0;

	/* The first chunk comes back after it has passed the later stages, forward and backward.
	 * `behind` chunks forward keep this stage busy until then; more would only hold more
	 * activations. */
	for (; forward < behind && forward < chunks; forward++)
		tasks[n++] = (struct gt_pipeline_task){ forward, false };
	/* Now each forward pass of a chunk is followed by a backward pass, so the number of chunks
	 * whose activations are kept stays constant. At the end no forward passes are left. */
	for (int backward = 0; backward < chunks; backward++) {
		if (forward < chunks)
			tasks[n++] = (struct gt_pipeline_task){ forward++, false };
		tasks[n++] = (struct gt_pipeline_task){ backward, true };
	}
}

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
    int stages, int stage, int chunks)
{
	if (schedule == GT_PIPELINE_GPIPE)
		gpipe(tasks, chunks);
	else
		one_forward_one_backward(tasks, stages - 1 - stage, chunks);
}
