/* hugging_face.h - convert model specs to and from config.json of Hugging Face's transformers. */
#ifndef GT_MODEL_HUGGING_FACE_H
#define GT_MODEL_HUGGING_FACE_H

#include <jansson.h>

#include "lib/model/model.h"

/*
 * Each `model_type` (gpt2, llama, vit, resnet) has a table of the keys of config.json. Some keys
 * correspond to a setting of gtrain's model. For each other key of the table, a list has the values
 * with which transformers computes the same network as gtrain. A second list names the keys that do
 * not affect results. Any other key or value is an error that names the key: the weights of such a
 * network would load, but its results would be wrong. A missing key has the default value of
 * transformers.
 *
 * Source: transformers, models/MODEL_TYPE/configuration_MODEL_TYPE.py; for keys that all models
 * have, configuration_utils.py.
 */

/* Convert a config.json to a spec such as "gpt2:layers=12,...". The caller frees *out with free().
 * The spec of an image model does not set the number of classes, which comes from the data. Errors:
 * GT_EFORMAT (not a config.json, or values that no network has), GT_ENOTSUP, GT_ENOMEM. Messages
 * begin with the key. */
int gt_hf_to_spec(char **out, const json_t *config, struct gt_err *err);

/* Create the JSON object of a config.json from which transformers builds the same network. The
 * object has no key `id2label` (names of classes). `in` is the input that the model was trained
 * with. The caller frees *out with json_decref(). Errors: GT_ENOTSUP for a model or a setting that
 * transformers does not have, GT_ENOMEM. */
int gt_hf_from_model(
    json_t **out, const struct gt_model *m, const struct gt_model_input *in, struct gt_err *err);

#endif
