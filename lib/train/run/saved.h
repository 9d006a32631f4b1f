/* saved.h - inside train: the parts of a training checkpoint of any program. */
#ifndef GT_TRAIN_RUN_SAVED_H
#define GT_TRAIN_RUN_SAVED_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/ckpt/ckpt.h"

/*
 * A training checkpoint is one of
 *   gtrain     a file with `config` (snapshot.h)
 *   PyTorch    a file with a dict: the state_dict of the model under any of the keys of
 *              gt_state_dict_find(), the others under names of a table here (saved.c)
 *   Lightning  such a file, with lists: `optimizer_states`, `lr_schedulers`
 *   Trainer    a folder of Hugging Face's Trainer: weights, optimizer.pt, scheduler.pt,
 *              trainer_state.json
 *   accelerate a folder of accelerate's save_state(): weights, optimizer.bin, scheduler.bin
 * Sources: pytorch-lightning, trainer/connectors/checkpoint_connector.py, dump_checkpoint();
 * transformers, trainer.py, _save_checkpoint(), and trainer_callback.py, TrainerState; accelerate,
 * checkpointing.py, save_accelerator_state().
 */
struct gt_saved {
	bool foreign;     /* not gtrain's own */
	const char *form; /* its name in messages: "PyTorch", "PyTorch Lightning" */
	/* Borrowed from the files; NULL: there is none. */
	const struct gt_tree *root; /* of the file, or of the folder's weights */
	const struct gt_tree *optimizer, *scheduler, *scaler, *config;
	int64_t step;   /* updates done; -1: unknown */
	double epoch;   /* passes over the data; -1: unknown */
	char left[240]; /* names of parts that are ignored: "'args', 'rng_state' and 3 more" */
	/* its own */
	const char *optimizer_name; /* the key, or the file */
	struct gt_ckpt *files[4];
	int file_count;
};

/* Open all files and find the parts; no tensors are read except those that count steps. Close *out
 * in any case. Errors name the file: GT_EFORMAT for a checkpoint without the state of an optimizer.
 */
int gt_saved_open(struct gt_saved *out, struct gt_file_name file, struct gt_err *err);
void gt_saved_close(struct gt_saved *saved);

/* Whether a path is a folder that a Trainer, or accelerate, wrote. */
bool gt_saved_is_folder(const char *path);

/* The list `params` of the optimizer's group i; NULL if it has no such group. */
const struct gt_tree *gt_saved_group(const struct gt_saved *saved, size_t i);

#endif
