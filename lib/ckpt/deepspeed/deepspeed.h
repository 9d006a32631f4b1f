/* deepspeed.h - private: the weights in a checkpoint of DeepSpeed, put together from its ranks. */
#ifndef GT_CKPT_DEEPSPEED_DEEPSPEED_H
#define GT_CKPT_DEEPSPEED_DEEPSPEED_H

#include "lib/ckpt/format.h"

/* deepspeed/read.c describes the files. */

/*
 * Find the main file of a checkpoint in a folder, which is that of a run or that of one step. The
 * caller frees *path; NULL: there is none. *sharded tells whether the ranks have partitions of the
 * weights, so that the file is opened as gt_format_deepspeed. GT_EFORMAT: the folder's `latest` is
 * no name. GT_ENOTSUP: the model itself is divided among ranks.
 */
int gt_deepspeed_in_folder(char **path, bool *sharded, const char *folder, struct gt_err *err);

/* The files of the ranks that are read. */
struct gt_deepspeed_ranks {
	int64_t stage; /* of ZeRO: 1, 2 or 3 */
	size_t count;  /* ranks */
	/* [count]: the optimizer_state_dict of each rank */
	const struct gt_tree **optimizers;
	/* [model_count]: the model states; in stage 3 those of all ranks, else of rank 0 alone */
	const struct gt_tree **models;
	size_t model_count;
};

/* Set *out to the state_dict, in the arena: tensors that read from the ranks' partitions. */
int gt_deepspeed_join(struct gt_tree **out, const struct gt_deepspeed_ranks *ranks,
    struct gt_arena *arena, struct gt_err *err);

#endif
