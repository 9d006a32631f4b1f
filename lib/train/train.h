/* train.h - train a model: options of a run, and the training loop, which writes checkpoints. */
#ifndef GT_TRAIN_TRAIN_H
#define GT_TRAIN_TRAIN_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/comm/group.h"
#include "lib/optim/average.h"
#include "lib/optim/optim.h"
#include "lib/parallel/parallel.h"
#include "lib/train/amp.h"
#include "lib/train/report/observer.h"
#include "lib/train/report/profile.h"
#include "lib/train/session.h"

/* The blocks of a model whose values are computed again in the backward pass, to save memory. */
enum gt_recompute_mode {
	GT_RECOMPUTE_NONE,
	GT_RECOMPUTE_ALL,
	GT_RECOMPUTE_AUTO, /* as few blocks as possible, so that the run fits into memory */
	GT_RECOMPUTE_MODES
};

/* The names "none", "all", "auto", indexed by enum gt_recompute_mode; NULL at the end. */
extern const char *const gt_recompute_names[GT_RECOMPUTE_MODES + 1];

/* The initial weights of a new run whose option init_from is NULL. AUTO: the weights in the folder
 * that the option `model` names; random weights if `model` names no folder, or if the folder has no
 * weights. RANDOM: random weights. */
enum gt_initial { GT_INITIAL_AUTO = -1, GT_INITIAL_RANDOM, GT_INITIALS };

/* The names "random", NULL, indexed by enum gt_initial. */
extern const char *const gt_initial_names[GT_INITIALS + 1];

/* Bits for gt_train_options.given, for options whose default depends on the model, other options or
 * the checkpoint of a resumed run, and for which 0 is a value. */
enum {
	GT_GIVEN_MIN_LR = 1,       /* lr_schedule.min_lr */
	GT_GIVEN_WARMUP = 2,       /* lr_schedule.warmup */
	GT_GIVEN_WEIGHT_DECAY = 4, /* optim.weight_decay */
	GT_GIVEN_MOMENTUM = 8,     /* optim.momentum */
	/* The defaults of these do not depend on other options, but another program's checkpoint
	 * may give their values to a run that resumes from it. */
	GT_GIVEN_NESTEROV = 16, /* optim.nesterov */
	GT_GIVEN_BETAS = 32,    /* optim.beta1, optim.beta2 */
	GT_GIVEN_EPS = 64       /* optim.eps */
};

/* The largest number of micro-batches per step, and of samples per micro-batch. */
enum { GT_TRAIN_MAX_BATCHES = 65536 };

/* The options of a run. Strings are borrowed until gt_train_close(). */
struct gt_train_options {
	/* The GT_GIVEN_ bits of the fields that the caller has set. For each bit that is missing,
	 * gt_train_open() sets the field to its default and adds the bit. */
	unsigned given;

	/* `model` is NAME[:key=value,...] or a model folder of Hugging Face's transformers. `data`
	 * is KIND:PATH[,key=value...]. */
	const char *model, *data;
	const char *val;  /* validation data, like `data`; NULL: see val_split */
	double val_split; /* fraction of data to hold out for validation; 0: none */
	/* NAME[:key=value,...] (gt_loss_parse()). NULL: cross-entropy, or mse for numbers;
	 * gt_train_open() sets it */
	const char *loss;
	const char *class_weights; /* balanced or W,W,...; NULL: all classes count alike */
	int64_t samples;           /* train only on the first `samples` samples; 0: all */
	const char *out;           /* run directory; NULL: write no files */
	/* checkpoint of the initial weights; NULL: see `initial`. gt_train_open() sets it to the
	 * folder of the model if the weights are those of this folder. */
	const char *init_from;
	enum gt_initial initial;
	/* options for loading the checkpoint init_from; load.map is also used for `resume` */
	struct gt_load_options load;
	/* checkpoint from which to resume; "auto": the latest one in `out`, if any; NULL: none */
	const char *resume;
	/* the ranks were restarted after a failure, so `out` may have files of this run */
	bool restarted;
	/* arguments of gt_model_tune(): freeze: the parameters that are not trained; lr_scale:
	 * factors of the learning rate of some parameters */
	struct gt_opt_list freeze, lr_scale;
	/* settings of adapters, which then are the only parameters that are trained
	 * (gt_model_adapt()); NULL: there are none */
	const char *lora;

