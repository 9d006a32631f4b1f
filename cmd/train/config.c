/* config.c - read the options of a run from a config.json. */
#include "cmd/train/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/recipes.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/run/options.h"

static int load_config(struct gt_cmd_env *env, const char *config, struct gt_err *err)
{
	const struct gt_train_cli *cli = env->opts.values;
	const char *slash = strrchr(config, '/');
	char *folder = slash ? strndup(config, (size_t)(slash - config)) : strdup(".");
	int rc = folder ? gt_cmd_config_load(&env->opts, config, err)
	                : gt_err_set(err, GT_ENOMEM, "out of memory");

	if (!rc)
		rc = gt_run_options_find_network(&env->opts, &cli->train, folder, err);
	free(folder);
	return rc;
}

static int load_from_out(bool *found, struct gt_cmd_env *env, const char *out, struct gt_err *err)
{
	const struct gt_train_cli *cli = env->opts.values;
	struct gt_folder dir;
	int rc = gt_folder_open(&dir, out, err);

	if (!rc)
		rc = gt_run_options_load(found, &env->opts, &cli->train, &dir, err);
	gt_folder_close(&dir);
	return rc;
}

/* Whether both are the same directory. */
static bool is_same_dir(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && S_ISDIR(x.st_mode) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* `--resume DIR` is `--resume auto --out DIR`, unless --out names another folder. */
static void continue_in_place(struct gt_train_options *o)
{
	if (!gt_run_ckpt_is_saved_folder(o->resume) &&
	    is_same_dir(o->resume, o->out ? o->out : o->resume)) {
		o->out = o->resume;
		o->resume = "auto";
	}
}

/* Options of the run that --resume continues, or of the run of the checkpoint. */
static int load_resumed(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err)
{
	bool exists, found = false;
	int rc = 0;

	/* A launcher has made the directory for the logs of ranks, which come here later. */
	exists = cli->train.out && !access(cli->train.out, F_OK);
	if (exists)
		rc = load_from_out(&found, env, cli->train.out, err);
	if (rc || found)
		return rc;
	if (!strcmp(cli->train.resume, "auto")) {
		if (cli->train.out && !exists && !cli->train.model)
			rc = gt_err_set(
			    err, GT_EIO, "there is no run in '%s' to go on with", cli->train.out);
		return rc;
	}
	return gt_run_options_load_of(&env->opts, &cli->train, cli->train.resume, err);
}

/*
 * Set the options that are not on the command line. With --config, they come from the file or
 * recipe (cmd/recipes.h) that it names. Without --config but with --resume, they come from the
 * config.json of the resumed run. If --model is still missing, it is the model of the checkpoint
 * that --init-from names.
 *
 * `--resume DIR` continues the run in DIR: this function replaces the option by `--resume auto
 * --out DIR`, where `auto` is the latest checkpoint in --out. With `--resume FILE`, or with
 * `--resume DIR --out OTHER`, a new run starts from the checkpoint FILE, or from the latest
 * checkpoint in DIR. The options of the new run come from the run that the checkpoint belongs to,
 * if there is one. But if the folder of --out already has a config.json, the options come from that
 * file. For example, the folder has one if the same command was started before. It is an error if
 * DIR has no checkpoint.
 *
 * Errors: GT_EIO, GT_EFORMAT, GT_EINVAL, GT_ENOMEM.
 */
int gt_cmd_train_load_config(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err)
{
	/* A longer run keeps its warm-up and other values that came from its length: those steps
	 * are done. */
	static const char *const length[] = { "steps", "epochs", "batch", "accumulate",
		"global-batch", NULL };
	int rc = 0;

	/* Only `auto` starts a new run where there is no checkpoint. */
	if (cli->train.resume && strcmp(cli->train.resume, "auto"))
		rc = gt_run_ckpt_check_resumed(cli->train.resume, err);
	if (rc)
		return rc;
	if (cli->train.resume)
		continue_in_place(&cli->train);
	if (cli->config)
		rc = load_config(env, cli->config, err);
	else if (cli->train.resume)
		rc = load_resumed(env, cli, err);
	if (!rc && !cli->train.model && cli->train.init_from)
		rc = gt_run_options_take_model(&env->opts, cli->train.init_from, err);
	if (!rc && cli->train.resume && !strcmp(cli->train.resume, "auto") && !cli->train.out) {
		rc = gt_err_set(err, GT_EINVAL, "--resume=auto needs --out");
		gt_err_hint(
		    err, "--out DIR names the run to go on with, and --resume RUN needs no --out");
	}
	return rc ? rc : gt_opts_reset_stale(&env->opts, cli->config ? NULL : length, err);
}
