/* train_options.h - what `gtrain train` is told. */
#ifndef GT_CMD_TRAIN_OPTIONS_H
#define GT_CMD_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/cmd.h"

/*
 * One member per option, of the type its row says. Where the default is given in words (--lr: "by
 * optimizer and model"), the member is 0 (integers), NaN (numbers) or NULL (text) until the command
 * has worked it out and stored it here, so that config.json has it.
 */
struct gt_train_cli {
	struct gt_cmd_common common;

	const char *model, *data, *val, *out, *config, *device, *augment, *init_from, *resume;
	double val_split;
	int64_t epochs, steps, batch, accumulate, seed;
	bool reproducible;
	int amp; /* enum gt_cmd_amp */

	int optimizer; /* enum gt_optim_kind */
	double lr, adam_lr, momentum, weight_decay, betas[2], eps, clip, ema;
	int adjust_lr; /* enum gt_adjust_lr */
	bool nesterov;

	int schedule; /* enum gt_schedule_kind */
	int64_t warmup, lr_step, decay_steps;
	double min_lr, lr_gamma;

	int recompute; /* enum gt_recompute_mode */
	int64_t workers, prefetch, threads;
	bool drop_last;

	int parallel; /* enum gt_parallel_kind */
	bool sync_bn, broadcast_buffers;
	int compress; /* enum gt_compress */
	int64_t check_replicas;
	int backend; /* enum gt_comm_backend */
	int64_t nproc, bucket_size, max_restarts;
	int64_t tensor_parallel, pipeline_parallel, chunks;
	int pipeline; /* enum gt_pipeline_schedule */
	double timeout_s;
	bool verify_parallel;

	const char *profile;
	int64_t save_every, keep, eval_every, log_every;
	bool dry_run;
};

const struct gt_opt *gt_cmd_train_options(void);

#endif
