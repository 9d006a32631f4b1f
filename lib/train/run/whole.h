/* whole.h - private: gather sharded tensors on rank 0, to save whole tensors in a file. */
#ifndef GT_TRAIN_RUN_WHOLE_H
#define GT_TRAIN_RUN_WHOLE_H

#include "lib/optim/ema.h"
#include "lib/parallel/parallel.h"

/* A parameter has several tensors: its data (the weights), its optimizer states, and the running
 * mean of its weights (lib/optim/ema.h). GT_WHOLE_KINDS is the number of these tensors. The
 * argument `which` of gt_whole_find() selects one of them; GT_WHOLE_EMA selects the running
 * mean. */
enum { GT_WHOLE_EMA = GT_OPTIM_STATES, GT_WHOLE_KINDS = GT_WHOLE_EMA + 2 };

/* Whole copies of all sharded tensors, in host memory of rank 0. A tensor is sharded if several
 * ranks hold different elements of it. The store and its slots are defined in lib/store/store.h. */
struct gt_whole {
	const struct gt_store *store;
	/* [GT_WHOLE_KINDS, slot_count]: data, optimizer states and running mean of each slot. An
	 * element is NULL if its tensor is not sharded, or if this rank is not rank 0. */
	void **tensors;
};

/*
 * Gather all sharded tensors on rank 0: the data of the store, the states of `optim`, and the
 * running means in `ema`. `optim` and `ema` may be NULL. This is a collective call: all ranks must
 * call it. Release *out on all ranks, even after an error.
 */
int gt_whole_collect(struct gt_whole *out, struct gt_parallel *parallel,
    const struct gt_store *store, const struct gt_optim *optim, const struct gt_ema *ema,
    struct gt_err *err);
void gt_whole_release(struct gt_whole *w);

/* Return a whole tensor [slot->count] in host memory, borrowed from `w`. `which` selects the
 * tensor: -1 is the data of the slot, 0, 1, ... are its optimizer states, and GT_WHOLE_EMA is its
 * running mean. Return NULL if `w` is NULL, or if `w` does not have this tensor
 * (gt_whole.tensors). */
const void *gt_whole_find(const struct gt_whole *w, const struct gt_slot *slot, int which);

#endif
