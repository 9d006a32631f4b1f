/* search.h - private to plan: the fastest layouts that fit. */
#ifndef GT_CMD_PLAN_SEARCH_H
#define GT_CMD_PLAN_SEARCH_H

#include "cmd/plan/plan.h"

enum { GT_PLAN_BEST = 5 };

/* The result of a search. */
struct gt_plan_found {
	struct gt_plan_layout best[GT_PLAN_BEST]; /* the fastest first */
	int count, tried;
};

/*
 * Plan layouts with `samples` samples in a step on all ranks of *t, a dry run, and keep the fastest
 * that fit. Options that the command line of *c gives are the same in all layouts. The caller calls
 * gt_plan_found_release(), also after an error. Errors: GT_ENOMEM with the memory that the smallest
 * layout needs if none fits; GT_EINVAL if none is possible, with the reason for the first one.
 */
int gt_plan_search(struct gt_plan_found *out, const struct gt_train *t,
    const struct gt_plan_command *c, const struct gt_cluster *cluster, int64_t samples,
    struct gt_err *err);
void gt_plan_found_release(struct gt_plan_found *found);

#endif
