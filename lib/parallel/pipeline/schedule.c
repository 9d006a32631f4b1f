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
	/* From now on each chunk forward is followed by one backward, so the number of chunks whose
	 * activations are kept stays constant. At the end no chunks forward are left. */
	for (int backward = 0; backward < chunks; backward++) {
		if (forward < chunks)
			tasks[n++] = (struct gt_pipeline_task){ forward++, false };
		tasks[n++] = (struct gt_pipeline_task){ backward, true };
	}
}

void gt_pipeline_order(struct gt_pipeline_task *tasks, enum gt_pipeline_schedule schedule,
    int stages, int stage, int chunks)
{
	if (schedule == GT_PIPELINE_GPIPE)
		gpipe(tasks, chunks);
	else
		one_forward_one_backward(tasks, stages - 1 - stage, chunks);
}
