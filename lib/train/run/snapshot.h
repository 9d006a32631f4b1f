/* snapshot.h - inside train: the full state of a run, in the layout of PyTorch. */
#ifndef GT_TRAIN_RUN_SNAPSHOT_H
#define GT_TRAIN_RUN_SNAPSHOT_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/model/model.h"
#include "lib/optim/optim.h"
#include "lib/train/run/saved.h"
#include "lib/train/run/weights.h"
#include "lib/train/run/whole.h"

/*
 * {"model": state_dict, "optimizer": torch.optim's state_dict, "lr_scheduler": {"last_epoch",
 * "_last_lr"}, "scaler": torch.amp.GradScaler's state_dict ({} where the loss is not scaled),
 * "epoch", "step", "epoch_samples": samples of this epoch that were read, "best": {"step", "score",
 * "epoch"}, "config": {...}, "model_ema": state_dict}
 *
 * The optimizer's state_dict has one param_group. It has two if the model exempts some parameters
 * from weight decay: the first group has the parameters that decay. Each group is in the order of
 * declaration, and numbers continue from the first group to the second, as in torch.optim. If an
 * optimizer leaves some parameters to another optimizer, the groups of the other one follow, with
 * its own options and states.
 */
struct gt_snapshot {
	struct gt_store *store;
	const struct gt_model *model;
	struct gt_optim *optim;
	struct gt_ema *ema;           /* NULL: none */
	struct gt_parallel *parallel; /* its ranks may hold parts of tensors */
	/* For loading another program's checkpoint: as in struct gt_weights_options; or NULL. */
	const char *const *maps;
	double lr;          /* learning rate of the last step */
	int64_t step;       /* steps done */
	int64_t epoch;      /* epoch of the next step; for saving */
	int64_t samples;    /* samples of that epoch read so far; for saving */
	int64_t best_step;  /* -1: none yet */
	int64_t best_epoch; /* epochs done at best_step; after loading, -1: the file does not say */
	double best_score;  /* larger is better */
	int amp; /* loaded: the enum gt_amp of the run that saved it; -1: the file does not say */
	/* For saving: the options of the run. For loading: the options that must not differ. May be
	 * NULL. */
	const json_t *config;
	const char *about; /* gt_about_text(), for the state_dicts; for saving; may be NULL */
};

/* The progress of a checkpoint's run. */
struct gt_snapshot_place {
	int64_t step, epoch;  /* steps and epochs done; -1: the file does not say */
	int64_t samples;      /* samples read of the epoch in progress; -1: the file does not say */
	int64_t step_samples; /* samples per step of that run; 0: the file does not say */
	json_t *config;       /* options of the run, or NULL */
};

/* Read the progress from a checkpoint. Release *out in any case. Errors: those of
 * gt_snapshot_load(). */
int gt_snapshot_read_place(
    struct gt_snapshot_place *out, const struct gt_saved *saved, struct gt_err *err);
void gt_snapshot_place_release(struct gt_snapshot_place *place);

/* With s->ema, "model_ema" has the mean of the weights, and the model's buffers. A collective call
 * of the ranks of s->parallel: rank 0 writes the file; others need no name. */
int gt_snapshot_save(const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

/*
 * Fill the store and the optimizer, and step, best_step, best_score, best_epoch, amp, from a file.
 * An option in `config` that the file's config has too must agree. Files of PyTorch are read too:
 * their param_groups must be these groups, or a single one with all parameters in the order of
 * declaration. For a foreign checkpoint (saved.h), the caller sets s->step before. *report gets the
 * note about the weights; release it in any case. After an error the store may be partly
 * overwritten, so the run has to end. Errors do not name the file.
 */
int gt_snapshot_load(struct gt_snapshot *s, const struct gt_saved *saved,
    struct gt_weights_report *report, struct gt_err *err);

/* Write only the state_dict of the model, as in model.pth and best.pth. This uses s->store, model,
 * parallel and about. It is a collective call, too. */
int gt_snapshot_save_model(
    const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

#endif
