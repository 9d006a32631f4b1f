/* check_out.c - check the folder that a run writes into. */
#include <string.h>
#include <unistd.h>

#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

bool gt_train_is_again(const struct gt_train_options *o)
{
	return o->restarted || (o->resume && !strcmp(o->resume, "auto"));
}

int gt_train_check_files(const struct gt_train_options *o, struct gt_err *err)
{
	struct gt_run_dir dir;
	int rc = gt_run_dir_check_files(o->out, err);

	if (rc || access(o->out, F_OK))
		return rc;
	rc = gt_run_dir_open(&dir, o->out, err);
	if (!rc)
		rc = gt_run_dir_check_unused(
		    &dir, o->resume ? INT64_MAX : 0, gt_train_is_again(o), err);
	gt_run_dir_close(&dir);
	return rc;
}

int gt_train_check_place(const struct gt_train *t, struct gt_err *err)
{
	if (!t->o.out || t->resumes)
		return 0;
	if (gt_dataset_check_folder(t->data, t->o.out, err) ||
	    (t->val && gt_dataset_check_folder(t->val, t->o.out, err)))
		return gt_err_prefix(err, "{out}");
	return 0;
}

int gt_train_check_out(const struct gt_train_options *o, struct gt_err *err)
{
	int rc = o->out ? gt_run_dir_check(o->out, err) : 0;

	return rc || !o->out ? rc : gt_train_check_files(o, err);
}
