/* pretrained.h - inside train: a folder with a model of Hugging Face's transformers. */
#ifndef GT_TRAIN_RUN_PRETRAINED_H
#define GT_TRAIN_RUN_PRETRAINED_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

/*
 * The files of such a folder, and the fields that are read:
 *   config.json               the model (lib/model/hugging_face.h), id2label, ids of tokens
 *   generation_config.json    eos_token_id, before that of config.json
 *   tokenizer_config.json     add_bos_token
 *   preprocessor_config.json  images: size, image_mean, image_std
 *   tokenizer.json, or vocab.json and merges.txt; model.safetensors, its index or pytorch_model.bin
 * They are found by name; links are followed, as the Hub's cache is made of them.
 */
struct gt_pretrained {
	json_t *about; /* as a checkpoint's (about.h); NULL: this is no such folder */
	char *vocab;   /* where the tokenizer is; NULL: there is none */
};

/* Its config.json, yours to json_decref(); NULL if there is none. Errors name the file: GT_EFORMAT
 * with the line if it is no JSON, GT_EIO, GT_ENOMEM. */
int gt_pretrained_read_config(json_t **out, const char *folder, struct gt_err *err);

/* Whether it is a folder whose config.json has a model_type. */
bool gt_pretrained_is_folder(const char *path);

/* Read all but tokenizer and weights. Errors begin with the file: GT_EIO, GT_EFORMAT, GT_ENOTSUP,
 * GT_ENOMEM. Release it in any case. */
int gt_pretrained_open(struct gt_pretrained *out, const char *folder, struct gt_err *err);
void gt_pretrained_release(struct gt_pretrained *p);

#endif