	/* The length of the run: `steps` optimizer steps or, if `steps` is 0, `epochs` passes over
	 * the data. If both are 0, the length is 10 epochs; for vectors, it is so many epochs that
	 * there are at least 1000 steps. */
	int64_t epochs, steps;
	/* `batch` is the number of samples in a micro-batch of a rank, and `accumulate` the number
	 * of micro-batches in a step. If `batch` is 0, gt_train_open() sets it to the largest whose
	 * plan fits into memory, or to that of the run that is resumed. */
	int batch, accumulate;
	/* samples of a step on all ranks together, from which gt_train_open() computes
	 * `accumulate`; 0: `accumulate` is as given */
	int64_t global_batch;
	uint64_t seed;
	enum gt_amp amp; /* also used in evaluations */
	/* round float32 factors of matrix products and convolutions to TF32, also in evaluations */
	bool tf32;
	enum gt_recompute_mode recompute;

	/* optim.fallback_lr_factor is computed from adam_lr. optim.scaler is used only with
	 * GT_AMP_FP16; if its growth_interval is 0, optim.scaler is set to gt_scaler_default. */
	struct gt_optim_options optim;
	/* The highest learning rate of the tensors that the optimizer leaves to AdamW, if it leaves
	 * any; 0: the default. The schedule changes it by the same factor as lr_schedule.lr. */
	double adam_lr;
	struct gt_average_options average; /* evaluations use the average, if one is kept */
	/* gt_train_open() sets `total`, and the defaults of `lr`, `every` and `decay` where they
	 * are 0 */
	struct gt_schedule lr_schedule;

	int workers;         /* number of threads that read data */
	int prefetch;        /* number of batches to read ahead */
	bool pageable;       /* read batches into memory that is not pinned (gt_feeder_open()) */
	bool drop_last;      /* leave out a short batch at the end of an epoch */
	const char *augment; /* augmentation of images, such as "crop,flip"; NULL: none */
	bool strict_data;    /* a damaged image in `data` or `val` is an error */

	int64_t save_every; /* steps between checkpoints; 0: save only at the end */
	bool save_sharded;  /* each rank writes a part of a checkpoint, which is a folder */
	/* a thread writes a copy of a checkpoint's tensors, while training goes on */
	bool save_async;
	int64_t keep;       /* number of newest checkpoints to keep; 0: keep all */
	int64_t eval_every; /* steps between evaluations; 0: evaluate after each epoch */
	/* stop after this number of evaluations without improvement; 0: never */
	int64_t patience;

	/* The ranks that train together, and their devices. Rank 0 writes the files. In a dry run
	 * without a group, plan for `nproc` ranks. */
	struct gt_where where;
	int nproc; /* number of ranks; 0 means 1 */
	/* gt_train_open() sets these members of `parallel`: ranks, micro_batches, virtual_ranks,
	 * optimizer, precision and way. */
	struct gt_parallel_options parallel;

	/* evaluations also note the predicted class of each sample, for observers
	 * (gt_eval_report.predictions), except in pipelines */
	bool predictions;
	/* at each evaluation, a language model also continues a text, for observers
	 * (gt_eval_report.text), if rank 0 has all weights */
	bool sample_text;

	/* The caller has the samples in memory and steps by itself (lib/train/stepper.h): `data` is
	 * a spec of gt_data_request.memory. */
	bool memory;

	/* the steps to profile, such as "wait=1,warmup=1,active=3,repeat=1" (gt_profile_parse());
	 * NULL: no profile */
	const char *profile;
};

/* Set all options to the defaults of `gtrain train`. After this, the caller sets `model` and
 * `data`, and may set other options, such as `steps` or `epochs`. Defaults that depend on model and
 * data are set later, by gt_train_open(). */
void gt_train_options_init(struct gt_train_options *out);

