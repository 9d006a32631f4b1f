/* eval_output.c - check that an output file is not an input of the evaluation. */
#include <sys/stat.h>

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/write.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/eval.h"

/* The files of a checkpoint file; one with an index has several. */
static int check_shards(const char *path, struct gt_file_name file, struct gt_err *err)
{
	struct gt_ckpt_write_options options = { .input_count = 1 };
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open_at(&ckpt, file, err);

	options.inputs = &ckpt;
	if (!rc)
		rc = gt_ckpt_check_output(path, &options, err);
	gt_ckpt_close(ckpt);
	return rc;
}

static int check_ckpt(const char *path, const struct gt_run_ckpt *ckpt, struct gt_err *err)
{
	struct stat st;

	if (ckpt->dir.folder.path && gt_run_dir_owns(&ckpt->dir, path)) {
		gt_err_set(err, GT_EINVAL, "'%.200s' is a file of the run '%.200s'", path,
		    ckpt->dir.folder.path);
		return gt_err_hint(err, "name another file");
	}
	if (!stat(ckpt->path, &st) && S_ISDIR(st.st_mode))
		return gt_file_check_not_input(path, ckpt->path, err);
	return check_shards(path, ckpt->file, err);
}

/* --model may name a folder, which is then an input. A folder that has the name of a built-in model
 * is no input. */
static int check_model(const char *path, const char *model, struct gt_err *err)
{
	return model && gt_run_ckpt_is_transformers(model)
	           ? gt_file_check_not_input(path, model, err)
	           : 0;
}

int gt_eval_check_output(
    const struct gt_eval_options *options, const char *path, struct gt_err *err)
{
	struct gt_run_ckpt ckpt = { 0 };
	int rc = gt_run_ckpt_open(&ckpt, options->ckpt, GT_RUN_BEST, err);

	if (!rc && (gt_data_check_output(path, options->data, err) ||
	               (options->vocab && gt_file_check_not_input(path, options->vocab, err)) ||
	               check_model(path, options->model, err) || check_ckpt(path, &ckpt, err)))
		rc = gt_err_prefix(err, "{predictions}");
	gt_run_ckpt_release(&ckpt);
	return rc;
}
