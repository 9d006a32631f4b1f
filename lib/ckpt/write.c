/* write.c - a tree into a file of any format that can be written. */
#include "lib/ckpt/write.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/ckpt/format.h"

/* Return whether a file is the index of the shard `ckpt`, which was opened by itself. */
static bool is_index_of(const struct gt_ckpt *ckpt, const struct stat *st)
{
	static const char number[] = "-00000-of-00000.safetensors";
	size_t length = ckpt->path ? strlen(ckpt->path) : 0, n = sizeof(number) - 1;
	char path[PATH_MAX];
	struct stat index;

	if (length < n || length >= sizeof(path) - n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = ckpt->path[length - n + i];

		if (number[i] == '0' ? c < '0' || c > '9' : c != number[i])
			return false;
	}
	snprintf(path, sizeof(path), "%.*s.safetensors.index.json", (int)(length - n), ckpt->path);
	return !stat(path, &index) && index.st_dev == st->st_dev && index.st_ino == st->st_ino;
}

static bool is_file_of(const struct gt_ckpt *ckpt, const struct stat *st)
{
	if (ckpt->opened.st_dev == st->st_dev && ckpt->opened.st_ino == st->st_ino)
		return true;
	for (size_t i = 0; i < ckpt->shard_count; i++)
		if (is_file_of(ckpt->shards[i].ckpt, st))
			return true;
	return is_index_of(ckpt, st);
}

int gt_ckpt_check_output(
    const char *path, const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	for (size_t i = 0; i < options->input_count; i++) {
		if (!is_file_of(options->inputs[i], &st))
			continue;
		gt_err_set(
		    err, GT_EINVAL, "'%.200s' would be written over: it is the input's", path);
		return gt_err_hint(err, "name another file or folder");
	}
	return 0;
}

/*
 * Write a tree to `path`. `options` may be NULL. The file appears whole or not at all: it is
 * written under a temporary name and then renamed. Formats:
 *
 *   "torch-zip"     torch.save() since PyTorch 1.6       any tree
 *   "torch-legacy"  torch.save() before 1.6              any tree without newer types
 *   "safetensors"   names and tensors                    a dict of tensors
 *   "npz"           NumPy arrays                         a dict of tensors
 *   "dcp"           a folder, which must not exist       a dict of any values
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
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	static const struct gt_ckpt_write_options none = { 0 };
	const struct gt_ckpt_format *row = gt_ckpt_format_find(format);
	int rc;

	if (!root)
		return err && err->code ? err->code : GT_ENOMEM;
	if (!row)
		gt_err_set(err, GT_EINVAL, "no format is called '%.80s'", format);
	else if (!row->write)
		gt_err_set(err, GT_ENOTSUP, "'%.80s' can be read, not written", format);
	if (!row || !row->write)
		return gt_err_hint(
		    err, "torch-zip, torch-legacy, safetensors, npz and dcp can be written");
	if (!options)
		options = &none;
	if (options->shard_bytes && row->write != gt_format_safetensors.write) {
		gt_err_set(err, GT_ENOTSUP, "the format %s has no shards", format);
		return gt_err_hint(err, "safetensors has shards");
	}
	rc = gt_ckpt_check_output(path, options, err);
	return rc ? rc : row->write(path, root, options, err);
}

int gt_ckpt_write_file(
    struct gt_file_name name, bool no_sync, gt_ckpt_writer *write, void *self, struct gt_err *err)
{
	struct gt_atomic_file file;
	int rc = gt_atomic_open_at(&file, name, err);

	if (rc)
		return rc;
	file.no_sync = no_sync;
	rc = write(self, fileno(file.stream), err);
	if (!rc)
		return gt_atomic_commit(&file, err);
	gt_atomic_abandon(&file);
	return rc;
}
