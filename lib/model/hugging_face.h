/* hugging_face.h - convert model specs to and from config.json of Hugging Face's transformers. */
#ifndef GT_MODEL_HUGGING_FACE_H
#define GT_MODEL_HUGGING_FACE_H

#include <jansson.h>

#include "lib/model/model.h"

/* Keys of config.json correspond to settings, have values with which transformers computes the same
 * network, or do not affect results. Any other key or value is an error, because the weights would
 * load, but results be wrong. Source: transformers, models/MODEL_TYPE/configuration_MODEL_TYPE.py
 * and configuration_utils.py. */

/* Convert a config.json to a spec such as "gpt2:layers=12,..." for free(), without the number of
 * classes of images. Errors, which begin with the key: GT_EFORMAT (no config.json, or values that
 * no network has), GT_ENOTSUP, GT_ENOMEM. */
int gt_hf_to_spec(char **out, const json_t *config, struct gt_err *err);

/* Create a config.json without id2label, for json_decref(). `in` is the input that the model was
 * trained with. Errors: GT_ENOTSUP if transformers lacks the model or a setting, GT_ENOMEM. */
int gt_hf_from_model(
    json_t **out, const struct gt_model *m, const struct gt_model_input *in, struct gt_err *err);

#endif
