/* work.h - the work and the memory of each stage of a planned run (lib/plan). */
#ifndef GT_TRAIN_REPORT_WORK_H
#define GT_TRAIN_REPORT_WORK_H

#include "lib/plan/work.h"
#include "lib/train/session.h"
#include "lib/train/train.h"

/* The first rank of a stage of a pipeline, or of all ranks. */
struct gt_train_stage {
	struct gt_work_list work;
	struct gt_session_memory memory;
	double flops; /* of a step */
	int blocks, recomputed;
};

/* The numbers of a planned run that do not depend on the stage. */
struct gt_train_outline {
	int ranks, stages, tensor, data; /* ranks = stages * tensor * data */
	int chunks;                      /* parts of a micro-batch in a pipeline */
	int64_t step_samples;            /* of all ranks */
	int64_t tokens_per_sample;       /* 0: the samples have no tokens */
	int64_t parameters;
};

/* Return the bytes that the norm of the gradients and the update of a step read and write on this
 * rank. */
double gt_train_update_bytes(const struct gt_train *t);

/* Plan stage `index` of a dry run with other options, which gt_train_open() has completed, and list
 * its work. options->nproc is at least that of the run. The caller calls gt_work_release(), also
 * after an error. Errors: those of gt_train_open(); GT_EINVAL if the data have too few samples for
 * a step; GT_ENOTSUP of gt_parallel_traffic(). */
int gt_train_stage_work(struct gt_train_stage *out, struct gt_train_outline *outline,
    const struct gt_train *t, const struct gt_train_options *options, int index,
    struct gt_err *err);

#endif
