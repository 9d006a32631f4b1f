/* export_input.h - private: the samples that a trained model takes, without its data set. */
#ifndef GT_TRAIN_CHECKPOINT_EXPORT_INPUT_H
#define GT_TRAIN_CHECKPOINT_EXPORT_INPUT_H

#include "lib/ckpt/ckpt.h"
#include "lib/data/core/description.h"
#include "lib/model/model.h"

/* Set *out to the input of a model: the description of its data, or where that is empty the model's
 * preference and the shapes of its weights. Errors: GT_EINVAL if the number of classes is not
 * known. */
int gt_export_find_input(struct gt_model_input *out, const struct gt_model *model,
    const struct gt_data_description *data, const struct gt_state_dict *weights,
    struct gt_err *err);

#endif
