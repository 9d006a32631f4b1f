/* resume.h - resume a run: options that may change, and the next samples to read. */
#ifndef GT_TRAIN_RUN_RESUME_H
#define GT_TRAIN_RUN_RESUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The rule for an option that has one value in the checkpoint and another one in the resumed
 * run. */
struct gt_resume_rule {
	const char *option; /* name of an option of `gtrain train`, without the dashes */
	bool fixed;         /* a different value is an error */
	/* the reason if a different value is an error, otherwise its effect; in lower case */
	const char *text;
};

/* Return the rules, in the order of the options of `gtrain train`. In the last row, `option` is
 * NULL. */
const struct gt_resume_rule *gt_resume_rules(void);

/* Return the rule for an option; NULL if there is none. */
const struct gt_resume_rule *gt_resume_rule(const char *option);

struct gt_train;

/*
 * Find the position in the training data where the run begins, and set t->from_step and
 * t->from_position for gt_resume_position(). A new run begins at 0. A resumed run begins after the
 * samples that were read before the checkpoint; call this when t->resumed and t->steps_per_epoch
 * are known.
 *
 * If an epoch now has a different number of steps, the run continues in the same epoch. If its
 * position is inside a step, all samples of this step are read, some of them for the second time.
 *
 * Errors: GT_EFORMAT if the epoch in the checkpoint is too large.
 */
int gt_resume_find_position(struct gt_train *t, struct gt_err *err);

/* Return the position in the training data after `step` steps of the run. It is counted in steps
 * with this run's number of samples: t->steps_per_epoch is the end of epoch 0. It differs from
 * `step` if earlier steps had another number of samples. */
int64_t gt_resume_position(const struct gt_train *t, int64_t step);

/* Log a line for each option that may change and has another value in `config` than in the
 * checkpoint: its name, both values and the effect. The option `amp` is left out, because it has
 * its own warning. */
void gt_resume_log_changes(const struct gt_train *t, const json_t *config);

#endif
