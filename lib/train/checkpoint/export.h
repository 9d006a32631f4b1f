/* export.h - write a trained model as a folder for Hugging Face's transformers. */
#ifndef GT_TRAIN_CHECKPOINT_EXPORT_H
#define GT_TRAIN_CHECKPOINT_EXPORT_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/write.h"

struct gt_export_options {
	const char *from; /* a run directory, or a checkpoint file that names its model */
	const char *to;   /* the folder to write: it does not exist yet, or is empty */
	/* how to write the weights; only cast, dtype, no_sync, shard_bytes and losses are used */
	struct gt_ckpt_write_options write;
};

/*
 * Write a folder for from_pretrained() of transformers. gtrain can read such a folder, too
 * (pretrained.h). The files of the folder are
 *
 *   model.safetensors         the weights of the latest checkpoint under transformers' names: one
 *                             file, or several files and their index (write.shard_bytes)
 *   tokenizer.json            the file of a byte-pair tokenizer. Its post_processor says which
 *                             token is put before every text; it is replaced if the model begins
 *                             texts with another token
 *   tokenizer_config.json     settings of a byte-pair tokenizer
 *   generation_config.json    for models that write text
 *   preprocessor_config.json  for models of images, if their normalization is known
 *   config.json               the model and the names of its classes
 *
 * If the folder is new, it appears with all its files or not at all (lib/base/new_folder.h). If the
 * folder exists, its files appear one by one, and config.json is written last, because a folder
 * without config.json is not a model. After an error the written files are removed. *tally is set
 * to the number and size of the tensors. For each file or value that is left out, a line is added
 * to `note`.
 *
 * Errors: GT_ENOTSUP for a model or setting that transformers does not have; GT_EINVAL for a folder
 * that is not empty, or a checkpoint that is not a complete model; GT_EFORMAT, GT_EIO, GT_ENOMEM.
 */
int gt_export_hugging_face(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

#endif
