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
	struct gt_train_options options; /* of the other ranks, but for the group */
	const atomic_bool *stop;
	gt_thread_fn *lead; /* the work of rank 0, which alone prints, draws and writes files */
	void *self;         /* its first argument */
};

/* How many threads each of `ranks` has to compute with, 0: as OpenMP sees fit. `asked` is
 * --threads. OpenMP's number belongs to the thread that sets it. */
int gt_cmd_divide_processors(int64_t *threads, int64_t asked, int64_t ranks, struct gt_err *err);

/* Train on --nproc ranks, one being this thread; the processors are divided among them. `world`
 * tells by which launcher this process was started: one of several processes is refused. */
int gt_cmd_train_threads(
    const struct gt_cmd_threads *job, const struct gt_world *world, struct gt_err *err);

/* Warn where so many ranks of this host, each with the threads that --threads (`asked`; 0: not
 * given) or OMP_NUM_THREADS asks for, are more than its processors. */
void gt_cmd_warn_threads(struct gt_log *log, int64_t asked, int64_t ranks);

#endif
