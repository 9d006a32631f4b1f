/* stepper.h - train step by step, under the control of the caller, who may give the samples. */
#ifndef GT_TRAIN_STEPPER_H
#define GT_TRAIN_STEPPER_H

#include "lib/train/report/observer.h"
#include "lib/train/train.h"

/*
 * gt_train_run() has the loop of a run. With a stepper the caller has it: one call is one step, an
 * evaluation or a checkpoint. The steps are those of gt_train_run(), bit by bit. A stepper is for
 * runs of a single rank that have no run directory. It evaluates and saves only when it is told to.
 */
struct gt_stepper;

/* Begin to step. `t` is borrowed, and must outlive the stepper. Errors: GT_EINVAL for a run with
 * several ranks or a run directory, or whose data cannot be read. */
int gt_stepper_open(struct gt_stepper **out, struct gt_train *t, struct gt_err *err);
void gt_stepper_close(struct gt_stepper *s); /* NULL is fine */

/* Return the run's training data. */
const struct gt_dataset *gt_stepper_data(const struct gt_stepper *s);

/* Return the number of samples of the next step, and of steps that are done and of the run. */
int64_t gt_stepper_samples(const struct gt_stepper *s);
int64_t gt_stepper_done(const struct gt_stepper *s);
int64_t gt_stepper_total(const struct gt_stepper *s);

/*
 * Queue the next step. `batch` has its samples, if the run's data are in memory; NULL: the samples
 * are the next ones of the data. The memory of the batch may change after the call. A device
 * may still compute then; gt_stepper_finish() waits for it.
 *
 * Errors: GT_EINVAL for a wrong number of samples, or at the end of the run: no step was begun.
 *         After any other error the weights may be those of any moment of the step, and all later
 *         steps fail.
 */
int gt_stepper_step(struct gt_stepper *s, const struct gt_batch *batch, struct gt_err *err);

/* Wait for the results of all steps. Errors: GT_EDIVERGED, as of gt_train_run(). */
int gt_stepper_finish(struct gt_stepper *s, struct gt_err *err);

/* Return the report of the last step that gt_stepper_finish() has waited for; zeroed: none. */
const struct gt_step_report *gt_stepper_report(const struct gt_stepper *s);

/* Evaluate the run's validation data or, if `batch` is not NULL, the samples of the batch, whose
 * number is not limited. Like an evaluation of gt_train_run() it uses the average of the weights,
 * if one is kept. `scores` [samples, outputs], or NULL, gets the outputs of the network for the
 * samples of a batch. Errors: GT_EINVAL if there are no validation data; GT_ENOTSUP for scores that
 * the network does not give. */
int gt_stepper_evaluate(struct gt_stepper *s, const struct gt_batch *batch, struct gt_metrics *out,
    float *scores, struct gt_err *err);

/* Return the number of outputs that gt_stepper_evaluate() gives for a sample; 0: it gives none. */
int64_t gt_stepper_outputs(const struct gt_stepper *s);

/* Write a training checkpoint to `path`, from which a run can be resumed, or only the model's
 * state_dict. */
int gt_stepper_save(struct gt_stepper *s, const char *path, struct gt_err *err);
int gt_stepper_save_model(struct gt_stepper *s, const char *path, struct gt_err *err);

/* Return a parameter or buffer: number i of the state_dict, in the order of declaration, or that
 * with a name or an alias of the model. NULL: there is none. */
const struct gt_slot *gt_stepper_slot(const struct gt_stepper *s, size_t i);
const struct gt_slot *gt_stepper_find(const struct gt_stepper *s, const char *name);

/* Copy the elements of a slot to or from host memory [slot->count] of type slot->dtype. */
int gt_stepper_read(
    struct gt_stepper *s, const struct gt_slot *slot, void *out, struct gt_err *err);
int gt_stepper_write(
    struct gt_stepper *s, const struct gt_slot *slot, const void *elements, struct gt_err *err);

#endif
