/* ranks.h - start a command on several ranks, and connect the ranks with each other. */
#ifndef GT_CMD_RANKS_H
#define GT_CMD_RANKS_H

#include <stdio.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/comm/launch/launch.h"
#include "lib/train/session.h"

/* How to start the ranks of a command on this host (lib/comm/launch/launch.h). */
struct gt_cmd_ranks {
	int64_t nproc; /* number of ranks */
	/* Output: whether the rank that failed first was killed by a signal. May be NULL. */
	bool *killed;
	int max_restarts;                /* how often all ranks may be restarted after a failure */
	const struct gt_folder *log_dir; /* folder of the ranks' logs, or NULL */
	/* Return whether the logs would be kept if the job failed now. Messages name a log file
	 * only if this returns true. NULL: logs are kept. */
	bool (*keeps_logs)(void *self);
	void *self; /* passed to keeps_logs() */
	/* Show only the messages of rank 0 and of the rank that fails first. Ignored if log_dir is
	 * set. */
	bool rank_0_prints;
	/* The value of --out that all ranks get, or NULL. The default of --out depends on the
	 * clock, so each rank would otherwise choose its own folder. */
	const char *out;
	bool results; /* rank 0 writes the results of the command to standard output */
};

/* Print one word of a command line, in quotes if a shell would change it otherwise. */
void gt_cmd_print_word(FILE *stream, const char *word);

/* Set *out to the command line "gtrain COMMAND ARGUMENTS...", quoted for a shell. argv[0] is the
 * name of the command. The caller frees *out with free(). Errors: GT_ENOMEM. */
int gt_cmd_command_line(char **out, int argc, char **argv, struct gt_err *err);

/* Set the error GT_EINVAL. Call this if the user asked for --backend mpi, but did not start gtrain
 * with mpirun: gtrain cannot start ranks that use MPI. The hint of the error shows the mpirun
 * command that starts `nproc` ranks of `command`, a command line of gt_cmd_command_line(). */
int gt_cmd_fail_launch(int64_t nproc, const char *command, struct gt_err *err);

/* Set *world to the rank of this process and the number of ranks. A launcher, such as mpirun,
 * passes these numbers in environment variables. `nproc` is the number of ranks that the user
 * wants. If no launcher has started this process and `nproc` is larger than 1, set *launch to true:
 * this process has to start the ranks. Otherwise set *launch to false. Errors: GT_EINVAL if a
 * launcher has started several ranks, but the command line has --nproc with another number. */
int gt_cmd_find_world(struct gt_world *world, const struct gt_cmd_env *env, int64_t nproc,
    bool *launch, struct gt_err *err);

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
    const char *device, enum gt_comm_backend backend, bool *launch, struct gt_err *err);

/* Join the other ranks with gt_comm_join(). Fail if the ranks do not all have the same version of
 * gtrain, the same options and the same operands, because the results would be wrong. `command` is
 * the command line, for messages. */
int gt_cmd_join(struct gt_comm *comm, const struct gt_world *world,
    const struct gt_comm_options *options, const struct gt_cmd_env *env, const char *command,
    struct gt_err *err);

/* Set the group and the place on this host in *where to those of this rank. */
void gt_cmd_place_rank(struct gt_where *where, const struct gt_comm *comm);

/* Start ranks->nproc processes of this program on this host, one for each rank, with the arguments
 * argv. Wait until all of them have ended. Set *status to the exit status of the command. The
 * calling thread must have no signals blocked. If an option cannot be written as JSON, fail before
 * any process starts: gt_cmd_join() needs the JSON, so every rank would report the same error. */
int gt_cmd_launch(int *status, const struct gt_cmd_ranks *ranks, struct gt_cmd_env *env, int argc,
    char **argv, struct gt_err *err);

/* A command that divides its work among its ranks. Rank 0 prints the results. */
struct gt_cmd_job {
	int *nproc;                /* input: the value of --nproc, or 0; output: the world size */
	const char *const *device; /* the value of --device */
	const struct gt_comm_options *comm; /* how the ranks exchange data */
	/* Check for errors that every rank would report. The process that starts the ranks calls
	 * check() before it starts them. */
	int (*check)(void *self, struct gt_err *err);
	/* Do the work of one rank. `comm` is zeroed if there is only one rank. */
	int (*run)(
	    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err);
	void *self; /* passed to check() and run() */
};

/* Do the job, and end the command. `rc` is 0, or the error code of an earlier step of the command.
 * If `rc` is 0, either start the ranks and wait for them, or do the work of this rank. In every
 * case call gt_cmd_end() at the end, and return the exit status. */
int gt_cmd_end_job(struct gt_cmd_env *env, const struct gt_cmd_job *job, int argc, char **argv,
    int rc, struct gt_err *err);

#endif
