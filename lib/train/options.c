/* options.c - options with the defaults that do not depend on model and data. */
#include "lib/train/eval.h"
#include "lib/train/train.h"

/* Those of the program's tables: tests/cli/library.bats compares them. */
enum { BATCH = 64, WORKERS = 2, PREFETCH = 4, SAVE_EVERY = 1000, KEEP = 3, BUCKET = 25 << 20 };

void gt_train_options_init(struct gt_train_options *out)
{
	*out = (struct gt_train_options){
		.device = "cpu",
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
