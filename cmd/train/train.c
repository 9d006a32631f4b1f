/* train.c - gtrain train: train a model. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/ranks.h"
#include "cmd/recipes.h"
#include "cmd/stop.h"
#include "cmd/train/check.h"
#include "cmd/train/conclude.h"
#include "cmd/train/config.h"
#include "cmd/train/cuda_variables.h"
#include "cmd/train/files.h"
#include "cmd/train/hosts.h"
#include "cmd/train/logs.h"
#include "cmd/train/options.h"
#include "cmd/train/plan.h"
#include "cmd/train/status.h"
#include "cmd/train/threads.h"
#include "cmd/train/verify.h"
#include "lib/base/opt_json.h"
#include "lib/comm/group_meet.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/report/details.h"
#include "lib/train/tensorboard/tensorboard.h"
#include "lib/train/train.h"

/* The name in {model}: the text before ":", or the last component of a path. */
static const char *model_name(int *length, const char *model)
{
	const char *end = model + strlen(model), *start;

	if (!strchr(model, '/')) {
		*length = (int)strcspn(model, ":");
		return model;
	}
	while (end > model + 1 && end[-1] == '/')
		end--;
	for (start = end; start > model && start[-1] != '/'; start--)
		;
	*length = (int)(end - start);
	return start;
}

/* Whether this command made the run directory, and the folder `runs`. */
struct made {
	bool made, made_runs;
};

/* Choose runs/MODEL-DATE-TIME as the run directory. If this process begins the run (`begins`), make
 * the directory, so that no other run gets the same name; if another run has made it in the same
 * second, append a number. */
static int choose_out(struct made *made, struct gt_cmd_env *env, struct gt_train_cli *cli,
    bool begins, struct gt_err *err)
{
	char text[160], stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	int name_length, length;
	const char *name = model_name(&name_length, cli->train.model);

	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	if (name_length > 64) /* a folder may have any name */
		name_length = 64;
	made->made_runs = begins && !mkdir("runs", 0777);
	if (begins && !made->made_runs && errno != EEXIST)
		return gt_err_sys(err, "cannot make the directory 'runs'");
	length = snprintf(text, sizeof(text) - 16, "runs/%.*s-%s", name_length, name, stamp);
	for (int n = 2; begins && !made->made; n++) {
		made->made = !mkdir(text, 0777);
		if (!made->made && errno != EEXIST)
			return gt_err_sys(err, "cannot make the directory '%s'", text);
		if (!made->made)
			sprintf(text + length, "-%d", n);
	}
	cli->train.out = gt_arena_strdup(&env->opts.arena, text, err);
	return cli->train.out ? 0 : GT_ENOMEM;
}

/* Remove the directories that this command made, if the run has not begun. Once it has, they are
 * not empty, so rmdir() fails. */
static void remove_empty(const struct made *made, const char *out)
{
	if (made->made && out)
		rmdir(out);
	if (made->made_runs)
		rmdir("runs");
}

static int run_train_cli(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_train *t,
    bool first, struct gt_stop *stop, struct gt_err *err)
{
	struct gt_watch watch = {
		.log = &env->log,
		.progress = env->log.progress,
		.every = cli->log_every,
		.batch_given = gt_opts_source(&env->opts, "batch") == GT_OPT_COMMAND_LINE,
	};
	struct gt_data_wait wait = { .log = &env->log, .every = cli->log_every };
	struct gt_details details = { .log = &env->log, .t = t };
	struct gt_metrics_writer *writer = NULL;
	struct gt_tensorboard *tensorboard = NULL;
	struct gt_train_result result;
	struct gt_cmd_status status = { .log = &env->log,
		.stop = stop,
		.result = &result,
		.failure = err,
		.patience = cli->train.patience };
	json_t *config = gt_opts_to_json(&env->opts, err);
	int rc =
	    config ? gt_metrics_writer_new(&writer, cli->log_every, &env->log, err) : err->code;

	if (!rc && cli->tensorboard)
		rc = gt_tensorboard_new(&tensorboard, t,
		    &(struct gt_tensorboard_options){ config, cli->histogram_every, &env->log },
		    err);
	if (!rc) {
		enum { MOST = 7 };
		struct gt_observer observers[MOST];
		int count = 0;

		observers[count++] = gt_stop_observer(stop);
		if (first) {
			observers[count++] = gt_watch_observer(&watch);
			observers[count++] = gt_metrics_observer(writer);
			observers[count++] = gt_data_wait_observer(&wait);
			observers[count++] = gt_details_observer(&details);
		}
		if (tensorboard) { /* it ends after the metrics, which send it their numbers */
			gt_metrics_writer_send_to(writer, gt_tensorboard_sink(tensorboard));
			observers[count++] = gt_tensorboard_observer(tensorboard);
		}
		if (first)
			observers[count++] = gt_cmd_status_observer(&status);
		stop->log = first ? &env->log : NULL;
		rc = gt_train_run(t, config, observers, count, &stop->stop_requested, &result, err);
		stop->graceful =
		    cli->train.nproc > 1 && !gt_cmd_is_threads(cli); /* see train_as_rank() */
	}
	if (!rc && first)
		rc = gt_cmd_train_conclude(env, cli, &watch, &result, err);
	gt_tensorboard_free(tensorboard);
	gt_metrics_writer_free(writer);
	gt_details_release(&details);
	json_decref(config);
	return rc;
}

