/* pretrained.h - inside train: a folder with a model of Hugging Face's transformers. */
#ifndef GT_TRAIN_RUN_PRETRAINED_H
#define GT_TRAIN_RUN_PRETRAINED_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

/*
 * The files of such a folder, and the fields that are read:
 *   config.json               the model (lib/model/hugging_face.h), id2label, ids of tokens
 *   generation_config.json    eos_token_id; it overrides that of config.json
 *   tokenizer_config.json     add_bos_token
 *   preprocessor_config.json  images: size, image_mean, image_std
 *   tokenizer.json, or vocab.json and merges.txt; model.safetensors, its index or pytorch_model.bin
 * Files are found by name. Links are followed, because the Hub's cache consists of links.
 */
struct gt_pretrained {
	/* the facts that a checkpoint has (about.h); NULL: this is not such a folder */
	json_t *about;
	char *vocab; /* path of the tokenizer; NULL: there is none */
};

/* Read the folder's config.json; *out is yours to json_decref(), and NULL if there is none. Errors
 * name the file: GT_EFORMAT with the line if it is no JSON, GT_EIO, GT_ENOMEM. */
int gt_pretrained_read_config(json_t **out, const char *folder, struct gt_err *err);

/* Whether it is a folder whose config.json has a model_type. */
bool gt_pretrained_is_folder(const char *path);

/* Read all but tokenizer and weights. Errors begin with the file: GT_EIO, GT_EFORMAT, GT_ENOTSUP,
 * GT_ENOMEM. Release it in any case. */
int gt_pretrained_open(struct gt_pretrained *out, const char *folder, struct gt_err *err);
void gt_pretrained_release(struct gt_pretrained *p);

#endif