/* Check that the options given as text can be parsed, and that `ranks` ranks can divide the work as
 * the options say. Neither the model nor the data are opened. The process that starts the ranks
 * calls this before it starts them. gt_train_open() makes the same checks on each rank. Errors:
 * GT_EINVAL. */
int gt_train_check_options(const struct gt_train_options *o, int ranks, struct gt_err *err);

/* Check that a run can write into the folder o->out. No other run may be writing there. If the
 * folder has a config.json, this file must belong to a run. All files of a run in the folder must
 * be regular files. A folder without checkpoints must hold no results of an earlier run
 * (gt_run_dir_check_unused()). If o->resume is NULL, the folder must hold no checkpoint of a step
 * after 0. The process that starts the ranks calls this before it starts them. Errors: GT_EINVAL,
 * GT_EIO. */
int gt_train_check_out(const struct gt_train_options *o, struct gt_err *err);

struct gt_train;

/*
 * Open the data and the model, set each option that was not given to its default, plan and allocate
 * memory, and initialize or load the weights. On success, *options has all options, with the
 * defaults resolved; options->model and options->loss have all their settings, and are valid until
 * gt_train_close(). Notes and warnings are written to `log`. This is a collective call: all ranks
 * must call it. *out is NULL on failure. Errors: all codes of err.h.
 *
 * If `dry` is true, the run is only planned: no memory is allocated for it, and no file is written.
 * After a dry gt_train_open(), only gt_train_describe() and gt_train_close() may be called.
 */
int gt_train_open(struct gt_train **out, struct gt_train_options *options, bool dry,
    struct gt_log *log, struct gt_err *err);
void gt_train_close(struct gt_train *t);

/* Return a description of the run as a JSON object: parameters, FLOPs, memory by use, steps. The
 * caller frees the object, which is NULL with err set on failure. */
json_t *gt_train_describe(const struct gt_train *t, struct gt_err *err);

/* How a run ended. */
struct gt_train_result {
	bool stopped;           /* the run was asked to stop, and stopped before step `total` */
	bool ended;             /* options.patience ended the run before step `total` */
	int64_t step, total;    /* number of steps done; number of steps of the whole run */
	bool evaluated;         /* there was an evaluation */
	struct gt_metrics last; /* the metrics of the last evaluation */
	int64_t best_step;      /* steps done at the best evaluation; -1: there was none */
	/* the result of the best evaluation: top-1 accuracy, or the loss if `best_is_loss` */
	double best;
	bool best_is_loss;
	/* seconds of all steps of the run, without evaluations and checkpoints; 0: no step was
	 * done */
	double train_s;
	double time_s; /* seconds of the run, with its evaluations and checkpoints */
	struct gt_profile_summary profile;
};

/*
 * Train until the end of the run, or until *stop is set on one of the ranks. If *stop is set, all
 * ranks finish the current step, and a checkpoint is saved. A collective call.
 *
 * `config` holds the options of the run. It is saved in the checkpoints, and in config.json
 * together with a description of the data (run/about.h). If `config` is NULL, the options that
 * gt_train_own_config() returns are saved: the model, the data, the length, the batch, the learning
 * rate, and others on which the results depend. Each rank passes its own observers; only observers
 * of rank 0 may write files. *result is complete when observers are told of the end. Between
 * evaluations and checkpoints, the loop does not allocate memory.
 *
 * Errors: GT_EDIVERGED on all ranks if the loss or a gradient is not finite. But if the loss is
 *         scaled, a gradient that is not finite only causes the update to be skipped and the scale
 *         to be lowered. GT_EDIVERGED is then returned if the scale falls below gt_scale_min.
 *         GT_EDIVERGED is also returned if parameters, buffers or optimizer state are not finite.
 *         They are checked before each evaluation and checkpoint, and at the end of the run.
 *         Checkpoints that were saved earlier are not changed.
 */
int gt_train_run(struct gt_train *t, const json_t *config, const struct gt_observer *observers,
    int observer_count, const atomic_bool *stop, struct gt_train_result *result,
    struct gt_err *err);

#endif
