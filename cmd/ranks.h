/* ranks.h - commands that run as several ranks. */
#ifndef GT_CMD_RANKS_H
#define GT_CMD_RANKS_H

#include <stdio.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/comm/launch/launch.h"

struct gt_cmd_ranks {
	int64_t nproc;
	bool *killed; /* set to whether a signal killed the rank that failed first; may be NULL */
	int max_restarts;
	const struct gt_folder *log_dir; /* or NULL */
	bool rank_0_speaks; /* other ranks say nothing unless they fail (comm/launch/launch.h) */
	/* the value of --out for all ranks, since its default depends on the clock; or NULL */
	const char *out;
	bool results; /* rank 0 writes results to standard output */
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
	    "give up on a rank that does not respond within this time", .initial = default_time, .max = 1e6, \
	    .flags = GT_OPT_ABOVE }
/* clang-format on */

/* Print a word quoted for the shell. Join the words of the command after "gtrain" to one line,
 * yours to free(). */
void gt_cmd_print_word(FILE *stream, const char *word);
int gt_cmd_command_line(char **out, int argc, char **argv, struct gt_err *err);

/* Set GT_EINVAL: gtrain's launcher does not start MPI ranks. The hint names the mpirun command that
 * does. */
int gt_cmd_fail_launch(int64_t nproc, const char *command, struct gt_err *err);

/* This process's rank and world size. *launch is set if several ranks are wanted and this process
 * has to start them. */
int gt_cmd_find_world(struct gt_world *world, int64_t nproc, bool *launch, struct gt_err *err);

/* The same, for commands that also start ranks inside a launcher's world of size 1, for example in
 * the only task of a batch job. With MPI this is impossible, so *nproc becomes 1. */
int gt_cmd_find_ranks(struct gt_world *world, int *nproc, enum gt_comm_backend backend,
    bool *launch, struct gt_err *err);

/* Call gt_comm_join(), and check that all ranks have the same options: with different options the
 * results would be wrong.
 */
int gt_cmd_join(struct gt_comm *comm, const struct gt_world *world,
    const struct gt_comm_options *options, const struct gt_cmd_env *env, const char *command,
    struct gt_err *err);

/* Run the command with the arguments argc, argv on every rank, and wait for all ranks. *status
 * becomes the exit status. No signal may be blocked. */
int gt_cmd_launch(int *status, const struct gt_cmd_ranks *ranks, struct gt_cmd_env *env, int argc,
    char **argv, struct gt_err *err);

/* A command whose ranks divide its work among them, and whose rank 0 prints the results. */
struct gt_cmd_job {
	int *nproc; /* in: the number asked for; out: the world size */
	const struct gt_comm_options *comm;
	/* Check for faults that every rank would report. Runs before ranks are started. */
	int (*check)(void *self, struct gt_err *err);
	/* Do the work as one rank of `comm`, or alone. */
	int (*run)(
	    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err);
	void *self;
};

/* If rc, the result of earlier steps, is 0: start the ranks and wait for them, or run as one of
 * them. Then end the command like gt_cmd_end(), and return the exit status. */
int gt_cmd_end_job(struct gt_cmd_env *env, const struct gt_cmd_job *job, int argc, char **argv,
    int rc, struct gt_err *err);

#endif
