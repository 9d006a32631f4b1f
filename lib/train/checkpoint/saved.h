/* saved.h - private: open a training checkpoint of any program, and find its parts. */
#ifndef GT_TRAIN_CHECKPOINT_SAVED_H
#define GT_TRAIN_CHECKPOINT_SAVED_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/ckpt/ckpt.h"

/*
 * The parts of a training checkpoint. A training checkpoint is one of these:
 *
 *   gtrain      a file with an entry `config` (lib/train/checkpoint/snapshot.h)
 *   PyTorch     a file with a dict. gt_state_dict_find() finds the state_dict of the model in it.
 *               saved.c has tables of the keys under which programs save the other parts.
 *   Lightning   like PyTorch, but the optimizers and the schedulers are in the lists
 *               `optimizer_states` and `lr_schedulers`
 *   Trainer     a folder of Hugging Face's Trainer: weights, optimizer.pt, scheduler.pt,
 *               trainer_state.json
 *   accelerate  a folder of accelerate's save_state(): weights, optimizer.bin, scheduler.bin
 *
 * Sources: pytorch-lightning, trainer/connectors/checkpoint_connector.py, dump_checkpoint();
 * transformers, trainer.py, _save_checkpoint(), and trainer_callback.py, TrainerState; accelerate,
 * checkpointing.py, save_accelerator_state().
 */
struct gt_saved {
	bool foreign; /* another program wrote the checkpoint */
	/* if `foreign`: name of this program, for messages: "PyTorch", "PyTorch Lightning" */
	const char *form;
	/* The parts of the checkpoint, as trees: the parsed values of a file (lib/ckpt/ckpt.h).
	 * They are borrowed from `files`. NULL: the checkpoint lacks the part. */
	const struct gt_tree *root; /* tree of the file; for a folder, tree of its weights file */
	/* state_dicts of the optimizer, the learning rate scheduler and the loss scaler; config:
	 * the options of the run */
	const struct gt_tree *optimizer, *scheduler, *scaler, *config;
	/* The next three fields are set only if `foreign` is true. For a checkpoint of gtrain,
	 * gt_snapshot_read_progress() reads the progress. */
	int64_t step;   /* optimizer steps done; -1: not known */
	double epoch;   /* epochs done, possibly with a fraction; -1: not known */
	char left[240]; /* names of the ignored keys or files: "'args', 'rng_state' and 3 more" */
	/* The fields below are used only by saved.c. */
	const char *optimizer_name; /* the key or the file in which `optimizer` was found */
	struct gt_ckpt *files[4];
	int file_count;
};

/* Open the files of a checkpoint and find its parts. Only tensors that hold a number of steps are
 * read. Call gt_saved_close() even after an error. Error messages name the file. Errors: GT_EFORMAT
 * if the file is damaged, or if a checkpoint of another program has no optimizer state; GT_EIO;
 * GT_ENOMEM. */
int gt_saved_open(struct gt_saved *out, struct gt_file_name file, struct gt_err *err);
void gt_saved_close(struct gt_saved *saved);

/* Return whether `path` is a folder that Hugging Face's Trainer or accelerate wrote. */
bool gt_saved_is_folder(const char *path);

/* Return element i of the optimizer's list `param_groups`; NULL if the list is shorter. */
const struct gt_tree *gt_saved_param_group(const struct gt_saved *saved, size_t i);

#endif
