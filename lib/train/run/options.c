/* options.c - options of an earlier run, for one that continues it or starts from its weights. */
#include "lib/train/run/options.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/train/checkpoint/argument.h"

int gt_run_options_find_network(
    struct gt_opts *opts, const struct gt_train_options *o, const char *folder, struct gt_err *err)
{
	char *path;
	json_t *option;
	int rc;

	if (!o->model || !gt_run_is_network(o->model))
		return 0;
	path = gt_asprintf(err, "%s/%s", folder, o->model);
	option = path ? json_pack("{s:s}", "model", path) : NULL;
	rc = option ? gt_opts_from_json(opts, option, err) : GT_ENOMEM;
	json_decref(option);
	free(path);
	return rc;
}

int gt_run_options_load(bool *found, struct gt_opts *opts, const struct gt_train_options *o,
    const struct gt_folder *dir, struct gt_err *err)
{
	char *path = gt_folder_path(dir, GT_RUN_CONFIG, err);
	const struct gt_file_name file = { dir, path };
	int rc = path ? 0 : GT_ENOMEM;

	*found = !rc && gt_file_exists(file) && !gt_run_ckpt_is_transformers(dir->path);
	if (*found)
		rc = gt_opts_load_at(opts, file, err);
	if (!rc && *found)
		rc = gt_run_options_find_network(opts, o, dir->path, err);
	free(path);
	return rc;
}

int gt_run_options_load_of(
    struct gt_opts *opts, const struct gt_train_options *o, const char *ckpt, struct gt_err *err)
{
	struct gt_run_ckpt from;
	int rc = gt_run_ckpt_open(&from, ckpt, GT_RUN_LATEST, err);
	bool found;

	if (!rc && from.dir.folder.path)
		rc = gt_run_options_load(&found, opts, o, &from.dir.folder, err);
	gt_run_ckpt_release(&from);
	return rc;
}

int gt_run_options_take_model(struct gt_opts *opts, const char *init_from, struct gt_err *err)
{
	struct gt_run_ckpt from;
	const char *model = NULL;
	json_t *option = NULL;
	int rc = gt_run_ckpt_open(&from, init_from, GT_RUN_BEST, err);

	if (!rc)
		model = gt_run_ckpt_model(&from, NULL, err);
	if (model)
		option = json_pack("{s:s}", "model", model);
	if (model && !option)
		gt_err_set(err, GT_ENOMEM, "out of memory: the model of '%s'", init_from);
	rc = option ? gt_opts_from_json(opts, option, err) : err->code;
	json_decref(option);
	gt_run_ckpt_release(&from);
	return rc;
}
