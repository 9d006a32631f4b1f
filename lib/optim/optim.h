/* optim.h - optimizers as updates of flat ranges, schedules, clipping by global norm. */
#ifndef GT_OPTIM_OPTIM_H
#define GT_OPTIM_OPTIM_H

#include "lib/graph/store.h"

/*
 * This module owns an optimizer's state, which is flat and exists only for parameters that need it,
 * and computes learning rates. The rules are those of torch.optim; the backend does the arithmetic
 * (struct gt_range_kernels).
 */

enum gt_optim_kind { GT_SGD, GT_ADAM, GT_ADAMW, GT_MUON, GT_OPTIM_KINDS };

/* How Muon's steps depend on the shape of a matrix: torch.optim.Muon's adjust_lr_fn. */
enum gt_adjust_lr { GT_ADJUST_ORIGINAL, GT_ADJUST_MATCH_RMS_ADAMW, GT_ADJUST_KINDS };

/* "original", "match_rms_adamw", NULL. */
extern const char *const gt_adjust_lr_names[GT_ADJUST_KINDS + 1];

/*
 * A dynamic loss scale. The loss is multiplied by it, so that small gradients do not become zero in
 * float16; the update divides gradients by it. The members are those of
 * torch.amp.GradScaler.state_dict().
 */
struct gt_scaler {
	double scale;
	double growth_factor, backoff_factor;
	int64_t growth_interval; /* 0: the loss is not scaled */
	int64_t growth_tracker;
};

/* The defaults of torch.amp.GradScaler. */
extern const struct gt_scaler gt_scaler_default;

struct gt_optim_options {
	enum gt_optim_kind kind;
	double momentum, dampening;  /* SGD; Muon without dampening */
	bool nesterov;               /* SGD; needs momentum */
	double beta1, beta2, eps;    /* Adam, AdamW */
	enum gt_adjust_lr adjust_lr; /* Muon */
	double weight_decay; /* for parameters that a model marks (gt_slot.decay); 0 for others */
	double clip;         /* largest global norm of the gradients; 0: no clipping */
	/* the norm has the same bits for any number of processes: gt_step_block.exact */
	bool exact_norm;
	/* for tensors that a rule leaves to another rule: factor of the learning rate */
	double others_lr;
	struct gt_scaler scaler; /* as it is at first */
};

/* ---- rules.c: the optimizers ---- */

enum gt_member_type {
	GT_MEMBER_NUMBER, /* a double at `offset` */
	GT_MEMBER_PAIR,   /* two of them */
	GT_MEMBER_BOOL,   /* a bool there */
	GT_MEMBER_WORD,   /* the word of an enum there, by `words` */
	GT_MEMBER_FALSE,
	GT_MEMBER_TRUE,
	GT_MEMBER_INTEGER,   /* `count` */
	GT_MEMBER_CONSTANTS, /* the number at `constants`; of several, a tuple of `count` */
};

/* A member of a parameter group of torch.optim, beside lr, weight_decay and params. */
struct gt_optim_member {
	const char *name;
	enum gt_member_type type;
	size_t offset; /* of the value in struct gt_optim_options */
	const char *const *words;
	const double *constants;
	int count;
};

enum { GT_OPTIM_STATES = 2 };

/* The operand of a rule: ranges of the flat buffers, which may begin anywhere, or whole tensors. */
enum gt_operand { GT_OPERAND_RANGES, GT_OPERAND_TENSORS };

/* The memory that one update reads and writes: ranges [count] of device memory, float32. */
struct gt_optim_range {
	float *parameters;
	const float *gradients;
	float *states[GT_OPTIM_STATES]; /* as in the rule; NULL: none is kept */
	int64_t count;
	const struct gt_slot *tensor; /* GT_OPERAND_TENSORS: the one that this is */
	float *work;                  /* likewise: [rule->work()], its content is lost */
};

/*
 * The row of an optimizer. To add an optimizer, add a name to gt_optim_names, a row (in rules.c, or
 * in a file of its own) and, if its arithmetic is new, a range kernel.
 */
