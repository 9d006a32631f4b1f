/* about.h - facts about a run that config.json keeps beside its options. */
#ifndef GT_TRAIN_ABOUT_H
#define GT_TRAIN_ABOUT_H

#include <jansson.h>

#include "lib/data/description.h"

/* A copy of a run's options for config.json, with a description of the training data added as
 * "data" under GT_OPT_ABOUT. Yours; NULL with err set. */
json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err);

/*
 * Read the description of the training data from a run's config.json: "data" under GT_OPT_ABOUT;
 * for older runs, which lack that, size and normalization out of the option "data". A NULL config
 * describes nothing. Errors: GT_EFORMAT, GT_ENOMEM; *out is zeroed. Release *out.
 */
int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err);

#endif
