/* write.h - write a tree (struct gt_tree) as a checkpoint, in one of several formats. */
#ifndef GT_CKPT_WRITE_H
#define GT_CKPT_WRITE_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

/*
 * Losses of a conversion: the number of finite values that became infinite, and the number of
 * tensors with such values.
 */
struct gt_ckpt_write_losses {
	uint64_t values;
	size_t tensors;
};

struct gt_ckpt_write_options {
	/*
	 * Convert floating-point tensors to `dtype`, with one rounding to nearest even. But scalar
	 * tensors and `step` in the state of an optimizer are not converted. PyTorch, too, leaves
	 * them unconverted when it loads the state of an optimizer for a model in half precision
	 * (torch/optim/optimizer.py, load_state_dict()).
	 */
	bool cast;
	enum gt_dtype dtype;
	/* Only for formats of PyTorch. True: write the device of each storage as it was read from
	 * the input. False: write "cpu" as the device of all storages. */
	bool keep_devices;
	bool no_sync; /* do not call fsync() */
	/* Only for "safetensors": maximum bytes of tensors per file. A tensor that is larger gets a
	 * file of its own. 0: no limit. */
	uint64_t shard_bytes;

	/*
	 * The checkpoints from which the tree was read. It is an error to write over one of their
	 * files.
	 */
	struct gt_ckpt *const *inputs;
	size_t input_count;

	struct gt_progress *progress;        /* shows the bytes that are written; may be NULL */
	struct gt_ckpt_write_losses *losses; /* gt_ckpt_write() adds losses here; may be NULL */
	/*
	 * May be NULL. Otherwise, if shards are written, *index is set to the path of their index.
	 * The caller frees *index with free(). If no shards are written, *index does not change.
	 */
	char **index;
};

/*
 * Return GT_EINVAL if `path` is a file of one of the checkpoints options->inputs, otherwise 0.
 * Writers call this for each path that they derive from the user's path, such as the paths of
 * shards.
 */
int gt_ckpt_check_output(
    const char *path, const struct gt_ckpt_write_options *options, struct gt_err *err);

/*
 * Write a tree to `path`. `options` may be NULL. The file appears whole or not at all: it is
 * written under a temporary name and then renamed. Formats:
 *
 *   "torch-zip"     torch.save() since PyTorch 1.6       any tree
 *   "torch-legacy"  torch.save() before 1.6              any tree without newer types
 *   "safetensors"   names and tensors                    a dict of tensors
 *   "npz"           NumPy arrays                         a dict of tensors
 *
 * The newer types are uint16, uint32, uint64, float8, complex32 and UntypedStorage.
 *
 * If shard_bytes is not 0, the tensors may be divided among several files, called shards. Another
 * file, the index, lists them. All these files are first written under temporary names. When they
 * are complete and on the disk, they are renamed to their final names one after the other, the
 * index last. This takes far less than a second. If the process is killed or fails between two
 * renames, some of the new shards already have their final names, but the new index does not exist
 * yet. This damages an older checkpoint in the folder that has the same number of shards, and so
 * the same file names. Its index is still there, but lists some new shards and some old ones.
 *
 * Memory: a few MiB in addition to the tree, for tensors of any size.
 * Errors:
 *   GT_EINVAL   the format is unknown; or an output file is a file of an input; or the output is
 *               shards, but readers would open an existing single file instead: for example
 *               model.safetensors instead of model.safetensors.index.json
 *   GT_ENOTSUP  gtrain cannot write the format, or the format does not support the tree or an
 *               option
 *   GT_EFORMAT  a tensor does not match its checksum in the input file
 *   GT_EIO      a file cannot be read or written
 */
int gt_ckpt_write(const char *path, const char *format, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err);

#endif
