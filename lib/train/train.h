/* train.h - the training loop: options in, a run directory out. */
#ifndef GT_TRAIN_TRAIN_H
#define GT_TRAIN_TRAIN_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/comm/group.h"
#include "lib/optim/optim.h"
#include "lib/parallel/parallel.h"
#include "lib/train/amp.h"
#include "lib/train/report/observer.h"
#include "lib/train/report/profile.h"
#include "lib/train/session.h"

/* Which blocks of a model do not keep their values, but compute them again in the backward pass. */
enum gt_recompute_mode {
	GT_RECOMPUTE_NONE,
	GT_RECOMPUTE_ALL,
	GT_RECOMPUTE_AUTO, /* as few blocks as possible so that the plans fit into free memory */
	GT_RECOMPUTE_MODES
};

/* "none", "all", "auto", NULL: the number of a name is its enum gt_recompute_mode. */
extern const char *const gt_recompute_names[GT_RECOMPUTE_MODES + 1];

/* The options whose defaults depend on the model, the data and each other. */
enum {
	GT_GIVEN_LR = 1,            /* lr_schedule.lr */
	GT_GIVEN_MIN_LR = 2,        /* lr_schedule.min_lr */
	GT_GIVEN_WARMUP = 4,        /* lr_schedule.warmup */
	GT_GIVEN_LR_STEP = 8,       /* lr_schedule.every */
	GT_GIVEN_DECAY_STEPS = 16,  /* lr_schedule.decay */
	GT_GIVEN_WEIGHT_DECAY = 32, /* optim.weight_decay */
	GT_GIVEN_MOMENTUM = 64,     /* optim.momentum */
	GT_GIVEN_ADAM_LR = 128 /* adam_lr; resolved where the optimizer leaves tensors to AdamW */
};

/* The limit of micro-batches per step, and of samples per micro-batch. */
enum { GT_TRAIN_MOST_BATCHES = 65536 };

/* The options of a run. Strings are borrowed until gt_train_close(). */
struct gt_train_options {
	/* GT_GIVEN_ bits of the fields that have been set. gt_train_open() sets the other fields
	 * and their bits. */
	unsigned given;

	const char *device; /* a list (lib/device/name.h); NULL is "cpu" */
	const char *model, *data;
	const char *val;       /* validation data; NULL: none, or the part that val_split sets */
	double val_split;      /* part of data to hold out; 0: none */
	int64_t samples;       /* use only the first `samples` samples of data; 0: all */
	const char *out;       /* run directory; NULL: write no files */
	const char *init_from; /* NULL: no */
	struct gt_load_options load;         /* for init_from; its `map` is used for resume, too */
	const char *resume;                  /* NULL: no; "auto": the latest in out, if any */
	struct gt_opt_list freeze, lr_scale; /* gt_model_tune() */

	/* The length of the run: `steps` updates or, if steps is 0, `epochs` passes over the data.
	 * If both are 0, it is 10 epochs. */
	int64_t epochs, steps;
	int batch, accumulate;
	uint64_t seed;
	enum gt_amp amp; /* evaluations use it, too */
	bool tf32;       /* round factors of float32 to TF32, in evaluations, too */
	enum gt_recompute_mode recompute;

	/* others_lr is computed from adam_lr. scaler is used only for fp16; if its growth_interval
	 * is 0, it becomes gt_scaler_default. */
	struct gt_optim_options optim;
	/* The highest learning rate of the tensors that the optimizer leaves to AdamW. The schedule
	 * changes it as it changes lr. */
	double adam_lr;
	double ema; /* decay of a running mean of the weights (lib/optim/ema.h); 0: none */
	struct gt_schedule lr_schedule; /* `total` comes from the length */

	int workers, prefetch;
	bool pageable; /* batches do not lie in pinned memory: see gt_feeder_open() */
	bool drop_last;
	const char *augment; /* "crop,flip": gt_augment_parse(); NULL: none */
	bool strict_data;    /* gt_data_request.strict, of data and val */

