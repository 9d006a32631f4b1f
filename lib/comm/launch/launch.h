/* launch.h - start the ranks of this host, watch them, and leave nothing behind. */
#ifndef GT_COMM_LAUNCH_LAUNCH_H
#define GT_COMM_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/base/log.h"

struct gt_launch_options {
	int nproc;           /* 1 to GT_WORLD_MAX_RANKS */
	const char *program; /* the path that each rank executes */
	char *const *argv;   /* its arguments, from argv[0], the name, on; ended by NULL */
	/* For rank-N.log, each rank's standard error; NULL: all to ours. */
	const struct gt_folder *log_dir;
	bool rank_0_speaks; /* without log_dir: others are shown only if they fail first */
	int max_restarts;   /* of the whole job, after a rank has failed */
	struct gt_log *log; /* our standard error */
	int columns; /* of the terminal that it is, on which rank 0 may draw; 0: it may not */
};

/* The value of the SIGTERM (sigqueue()) by which a rank is asked to end because another is lost. */
enum { GT_LAUNCH_RANK_LOST = 1 };

/*
 * Run the job: nproc processes with torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK,
 * LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and GTRAIN_SECRET, GTRAIN_RESTART; rank 0 inherits a
 * socket that listens at that port already (GTRAIN_LISTEN_FD), so nobody can take it in between.
 * gt_world_from_environment() reads all of it. Secret and port are new at each start.
 *
 * Output. Standard input of all is empty. Standard output of rank 0 is ours, that of others is
 * thrown away. Standard error of rank 0 goes to its log and, by whole lines, to ours; that of
 * others to their logs alone, and the last ten lines to ours, after "rank N: ", when the rank is
 * the first to fail. Logs are appended to. Without log_dir all lines come to ours, those of other
 * ranks than 0 after "rank N: "; with rank_0_speaks they come as if there were logs. With columns,
 * rank 0 finds them in GTRAIN_COLUMNS and may draw a line over and over (progress.h): that goes to
 * the terminal, gives way to whole lines, and is left out of the log, where other lines go that are
 * left out of the terminal.
 *
 * Processors. Unless OMP_NUM_THREADS is set, two ranks or more share them: each gets
 * OMP_NUM_THREADS = processors / nproc (1 at least), and if there are as many as ranks, is bound to
 * a share of its own: whole cores of one package, where that comes out even.
 *
 * Ends. When a rank ends badly, all others are asked to end (SIGTERM with GT_LAUNCH_RANK_LOST) and
 * 1.5 seconds later killed, so that within 2 seconds all are gone; a line names that rank, and its
 * log; then, up to max_restarts times, all are started again. SIGINT, SIGTERM, SIGHUP and SIGQUIT
 * are forwarded to the ranks, which may take their time to end, and a second one kills them; there
 * is no restart then. SIGUSR1 and SIGUSR2 are forwarded; SIGTSTP stops the ranks and us until we
 * are continued. Each rank leads a process group, which is killed when the rank has ended. Ranks
 * die with the launcher, however it dies (PR_SET_PDEATHSIG); processes that ranks have started need
 * not.
 *
 * *status gets the exit status for ours: 0 when all ranks returned 0, else that of the first rank
 * that failed, 128 + N if signal N killed it.
 *
 * To be called by the main thread of a process that has no others that take signals. Errors:
 * GT_EINVAL, GT_ENOMEM, GT_EIO when ranks cannot be started; none runs then.
 */
int gt_launch(int *status, const struct gt_launch_options *options, struct gt_err *err);

#endif