/* ---- ranks ---- */

static int launch(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_cmd_hosts *hosts, struct gt_err *err)
{
	struct gt_cmd_logs logs = { 0 };
	bool killed = false;
	const struct gt_cmd_ranks ranks = { .nproc = cli->train.nproc,
		.max_restarts = (int)cli->max_restarts,
		.log_dir = &logs.folder,
		.hosts = hosts->host,
		.host_count = hosts->count,
		.ssh = hosts->ssh,
		/* Other hosts may write the run where this one does not see it. */
		.keeps_logs = hosts->count ? NULL : gt_cmd_logs_stay,
		.self = &logs,
		.out = cli->train.out,
		.killed = &killed,
		.results = cli->common.json };
	int rc = gt_cmd_logs_open(&logs, cli->train.out, cli->train.nproc, err);

	if (!rc)
		rc = gt_cmd_launch(&ranks, env, err);
	if (killed)
		gt_cmd_train_say_lost(env, cli->train.out);
	if ((rc || env->status) && !hosts->count && !gt_cmd_logs_stay(&logs))
		gt_cmd_logs_forget(&logs);
	gt_cmd_logs_close(&logs);
	return rc;
}

/* Ranks that were started apart found a name for the directory each; that of rank 0 counts. */
static int share_out(
    struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_group *group, struct gt_err *err)
{
	char out[4096] = "";
	int rc;

	snprintf(out, sizeof(out), "%s", cli->train.out);
	rc = gt_broadcast(group, out, sizeof(out), GT_U8, 0, err);
	if (rc)
		return rc;
	out[sizeof(out) - 1] = '\0';
	cli->train.out = gt_arena_strdup(&env->opts.arena, out, err);
	return cli->train.out ? 0 : GT_ENOMEM;
}

/* After a restart by the launcher, the latest checkpoint is where all begin, if there is one. */
static int resume_restarted(struct gt_train_cli *cli, struct gt_err *err)
{
	struct gt_run_ckpt latest;
	int rc = gt_run_ckpt_latest(&latest, cli->train.out, err);

	if (!rc && latest.path)
		cli->train.resume = "auto";
	gt_run_ckpt_release(&latest);
	return rc;
}

static int join_train_ranks(struct gt_comm *comm, const struct gt_world *world,
    struct gt_cmd_env *env, struct gt_train_cli *cli, const char *command, struct gt_err *err)
{
	int rc;

	cli->train.nproc = world->size;
	cli->train.restarted = world->restart > 0;
	if (comm->group) /* ranks of several hosts have met before */
		return share_out(env, cli, comm->group, err);
	rc = gt_cmd_join(comm, world, &cli->comm, env, command, err);
	if (rc)
		return rc;
	rc = share_out(env, cli, comm->group, err);
	if (!rc && world->restart)
		rc = resume_restarted(cli, err);
	if (rc)
		gt_comm_leave(comm);
	return rc;
}

/* ---- the command ---- */

