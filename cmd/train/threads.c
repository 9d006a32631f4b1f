/* threads.c - training on ranks that are threads of this process. */
#include "cmd/train/threads.h"

#include <stdlib.h>

#include "lib/base/text.h"
#include "lib/comm/comm.h"
#include "lib/device/cpu.h"
#include "lib/train/tensorboard/tensorboard.h"

struct job {
	const struct gt_cmd_threads *of;
	int64_t threads; /* OpenMP threads of each rank; 0: OpenMP's default */
};

bool gt_cmd_is_threads(const struct gt_train_cli *cli)
{
	return gt_parallel_is_threads(cli->train.parallel.kind);
}

int gt_cmd_train_thread_ranks(const struct gt_train_cli *cli)
{
	enum { FEWEST_TO_VERIFY = 2 };

	if (cli->verify_parallel)
		return cli->train.nproc < FEWEST_TO_VERIFY ? FEWEST_TO_VERIFY : cli->train.nproc;
	return gt_cmd_is_threads(cli) ? cli->train.nproc : 1;
}

/* ---- ranks ---- */

static int check_world(
    const struct gt_cmd_threads *of, const struct gt_world *world, struct gt_err *err)
{
	const char *mode = gt_parallel_names[of->cli->train.parallel.kind];

	if (world->size == 1)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "--parallel %s: its ranks are threads of one process, but %s has started %d processes",
	    mode, gt_world_source_name(world->source), world->size);
	return gt_err_hint(
	    err, "take --parallel ddp, or start gtrain by itself with --nproc %d", world->size);
}

int gt_cmd_divide_processors(int64_t *threads, int64_t requested, int64_t ranks, struct gt_err *err)
{
	struct gt_cpu cpu;

	*threads = requested;
	if (requested || getenv("OMP_NUM_THREADS"))
		return 0;
	if (gt_cpu_read(&cpu, "", err))
		return err->code;
	*threads = (int64_t)cpu.usable / ranks;
	if (*threads < 1)
		*threads = 1;
	gt_cpu_release(&cpu);
	return 0;
}

/* A few ranks more than processors are for trying out a mode. */
enum { MOST_PER_PROCESSOR = 4 };

void gt_cmd_warn_threads(struct gt_log *log, int64_t requested, int64_t ranks)
{
	const char *variable = getenv("OMP_NUM_THREADS");
	int64_t threads = requested;
	struct gt_cpu cpu;

	if (!threads && variable && !gt_text_parse_int(&threads, variable))
		return; /* a list for nested parts */
	if (gt_cpu_read(&cpu, "", GT_ERR_IGNORED))
		return;
	if (threads > 1 && threads > (int64_t)cpu.usable / ranks)
		gt_log_warn(log,
		    "%s%s %lld: with %lld %s, that is more than the %zu processors here, and slower",
		    requested ? GT_CMD_OPTION : "", requested ? "threads" : "OMP_NUM_THREADS",
		    (long long)threads, (long long)ranks, ranks > 1 ? "ranks" : "rank", cpu.usable);
	else if (ranks > MOST_PER_PROCESSOR * (int64_t)cpu.usable)
		gt_log_warn(log,
		    "%lld ranks share %zu processor%s, which is far slower than as many ranks as processors",
		    (long long)ranks, cpu.usable, cpu.usable == 1 ? "" : "s");
	else if (ranks > (int64_t)cpu.usable)
		gt_log_verbose(
		    log, "%lld ranks share %zu processors", (long long)ranks, cpu.usable);
	gt_cpu_release(&cpu);
}

/* Train as a rank other than rank 0. It sends its shards for histograms, too. */
static int train_thread_rank(
    const struct gt_cmd_threads *of, struct gt_train *t, struct gt_log *log, struct gt_err *err)
{
	const struct gt_tensorboard_options options = { .histogram_every = of->cli->histogram_every,
		.log = log };
	struct gt_tensorboard *tensorboard = NULL;
	struct gt_observer observer = { 0 };
	struct gt_train_result result;
	int rc = of->cli->tensorboard ? gt_tensorboard_new(&tensorboard, t, &options, err) : 0;

	if (tensorboard)
		observer = gt_tensorboard_observer(tensorboard);
	if (!rc)
		rc = gt_train_run(t, NULL, &observer, tensorboard != NULL, of->stop, &result, err);
	gt_tensorboard_free(tensorboard);
	return rc;
}

/* Rank 0's messages stand for all ranks'. */
static int follow(const struct gt_cmd_threads *of, struct gt_group *group, struct gt_err *err)
{
	struct gt_train_options options = of->options;
	struct gt_log silent = { .stream = fopen("/dev/null", "we"), .level = GT_LOG_QUIET };
	struct gt_train *t = NULL;
	int rc;

	if (!silent.stream)
		return gt_err_sys(err, "cannot open '/dev/null'");
	options.where.group = group;
	options.where.host_rank = group->rank;
	rc = gt_train_open(&t, &options, of->cli->dry_run, &silent, err);
	if (!rc && !of->cli->dry_run)
		rc = train_thread_rank(of, t, &silent, err);
	gt_train_close(t);
	fclose(silent.stream);
	return rc;
}

static int run_thread_rank(void *self, struct gt_group *group, struct gt_err *err)
{
	const struct job *job = self;

	gt_cmd_set_threads(job->threads);
	return group->rank ? follow(job->of, group, err) : job->of->lead(job->of->self, group, err);
}

int gt_cmd_train_threads(
    const struct gt_cmd_threads *of, const struct gt_world *world, struct gt_err *err)
{
	const struct gt_threads_options options = { .shm = { .timeout_s = of->cli->comm.timeout_s },
		.ring = of->cli->comm.backend == GT_COMM_RING };
	struct job job = { .of = of };

	if (check_world(of, world, err) ||
	    gt_cmd_divide_processors(&job.threads, of->cli->threads, of->cli->train.nproc, err))
		return err->code;
	return gt_threads_run(of->cli->train.nproc, &options, run_thread_rank, &job, err);
}
