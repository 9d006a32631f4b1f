/* hugging_face.h - models as config.json of Hugging Face's transformers describes them. */
#ifndef GT_MODEL_HUGGING_FACE_H
#define GT_MODEL_HUGGING_FACE_H

#include <jansson.h>

#include "lib/model/model.h"

/*
 * One table per `model_type` (gpt2, llama, vit, resnet) maps keys of config.json to settings of the
 * model, or lists the values of a key for which gtrain computes the same network. Another list
 * names keys that do not affect results. Any other key or value is an error that names the key: the
 * weights of a network with another setting would load, but its results would be wrong. A missing
 * key has the default of transformers.
 *
 * Source: transformers, models/MODEL_TYPE/configuration_MODEL_TYPE.py, and its
 * configuration_utils.py for the keys that all models have.
 */

/* Set *out, yours to free(), to the model of a config.json as a spec: "gpt2:layers=12,...". The
 * classes of image models are left to the data. Errors: GT_EFORMAT (not such an object),
 * GT_ENOTSUP, GT_ENOMEM; all begin with the key. */
int gt_hf_to_spec(char **out, const json_t *config, struct gt_err *err);

/* Set *out, which the caller frees, to the config.json with which transformers builds the same
 * network. It has no id2label. `in` is the input that the model was trained with. Errors:
 * GT_ENOTSUP for a model or a setting that transformers does not have, GT_ENOMEM. */
int gt_hf_from_model(
    json_t **out, const struct gt_model *m, const struct gt_model_input *in, struct gt_err *err);

#endif
