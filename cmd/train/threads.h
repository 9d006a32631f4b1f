/* threads.h - train on several ranks that are threads of this process. */
#ifndef GT_CMD_TRAIN_THREADS_H
#define GT_CMD_TRAIN_THREADS_H

#include "cmd/train/options.h"
#include "lib/comm/launch/threads.h"
#include "lib/comm/world/world.h"
#include "lib/train/train.h"

/* Return whether the mode of --parallel runs the ranks as threads of this process. */
bool gt_cmd_is_threads(const struct gt_train_cli *cli);

/* Return the number of ranks that are threads of this process; 1 if ranks are processes. */
int gt_cmd_train_thread_ranks(const struct gt_train_cli *cli);

/* A training run on ranks that are threads of this process. */
struct gt_cmd_threads {
	const struct gt_train_cli *cli;
	/* The options of all ranks but rank 0. When a rank starts, it sets `where.group` and
	 * `where.host_rank` in its own copy. */
	struct gt_train_options options;
	const atomic_bool *stop; /* if true, training stops after the current step */
	gt_thread_fn *lead;      /* the work of rank 0: it trains, prints and writes files */
	void *self;              /* first argument of `lead` */
};

/*
 * Divide the processors of this host among `ranks` ranks. Set *threads to the number of OpenMP
 * threads per rank. `requested` is the value of --threads; 0: not given. The result is:
 *
 * - `requested`, if it is not 0;
 * - 0, if OMP_NUM_THREADS is set: OpenMP then uses the value of this variable;
 * - otherwise the number of processors divided by `ranks`, at least 1.
 *
 * After this call, each rank has to call gt_cmd_set_threads(*threads) (cmd/cmd.h) on its own
 * thread.
 */
int gt_cmd_divide_processors(
    int64_t *threads, int64_t requested, int64_t ranks, struct gt_err *err);

/* Train on --nproc ranks, and divide the processors among them. Rank 0 runs on the calling thread.
 * `world` is the result of gt_cmd_find_world(). Errors: GT_EINVAL if a launcher has started several
 * processes; any error of training. */
int gt_cmd_train_threads(
    const struct gt_cmd_threads *job, const struct gt_world *world, struct gt_err *err);

/* Warn if each rank has several threads, and all ranks of this host together have more threads than
 * the host has processors. The number of threads per rank is `requested`, the value of --threads,
 * or OMP_NUM_THREADS if `requested` is 0. Also warn if there are far more ranks than processors. */
void gt_cmd_warn_threads(struct gt_log *log, int64_t requested, int64_t ranks);

#endif
