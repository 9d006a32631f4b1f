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
	/* start them by ssh, as gt_launch_options says; host_count 0: on this host */
	const struct gt_launch_host *hosts;
	int host_count;
	char *const *ssh;
	/* output: a signal killed the rank that failed first; may be NULL */
	bool *killed;
	int max_restarts;                /* limit of restarts of all ranks */
	const struct gt_folder *log_dir; /* folder of the ranks' logs, or NULL */
	/* whether the logs are kept if the job fails now; NULL: they are */
	bool (*keeps_logs)(void *self);
	void *self; /* passed to keeps_logs() */
	/* without log_dir: show only rank 0 and the rank that fails first */
	bool rank_0_prints;
	/* the same --out for all ranks, as its default depends on the clock; or NULL */
	const char *out;
	bool results; /* rank 0 writes results to standard output */
};

/* Print one word of a command line, in quotes if a shell would change it otherwise. */
void gt_cmd_print_word(FILE *stream, const char *word);

/* Set *out to "gtrain COMMAND ARGUMENTS...", quoted for a shell; the caller frees it. argv[0] is
 * the command. */
int gt_cmd_command_line(char **out, int argc, char **argv, struct gt_err *err);

/* Set GT_EINVAL for --backend mpi without mpirun, with a hint to start `nproc` ranks of `command`
 * (from gt_cmd_command_line()) by mpirun. */
int gt_cmd_fail_launch(int64_t nproc, const char *command, struct gt_err *err);

/* Set *world from the launcher's variables. *launch: this process has to start `nproc` ranks
 * itself. GT_EINVAL: a launcher has started another number of ranks than --nproc. */
int gt_cmd_find_world(struct gt_world *world, const struct gt_cmd_env *env, int64_t nproc,
    bool *launch, struct gt_err *err);

/* Resolve *nproc, 0 standing for the number of GPUs in `device`, and call gt_cmd_find_world(). */
int gt_cmd_find_ranks(struct gt_world *world, const struct gt_cmd_env *env, int *nproc,
    const char *device, enum gt_comm_backend backend, bool *launch, struct gt_err *err);

/* Join the other ranks with gt_comm_join(). Fail unless all have the same version, options and
 * operands. `command` is for messages. */
int gt_cmd_join(struct gt_comm *comm, const struct gt_world *world,
    const struct gt_comm_options *options, struct gt_cmd_env *env, const char *command,
    struct gt_err *err);

/* On rank 0 of several hosts: warn of a secret that is derived from the launcher's variables. */
void gt_cmd_warn_of_secret(struct gt_log *log, const struct gt_comm *comm);

/* Set the group and the place on this host of this rank. */
void gt_cmd_place_rank(struct gt_where *where, const struct gt_comm *comm);

/* Run ranks->nproc processes of this program with the same arguments, and set env->status to the
 * exit status. The calling thread must have no signals blocked. */
int gt_cmd_launch(const struct gt_cmd_ranks *ranks, struct gt_cmd_env *env, struct gt_err *err);

/* A command that divides its work among its ranks. Rank 0 prints the results. */
struct gt_cmd_job {
	int *nproc;                /* input: the value of --nproc, or 0; output: the world size */
	const char *const *device; /* the value of --device */
	const struct gt_comm_options *comm; /* how the ranks exchange data */
	/* Before ranks start: check for errors that every rank would report. */
	int (*check)(void *self, struct gt_err *err);
	/* Do the work of one rank. `comm` is zeroed if there is only one rank. */
	int (*run)(
	    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err);
	void *self; /* passed to check() and run() */
};

/* Check that required options are given, and start the ranks, or do the work of this rank. */
int gt_cmd_run_job(struct gt_cmd_env *env, const struct gt_cmd_job *job, struct gt_err *err);

#endif
