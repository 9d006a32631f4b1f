/* write.h - write a tree as a checkpoint of any format that gtrain writes. */
#ifndef GT_CKPT_WRITE_H
#define GT_CKPT_WRITE_H

#include "lib/ckpt/ckpt.h"

/* Number of finite values that became infinite when they were cast, and of tensors with such
 * values. */
struct gt_ckpt_write_losses {
	uint64_t values;
	size_t tensors;
};

struct gt_ckpt_write_options {
	/* Convert floating-point tensors to `dtype`, rounded once to nearest even. An optimizer's
	 * scalars and its `step` are not converted, because PyTorch does not convert them either
	 * when it loads an optimizer's state for a model in half precision
	 * (torch/optim/optimizer.py, load_state_dict()). */
	bool cast;
	enum gt_dtype dtype;
	bool keep_devices;    /* torch: name the devices of the storages; else all are on the CPU */
	bool no_sync;         /* do not call fsync() */
	uint64_t shard_bytes; /* limit of bytes of tensors per file; 0: one file */

	/* The files that the tree was read from: writing over one of them is an error. */
	struct gt_ckpt *const *inputs;
	size_t input_count;

	struct gt_ckpt_write_losses *losses; /* text is added to it; or NULL */
	/* set to the path of the index if there are shards, yours to free; may be NULL */
	char **index;
};

/*
 * Write a tree to `path`; the file appears whole or not at all, as by gt_torch_save(). Shards and
 * their index are several files. When all are complete and on the disk, they are renamed to their
 * names one after the other, the index last. This takes far less than a second. A kill or an error
 * between two renames leaves new shards without an index, or, over an older checkpoint with as many
 * shards, the old index with new and old shards. `options` may be NULL. Formats:
 *   "torch-zip"     torch.save since PyTorch 1.6         any tree
 *   "torch-legacy"  torch.save before 1.6                any tree
 *   "safetensors"   names and tensors                    a dict of tensors
 *   "npz"           numpy's arrays                       a dict of tensors
 * Memory: a few MiB beside the tree, whatever the tensors. Errors: GT_EINVAL for another format or
 * an output that is an input, GT_ENOTSUP for a tree or an option that the format does not support,
 * GT_EFORMAT when the checksum of a tensor's source is wrong, GT_EIO.
 */
int gt_ckpt_write(const char *path, const char *format, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
