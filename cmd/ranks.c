/* ranks.c - commands that run as several ranks. */
#include "cmd/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/opt_json.h"
#include "lib/base/progress.h"
#include "lib/device/name.h"

enum { MORE_WORDS = 6 }; /* the program, a name of two, --out DIR, the end */

/* This program with the words of its command line. */
static char **words_of(
    struct gt_arena *arena, const char *out, int argc, char **argv, struct gt_err *err)
{
	char **words = gt_arena_alloc(arena, (size_t)(argc + MORE_WORDS) * sizeof(*words), err);
	char *name = words ? gt_arena_strdup(arena, argv[0], err) : NULL;
	char *rest;
	int n = 0;

	if (!name)
		return NULL;
	words[n++] = "gtrain";
	for (char *word = strtok_r(name, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		words[n++] = word;
	if (out) { /* before the rest, in which "--" may end the options */
		words[n++] = "--out";
		words[n++] = (char *)out;
	}
	for (int i = 1; i < argc; i++)
		words[n++] = argv[i];
	words[n] = NULL;
	return words;
}

void gt_cmd_print_word(FILE *stream, const char *word)
{
	const char *plain =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,=@%";

	if (*word && word[strspn(word, plain)] == '\0') {
		fputs(word, stream);
		return;
	}
	fputc('\'', stream);
	for (; *word; word++)
		*word == '\'' ? fputs("'\\''", stream) : fputc(*word, stream);
	fputc('\'', stream);
}

int gt_cmd_command_line(char **out, int argc, char **argv, struct gt_err *err)
{
	size_t size = 0;
	FILE *stream = open_memstream(out, &size);

	if (!stream)
		return gt_err_sys(err, "cannot write down the command line");
	fprintf(stream, "gtrain %s", argv[0]);
	for (int i = 1; i < argc; i++) {
		fputc(' ', stream);
		gt_cmd_print_word(stream, argv[i]);
	}
	return fclose(stream) ? gt_err_sys(err, "cannot write down the command line") : 0;
}

int gt_cmd_fail_launch(int64_t nproc, const char *command, struct gt_err *err)
{
	const struct gt_world world = { .size = (int)nproc, .local_size = (int)nproc };
	char line[sizeof(err->hint)];

	gt_err_set(err, GT_EINVAL, "--backend mpi: ranks on MPI are started by mpirun");
	gt_comm_mpirun_line(line, sizeof(line) - 32, &world, command);
	return gt_err_hint(err, "start them by MPI: %s", line);
}

/* A config.json may have the number of another run, and is not compared. */
static int check_nproc(
    const struct gt_world *world, const struct gt_cmd_env *env, int64_t nproc, struct gt_err *err)
{
	if (world->size == 1 || world->size == nproc ||
	    gt_opts_source(&env->opts, "nproc") != GT_OPT_COMMAND_LINE)
		return 0;
	gt_err_set(err, GT_EINVAL, "--nproc %lld: the launcher (%s) has started %d ranks",
	    (long long)nproc, gt_world_source_name(world->source), world->size);
	return gt_err_hint(err, "leave out --nproc under a launcher, or give it the same number");
}

int gt_cmd_find_world(struct gt_world *world, const struct gt_cmd_env *env, int64_t nproc,
    bool *launch, struct gt_err *err)
{
	int rc = gt_world_from_environment(world, err);

	*launch = !rc && world->source == GT_WORLD_ALONE && nproc > 1;
	return rc ? rc : check_nproc(world, env, nproc, err);
}

/* Return the default of --nproc. The commands report an error of the list when they check
 * --device. */
static int ranks_for(const char *device)
{
	struct gt_err ignored = GT_ERR_INIT;
	struct gt_device_name *names;
	size_t count;

	if (!device || gt_device_names_read(&names, &count, device, gt_backends, &ignored))
		return 1;
	free(names);
	return count < GT_SHM_MAX_RANKS ? (int)count : GT_SHM_MAX_RANKS;
}

/* Do these steps:
 *
 * - If *nproc is 0, set *nproc to the number of GPUs in the list of devices `device`
 *   (lib/device/name.h), at most GT_SHM_MAX_RANKS. If the device is the CPU or the list has an
 *   error, set *nproc to 1.
 * - Call gt_cmd_find_world().
 * - If a launcher has started this process and no others, as in a batch job with one task, this
 *   process may still start ranks itself. So set *launch to true if *nproc is larger than 1. But if
 *   `backend` is MPI, first set *nproc to 1, because gtrain cannot start ranks that use MPI. */
int gt_cmd_find_ranks(struct gt_world *world, const struct gt_cmd_env *env, int *nproc,
    const char *device, enum gt_comm_backend backend, bool *launch, struct gt_err *err)
{
	int rc;

	if (!*nproc)
		*nproc = ranks_for(device);
	rc = gt_cmd_find_world(world, env, *nproc, launch, err);
	if (rc || *launch || world->source == GT_WORLD_ALONE || world->size > 1)
		return rc;
	if (backend == GT_COMM_MPI)
		*nproc = 1;
	*launch = *nproc > 1;
	return 0;
}

void gt_cmd_place_rank(struct gt_where *where, const struct gt_comm *comm)
{
	where->group = comm->group;
	where->host_ranks = comm->world.local_size;
	where->host_rank = comm->world.local_rank;
}

/* All options and operands, a line each. */
static char *agreement_of(const struct gt_cmd_env *env, struct gt_err *err)
{
	json_t *options = gt_opts_to_json(&env->opts, err), *value;
	char *text = NULL;
	size_t size = 0;
	const char *key;
	FILE *stream = options ? open_memstream(&text, &size) : NULL;

	if (!stream) {
		if (options)
			gt_err_set(err, GT_ENOMEM, "out of memory");
		json_decref(options);
		return NULL;
	}
	fprintf(stream, "version %s\n", GT_VERSION);
	json_object_foreach(options, key, value)
	{
		fprintf(stream, "%s ", key);
		json_dumpf(value, stream, JSON_ENCODE_ANY | JSON_COMPACT);
		putc('\n', stream);
	}
	for (int i = 0; i < env->opts.operand_count; i++)
		fprintf(stream, "operand-%d %s\n", i + 1, env->opts.operands[i]);
	json_decref(options);
	if (fclose(stream)) {
		gt_err_sys(err, "cannot write down the options");
		free(text);
		return NULL;
	}
	return text;
}

void gt_cmd_warn_of_secret(struct gt_log *log, const struct gt_comm *comm)
{
	const struct gt_world *w = &comm->world;

	if (w->rank || !w->derives_secret || w->local_size == w->size || !comm->rendezvous)
		return;
	gt_log_warn(log,
	    "GTRAIN_SECRET is not set: other hosts may join this job if they know its port "
	    "and its id; set it to the same on all ranks, to the output of `openssl rand "
	    "-hex 32`");
}

int gt_cmd_join(struct gt_comm *comm, const struct gt_world *world,
    const struct gt_comm_options *options, struct gt_cmd_env *env, const char *command,
    struct gt_err *err)
{
	struct gt_comm_options o = *options;
	char *agreement = agreement_of(env, err);
	int rc;

	if (!agreement)
		return err->code;
	o.agreement = agreement;
	o.command = command;
	rc = gt_comm_join(comm, world, &o, err);
	free(agreement);
	if (!rc)
		gt_cmd_warn_of_secret(&env->log, comm);
	return rc;
}

/* Every rank writes the options as JSON. Report a failure once, before the ranks start. */
static int check_options(const struct gt_cmd_env *env, struct gt_err *err)
{
	json_t *options = gt_opts_to_json(&env->opts, err);

	json_decref(options);
	return options ? 0 : err->code;
}

/* A rank that was killed has failed, unless the user ended the job. */
static int status_of(const struct gt_launch_end *end)
{
	if (end->asked && (end->status == GT_EXIT_DONE || end->status > GT_LAUNCH_KILLED))
		return GT_EXIT_SIGNAL + end->asked;
	return end->status > GT_EXIT_USAGE ? GT_EXIT_FAILED : end->status;
}

int gt_cmd_launch(const struct gt_cmd_ranks *ranks, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_launch_options options = { .nproc = (int)ranks->nproc,
		.hosts = ranks->hosts,
		.host_count = ranks->host_count,
		.ssh = ranks->ssh,
		.program = "/proc/self/exe",
		.log_dir = ranks->log_dir,
		.keeps_logs = ranks->keeps_logs,
		.self = ranks->self,
		.rank_0_prints = ranks->rank_0_prints,
		.max_restarts = ranks->max_restarts,
		.log = &env->log };
	struct gt_progress drawing = { .stream = stderr };
	struct gt_arena arena = { 0 };
	struct gt_launch_end end;
	bool killed;
	int rc = check_options(env, err);

	if (rc)
		return rc;
	/* Results of ranks go to the terminal directly, where they would meet the line that the
	 * launcher has drawn for rank 0. */
	if (gt_cmd_can_draw(STDERR_FILENO) && !(ranks->results && isatty(STDOUT_FILENO)))
		options.columns = gt_progress_columns(&drawing);
	options.argv = words_of(&arena, ranks->out, env->argc, env->argv, err);
	rc = options.argv ? gt_launch(&end, &options, err) : GT_ENOMEM;
	killed = !rc && end.status > GT_LAUNCH_KILLED;
	if (ranks->killed)
		*ranks->killed = killed;
	if (!rc)
		env->status = status_of(&end);
	if (killed && !end.asked)
		rc = gt_err_set(
		    err, GT_EIO, "the job has failed, because rank %d was killed", end.rank);
	gt_arena_release(&arena);
	return rc;
}

static int launch_job(
    const struct gt_cmd_job *job, struct gt_cmd_env *env, const char *command, struct gt_err *err)
{
	const struct gt_cmd_ranks ranks = {
		.nproc = *job->nproc, .rank_0_prints = true, .results = true
	};
	int rc;

	if (job->comm->backend == GT_COMM_MPI)
		return gt_cmd_fail_launch(*job->nproc, command, err);
	rc = job->check(job->self, err);
	return rc ? rc : gt_cmd_launch(&ranks, env, err);
}

static int join_job(const struct gt_cmd_job *job, const struct gt_world *world,
    struct gt_cmd_env *env, const char *command, struct gt_err *err)
{
	struct gt_comm comm = { 0 };
	int rc = 0;

	*job->nproc = world->size;
	if (world->size > 1)
		rc = gt_cmd_join(&comm, world, job->comm, env, command, err);
	if (rc)
		return rc;
	rc = job->run(env, job->self, &comm, err);
	if (!rc)
		rc = gt_comm_finish(&comm, err);
	gt_comm_leave(&comm);
	return rc;
}

int gt_cmd_run_job(struct gt_cmd_env *env, const struct gt_cmd_job *job, struct gt_err *err)
{
	struct gt_world world;
	char *command = NULL;
	bool launches = false;
	int rc = gt_cmd_command_line(&command, env->argc, env->argv, err);

	if (!rc)
		rc = gt_cmd_find_ranks(
		    &world, env, job->nproc, *job->device, job->comm->backend, &launches, err);
	if (!rc && launches)
		rc = launch_job(job, env, command, err);
	else if (!rc)
		rc = join_job(job, &world, env, command, err);
	free(command);
	return rc;
}
