/* processor.h - private: how a model of Hugging Face's transformers wants its images. */
#ifndef GT_TRAIN_CHECKPOINT_PROCESSOR_H
#define GT_TRAIN_CHECKPOINT_PROCESSOR_H

#include <jansson.h>

#include "lib/base/err.h"
#include "lib/data/core/description.h"

/*
 * Describe images as the fields of preprocessor_config.json say: their size, how pictures are
 * resized and cropped, and their normalization. Fields that are missing have the defaults of the
 * class in image_processor_type (or feature_extractor_type).
 *
 *   out        kind and channels are set; the other fields that describe images are results
 *   processor  NULL: there is no such file, and only the size is set
 *   side       the height and width that the model needs; 0: any
 *
 * Errors: GT_ENOTSUP, if gtrain cannot do what a field asks for; GT_EFORMAT. The text names the
 * field.
 */
int gt_processor_read(
    struct gt_data_description *out, const json_t *processor, int side, struct gt_err *err);

/* Return the object for preprocessor_config.json that describes the same images, which the caller
 * frees; NULL if memory ran out. */
json_t *gt_processor_write(
    const struct gt_data_description *d, const json_t *mean, const json_t *std);

#endif
