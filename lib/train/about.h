/* about.h - what config.json says of a run beside its options. */
#ifndef GT_TRAIN_ABOUT_H
#define GT_TRAIN_ABOUT_H

#include <jansson.h>

#include "lib/data/description.h"

/* A copy of a run's options with what was found out besides, for config.json: under GT_OPT_ABOUT,
 * "data" describes what it is trained on. Yours; NULL with err set. */
json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err);

/*
 * What a run's config.json says of the data trained on: its "data" under GT_OPT_ABOUT; of older
 * runs, which lack that, what the words of the option "data" say. `config` may be NULL, for nothing
 * known. Errors: GT_EFORMAT, GT_ENOMEM; *out is zeroed. Release it.
 */
int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err);

#endif
