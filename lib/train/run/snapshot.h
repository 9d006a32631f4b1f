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
 * The optimizer's state_dict has one param_group, or two where the model exempts some parameters
 * from weight decay: first those that decay, then the others, each in the order of declaration,
 * numbered through, as torch.optim numbers the parameters of two groups. Where an optimizer leaves
 * some parameters to another, that one's groups follow, with its own options and states.
 */
struct gt_snapshot {
	struct gt_store *store;
	const struct gt_model *model;
	struct gt_optim *optim;
	struct gt_ema *ema;           /* NULL: none */
	struct gt_parallel *parallel; /* whose ranks may hold parts */
	/* For loading another program's checkpoint: as in struct gt_weights_options; or NULL. */
	const char *const *maps;
	double lr;          /* of the last step */
	int64_t step;       /* steps done */
	int64_t epoch;      /* that the next step belongs to; for saving */
	int64_t samples;    /* of that epoch, read so far; for saving */
	int64_t best_step;  /* -1: none yet */
	int64_t best_epoch; /* epochs done then; loaded, -1: the file does not say */
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
	int64_t samples;      /* of the epoch after that, read so far; -1: the file does not say */
	int64_t step_samples; /* of a step of that run; 0: the file does not say */
	json_t *config;       /* its options, or NULL */
};

/* Read it from a checkpoint. Release *out in any case. Errors: those of
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
 * declaration. Of a foreign checkpoint (saved.h), s->step is set before. *report has the note of
 * the weights, to be released in any case. After an error the store may be partly overwritten, so
 * the run has to end. Errors do not name the file.
 */
int gt_snapshot_load(struct gt_snapshot *s, const struct gt_saved *saved,
    struct gt_weights_report *report, struct gt_err *err);

/* The bare state_dict, as model.pth and best.pth have it, of s->store, model, parallel and about. A
 * collective call likewise. */
int gt_snapshot_save_model(
    const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

#endif
