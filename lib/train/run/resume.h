/* resume.h - resume a run with other options: which may change, and the place in the data. */
#ifndef GT_TRAIN_RUN_RESUME_H
#define GT_TRAIN_RUN_RESUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* How a run that goes on from a checkpoint treats another value of an option. */
struct gt_resume_rule {
	const char *option; /* name of an option of `gtrain train`, without the dashes */
	bool fixed;         /* another value is refused */
	const char *text;   /* why it is refused, or the effect of another value: lower case */
};

/* The rows, in the order of the option table, ended by one without an option. */
const struct gt_resume_rule *gt_resume_rules(void);

/* NULL if there is none. */
const struct gt_resume_rule *gt_resume_rule(const char *option);

struct gt_train;

/*
 * Find the place in the data of t->step, from the checkpoint that the run goes on from: *t has its
 * steps per epoch. The place is determined by the number of samples read. If an epoch now has a
 * different number of steps, the run continues in the same epoch, after the samples that were read.
 * If this place is inside a step, the samples of this step are read again. Errors: GT_EFORMAT for a
 * checkpoint whose numbers are too large.
 */
int gt_resume_find_place(struct gt_train *t, struct gt_err *err);

/* The number of steps, of this run's size, from the start of the data to the place after
 * `step`. */
int64_t gt_resume_place(const struct gt_train *t, int64_t step);

/* Log a line for each option of `config` that differs from that of the run that goes on: its name,
 * both values and the effect. */
void gt_resume_log_changes(const struct gt_train *t, const json_t *config);

#endif
