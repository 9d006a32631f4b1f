/* train_check.c - what options of train ask of each other. */
#include "cmd/train_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/comm/comm.h"
#include "lib/device/backend.h"
#include "lib/optim/optim.h"
#include "lib/parallel/parallel.h"

static bool given(const struct gt_cmd_env *env, const char *name)
{
	return gt_opts_source(&env->opts, name) == GT_OPT_COMMAND_LINE;
}

static int unused(struct gt_err *err, const char *option, const char *wants)
{
	gt_err_set(err, GT_EINVAL, "--%s has no effect with these options", option);
	return gt_err_hint(err, "use it with %s", wants);
}

/* Settings of an optimizer with another one. */
static int check_optimizer(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	const enum gt_optim_kind own = (enum gt_optim_kind)cli->optimizer;
	char readers[80], wants[100];

	for (int kind = 0; kind < GT_OPTIM_KINDS; kind++) {
		const char *const *setting = gt_optim_rule((enum gt_optim_kind)kind)->settings;

		for (; *setting; setting++) {
			if (!given(env, *setting) || gt_optim_reads(own, *setting))
				continue;
			gt_optim_readers(readers, sizeof(readers), *setting);
			snprintf(wants, sizeof(wants), "--optimizer %s", readers);
			return unused(err, *setting, wants);
		}
	}
	return 0;
}

static int check_pairs(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	bool threads = gt_parallel_is_threads((enum gt_parallel_kind)cli->parallel);
	const char *a_run = "a run, not with --verify-parallel";
	bool run = !cli->verify_parallel;
	const struct {
		const char *option, *wants;
		bool there;
	} pairs[] = {
		{ "lr-step", "--lr-schedule step", cli->schedule == GT_STEP },
		{ "lr-gamma", "--lr-schedule step", cli->schedule == GT_STEP },
		{ "decay-steps", "--lr-schedule wsd", cli->schedule == GT_WSD },
		{ "min-lr", "another --lr-schedule", cli->schedule != GT_CONSTANT },
		{ "max-restarts", "a --parallel mode of processes", !threads },
		{ "chunks", "--pipeline-parallel", cli->pipeline_parallel > 1 },
		{ "schedule", "--pipeline-parallel", cli->pipeline_parallel > 1 },
		{ "parallel", a_run, run },
		{ "tensor-parallel", a_run, run },
		{ "pipeline-parallel", a_run, run },
		{ "amp", a_run, run },
		{ "compress", a_run, run },
		{ "broadcast-buffers", a_run, run },
		{ "check-replicas", a_run, run },
		{ "profile", a_run, run },
		{ "ema", a_run, run },
		{ "resume", a_run, run },
		{ "dry-run", a_run, run },
		{ "eval-every", "--val or --val-split", cli->val || cli->val_split > 0 },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (given(env, pairs[i].option) && !pairs[i].there)
			return unused(err, pairs[i].option, pairs[i].wants);
	}
	return check_optimizer(env, cli, err);
}

int gt_cmd_train_check(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	if (!gt_backend_find(cli->device)) {
		gt_err_set(err, GT_ENOTSUP,
		    "--device: this build computes on 'cpu' only, not on '%s'", cli->device);
		return gt_err_hint(err, "'gtrain probe' lists the devices and backends");
	}
	if (cli->resume && !strcmp(cli->resume, "auto") && !cli->out) {
		gt_err_set(err, GT_EINVAL, "--resume=auto needs --out");
		return gt_err_hint(err, "--out DIR names the run to go on with");
	}
	if (cli->resume && cli->init_from && given(env, "init-from")) {
		gt_err_set(err, GT_EINVAL, "--init-from: --resume brings weights of its own");
		return gt_err_hint(err, "leave one of the two out");
	}
	if (cli->reproducible && cli->backend == GT_COMM_RING) {
		gt_err_set(err, GT_EINVAL,
		    "--reproducible cannot be combined with --backend ring, whose sums depend on "
		    "the number of ranks");
		return gt_err_hint(err, "--backend shm adds up in a fixed order");
	}
	return check_pairs(env, cli, err);
}

void gt_cmd_train_reopen(const struct gt_cmd_env *env, struct gt_train_cli *cli)
{
	bool optimizer = given(env, "optimizer"),
	     lr = optimizer || given(env, "lr") || given(env, "lr-schedule");
	bool length = given(env, "steps") || given(env, "epochs") || given(env, "batch") ||
	              given(env, "accumulate");

	if (optimizer && !given(env, "lr"))
		cli->lr = NAN;
	if (optimizer && !given(env, "weight-decay"))
		cli->weight_decay = NAN;
	if (optimizer && !given(env, "momentum"))
		cli->momentum = NAN;
	if (lr && !given(env, "min-lr"))
		cli->min_lr = NAN;
	if (length && !given(env, "warmup"))
		cli->warmup = -1;
	if (length && !given(env, "lr-step"))
		cli->lr_step = 0;
	if (length && !given(env, "decay-steps"))
		cli->decay_steps = 0;
}