	int64_t save_every; /* steps; 0: only at the end */
	int64_t keep;       /* checkpoints; 0: all */
	int64_t eval_every; /* steps; 0: after each epoch */
	int64_t patience;   /* stop after N evaluations without improvement; 0: never */

	/* The ranks that train together. Each calls the same functions with the same options, and
	 * computes `batch` samples. Rank 0 writes the files. NULL: there is one rank or, if the run
	 * is dry, `nproc` ranks that have not been started. */
	struct gt_group *group;
	int nproc;      /* number of ranks; 0 is 1 */
	int host_ranks; /* number of ranks on this host; 0: all */
	int host_rank;  /* number of this rank among them; it selects the rank's device */
	/* Opening sets its ranks, micro_batches and virtual_ranks. */
	struct gt_parallel_options parallel;

	const char *profile; /* "wait=1,warmup=1,active=3": gt_profile_parse(); NULL: no profile */
};

/* Set all options to the defaults of `gtrain train`; those that depend on the model and the data
 * are left to gt_train_open(). The caller then sets model and data, and may set steps or epochs. */
void gt_train_options_init(struct gt_train_options *out);

/* Check the options that need neither model nor data, for programs that start ranks: whether the
 * texts can be parsed, and whether `ranks` ranks can divide the work as the options say.
 * gt_train_open() does the same on each rank before anything else. Errors: GT_EINVAL. */
int gt_train_check_options(const struct gt_train_options *o, int ranks, struct gt_err *err);

/* Check that a run can write into o->out, for programs that start ranks: no other run is writing
 * there, and the folder holds no files of other programs. If the run does not resume, the folder
 * must not hold files of a run that went further. Errors: GT_EINVAL, GT_EIO. */
int gt_train_check_out(const struct gt_train_options *o, struct gt_err *err);

struct gt_train;

/*
 * Open data and model, resolve the defaults, lay out memory and allocate it, and initialise or load
 * the weights. The defaults are resolved in *options too: its `model` then names all settings, and
 * is valid until gt_train_close(). Notes and warnings go to `log`. With `dry` no memory is taken
 * and no file is written; only gt_train_describe() and gt_train_close() are then allowed. A
 * collective call.
 */
int gt_train_open(struct gt_train **out, struct gt_train_options *options, bool dry,
    struct gt_log *log, struct gt_err *err);
void gt_train_close(struct gt_train *t);

/* Return the plan as a JSON object, which the caller frees: parameters, FLOPs, memory by role,
 * steps. */
json_t *gt_train_describe(const struct gt_train *t, struct gt_err *err);

/* How a run ended. */
struct gt_train_result {
	bool stopped; /* by a signal, before its end */
	bool ended;   /* by o.patience, before step `total` */
	int64_t step, total;
	bool evaluated;
	struct gt_metrics last; /* of the last evaluation */
	int64_t best_step;      /* -1: never evaluated */
	double train_s;
	struct gt_profile_summary profile;
};

/*
 * Train to the end, or until *stop is set: then the current step is finished and a checkpoint is
 * saved. `config` goes into the checkpoints and, with a description of the data (about.h), into
 * config.json; NULL: only the options that identify a run. The loop between evaluations and
 * checkpoints allocates nothing. If *stop is set on one rank, all ranks stop. Each rank has its own
 * observers; only rank 0's write files.
 *
 * Errors: GT_EDIVERGED, on all ranks, when the loss or a gradient is not finite. If the loss is
 *         scaled, a gradient is an error only at the lowest scale (gt_scale_min). Parameters,
 *         buffers and optimizer state are checked before each evaluation and checkpoint, and at the
 *         end of the run. The last checkpoint is not changed.
 */
int gt_train_run(struct gt_train *t, const json_t *config, const struct gt_observer *observers,
    int observer_count, const atomic_bool *stop, struct gt_train_result *result,
    struct gt_err *err);

#endif
