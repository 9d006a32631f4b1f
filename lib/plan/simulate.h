/* simulate.h - replay the work of all stages on a described cluster, and split a step's time. */
#ifndef GT_PLAN_SIMULATE_H
#define GT_PLAN_SIMULATE_H

#include "lib/plan/cost.h"

/* The parts of a stage's step; they add up to the step. */
struct gt_step_times {
	double step_s;
	double compute_s;          /* forward and backward passes */
	double bound_s[GT_BOUNDS]; /* compute_s by what limits its ops */
	double exposed_s[GT_AXES]; /* collectives for which the rank waits, by axis; messages
	                                    * of a pipeline in that of GT_AXIS_PIPELINE */
	double hidden_s;           /* collectives that run while the rank computes */
	double bubble_s;           /* waiting for the work of other stages */
	double update_s;           /* norm and optimizer */
};

/*
 * Simulate a step of `stages` ranks, one of each stage; the other ranks of a stage do the same at
 * the same time. Each rank has two clocks: one of its computation, and one of collectives in the
 * background, which run one after the other. A collective begins when the computation has come to
 * it and the one before has ended; while one runs, computation loses the part
 * gt_cluster_device.steal of its speed. A message begins when both stages have come to it.
 *
 * Write times[stages]; step_s is the same for all. Errors: GT_ENOMEM; GT_EINVAL if the stages wait
 * for each other.
 */
int gt_plan_simulate(struct gt_step_times *times, const struct gt_cluster *c,
    const struct gt_work_list *work, int stages, struct gt_err *err);

/* Return the stage that waits least for others. */
int gt_plan_slowest(const struct gt_step_times *times, int stages);

#endif