/* Complete the options from configuration files, and check them. */
static int complete(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err)
{
	int rc = gt_cmd_train_load_config(env, cli, err);

	cli->train.where.way = gt_comm_way(cli->comm.backend);
	/* details.json has them for `gtrain report`. */
	cli->train.predictions = true;
	cli->train.sample_text = cli->tensorboard;
	gt_cmd_ask_for_queues(cli);
	gt_cmd_ask_for_order();
	if (!rc)
		rc = gt_opts_require(&env->opts, err);
	if (rc && !cli->train.data)
		gt_cmd_recipe_hint_data(cli->config, err);
	if (!rc)
		rc = gt_cmd_train_check(env, cli, err);
	/* Kernels may add up in another order with other numbers of threads. */
	if (!rc && cli->train.parallel.reproducible && !cli->threads)
		cli->threads = 1;
	return rc;
}

/* Do it, as one rank of `comm`, or alone. `files` are those of other hosts, or NULL. */
static int train(struct gt_cmd_env *env, struct gt_train_cli *cli, const struct gt_comm *comm,
    struct gt_cmd_files *files, struct gt_stop *stop, struct gt_err *err)
{
	struct gt_train *t;
	int rc;

	gt_cmd_place_rank(&cli->train.where, comm);
	gt_cmd_set_threads(cli->threads);
	rc = gt_train_open(&t, &cli->train, cli->dry_run, &env->log, err);
	if (!rc && files)
		rc = gt_cmd_files_done(files, comm, err);
	if (!rc && !cli->dry_run)
		rc = run_train_cli(env, cli, t, !comm->world.rank, stop, err);
	else if (!rc && !comm->world.rank)
		rc = gt_cmd_print_plan(t, cli->common.json, cli->common.verbose, err);
	gt_train_close(t);
	return rc;
}

/* The state of rank 0 where the others are threads. */
struct leader {
	struct gt_cmd_env *env;
	struct gt_train_cli *cli;
	struct gt_stop *stop;
};

static int lead(void *self, struct gt_group *group, struct gt_err *err)
{
	const struct leader *l = self;
	const struct gt_comm comm = { .world = { .size = group->size }, .group = group };

	return train(l->env, l->cli, &comm, NULL, l->stop, err);
}

static int run_threads(struct gt_cmd_env *env, struct gt_train_cli *cli,
    const struct gt_world *world, struct gt_err *err)
{
	struct gt_stop stop;
	struct leader leader = { env, cli, &stop };
	/* Rank 0 resolves defaults in cli->train while the others read their own copy. */
	struct gt_cmd_threads job = { .cli = cli,
		.options = cli->train,
		.stop = &stop.stop_requested,
		.lead = lead,
		.self = &leader };
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = gt_cmd_train_threads(&job, world, err);
	gt_stop_release(&stop);
	env->asked = stop.asked;
	return rc;
}

/* Prepare a dry run: rank 0 plans for all ranks, without the others. */
static void plan_for_all(
    struct gt_comm *comm, struct gt_train_cli *cli, const struct gt_world *world)
{
	if (world->size == 1)
		return;
	cli->train.nproc = world->size;
	comm->world = *world;
}

/* Ranks of several hosts, which meet before they read files. */
struct hosts {
	struct gt_comm comm;
	struct gt_cmd_files files;
	struct gt_stop stop;
	bool listens; /* gt_stop_listen() was called for `stop` */
};

/* Listen for signals, before the threads of MPI inherit the signal mask. */
static int listen_for_hosts(struct hosts *hosts, struct gt_err *err)
{
	int rc = hosts->listens ? 0 : gt_stop_listen(&hosts->stop, err);

	hosts->listens = !rc;
	return rc;
}

static void release_stop(struct hosts *hosts)
{
	if (hosts->listens)
		gt_stop_release(&hosts->stop);
	hosts->listens = false;
}

