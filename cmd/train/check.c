/* check.c - options of train that exclude or need each other. */
#include "cmd/train/check.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/comm/comm.h"
#include "lib/optim/optim.h"
#include "lib/parallel/parallel.h"
#include "lib/train/session.h"

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
	const enum gt_optim_kind own = cli->train.optim.kind;
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
	const struct gt_train_options *run = &cli->train;
	bool threads = gt_parallel_is_threads(run->parallel.kind);
	const char *a_run = "a run, not with --verify-parallel";
	bool trains = !cli->verify_parallel;
	const struct {
		const char *option, *wants;
		bool there;
	} pairs[] = {
		{ "parallel", a_run, trains },
		{ "tensor-parallel", a_run, trains },
		{ "pipeline-parallel", a_run, trains },
		{ "sequence-parallel", a_run, trains },
		{ "chunks", a_run, trains },
		{ "schedule", a_run, trains },
		{ "amp", a_run, trains },
		{ "tf32", a_run, trains },
		{ "compress", a_run, trains },
		{ "max-restarts", a_run, trains },
		{ "broadcast-buffers", a_run, trains },
		{ "check-replicas", a_run, trains },
		{ "profile", a_run, trains },
		{ "ema", a_run, trains },
		{ "resume", a_run, trains },
		{ "dry-run", a_run, trains },
		{ "lr-step", "--lr-schedule step", run->lr_schedule.kind == GT_STEP },
		{ "lr-gamma", "--lr-schedule step", run->lr_schedule.kind == GT_STEP },
		{ "decay-steps", "--lr-schedule wsd", run->lr_schedule.kind == GT_WSD },
		{ "min-lr", "another --lr-schedule", run->lr_schedule.kind != GT_CONSTANT },
		{ "max-restarts", "a --parallel mode of processes", !threads },
		{ "sequence-parallel", "--tensor-parallel", run->parallel.tensor > 1 },
		{ "chunks", "--pipeline-parallel", run->parallel.stages > 1 },
		{ "schedule", "--pipeline-parallel", run->parallel.stages > 1 },
		{ "eval-every", "--val or --val-split", run->val || run->val_split > 0 },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (given(env, pairs[i].option) && !pairs[i].there)
			return unused(err, pairs[i].option, pairs[i].wants);
	}
	return check_optimizer(env, cli, err);
}

/* Backends whose sums are not ordered (group.h). */
static int check_order(const struct gt_train_cli *cli, struct gt_err *err)
{
	static const char *const reasons[GT_COMM_BACKENDS] = {
		[GT_COMM_NCCL] = "which adds up in an order of its own choice",
	};
	enum gt_comm_backend backend = cli->comm.backend;

	if (!cli->train.parallel.reproducible || !reasons[backend])
		return 0;
	gt_err_set(err, GT_EINVAL, "--reproducible cannot be combined with --backend %s, %s",
	    gt_comm_backend_names[backend], reasons[backend]);
	return gt_err_hint(err, "--backend shm adds up in a fixed order");
}

/* The options that say how to load the weights of --init-from. */
static int check_weights(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	static const char *const names[] = { "init-from", "names", "strict" };

	/* With `auto`, the same command begins a run and continues it. */
	if (given(env, "init") && cli->train.resume && strcmp(cli->train.resume, "auto")) {
		gt_err_set(err, GT_EINVAL, "--init: --resume brings weights of its own");
		return gt_err_hint(err, "leave one of the two out");
	}
	if (!cli->train.init_from && given(env, "map") && !cli->train.resume)
		return gt_err_set(
		    err, GT_EINVAL, "--map is for --init-from and --resume, and neither is given");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!given(env, names[i]))
			continue;
		if (!cli->train.init_from)
			return gt_err_set(err, GT_EINVAL,
			    "--%s is for --init-from, which is not given", names[i]);
		if (cli->train.resume) {
			gt_err_set(
			    err, GT_EINVAL, "--%s: --resume brings weights of its own", names[i]);
			return gt_err_hint(err, "leave one of the two out");
		}
	}
	return 0;
}

/* A number in place of the name of a data set is a share of the data. */
static int check_val(const struct gt_train_cli *cli, struct gt_err *err)
{
	double share;

	if (!cli->train.val || !gt_text_parse_double(&share, cli->train.val))
		return 0;
	gt_err_set(err, GT_EINVAL, "--val: '%s' is not the name of a data set", cli->train.val);
	if (share > 0 && share < 1)
		return gt_err_hint(
		    err, "--val-split %s holds out this part of the data", cli->train.val);
	return gt_err_hint(
	    err, "--val-split F holds out a part of the data, as in --val-split 0.1");
}

void gt_cmd_train_warn_alone(struct gt_cmd_env *env, const struct gt_train_cli *cli)
{
	static const char *const names[] = { "max-restarts", "compress", "check-replicas",
		"bucket-size", "broadcast-buffers" };

	if (cli->verify_parallel)
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (given(env, names[i]))
			gt_log_warn(&env->log, "{%s} has no effect with one rank", names[i]);
	if (given(env, "backend") && cli->comm.backend != GT_COMM_AUTO)
		gt_log_warn(&env->log, "{backend} %s has no effect with one rank",
		    gt_comm_backend_names[cli->comm.backend]);
}

int gt_cmd_train_check(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	if (check_order(cli, err) ||
	    gt_session_check_device(cli->train.device, gt_comm_way(cli->comm.backend),
	        gt_amp_type(cli->train.amp), cli->train.tf32, err))
		return err->code;
	if (check_weights(env, cli, err) || check_val(cli, err))
		return err->code;
	if (cli->train.patience && !cli->train.val && !(cli->train.val_split > 0)) {
		gt_err_set(err, GT_EINVAL, "--patience counts evaluations, and there are none");
		return gt_err_hint(err, "--val DATA or --val-split F makes some");
	}
	return check_pairs(env, cli, err);
}