struct gt_optim_rule {
	enum gt_operand operand;
	/* GT_OPERAND_TENSORS: whether this optimizer updates the parameter. The optimizer `others`
	 * updates all other parameters, with the learning rate times struct
	 * gt_optim_options.others_lr. */
	bool (*takes)(const struct gt_slot *slot);
	enum gt_optim_kind others;
	/* Likewise: elements of device memory that an update of this tensor needs beside it. */
	int64_t (*work)(const struct gt_slot *slot);
	const char *const *states;             /* names in torch.optim, NULL at the end */
	const struct gt_optim_member *members; /* ended by a name that is NULL */
	const char *const *settings; /* those that this optimizer reads, by their option's name */
	bool counts_steps;           /* torch.optim keeps a tensor "step" for each parameter */
	bool adaptive; /* steps do not grow with the gradients: a model's rate for Adam suits it */
	struct {
		double tokens, images, other; /* kinds of a model's input */
	} decay;                              /* default weight decay */
	double momentum;                      /* default, where it reads one */
	/* A learning rate for any model; 0, or NULL: the model's, by `adaptive`. */
	double (*default_lr)(const struct gt_optim_options *options);
	/* Whether these options make it keep its states. */
	bool (*keeps_states)(const struct gt_optim_options *options);
	/* GT_OPERAND_TENSORS: set the options that depend on the tensor. */
	void (*adjust)(struct gt_update_options *update, const struct gt_optim_options *options,
	    const struct gt_slot *slot);
	/* Optional, likewise: prepare updates of this tensor. */
	int (*prepare)(
	    const struct gt_device *device, const struct gt_slot *slot, struct gt_err *err);
	/* Queue one update of a range on the device's compute stream. */
	int (*update)(const struct gt_device *device, const struct gt_optim_range *range,
	    const struct gt_update_options *options, const struct gt_step_scalars *scalars,
	    struct gt_err *err);
	bool decoupled; /* weight decay shrinks the parameter; otherwise it joins the gradient */
};

/* "sgd", "adam", "adamw", "muon", NULL: the number of a name is its enum gt_optim_kind. */
extern const char *const gt_optim_names[GT_OPTIM_KINDS + 1];

const struct gt_optim_rule *gt_optim_rule(enum gt_optim_kind kind);

/* The rule that updates a parameter under this optimizer: its own, or that of the others. */
const struct gt_optim_rule *gt_optim_rule_of(enum gt_optim_kind kind, const struct gt_slot *slot);

/* Whether this optimizer reads a setting: "momentum", "betas". */
bool gt_optim_reads(enum gt_optim_kind kind, const char *setting);

/* The names of the optimizers that read it, as in "adam or adamw". */
void gt_optim_readers(char *out, size_t size, const char *setting);

/* ---- optim.c: updates ---- */

struct gt_optim;

/* Updates compute in float32. Check that a positive number of the option `name` is not rounded to 0
 * or to `limit` there. Errors: GT_EINVAL. */
int gt_optim_check_number(const char *name, double value, float limit, struct gt_err *err);

/* State begins at zero. The store must have gradients and outlive the optimizer. */
int gt_optim_new(struct gt_optim **out, struct gt_store *store,
    const struct gt_optim_options *options, struct gt_err *err);
void gt_optim_free(struct gt_optim *o);

/*
 * A step, all of it queued on the device's compute stream, in this order:
 *
 *   gt_optim_begin()   the step block: learning rate, and whether this rank was asked to stop
 *   ... forward and backward; nodes that compute losses add them to gt_optim_scalars()
 *   gt_optim_update()  clip by the global norm, then the rule, for every parameter
 *   gt_optim_end()     the result block is copied to the host
 *
 * gt_optim_result() waits for the result block of the oldest step whose result was not read yet. At
 * most GT_OPTIM_AHEAD steps may begin before that. If loss or norm of a step are not finite, this
 * step and all later steps update nothing (gt_step_result.diverged). With a scaled loss, a norm
 * that is not finite skips only this update, and later steps use a smaller scale. These functions
 * do not allocate.
 *
 * Where several processes update parts of the same parameters (gt_store.parts), add_up() is called
 * before the norm is computed. squares[GT_SQUARES], in device memory, is the sum of the squares of
 * this process's gradients; add_up() replaces it by the sum over all processes. NULL: this process
 * has all gradients. Errors of add_up() are returned.
 */
