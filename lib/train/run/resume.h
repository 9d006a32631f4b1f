/* resume.h - resume a run: which options may change, and where in the data the run continues. */
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
	/* if `fixed`: the reason why a different value is an error; otherwise: the effect of a
	 * different value. In lower case. */
	const char *text;
};

/* Return the table of rules, in the order of the options of `gtrain train`. In the last rule,
 * `option` is NULL. */
const struct gt_resume_rule *gt_resume_rules(void);

/* Return the rule for an option; NULL if there is none. */
const struct gt_resume_rule *gt_resume_rule(const char *option);

struct gt_snapshot;
struct gt_train;

/*
 * Check that the run may continue from its checkpoint (t->saved, t->resumed): the run must not end
 * before the checkpoint's step, and an option that must not change (gt_resume_rule.fixed) needs the
 * value that "config" of the checkpoint has. If "config" lacks an option, the saved run is taken to
 * have run without it. Rules of --map must be those in "config". A checkpoint that another
 * program wrote has no "config", so its options and rules are not checked.
 *
 * Errors: GT_EINVAL, which does not name the file.
 */
int gt_resume_check(const struct gt_train *t, struct gt_err *err);

/*
 * Find the position in the training data where the run begins, and set t->from_step and
 * t->from_position for gt_resume_position(). A new run begins at position 0. A resumed run begins
 * after the samples that were read before the checkpoint was saved. For a resumed run, t->resumed
 * and t->steps_per_epoch must be set before the call.
 *
 * If an epoch now has a different number of steps, the run continues in the same epoch. The
 * position of the checkpoint may then be inside a step of this run. In this case all samples of the
 * step are read, some of them for the second time.
 *
 * Errors: GT_EFORMAT if the epoch in the checkpoint is too large.
 */
int gt_resume_find_position(struct gt_train *t, struct gt_err *err);

/* Return the position in the training data after `step` steps of the run. Its unit is one
 * step of this run, with this run's number of samples per step. So epoch 0 ends at position
 * t->steps_per_epoch. The position differs from `step` if steps before the checkpoint had another
 * number of samples. */
int64_t gt_resume_position(const struct gt_train *t, int64_t step);

/*
 * Set the fields of *t about evaluations (t->best_step and those behind it) from a loaded
 * checkpoint. A checkpoint of an older version does not count the evaluations since the best one;
 * they are computed from its steps and its --eval-every.
 *
 * If the evaluations used other validation data than this run, log a line and forget the best one,
 * because the scores of different data cannot be compared. Data are the same if the options name
 * them in the same way.
 */
void gt_resume_set_best(struct gt_train *t, const struct gt_snapshot *s);

/* For each option that may change and has another value in `config` than in the checkpoint, log a
 * line with its name, both values and the effect. The option `amp` is left out, because it has its
 * own warning. */
void gt_resume_log_changes(const struct gt_train *t, const json_t *config);

#endif
