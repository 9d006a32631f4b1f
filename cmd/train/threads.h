/* threads.h - training on ranks that are threads of this process. */
#ifndef GT_CMD_TRAIN_THREADS_H
#define GT_CMD_TRAIN_THREADS_H

#include "cmd/train/options.h"
#include "lib/comm/launch/threads.h"
#include "lib/comm/world/world.h"
#include "lib/train/train.h"

/* Whether the ranks of this command line are threads. */
bool gt_cmd_is_threads(const struct gt_train_cli *cli);

struct gt_cmd_threads {
	const struct gt_train_cli *cli;
	struct gt_train_options options; /* options of the other ranks, without a group */
	const atomic_bool *stop;
	gt_thread_fn *lead; /* the work of rank 0. Only rank 0 prints and writes files */
	void *self;         /* its first argument */
};

/* Set *threads to the number of threads that each of `ranks` computes with; 0 leaves the choice to
 * OpenMP. `asked` is --threads. Each rank must set OpenMP's number on its own thread. */
int gt_cmd_divide_processors(int64_t *threads, int64_t asked, int64_t ranks, struct gt_err *err);

/* Train on --nproc ranks, one of them on this thread, and divide the processors among them. `world`
 * describes the launcher of this process: a process that is one of several is rejected. */
int gt_cmd_train_threads(
    const struct gt_cmd_threads *job, const struct gt_world *world, struct gt_err *err);

/* Warn if the ranks of this host have more threads together than the host has processors. The
 * threads of a rank are given by --threads (`asked`; 0: not given) or OMP_NUM_THREADS. */
void gt_cmd_warn_threads(struct gt_log *log, int64_t asked, int64_t ranks);

#endif
