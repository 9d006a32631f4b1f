/* ranks.h - commands that run as several ranks. */
#ifndef GT_CMD_RANKS_H
#define GT_CMD_RANKS_H

#include <stdio.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/comm/launch.h"

struct gt_cmd_ranks {
	int64_t nproc;
	int max_restarts;
	const struct gt_folder *log_dir; /* or NULL */
	const char *out; /* what --out is on every rank, as it depends on the clock; or NULL */
	bool results;    /* rank 0 has some for standard output */
};

/* A word as the shell reads it back; the command's words after "gtrain", yours to free(). */
void gt_cmd_print_word(FILE *stream, const char *word);
int gt_cmd_command_line(char **out, int argc, char **argv, struct gt_err *err);

/* GT_EINVAL: our launcher starts no ranks for MPI; the hint says what does. */
int gt_cmd_refuse_launch(int64_t nproc, const char *command, struct gt_err *err);

/* Who this process is. *launch gets whether several ranks are wanted and somebody has to start
 * them: us. */
int gt_cmd_find_world(struct gt_world *world, int64_t nproc, bool *launch, struct gt_err *err);

/* Start this command line (argc, argv: the command's) on every rank and wait for all. *status gets
 * the exit status. No signal may be blocked. */
int gt_cmd_launch(int *status, const struct gt_cmd_ranks *ranks, struct gt_cmd_env *env, int argc,
    char **argv, struct gt_err *err);

#endif