enum { GT_OPTIM_AHEAD = 4 };

int gt_optim_begin(struct gt_optim *o, double lr, bool stop, struct gt_err *err);
struct gt_step_scalars *gt_optim_scalars(const struct gt_optim *o); /* device */
int gt_optim_update(struct gt_optim *o,
    int (*add_up)(void *self, double *squares, struct gt_err *err), void *self, struct gt_err *err);
/* Like gt_optim_update(), but without the rules: it keeps the scalars equal in a process whose
 * parameters another process updates. */
int gt_optim_begin_update(struct gt_optim *o,
    int (*add_up)(void *self, double *squares, struct gt_err *err), void *self, struct gt_err *err);
int gt_optim_end(struct gt_optim *o, struct gt_err *err);
int gt_optim_result(struct gt_optim *o, struct gt_step_result *out, struct gt_err *err);

/* Do all parts of a step for existing gradients. *grad_norm (may be NULL) is the global norm before
 * clipping. */
int gt_optim_step(struct gt_optim *o, double lr, float *grad_norm, struct gt_err *err);

/* Queue that all gradients become zero (before the first micro-batch of an accumulated step). */
int gt_optim_zero_grad(struct gt_optim *o, struct gt_err *err);

/* How many updates were done, as of the last result that was read; settable for resuming. */
int64_t gt_optim_steps(const struct gt_optim *o);
int gt_optim_set_steps(struct gt_optim *o, int64_t steps, struct gt_err *err);

/* The loss scale, as of the last result that was read; settable for resuming. */
const struct gt_scaler *gt_optim_scaler(const struct gt_optim *o);
int gt_optim_set_scaler(struct gt_optim *o, const struct gt_scaler *scaler, struct gt_err *err);

/* torch.optim's state of a parameter: which = 0, 1, ... gives its name ("momentum_buffer";
 * "exp_avg", "exp_avg_sq") and device memory in which it has the place that the parameter has in
 * the store's layout, or that of its parts; NULL when there is no more. A parameter may not have
 * this state; other data may then be at its place, so call this for each parameter. */
const char *gt_optim_state(
    const struct gt_optim *o, const struct gt_slot *slot, int which, float **flat);

const struct gt_optim_options *gt_optim_options(const struct gt_optim *o);

/* Bytes of device memory that an optimizer of these options takes for a store: its states, and
 * workspace for the largest tensor that it updates whole. */
int64_t gt_optim_bytes(const struct gt_store *store, const struct gt_optim_options *options);

/* The most states that an optimizer of these options keeps for a parameter. */
int gt_optim_state_count(const struct gt_optim_options *options);

/* ---- schedule.c ---- */

enum gt_schedule_kind { GT_CONSTANT, GT_STEP, GT_COSINE, GT_WSD, GT_SCHEDULE_KINDS };

/* "constant", "step", "cosine", "wsd", NULL: the number of a name is its enum gt_schedule_kind. */
extern const char *const gt_schedule_names[GT_SCHEDULE_KINDS + 1];

struct gt_schedule {
	enum gt_schedule_kind kind;
	double lr, min_lr; /* step: falls no lower than min_lr */
	int64_t warmup;    /* steps of linear warm-up: lr (step + 1) / (warmup + 1) */
	int64_t total;     /* steps of the whole run */
	int64_t every;     /* step: multiply by gamma after each `every` steps after the warm-up */
	double gamma;
	int64_t decay; /* wsd: steps of the linear decay to min_lr at the end */
};

/*
 * The learning rate of a step (0 <= step), a pure function. cosine: half a cosine from lr at the
 * end of the warm-up to min_lr at `total` (Loshchilov and Hutter, ICLR 2017); wsd: warm-up,
 * constant, then linear to min_lr over the last `decay` steps (Hu et al., arXiv 2404.06395).
 */
double gt_schedule_lr(const struct gt_schedule *s, int64_t step);

#endif
