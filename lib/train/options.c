/* options.c - defaults that need neither model nor data, and checks and facts of options alone. */
#include <string.h>
#include <unistd.h>

#include "lib/train/eval.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

/* Those of the program's tables: tests/cli/library.bats compares them. */
enum { BATCH = 64, WORKERS = 2, PREFETCH = 4, SAVE_EVERY = 1000, KEEP = 3, BUCKET = 25 << 20 };

const char *const gt_initial_names[] = {
	[GT_INITIAL_RANDOM] = "random",
	[GT_INITIALS] = NULL,
};

void gt_train_options_init(struct gt_train_options *out)
{
	*out = (struct gt_train_options){
		.device = "cpu",
		.initial = GT_INITIAL_AUTO,
		.batch = BATCH,
		.accumulate = 1,
		.optim = { .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
		.lr_schedule = { .kind = GT_COSINE, .gamma = 0.1 },
		.workers = WORKERS,
		.prefetch = PREFETCH,
		.augment = "none",
		.save_every = SAVE_EVERY,
		.keep = KEEP,
		.parallel = { .kind = GT_PARALLEL_DDP,
		    .bucket_bytes = BUCKET,
		    .stages = 1,
		    .tensor = 1,
		    .pipeline_schedule = GT_PIPELINE_1F1B },
	};
}

void gt_eval_options_init(struct gt_eval_options *out)
{
	*out = (struct gt_eval_options){ .device = "cpu",
		.how = { .batch = BATCH, .workers = WORKERS } };
}

static json_t *list_of(const struct gt_opt_list *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, json_string(list->items[i]));
	return array;
}

json_t *gt_train_fixed_options(const struct gt_train *t, struct gt_err *err)
{
	const struct gt_train_options *o = &t->o;
	json_t *fixed = json_pack("{s:s,s:s,s:I,s:b,s:o,s:o,s:o,s:o}", "model", o->model,
	    "optimizer", gt_optim_names[o->optim.kind], "seed", (json_int_t)o->seed, "reproducible",
	    (int)o->parallel.reproducible, "val-split",
	    o->val_split > 0 ? json_real(o->val_split) : json_null(), "ema",
	    o->ema > 0 ? json_real(o->ema) : json_null(), "freeze", list_of(&o->freeze), "lr-scale",
	    list_of(&o->lr_scale));

	if (!fixed)
		gt_err_set(err, GT_ENOMEM, "out of memory");
	return fixed;
}

json_t *gt_train_own_config(const struct gt_train *t, struct gt_err *err)
{
	const struct gt_train_options *o = &t->o;
	json_t *config = gt_train_fixed_options(t, err);
	json_t *more = json_pack("{s:s,s:I,s:I,s:i,s:i,s:i,s:b,s:f,s:f,s:I,s:f,s:f}", "data",
	    o->data, "epochs", (json_int_t)o->epochs, "steps", (json_int_t)o->steps, "batch",
	    o->batch, "accumulate", o->accumulate, "nproc", gt_train_world(t), "drop-last",
	    (int)o->drop_last, "lr", o->lr_schedule.lr, "min-lr", o->lr_schedule.min_lr, "warmup",
	    (json_int_t)o->lr_schedule.warmup, "momentum", o->optim.momentum, "weight-decay",
	    o->optim.weight_decay);

	if (more)
		json_object_del(more, o->steps ? "epochs" : "steps");
	if (!config || !more || json_object_update(config, more)) {
		gt_err_set(err, GT_ENOMEM, "out of memory");
		json_decref(config);
		config = NULL;
	}
	json_decref(more);
	return config;
}

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
