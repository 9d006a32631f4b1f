/* saved.h - private: open a training checkpoint of any program, and find its parts. */
#ifndef GT_TRAIN_CHECKPOINT_SAVED_H
#define GT_TRAIN_CHECKPOINT_SAVED_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/ckpt/ckpt.h"

/* The parts of a training checkpoint that any program wrote: gtrain, PyTorch, PyTorch Lightning,
 * Hugging Face's Trainer or accelerate. saved.c says how each of them is recognized. */
struct gt_saved {
	bool other_program; /* another program wrote the checkpoint */
	/* if another program did: its name, for messages, such as "PyTorch Lightning" */
	const char *form;
	/* Trees of the parts (lib/ckpt/ckpt.h), borrowed from `files`; NULL: the part is
	 * missing. */
	const struct gt_tree *root; /* the whole file; for a folder, its weights file */
	/* state_dicts of the optimizer, scheduler and loss scaler; the options of the run */
	const struct gt_tree *optimizer, *scheduler, *scaler, *config;
	/* Only for another program's checkpoint. gt_snapshot_read_progress() reads gtrain's
	 * progress. */
	int64_t step;   /* optimizer steps done; -1: not known */
	double epoch;   /* epochs done, possibly with a fraction; -1: not known */
	char left[240]; /* ignored keys or files: "'args', 'rng_state' and 3 more" */
	/* Private to saved.c. */
	const char *optimizer_name; /* the key or the file with `optimizer` */
	struct gt_ckpt *files[4];
	int file_count;
	struct gt_arena arena; /* of gt_saved_number_params() */
};

/* Open a training checkpoint and find its parts. Call gt_saved_close() even after an error. Errors,
 * which name the file: GT_EFORMAT, also if another program's checkpoint has no optimizer state;
 * GT_EIO; GT_ENOMEM. */
int gt_saved_open(struct gt_saved *out, struct gt_file_name file, struct gt_err *err);
void gt_saved_close(struct gt_saved *saved);

/* Return whether `path` is a folder that Hugging Face's Trainer or accelerate wrote. */
bool gt_saved_is_folder(const char *path);

/* saved_dcp.c: give the parameters in the optimizer of a distributed checkpoint numbers, as
 * torch.optim does. Errors: GT_EFORMAT, GT_ENOMEM. */
int gt_saved_number_params(struct gt_saved *saved, struct gt_err *err);

/* Return element i of the optimizer's `param_groups`; NULL if the list is shorter. */
const struct gt_tree *gt_saved_param_group(const struct gt_saved *saved, size_t i);

#endif
