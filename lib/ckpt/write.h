/* write.h - write a tree (struct gt_tree) as a checkpoint, in one of several formats. */
#ifndef GT_CKPT_WRITE_H
#define GT_CKPT_WRITE_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

/* Losses of a conversion: finite values that became infinite, and tensors with such values. */
struct gt_ckpt_write_losses {
	uint64_t values;
	size_t tensors;
};

struct gt_ckpt_write_options {
	/*
	 * Convert floating-point tensors to `dtype`, except scalars and `step` in an
	 * optimizer, which PyTorch does not convert either.
	 */
	bool cast;
	enum gt_dtype dtype;
	/* Only for formats of PyTorch. True: write the device of each storage as it was read from
	 * the input. False: write "cpu" as the device of all storages. */
	bool keep_devices;
	bool no_sync; /* do not call fsync() */
	/* only for "safetensors": maximum bytes of tensors per file; 0: no limit */
	uint64_t shard_bytes;

	/*
	 * The checkpoints from which the tree was read. It is an error to write over one of their
	 * files.
	 */
	struct gt_ckpt *const *inputs;
	size_t input_count;

	struct gt_progress *progress;        /* shows the bytes that are written; may be NULL */
	struct gt_ckpt_write_losses *losses; /* gt_ckpt_write() adds losses here; may be NULL */
	/* may be NULL; set to the path of the index, if there are shards; the caller frees it */
	char **index;
};

/*
 * Return GT_EINVAL if `path` is a file of an input. Writers call this for each path that they
 * derive.
 */
int gt_ckpt_check_output(
    const char *path, const struct gt_ckpt_write_options *options, struct gt_err *err);

/*
 * Write a tree to `path` as "torch-zip", "torch-legacy", "safetensors" or "npz". Files appear
 * whole or not at all. `options` may be NULL. GT_EINVAL: the format is unknown or an output is in
 * use. GT_ENOTSUP: the format does not support the tree.
 */
int gt_ckpt_write(const char *path, const char *format, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
