/* launch.h - start the ranks of this host, watch them, and leave nothing behind. */
#ifndef GT_COMM_LAUNCH_LAUNCH_H
#define GT_COMM_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/base/log.h"

struct gt_launch_options {
	int nproc;           /* 1 to GT_WORLD_MAX_RANKS */
	const char *program; /* the path that each rank executes */
	char *const *argv;   /* its arguments, which begin with the name, argv[0]; ended by NULL */
	/* The folder for rank-N.log, each rank's standard error; NULL: all lines go to the
	 * launcher's standard error. */
	const struct gt_folder *log_dir;
	bool rank_0_speaks; /* without log_dir: show only rank 0 and the rank that fails first */
	int max_restarts;   /* restarts of the whole job after a rank has failed */
	struct gt_log *log; /* the launcher's standard error */
	/* columns of the terminal on which rank 0 may draw a progress line; 0: it may not draw
	 * one */
	int columns;
};

/* The value sent with SIGTERM by sigqueue() to a rank that has to end because another rank is
 * lost. */
enum { GT_LAUNCH_RANK_LOST = 1 };

/*
 * Run the job: nproc processes with torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK,
 * LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and GTRAIN_SECRET, GTRAIN_RESTART; rank 0 inherits a
 * socket that listens at that port already (GTRAIN_LISTEN_FD), so nobody can take it in between.
 * gt_world_from_environment() reads all of it. Secret and port are new at each start.
 *
 * Output. Standard input of all ranks is empty. Rank 0 writes to the launcher's standard output;
 * the standard output of other ranks is discarded. The standard error of each rank goes to its log,
 * which is appended to. Whole lines of rank 0 also go to the launcher's standard error, and so do
 * the last ten lines, after "rank N: ", of the rank that fails first. Without log_dir all lines of
 * all ranks go there, after "rank N: " for ranks other than 0; with rank_0_speaks only the lines
 * that would be shown with logs. If `columns` is set, rank 0 gets it as GTRAIN_COLUMNS, and may
 * draw a progress line (progress.h): it is shown on the terminal and not written to the log.
 *
 * Processors. Unless OMP_NUM_THREADS is set, two or more ranks divide the processors: each gets
 * OMP_NUM_THREADS = processors / nproc (at least 1). If there are at least as many processors as
 * ranks, each rank is bound to its own processors: whole cores of one package, if they can be
 * divided evenly.
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
 * Call this on the main thread; no other thread of the process may receive signals. Errors:
 * GT_EINVAL, GT_ENOMEM, GT_EIO when ranks cannot be started; none runs then.
 */
int gt_launch(int *status, const struct gt_launch_options *options, struct gt_err *err);

#endif
