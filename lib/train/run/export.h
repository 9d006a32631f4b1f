/* export.h - a trained model as a folder that Hugging Face's transformers opens. */
#ifndef GT_TRAIN_RUN_EXPORT_H
#define GT_TRAIN_RUN_EXPORT_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/write.h"

struct gt_export_options {
	const char *from; /* a run directory, or a checkpoint file that names its model */
	const char *to;   /* the folder: new, or empty */
	/* `cast`, `dtype`, `no_sync`, `shard_bytes` and `losses` count here. */
	struct gt_ckpt_write_options write;
};

/*
 * Write a folder for from_pretrained(), which pretrained.h reads back:
 *
 *   model.safetensors        the weights of the latest checkpoint under transformers' names, or
 *                            shards and their index
 *   tokenizer.json           for a tokenizer of byte pairs: its file unchanged, and
 *                            tokenizer_config.json
 *   generation_config.json   for models that write text
 *   preprocessor_config.json for models of images, if their normalization is known
 *   config.json              the model, with the names of the classes
 *
 * A new folder appears whole or not at all (base/new_folder.h). In a folder that exists,
 * config.json is written last, because a folder without it is not a model. An error removes the
 * files. *tally counts the tensors; lines about values that are left out are added to the note.
 *
 * Errors: GT_ENOTSUP for a model or setting that transformers has no counterpart of; GT_EINVAL for
 * a folder that has files, or a checkpoint that is not a complete model; GT_EFORMAT, GT_EIO,
 * GT_ENOMEM.
 */
int gt_export_hugging_face(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

#endif
