/* pretrained.h - private: read a folder with a model of Hugging Face's transformers. */
#ifndef GT_TRAIN_CHECKPOINT_PRETRAINED_H
#define GT_TRAIN_CHECKPOINT_PRETRAINED_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

/*
 * The contents of a folder with a model of transformers. gtrain reads these files and fields:
 *
 *   config.json               the model (lib/model/hugging_face.h), id2label, ids of tokens. As in
 *                             transformers, a model with only one label predicts a number
 *                             (regression). But if problem_type is "single_label_classification",
 *                             the model predicts classes
 *   generation_config.json    eos_token_id; it replaces the eos_token_id in config.json
 *   tokenizer_config.json     add_bos_token
 *   preprocessor_config.json  images: how they are resized, cropped and normalized (processor.h)
 *   tokenizer.json            the tokenizer; or vocab.json and merges.txt
 *   model.safetensors         the weights; or pytorch_model.bin, or an index of several files. If
 *                             gtrain trained the model for regression, the file also has the mean
 *                             and standard deviation of the targets (about.h)
 *
 * Symbolic links are followed, because the files in the cache of Hugging Face's Hub are links.
 */
struct gt_pretrained {
	/* facts about the model, as a checkpoint stores them (about.h); NULL after an error */
	json_t *about;
	/* path of the folder, for gt_tokenizer_open(); NULL: the folder has no tokenizer */
	char *vocab;
};

/* Read config.json of the folder. The caller calls json_decref() on *out. *out is NULL if the
 * folder has no such file. Errors: GT_EFORMAT if the file is not JSON; GT_EIO; GT_ENOMEM. The text
 * of an error names the file; for GT_EFORMAT it also has the line number. */
int gt_pretrained_read_config(json_t **out, const char *folder, struct gt_err *err);

/* Return whether `path` is a folder with a config.json that has a model_type. */
bool gt_pretrained_is_folder(const char *path);

/* Read the folder, except its tokenizer and the tensors of its weights. Release *out even after an
 * error. Error messages begin with the name of the file. Errors: GT_EIO, GT_EFORMAT, GT_ENOTSUP,
 * GT_ENOMEM. */
int gt_pretrained_open(struct gt_pretrained *out, const char *folder, struct gt_err *err);
void gt_pretrained_release(struct gt_pretrained *p);

#endif
