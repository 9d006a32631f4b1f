/* pretrained.h - private: read a folder with a model of Hugging Face's transformers. */
#ifndef GT_TRAIN_CHECKPOINT_PRETRAINED_H
#define GT_TRAIN_CHECKPOINT_PRETRAINED_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

/* A folder with a model of transformers. pretrained.c lists the files and fields that gtrain reads.
 * Symbolic links are followed: the cache of Hugging Face's Hub consists of links. */
struct gt_pretrained {
	/* facts about the model (about.h) */
	json_t *about;
	/* the folder, for gt_tokenizer_open(); NULL: it has no tokenizer */
	char *vocab;
};

/* Read config.json of a folder into *out, which the caller gives to json_decref(); NULL: there is
 * no such file. Errors name the file. */
int gt_pretrained_read_config(json_t **out, const char *folder, struct gt_err *err);

/* Do the same for another file of the folder. */
int gt_pretrained_read_file(json_t **out, const char *folder, const char *name, struct gt_err *err);

/* Return whether `path` is a folder with a config.json that has a model_type. */
bool gt_pretrained_is_folder(const char *path);

/* Read a folder, but not its tokenizer and tensors. Release *out even after an error. Errors name
 * the file; GT_ENOTSUP: a model that gtrain does not have. */
int gt_pretrained_open(struct gt_pretrained *out, const char *folder, struct gt_err *err);
void gt_pretrained_release(struct gt_pretrained *p);

#endif
