/* write.c - a tree into a file of any format that can be written. */
#include "lib/ckpt/write.h"

#include "lib/ckpt/format.h"

int gt_ckpt_write(const char *path, const char *format, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	static const struct gt_ckpt_write_options none = { 0 };
	const struct gt_ckpt_format *row = gt_ckpt_format_find(format);

	if (!row)
		gt_err_set(err, GT_EINVAL, "no format is called '%.80s'", format);
	else if (!row->write)
		gt_err_set(err, GT_ENOTSUP, "'%.80s' can be read, not written", format);
	if (!row || !row->write)
		return gt_err_hint(
		    err, "torch-zip, torch-legacy, safetensors and npz can be written");
	return row->write(path, root, options ? options : &none, err);
}
