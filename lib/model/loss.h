/* loss.h - the loss that a model is trained with, by name: NAME[:key=value,...]. */
#ifndef GT_MODEL_LOSS_H
#define GT_MODEL_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/regression.h"
#include "lib/base/sample.h"

/* A loss. Zeroed: cross-entropy for classes. */
struct gt_loss {
	/* The network returns the loss (gt_model_computes_loss()), for any targets. All other
	 * members are 0. */
	bool output;
	enum gt_sample_target targets; /* the targets that it is for */
	/* DPO: for pairs of texts (gt_sample_form.paired), whose tokens are classes. `beta` is the
	 * factor of a text's log-probability; label_smoothing is the share of pairs that are
	 * expected to be the wrong way round. */
	bool paired;
	double beta;
	struct gt_regression regression; /* for numbers and labels */
	/* for classes: the part of a target that is spread over all classes, below 1 */
	double label_smoothing;
	/* for classes: targets that are `ignored` count as missing, if `ignores`. The data sets do
	 * this (gt_data_request.ignores). */
	bool ignores;
	int32_t ignored;
};

/* The names of all losses, ended by NULL. */
extern const char *const gt_loss_names[];

/* Parse a spec, NAME[:key=value,...], such as `huber:delta=0.5`. Errors: GT_EINVAL with a hint. */
int gt_loss_parse(struct gt_loss *out, const char *spec, struct gt_err *err);

/* Return the loss for samples if none is chosen, and the model computes none: cross-entropy, MSE,
 * BCE or, for pairs, DPO. */
struct gt_loss gt_loss_default(const struct gt_sample_form *form);

/* Return whether the loss is for targets such as those of `form`. */
bool gt_loss_is_for(const struct gt_loss *loss, const struct gt_sample_form *form);

/* Check that the loss is for targets such as those of `form`. Errors: GT_EINVAL with a hint. */
int gt_loss_check(
    const struct gt_loss *loss, const struct gt_sample_form *form, struct gt_err *err);

/* Return the spec of a loss with its settings, which the caller frees; NULL: no memory. */
char *gt_loss_spec(const struct gt_loss *loss, struct gt_err *err);

#endif
