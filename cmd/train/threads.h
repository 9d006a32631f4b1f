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
	/* of all ranks but rank 0, which copy them and set `where` */
	struct gt_train_options options;
	const atomic_bool *stop; /* if true, training stops after the current step */
	gt_thread_fn *lead;      /* the work of rank 0: it trains, prints and writes files */
	void *self;              /* first argument of `lead` */
};

/* Set *threads to the OpenMP threads per rank, for gt_cmd_set_threads(): --threads (`requested`) if
 * not 0, else 0 if OMP_NUM_THREADS is set, else the rank's part of the processors. */
int gt_cmd_divide_processors(
    int64_t *threads, int64_t requested, int64_t ranks, struct gt_err *err);

/* Train on --nproc ranks, rank 0 on the calling thread. GT_EINVAL: a launcher has started several
 * processes. */
int gt_cmd_train_threads(
    const struct gt_cmd_threads *job, const struct gt_world *world, struct gt_err *err);

/* Warn if the ranks of this host have more threads than there are processors. */
void gt_cmd_warn_threads(struct gt_log *log, int64_t requested, int64_t ranks);

#endif
