/* about.h - facts about a run's training data, stored in its config.json and its checkpoints. */
#ifndef GT_TRAIN_RUN_ABOUT_H
#define GT_TRAIN_RUN_ABOUT_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/data/core/description.h"

/*
 * To use a model one needs facts about its training data: the names of the classes, the size and
 * normalization of the images, the vocabulary. A run directory stores these facts in config.json
 * and vocab.json. A checkpoint also stores these facts, so the checkpoint file alone is enough to
 * use the model. In a checkpoint, the facts are a JSON text in the metadata of the state_dict
 * (gt_state_dict_metadata()), under the name GT_ABOUT_NAME:
 *
 *   {"model": "lenet", "about": {"version": "0.1.0",
 *    "data": {"kind": "image", "classes": 2, ..., "vocab": ...}}}
 *
 * Other programs ignore this text. gtrain reads it like a config.json that has only the entries
 * "model" and "about".
 */
#define GT_ABOUT_NAME "gtrain.about"

/* Make the contents of config.json: a copy of `config`, the options of a run, with the additional
 * entry "about" (GT_OPT_ABOUT). This entry is an object with gtrain's version as "version", and a
 * description of the training data as "data". The caller calls json_decref() on the result. Return
 * NULL with err set on failure. */
json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err);

/* Return the text that is stored under GT_ABOUT_NAME in checkpoints of the model `model`
 * (NAME[:key=value,...]), which was trained on `data`. If `model` is NULL, the text names no model.
 * The text depends only on the model, the training data and gtrain's version. The caller frees the
 * text with free(). Return NULL with err set on failure. */
char *gt_about_text(const char *model, const struct gt_data_description *data, struct gt_err *err);

/* Read the text GT_ABOUT_NAME of a checkpoint file. The caller calls json_decref() on *out. *out is
 * NULL if the file has no such text, or if the file cannot be read. A file that cannot be read is
 * not an error here: the function that loads its weights reports the error. Errors: GT_EFORMAT if
 * the text is not JSON. */
int gt_about_open(json_t **out, struct gt_file_name file, struct gt_err *err);

/*
 * Read the description of the training data from `config`, which is a config.json or the text of a
 * checkpoint. The description is the entry "data" in "about". Without this entry, or if
 * `config` is NULL, the description is empty.
 *
 * The caller releases *out. Errors: GT_EFORMAT and GT_ENOMEM; after an error, *out is zeroed.
 */
int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err);

#endif
