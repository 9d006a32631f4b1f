/* export.h - write a trained model for other programs: transformers, PyTorch, ONNX, llama.cpp. */
#ifndef GT_TRAIN_CHECKPOINT_EXPORT_H
#define GT_TRAIN_CHECKPOINT_EXPORT_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/write.h"

struct gt_export_options {
	const char *from; /* a run directory, or a checkpoint file that names its model */
	/* the output: a folder that does not exist yet, or is empty; or the file of a network */
	const char *to;
	/* only cast, dtype, no_sync, shard_bytes, progress and losses are used */
	struct gt_ckpt_write_options write;
	/* GGUF: the type of matrices, "f32", "f16", "bf16", "q8_0" or "q4_0"; NULL: that of the
	 * weights */
	const char *type;
	/* GGUF of an adapter: the model that it is for; NULL: the one that its settings name */
	const char *base;
};

/* Write a folder for from_pretrained() of transformers, which gtrain reads, too (pretrained.h).
 * *tally gets number and size of the tensors, and `note` a line for each file or value that is left
 * out. After an error the written files are removed. Errors: GT_ENOTSUP for a model that
 * transformers does not have; GT_EINVAL for a folder that is not empty, or an incomplete model. */
int gt_export_hugging_face(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

/* Write the trained network of a run as an archive for torch.export.load(): the run's network.pt2
 * with the weights of the checkpoint. `from` is the run directory (its latest checkpoint) or a file
 * in it. Of options->write, no_sync and progress are used. Errors: GT_EINVAL for another model;
 * those of gt_exported_write(). */
int gt_export_network(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

/* Write a trained network as a file of ONNX (lib/model/onnx/export.h). `from` is a run directory
 * (its latest checkpoint), or a checkpoint that names its model. Of options->write, no_sync and
 * progress are used. The properties of the file are the model's spec, and the description of its
 * data (lib/data/core/description.h). Errors: those of gt_onnx_export() and gt_onnx_write(). */
int gt_export_onnx(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

/* Write a language model as a GGUF file, with its tokenizer (lib/model/gguf/export.h,
 * lib/data/text/gguf.h). `from` is a run directory (its latest checkpoint), a checkpoint that names
 * its model, a folder of Hugging Face's, or a folder with an adapter, which becomes a file beside
 * that of its model. Of options->write, no_sync and losses are used. Errors:
 * GT_ENOTSUP for a model, a setting or a tokenizer that llama.cpp does not have. */
int gt_export_gguf(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err);

#endif
