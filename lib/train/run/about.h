/* about.h - facts about a run's training data, stored in its config.json and its checkpoints. */
#ifndef GT_TRAIN_RUN_ABOUT_H
#define GT_TRAIN_RUN_ABOUT_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/data/core/description.h"

/* A checkpoint stores facts under this name: names of classes, size and normalization of images,
 * vocabulary. They are needed to use the model. A run directory has them in config.json. */
#define GT_ABOUT_NAME "gtrain.about"

/* Return the contents of config.json, for json_decref(): the options `config`, with gtrain's
 * version and the description of the data as "about". */
json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err);

/* Facts that a checkpoint stores beside the description of its data. NULL: not known, or none. */
struct gt_about_run {
	const char *model, *loss;
	const char *lora; /* settings of the adapters (gt_lora_parse()) */
	/* path of the checkpoint that has the weights to which adapters are added, if this one
	 * lacks them */
	const char *base;
};

/* Return the text GT_ABOUT_NAME; the caller frees it. */
char *gt_about_text(
    const struct gt_about_run *run, const struct gt_data_description *data, struct gt_err *err);

/* Read the text of a checkpoint, for json_decref(). *out is NULL, without an error, if it has none
 * or cannot be read: loading its weights reports that. */
int gt_about_open(json_t **out, struct gt_file_name file, struct gt_err *err);

/* Read the description in a config.json or a text of a checkpoint; it is empty if there is none.
 * The caller releases *out; after an error it is zeroed. */
int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err);

#endif
