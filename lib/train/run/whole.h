/* whole.h - inside train: gather tensors whose shards are on several ranks, for a file. */
#ifndef GT_TRAIN_RUN_WHOLE_H
#define GT_TRAIN_RUN_WHOLE_H

#include "lib/optim/ema.h"
#include "lib/parallel/parallel.h"

enum { GT_WHOLE_EMA = GT_OPTIM_STATES, GT_WHOLE_KINDS = GT_WHOLE_EMA + 2 };

/* Whole tensors in host memory on rank 0, for the slots whose tensors are sharded. */
struct gt_whole {
	const struct gt_store *store;
	/* [slot_count] data, then [slot_count] of each state and of the mean; NULL: the tensor is
	 * not sharded */
	void **tensors;
};

/*
 * Gather the sharded tensors: data of the store, states of `optim`, and means of the weights (NULL:
 * none). A collective call of all ranks; rank 0 then holds a copy of each. Release it in any case.
 */
int gt_whole_collect(struct gt_whole *out, struct gt_parallel *parallel,
    const struct gt_store *store, const struct gt_optim *optim, const struct gt_ema *ema,
    struct gt_err *err);
void gt_whole_release(struct gt_whole *w);

/* Return the data of a slot (`which` is -1), one of its states, or its mean (GT_WHOLE_EMA), in host
 * memory [slot->count]. NULL if this rank's store holds all of it. `w` may be NULL. */
const void *gt_whole_find(const struct gt_whole *w, const struct gt_slot *slot, int which);

#endif
