/* launch.c - start the ranks of this host, watch them, and leave nothing behind. */
#include "lib/comm/launch/launch.h"

#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/comm/launch/job.h"
#include "lib/comm/world/world.h"

static int run_once(struct gt_launch *l, struct gt_err *err)
{
	int rc;

	l->first = l->follower = -1;
	l->status = 0;
	l->ask_at = l->kill_at = 0;
	rc = gt_launch_start(l, err);
	if (!rc)
		return gt_launch_watch(l, false, err);
	(void)gt_launch_watch(l, true, GT_ERR_IGNORED);
	return rc;
}

/* Whether there is to be another start; says so. */
static bool again(struct gt_launch *l)
{
	const struct gt_launch_options *o = l->options;

	/* A rank that is left behind may still hold memory of its GPU. */
	if (l->first < 0 || l->left_behind || l->restart >= o->max_restarts)
		return false;
	if (l->stop_requests || l->in_vain) {
		gt_log_warn(o->log, "rank %d failed, and the ranks are not restarted: %s", l->first,
		    l->stop_requests ? "the run was asked to end"
		                     : "the same error would occur again");
		return false;
	}
	l->restart++;
	gt_log_warn(o->log,
	    "rank %d was the first to end badly: all ranks are started again (restart %d of %d)",
	    l->first, l->restart, o->max_restarts);
	return true;
}

/*
 * Run a job of nproc ranks, one process per rank, and return when all of them have ended.
 *
 * Environment. Each rank gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT), and GTRAIN_SECRET and GTRAIN_RESTART. Rank 0 inherits a socket that
 * already listens on MASTER_PORT; GTRAIN_LISTEN_FD is its file descriptor. So no other process can
 * take the port before rank 0 uses it. gt_world_from_environment() reads all these variables. Each
 * start of the job uses a new secret and a new port.
 *
 * Input and output. The standard input of all ranks is empty. Rank 0 writes to the launcher's
 * standard output. The standard output of other ranks is discarded. The launcher reads the standard
 * error of each rank:
 *
 *   with log_dir        The launcher appends this output to the rank's log file. It prints the
 *                       lines of rank 0, and the last ten lines of the rank that failed.
 *   without log_dir     The launcher prints all lines of all ranks. With rank_0_prints it prints
 *                       only those lines that it would print with log_dir.
 *
 * Printed lines go to the launcher's standard error. Lines of ranks other than 0 have the prefix
 * "rank N: ". If `columns` is not 0, rank 0 gets it as GTRAIN_COLUMNS, and may draw a progress line
 * (progress.h). A progress line appears on the terminal, but not in the log file.
 *
 * Processors. If there are two or more ranks and OMP_NUM_THREADS is not set, the ranks divide the
 * processors. Each rank gets OMP_NUM_THREADS = processors / nproc (at least 1). If there are at
 * least as many processors as ranks, each rank is bound to its own processors. If nproc divides the
 * number of cores, these are whole cores. If the number of processor packages (sockets) also
 * divides nproc, the cores of a rank are in one package.
 *
 * Failure of a rank. If a rank exits with a status other than 0 or is killed, the launcher prints
 * the number of this rank and the path of its log file. It sends SIGTERM with the value
 * GT_LAUNCH_RANK_LOST to all other ranks, and kills them 1.5 seconds later. So all ranks end within
 * 2 seconds, except a rank inside a system call that does not return. If a killed rank has not
 * ended after 10 seconds, the launcher prints a warning and leaves the rank behind. When all ranks
 * have ended, the launcher starts them again, up to max_restarts times. It does not restart them if
 * one of them has exited with GT_LAUNCH_IN_VAIN or was left behind.
 *
 * Example: rank 0 fails, and rank 1 exits with GT_LAUNCH_FOLLOWS because of this failure. Often
 * rank 1 ends before rank 0. So the launcher does not report rank 1 at once, but waits cause_s
 * seconds for the end of rank 0. Then it sends SIGTERM to the ranks that still run. It reports rank
 * 1 only if no rank has failed by itself.
 *
 * If the rank that failed has written an error (GT_LAUNCH_ERROR), the launcher also waits cause_s
 * seconds, as the other ranks may find the same error in the same file. If rank 0 and another rank
 * have written the same error, rank 0's lines are all that is printed.
 *
 * Signals. SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded to the ranks. The ranks may take any
 * time to end, but if the launcher receives another of these signals, it kills them. After such a
 * signal the job is not restarted, and ranks that it has killed are not reported. SIGUSR1 and
 * SIGUSR2 are forwarded. SIGTSTP stops the ranks and the launcher until the launcher is continued.
 *
 * Child processes. Each rank leads a process group, which is killed when the rank has ended. If the
 * launcher dies in any way, the system kills the ranks (PR_SET_PDEATHSIG). Processes that the ranks
 * have started may then survive.
 *
 * Other hosts. With options->hosts, each rank is a process of ssh, which runs a script on the
 * rank's host (hosts.c). All of the above holds, with these differences. The secret goes to the
 * script by its standard input, and rank 0 listens at MASTER_PORT of the first host, which the
 * launcher chooses at random. Instead of sending a signal, the launcher writes a line to the
 * standard input of the script, or closes it; the script then sends SIGTERM to the rank, and
 * SIGKILL 10 seconds after the end of the input. So ranks also end if the launcher or a connection
 * is lost.
 * SIGUSR1, SIGUSR2 and SIGTSTP are not forwarded. A rank has 5 seconds to end after another one has
 * failed. The processors of a host are divided, but no rank is bound.
 *
 * Call this on the main thread; no other thread of the process may receive signals. Errors:
 * GT_EINVAL, GT_ENOMEM, or GT_EIO if a rank cannot be started. After an error no rank runs, except
 * ranks that were left behind.
 */
int gt_launch(
    struct gt_launch_end *end, const struct gt_launch_options *options, struct gt_err *err)
{
	struct gt_launch l = { .options = options };
	int rc;

	*end = (struct gt_launch_end){ .status = 1, .rank = -1 };
	if (options->nproc < 1 || options->nproc > GT_WORLD_MAX_RANKS)
		return gt_err_set(err, GT_EINVAL, "%d ranks: not from 1 to %d", options->nproc,
		    GT_WORLD_MAX_RANKS);
	l.rank = gt_calloc((size_t)options->nproc, sizeof(*l.rank), err);
	if (!l.rank)
		return err->code;
	rc = gt_launch_take_signals(&l, err);
	l.drawing.stream = options->log->stream;
	options->log->progress = &l.drawing;
	if (!rc) {
		do
			rc = run_once(&l, err);
		while (!rc && again(&l));
		gt_launch_give_back_signals(&l);
	}
	gt_progress_hide(&l.drawing);
	options->log->progress = NULL;
	free(l.rank);
	if (!rc)
		*end = (struct gt_launch_end){ l.status, l.first, l.asked };
	return rc;
}
