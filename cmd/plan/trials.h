/* trials.h - private to a search: layouts that were planned, each once, by several threads. */
#ifndef GT_CMD_PLAN_TRIALS_H
#define GT_CMD_PLAN_TRIALS_H

#include <pthread.h>

#include "cmd/plan/plan.h"

/* A layout that was planned quickly (gt_plan_layout()), or is not possible. */
struct gt_plan_trial {
	struct gt_plan_layout layout;
	size_t group;      /* of gt_plan_try() */
	struct gt_err why; /* why the layout is not possible; why.code is 0 if it is */
};

struct gt_plan_trials {
	const struct gt_train *t;
	const struct gt_cluster *cluster;
	pthread_mutex_t lock;        /* protects the members below */
	struct gt_plan_trial **list; /* [count] in the order in which they were made */
	size_t count, capacity;
};

void gt_plan_trials_open(
    struct gt_plan_trials *trials, const struct gt_train *t, const struct gt_cluster *cluster);
void gt_plan_trials_close(struct gt_plan_trials *trials);

/* Set *out to the trial with the batch, accumulation, recomputation and parallelism of these
 * options, which is made unless it is there. Any thread may call this. Errors: GT_ENOMEM. */
int gt_plan_try(const struct gt_plan_trial **out, struct gt_plan_trials *trials,
    const struct gt_train_options *options, size_t group, struct gt_err *err);

/* Call note(self, trial) for the trials that are there, in the order in which they were made. */
void gt_plan_each_trial(struct gt_plan_trials *trials,
    void (*note)(void *self, const struct gt_plan_trial *trial), void *self);

#endif
