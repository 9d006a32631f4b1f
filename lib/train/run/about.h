/* about.h - facts about a run, stored in its config.json and its checkpoints. */
#ifndef GT_TRAIN_RUN_ABOUT_H
#define GT_TRAIN_RUN_ABOUT_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/data/description.h"

/*
 * To use a model one needs facts about its training: the names of its classes, the size and
 * normalization of its images, its vocabulary. A run directory stores them in config.json and
 * vocab.json. Checkpoints store them, too, so that a single copied file is enough: the text
 * GT_ABOUT_NAME of its state_dict (gt_state_dict_metadata()) is
 *
 *   {"model": "lenet", "about": {"version": "0.1.0",
 *    "data": {"kind": "image", "classes": 2, ..., "vocab": ...}}}
 *
 * Other programs ignore it. gtrain reads it like a config.json with these two entries.
 */
#define GT_ABOUT_NAME "gtrain.about"

/* A copy of a run's options for config.json, with gtrain's version and a description of the
 * training data added as "version" and "data" under GT_OPT_ABOUT. The caller frees it. NULL with
 * err set on failure. */
json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err);

/* The text for a checkpoint of a model (NAME[:key=value,...]), yours to free(); NULL with err set.
 * It depends on nothing but the model, the data and the version. */
char *gt_about_text(const char *model, const struct gt_dataset *data, struct gt_err *err);

/* Read the text of a checkpoint's file: *out is yours, and NULL where the file has none or cannot
 * be read (reading its weights reports that). Errors: GT_EFORMAT, GT_ENOMEM. */
int gt_about_open(json_t **out, struct gt_file_name file, struct gt_err *err);

/*
 * Read the description of the training data from config.json or a checkpoint's text: "data" under
 * GT_OPT_ABOUT; for older runs, which lack it, only size and normalization, from the option "data".
 * A NULL object describes nothing. Errors: GT_EFORMAT, GT_ENOMEM; *out is zeroed. Release *out.
 */
int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err);

#endif
