/* launch.h - start the ranks of a job on this host, watch them, and end all if one fails. */
#ifndef GT_COMM_LAUNCH_LAUNCH_H
#define GT_COMM_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/base/log.h"

struct gt_launch_options {
	int nproc;           /* number of ranks, 1 to GT_WORLD_MAX_RANKS */
	const char *program; /* path of the program that each rank executes */
	char *const *argv;   /* argv of this program, from argv[0] on, ended by NULL */
	/* folder for the log files rank-N.log, which receive the standard error of each rank; NULL:
	 * no log files */
	const struct gt_folder *log_dir;
	/* Return whether the log files would be kept if the job failed now. Messages of the
	 * launcher name a log file only if this returns true. NULL: log files are kept. */
	bool (*keeps_logs)(void *self);
	void *self;
	/* if log_dir is NULL: print only the lines of rank 0 and of the rank that fails first */
	bool rank_0_prints;
	int max_restarts; /* maximum number of restarts of the whole job, after failures */
	/* after a rank has exited with GT_LAUNCH_FOLLOWS, or with an error that it has written:
	 * number of seconds that the launcher waits for other ranks to end by themselves; 0: 2 s */
	double cause_s;
	struct gt_log *log; /* a log that writes to the launcher's standard error */
	/* width, in columns, of the terminal on which rank 0 may draw a progress line; 0: rank 0
	 * must not draw one */
	int columns;
};

/* If a rank fails, the launcher sends SIGTERM to the other ranks. The signal carries this value
 * (sigqueue(3)). */
enum { GT_LAUNCH_RANK_LOST = 1 };

/* The exit status of a rank that fails with a lasting error (err.h): after a restart, the rank
 * would fail again. */
enum { GT_LAUNCH_IN_VAIN = 3 };

/* The exit status of a rank that fails only because another rank has failed (gt_err_follow()). */
enum { GT_LAUNCH_FOLLOWS = 4 };

/* The status of a rank that signal N has killed is GT_LAUNCH_KILLED + N, as in a shell. */
enum { GT_LAUNCH_KILLED = 128 };

/* The line of a rank's error begins with these words. An escape sequence for a color may be between
 * them. */
#define GT_LAUNCH_PROGRAM "gtrain: "
#define GT_LAUNCH_ERROR   "error:"

/* How a job ended. */
struct gt_launch_end {
	/* 0 if all ranks returned 0. Otherwise the exit status of the first rank that failed, with
	 * 1 in place of GT_LAUNCH_IN_VAIN and GT_LAUNCH_FOLLOWS, or GT_LAUNCH_KILLED + N if signal
	 * N has killed this rank. */
	int status;
	int rank; /* this rank; -1: none failed */
	/* The signal that asked the launcher first to end the job: SIGINT, SIGTERM, SIGHUP or
	 * SIGQUIT; 0: there was none. */
	int asked;
};

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
 * Call this on the main thread; no other thread of the process may receive signals. Errors:
 * GT_EINVAL, GT_ENOMEM, or GT_EIO if a rank cannot be started. After an error no rank runs, except
 * ranks that were left behind.
 */
int gt_launch(
    struct gt_launch_end *end, const struct gt_launch_options *options, struct gt_err *err);

#endif