static int train_as_rank(struct gt_cmd_env *env, struct gt_train_cli *cli,
    const struct gt_world *world, struct hosts *hosts, const char *command, struct gt_err *err)
{
	struct gt_comm *comm = &hosts->comm;
	struct gt_cmd_files *files = comm->group ? &hosts->files : NULL;
	struct gt_stop *stop = &hosts->stop;
	int rc = listen_for_hosts(hosts, err);

	if (rc)
		return rc;
	if (cli->dry_run)
		plan_for_all(comm, cli, world);
	else if (world->size > 1)
		rc = join_train_ranks(comm, world, env, cli, command, err);
	if (!rc && !(cli->dry_run && world->rank)) {
		rc = train(env, cli, comm, files, stop, err);
		if (!rc)
			rc = gt_comm_finish(comm, err);
		if (!rc || !files)
			gt_comm_leave(comm);
	}
	/* All ranks are sent a signal, and the first one to hear of it tells the others: theirs may
	 * come when they have done as it asks. */
	if (world->size > 1) {
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
	}
	release_stop(hosts);
	/* For a launcher a rank that ends by a signal has failed, so torchrun would start all ranks
	 * again. The launcher got the signal, too, and ends by it. */
	if (world->size == 1)
		env->asked = stop->asked;
	return rc;
}

/* The thread that listens for signals writes to the log, too: the log owns the drawn line while
 * that thread runs. */
static int compute(struct gt_cmd_env *env, struct gt_train_cli *cli, const struct gt_world *world,
    struct hosts *hosts, const char *command, struct gt_err *err)
{
	int rc;

	/* A dry run plans one rank for all, without the others. */
	if (gt_cmd_is_threads(cli) && (!cli->dry_run || world->size > 1))
		rc = run_threads(env, cli, world, err);
	else
		rc = train_as_rank(env, cli, world, hosts, command, err);
	return rc;
}

/* Refuse MPI for threads, and for ranks that our launcher starts. */
static int check_mpi(
    const struct gt_train_cli *cli, bool launches, const char *command, struct gt_err *err)
{
	if (gt_cmd_is_threads(cli) || cli->verify_parallel) {
		gt_err_set(
		    err, GT_EINVAL, "--backend mpi: threads of one process share memory (shm)");
		return gt_err_hint(err, cli->verify_parallel
		                            ? "leave out --backend with --verify-parallel"
		                            : "leave out --backend, or choose another --parallel");
	}
	return launches ? gt_cmd_fail_launch(cli->train.nproc, command, err) : 0;
}

/* Refuse, before ranks are started, requests that they would refuse. */
static int check_train_ranks(const struct gt_train_cli *cli, struct gt_err *err)
{
	int rc = gt_train_check_options(&cli->train, cli->train.nproc, err);

	/* Before their logs are there. */
	return rc || cli->dry_run ? rc : gt_train_check_out(&cli->train, err);
}

/* Ranks of several hosts meet first, so that those without the files of rank 0 get them. */
static int meet_hosts(struct hosts *hosts, struct gt_cmd_env *env, struct gt_train_cli *cli,
    const char *command, struct gt_err *err)
{
	struct gt_world world;
	int rc;

	if (cli->dry_run || cli->verify_parallel)
		return 0;
	rc = gt_world_from_environment(&world, err);
	if (rc || world.size == 1 || gt_world_on_one_host(&world))
		return rc;
	/* Another number of ranks is refused later, for which the others are not waited for. */
	if (gt_opts_source(&env->opts, "nproc") == GT_OPT_COMMAND_LINE &&
	    cli->train.nproc != world.size)
		return 0;
	rc = listen_for_hosts(hosts, err);
	if (!rc)
		rc = gt_cmd_join(&hosts->comm, &world, &cli->comm, env, command, err);
	if (!rc)
		rc = gt_cmd_files_share(&hosts->files, env, cli, &hosts->comm, err);
	return rc;
}

/* The ranks have met by the options of the command line. Tell if a file has others. */
static int check_met(const struct hosts *hosts, struct gt_cmd_env *env,
    const struct gt_train_cli *cli, double timeout_s, struct gt_err *err)
{
	bool by_mpi = !hosts->comm.rendezvous;

	if (cli->comm.backend == GT_COMM_MPI && !by_mpi) {
		gt_err_set(
		    err, GT_EINVAL, "{backend} mpi of a file comes too late on several hosts");
		return gt_err_hint(err, "give it on the command line, too");
	}
	if (cli->comm.timeout_s != timeout_s && !hosts->comm.world.rank)
		gt_log_warn(&env->log,
		    "{timeout} %g of a file has no effect on several hosts, which wait for %g s: "
		    "give it on the command line",
		    cli->comm.timeout_s, timeout_s);
	return 0;
}

