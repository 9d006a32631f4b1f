/* ranks.h - commands that run as several ranks. */
#ifndef GT_CMD_RANKS_H
#define GT_CMD_RANKS_H

#include <stdio.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/comm/launch/launch.h"

struct gt_cmd_ranks {
	int64_t nproc;
	bool *killed; /* gets whether a signal killed the rank that failed first; may be NULL */
	int max_restarts;
	const struct gt_folder *log_dir; /* or NULL */
	bool rank_0_speaks; /* other ranks say nothing unless they fail (comm/launch/launch.h) */
	const char *out; /* the value of --out on every rank, as it depends on the clock; or NULL */
	bool results;    /* rank 0 has some for standard output */
};

/* Rows of options of such commands. */
/* clang-format off */
#define GT_CMD_NPROC(cli_type, member, default_count, text) \
	{ "nproc", 0, GT_OPT_INT, GT_OPT_FIELD(cli_type, member), "N", text, \
	    .initial = default_count, .min = 1, .max = GT_SHM_MAX_RANKS }
#define GT_CMD_BACKEND(cli_type, member) \
	{ "backend", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, member), \
	    .words = gt_comm_backend_names, .initial = "auto", \
	    .help = "how ranks reach each other; auto: shm or mpi, between GPUs nccl or ring" }
#define GT_CMD_TIMEOUT(cli_type, member, default_time) \
	{ "timeout", 0, GT_OPT_DURATION, GT_OPT_FIELD(cli_type, member), "TIME", \
	    "a rank that is later than this is lost", .initial = default_time, .max = 1e6, \
	    .flags = GT_OPT_ABOVE }
/* clang-format on */

/* A word as the shell reads it back; the command's words after "gtrain", yours to free(). */
void gt_cmd_print_word(FILE *stream, const char *word);
int gt_cmd_command_line(char **out, int argc, char **argv, struct gt_err *err);

/* GT_EINVAL: our launcher starts no ranks for MPI; the hint names the command that does. */
int gt_cmd_fail_launch(int64_t nproc, const char *command, struct gt_err *err);

/* This process's rank and world size. *launch: several ranks are wanted, and this process has to
 * start them. */
int gt_cmd_find_world(struct gt_world *world, int64_t nproc, bool *launch, struct gt_err *err);

/* The same where a launcher's world of one, as a batch job's only task is, leaves it to us to start
 * more. On MPI, where that cannot be, *nproc becomes 1. */
int gt_cmd_find_ranks(struct gt_world *world, int *nproc, enum gt_comm_backend backend,
    bool *launch, struct gt_err *err);

/* gt_comm_join() with ranks that were told the same options: different ones would compute nonsense.
 */
int gt_cmd_join(struct gt_comm *comm, const struct gt_world *world,
    const struct gt_comm_options *options, const struct gt_cmd_env *env, const char *command,
    struct gt_err *err);

/* Start this command line (argc, argv: the command's) on every rank and wait for all. *status gets
 * the exit status. No signal may be blocked. */
int gt_cmd_launch(int *status, const struct gt_cmd_ranks *ranks, struct gt_cmd_env *env, int argc,
    char **argv, struct gt_err *err);

/* A command whose ranks divide its work among them, and whose rank 0 prints the results. */
struct gt_cmd_job {
	int *nproc; /* as asked for; becomes the world size */
	const struct gt_comm_options *comm;
	/* Find faults that all ranks would report, before there are any. */
	int (*check)(void *self, struct gt_err *err);
	/* Do the work as one rank of `comm`, or alone. */
	int (*run)(
	    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err);
	void *self;
};

/* Unless rc, the result of the steps before, is an error: start the ranks and wait for them, or be
 * one. End the command as gt_cmd_end() does, and return the exit status. */
int gt_cmd_end_job(struct gt_cmd_env *env, const struct gt_cmd_job *job, int argc, char **argv,
    int rc, struct gt_err *err);

#endif
