/* export.h - archives of torch.export.save(): tensors, the text of the network, other weights. */
#ifndef GT_CKPT_TORCH_EXPORT_H
#define GT_CKPT_TORCH_EXPORT_H

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/write.h"

/* The network in an open checkpoint of format "torch-export" or "onnx", whose root is its
 * state_dict. */
struct gt_exported {
	const char *graph; /* JSON: the graph, and the meaning of its inputs and outputs */
	size_t graph_bytes;
	/* a dict of tensors that are no part of the state_dict: constants in the code of the
	 * network, and buffers that are not persistent */
	const struct gt_tree *constants;
	struct gt_torch_archive *archive; /* the records (torch/zip.h); NULL: a file of ONNX */
};

/* Return the network in a checkpoint, borrowed; NULL: it has another format. */
const struct gt_exported *gt_ckpt_exported(const struct gt_ckpt *ckpt);

/* Translate a number of ScalarType in torch/_export/serde/schema.py; return false for one that
 * gtrain does not have. */
bool gt_exported_dtype(int number, enum gt_dtype *out);

/* Return the number of a type; 0: it has none. */
int gt_exported_number(enum gt_dtype dtype);

/*
 * Write a copy of an open archive to `path`, with the weights of a state_dict in place of its own.
 * `from` is the file of the weights, for messages. All other records keep their names and bytes. Of
 * the options, no_sync, inputs, progress and losses are used. The file appears whole or not at all.
 * Errors: GT_EFORMAT if a weight is missing, has another shape, or is not one of the network's, or
 * if weights that share elements differ; GT_ENOTSUP if a weight repeats elements of its storage;
 * GT_EINVAL if `path` is a file of an input; GT_EIO, GT_ENOMEM.
 */
int gt_exported_write(const char *path, const struct gt_ckpt *archive,
    const struct gt_state_dict *weights, const char *from,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
