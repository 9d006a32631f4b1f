/* processor.h - private: how a model of Hugging Face's transformers wants its images. */
#ifndef GT_TRAIN_CHECKPOINT_PROCESSOR_H
#define GT_TRAIN_CHECKPOINT_PROCESSOR_H

#include <jansson.h>

#include "lib/base/err.h"
#include "lib/data/core/description.h"

/* Describe images as preprocessor_config.json (`processor`) says: size, resizing, crop,
 * normalization. Missing fields have the defaults of its class; NULL: only the size is set. `side`:
 * the size that the model needs; 0: any. Errors: GT_ENOTSUP and GT_EFORMAT, which name the
 * field. */
int gt_processor_read(
    struct gt_data_description *out, const json_t *processor, int side, struct gt_err *err);

/* Return the object that describes the same images, which the caller frees; NULL: no memory. */
json_t *gt_processor_write(
    const struct gt_data_description *d, const json_t *mean, const json_t *std);

#endif