/* The ranks that are left get the error of the first one that failed. */
static int fail_on_hosts(struct gt_comm *comm, struct gt_err *err)
{
	char host[64] = "";

	if (!err->follows && !err->lost) {
		(void)gethostname(host, sizeof(host) - 1);
		gt_err_prefix(err, "rank %d on host %s", comm->world.rank, host);
	}
	return gt_group_fail(comm->group, err);
}

static void leave_hosts(struct hosts *hosts, int rc, struct gt_err *err)
{
	if (rc && hosts->comm.group)
		fail_on_hosts(&hosts->comm, err);
	gt_comm_leave(&hosts->comm);
	gt_cmd_files_release(&hosts->files);
	release_stop(hosts);
}

/* Whether this rank tells how to go on after another one is lost, as gtrain's launcher does for the
 * ranks that it starts: rank 0, and the first rank of each other host, as rank 0 may be lost, too.
 */
static bool is_to_say_lost(const struct gt_world *world, const struct gt_err *err)
{
	if (world->size == 1 || world->source == GT_WORLD_GTRAIN)
		return false;
	if (!world->rank)
		return err->lost || err->follows;
	return err->lost && (!world->local_rank || (err->lost == 1 && world->rank == 1));
}

static int run_train(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_train_cli *cli = values;
	struct gt_world world = { .size = 1 };
	struct made made = { 0 };
	struct hosts hosts = { 0 };
	struct gt_cmd_hosts far = { 0 };
	char *command = NULL;
	bool launches = false;
	double timeout_s;
	int rc = gt_cmd_command_line(&command, env->argc, env->argv, err);

	if (!rc)
		rc = meet_hosts(&hosts, env, cli, command, err);
	timeout_s = cli->comm.timeout_s;
	if (!rc)
		rc = complete(env, cli, err);
	if (!rc && hosts.comm.group)
		rc = check_met(&hosts, env, cli, timeout_s, err);
	if (!rc && hosts.comm.group)
		rc = gt_cmd_files_resume(&hosts.files, env, cli, &hosts.comm, err);
	if (!rc)
		rc = gt_cmd_hosts_read(&far, env, cli, err);
	if (!rc)
		rc = gt_cmd_find_ranks(&world, env, &cli->train.nproc, cli->train.where.devices,
		    cli->comm.backend, &launches, err);
	if (!rc)
		rc = gt_cmd_hosts_check(&launches, &far, cli, &world, err);
	if (!rc && cli->comm.backend == GT_COMM_MPI)
		rc = check_mpi(cli, launches, command, err);
	if (!rc && launches && !cli->verify_parallel)
		rc = check_train_ranks(cli, err);
	if (!rc)
		gt_cmd_restart_for_shared_gpus(cli, env->argc, env->argv, &env->log);
	if (!rc && cli->train.nproc == 1 && world.size == 1)
		gt_cmd_train_warn_alone(env, cli);
	if (!rc && !cli->dry_run && !far.count && (launches || world.source == GT_WORLD_ALONE))
		gt_cmd_warn_threads(&env->log, cli->threads, launches ? cli->train.nproc : 1);
	if (!rc && !cli->train.out)
		rc = choose_out(
		    &made, env, cli, !cli->dry_run && !cli->verify_parallel && !world.rank, err);
	if (!rc && cli->verify_parallel)
		rc = gt_cmd_train_verify(cli, err);
	else if (!rc && launches && !cli->dry_run && !gt_cmd_is_threads(cli))
		rc = launch(env, cli, &far, err);
	else if (!rc)
		rc = compute(env, cli, &world, &hosts, command, err);
	leave_hosts(&hosts, rc, err);
	if (rc && is_to_say_lost(&world, err))
		gt_cmd_train_say_lost(env, cli->train.out);
	remove_empty(&made, cli->train.out);
	free(command);
	return rc;
}

const struct gt_cmd_work gt_cmd_train = { gt_train_rows, sizeof(struct gt_train_cli), run_train };
