/* launch.h - start the ranks of a job on this host, watch them, and end all if one fails. */
#ifndef GT_COMM_LAUNCH_LAUNCH_H
#define GT_COMM_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

/* A host on which ranks are started by ssh. */
struct gt_launch_host {
	const char *name; /* as ssh takes it: "a", "user@a" */
	int ranks;
};

enum { GT_LAUNCH_HOSTS = 256 };

/* Parse "a:8,b:8" to out[GT_LAUNCH_HOSTS]; names are in the arena. Set *count to the number of
 * hosts and *ranks to that of all ranks. Errors: GT_EINVAL, GT_ENOMEM. */
int gt_launch_parse_hosts(struct gt_launch_host *out, int *count, int *ranks, const char *list,
    struct gt_arena *arena, struct gt_err *err);

struct gt_launch_options {
	int nproc; /* number of ranks, 1 to GT_WORLD_MAX_RANKS */
	/* where ranks are started, in this order; host_count 0: on this host */
	const struct gt_launch_host *hosts;
	int host_count;
	/* the program that runs a command there, with its first arguments, ended by NULL; the host
	 * and the command follow */
	char *const *ssh;
	const char *program; /* the path that each rank executes */
	char *const *argv;   /* its arguments, from argv[0] on, ended by NULL */
	/* folder for rank-N.log, the standard error of each rank; NULL: no log files */
	const struct gt_folder *log_dir;
	/* whether the log files are kept if the job fails now, so messages may name them;
	 * NULL: they are */
	bool (*keeps_logs)(void *self);
	void *self;
	/* without log_dir: print only rank 0 and the rank that fails first */
	bool rank_0_prints;
	int max_restarts; /* limit of restarts of the whole job */
	/* after a rank has ended with an error or GT_LAUNCH_FOLLOWS, wait so long for others to
	 * end by themselves; 0: 2 s */
	double cause_s;
	struct gt_log *log; /* the launcher's standard error */
	/* of the terminal on which rank 0 may draw a progress line; 0: none */
	int columns;
};

/* The value (sigqueue(3)) of the SIGTERM that ranks get if another rank fails. */
enum { GT_LAUNCH_RANK_LOST = 1 };

/* The exit status of a lasting error (err.h): after a restart, the rank would fail again. */
enum { GT_LAUNCH_IN_VAIN = 3 };

/* The exit status of a rank that fails because another has failed (gt_err_follow()). */
enum { GT_LAUNCH_FOLLOWS = 4 };

/* plus N: the status of a rank that signal N has killed, as in a shell */
enum { GT_LAUNCH_KILLED = 128 };

/* A line with a rank's error begins with these words, perhaps in color. */
#define GT_LAUNCH_PROGRAM "gtrain: "
#define GT_LAUNCH_ERROR   "error:"

/* How a job ended. */
struct gt_launch_end {
	/* of the first rank that failed, with 1 in place of GT_LAUNCH_IN_VAIN and _FOLLOWS; or 0 */
	int status;
	int rank; /* this rank; -1: none failed */
	/* the first SIGINT, SIGTERM, SIGHUP or SIGQUIT to the launcher; 0: none */
	int asked;
};

/*
 * Run a job of nproc ranks, one process each, and return when all have ended. Ranks get the
 * variables that gt_world_from_environment() reads. Call this on the main thread; no other thread
 * may receive signals. Errors: GT_EINVAL, GT_ENOMEM, or GT_EIO if a rank cannot be started.
 */
int gt_launch(
    struct gt_launch_end *end, const struct gt_launch_options *options, struct gt_err *err);

#endif
