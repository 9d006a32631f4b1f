/* export_input.h - private: the model of a checkpoint, and the samples that it takes. */
#ifndef GT_TRAIN_CHECKPOINT_EXPORT_INPUT_H
#define GT_TRAIN_CHECKPOINT_EXPORT_INPUT_H

#include "lib/base/buf.h"
#include "lib/ckpt/ckpt.h"
#include "lib/data/core/description.h"
#include "lib/model/model.h"
#include "lib/train/checkpoint/argument.h"

/* Return the model of a checkpoint, borrowed. NULL with err set: neither the checkpoint nor its run
 * says it. */
const char *gt_export_find_model(struct gt_run_ckpt *ckpt, struct gt_err *err);

/* Open a checkpoint, and find the state_dict in it. The caller closes *out and releases *weights,
 * even after an error. Errors: those of gt_ckpt_open_at(), gt_digest_check() and
 * gt_state_dict_find(). */
int gt_export_open_weights(struct gt_ckpt **out, struct gt_state_dict *weights,
    const struct gt_run_ckpt *ckpt, struct gt_err *err);

/* Set *out to the input of a model: the description of its data, or where that is empty the model's
 * preference and the shapes of its weights. `path` names the checkpoint in messages. Errors:
 * GT_EINVAL if the number of classes is not known. */
int gt_export_find_input(struct gt_model_input *out, const struct gt_model *model,
    const struct gt_data_description *data, const struct gt_state_dict *weights, const char *path,
    struct gt_err *err);

/* Add a line to the note that names the tensors of a checkpoint which are no weights of the model,
 * and so are not written; no line if there are none. */
int gt_export_note_others(struct gt_buf *note, const struct gt_model *model,
    const struct gt_model_input *input, const struct gt_state_dict *weights, const char *path,
    struct gt_err *err);

#endif
