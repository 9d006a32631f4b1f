/* options.h - the options of `gtrain train`. */
#ifndef GT_CMD_TRAIN_OPTIONS_H
#define GT_CMD_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/train/train.h"

/* The options of `gtrain train`: options of the library (train, comm), and options that only the
 * command has. */
struct gt_train_cli {
	struct gt_cmd_common common;
	struct gt_train_options train;
	struct gt_comm_options comm;
	const char *config; /* value of --config; NULL: not given */
	int64_t threads;    /* OpenMP threads per rank; 0: not given */
	/* hosts: where ranks are started, "a:8,b:8"; ssh: the program that does it; NULL: not
	 * given */
	const char *hosts, *ssh;
	/* max_restarts: how often all ranks may be restarted after a failure. log_every: number of
	 * steps between lines of metrics. */
	int64_t max_restarts, log_every;
	/* tensorboard: write events for TensorBoard. histogram_every: number of steps between its
	 * histograms; 0: none. */
	bool tensorboard;
	int64_t histogram_every;
	/* verify_parallel: compare each parallel mode with one rank, and do no other training.
	 * dry_run: print the plan of the run, and do not train. */
	bool verify_parallel, dry_run;
};

/* The option table. */
extern const struct gt_opt gt_train_rows[];

#endif
