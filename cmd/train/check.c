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

/* Settings of an optimizer with another one. */
static int check_optimizer(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	const enum gt_optim_kind own = cli->train.optim.kind;
	char readers[80];

	for (int kind = 0; kind < GT_OPTIM_KINDS; kind++) {
		const char *const *setting = gt_optim_rule((enum gt_optim_kind)kind)->settings;

		for (; *setting; setting++) {
			if (!given(env, *setting) || gt_optim_reads(own, *setting))
				continue;
			gt_optim_readers(readers, sizeof(readers), *setting);
			gt_err_set(
			    err, GT_EINVAL, "--%s has no effect with these options", *setting);
			return gt_err_hint(err, "use it with --optimizer %s", readers);
		}
	}
	return 0;
}

/* The program restarts ranks that are processes. */
static int check_restarts(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	const enum gt_parallel_kind kind = cli->train.parallel.kind;

	if (!given(env, "max-restarts") || !gt_parallel_is_threads(kind))
		return 0;
	gt_err_set(err, GT_EINVAL, "--max-restarts has no effect with --parallel %s",
	    gt_parallel_names[kind]);
	return gt_err_hint(err, "use it with a --parallel mode of processes");
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
	const struct gt_opts *opts = &env->opts;

	if (cli->verify_parallel)
		return;
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (row->flags & GT_OPT_RANKS && given(env, row->name) &&
		    gt_opts_is_changed(opts, row))
			gt_log_warn(&env->log, "{%s} has no effect with one rank", row->name);
}

int gt_cmd_train_check(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err)
{
	const struct gt_precision precision = gt_amp_precision(cli->train.amp, cli->train.tf32);

	if (gt_opts_check_partners(&env->opts, err) || check_optimizer(env, cli, err) ||
	    check_restarts(env, cli, err) || check_order(cli, err) || check_val(cli, err))
		return err->code;
	if (cli->train.patience && !cli->train.val && !(cli->train.val_split > 0)) {
		gt_err_set(err, GT_EINVAL, "--patience counts evaluations, and there are none");
		return gt_err_hint(err, "--val DATA or --val-split F makes some");
	}
	if (!cli->train.batch && cli->verify_parallel) {
		gt_err_set(
		    err, GT_EINVAL, "--batch auto cannot be combined with --verify-parallel");
		return gt_err_hint(err, "give the number of samples, as in --batch 8");
	}
	return gt_session_check_device(&cli->train.where, &precision, err);
}
