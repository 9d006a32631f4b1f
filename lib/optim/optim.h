/* optim.h - optimizers, gradient clipping, loss scaling and learning-rate schedules. */
#ifndef GT_OPTIM_OPTIM_H
#define GT_OPTIM_OPTIM_H

#include "lib/optim/step_kernels.h"
#include "lib/store/store.h"

/*
 * This module updates parameters and computes learning rates. Each state of an optimizer, such as
 * momentum, is a plane of the store (lib/store/store.h), which has only the parameters that need
 * it. The update rules are those of torch.optim. The backend does the arithmetic, with functions
 * that work on ranges of flat buffers (struct gt_step_kernels).
 */

/* The optimizers: X(NAME, name), where `name` is that of the command line. Each has a row
 * gt_optim_name (struct gt_optim_rule). */
#define GT_OPTIMIZERS(X)                                                                           \
	X(SGD, sgd)                                                                                \
	X(ADAM, adam)                                                                              \
	X(ADAMW, adamw)                                                                            \
	X(MUON, muon)                                                                              \
	X(ADAN, adan)

/* GT_SGD, GT_ADAM and so on. */
enum gt_optim_kind {
#define GT_OPTIM_KIND(NAME, name) GT_##NAME,
	GT_OPTIMIZERS(GT_OPTIM_KIND)
#undef GT_OPTIM_KIND
	    GT_OPTIM_KINDS
};

/* How the step size of Muon depends on the shape of a matrix: adjust_lr_fn of torch.optim.Muon. */
enum gt_adjust_lr { GT_ADJUST_ORIGINAL, GT_ADJUST_MATCH_RMS_ADAMW, GT_ADJUST_KINDS };

/* The names, indexed by enum gt_adjust_lr: "original", "match_rms_adamw", NULL. */
extern const char *const gt_adjust_lr_names[GT_ADJUST_KINDS + 1];

/*
 * A dynamic loss scale for float16. The loss is multiplied by `scale`, to keep small gradients from
 * becoming zero in float16. The update divides the gradients by `scale`. The scale is multiplied by
 * growth_factor after growth_interval updates without an overflow, and by backoff_factor after an
 * overflow. The members have the names of torch.amp.GradScaler.state_dict().
 */
struct gt_scaler {
	double scale;
	double growth_factor, backoff_factor;
	int64_t growth_interval; /* 0: the loss is not scaled */
	int64_t growth_tracker;  /* updates since `scale` last changed */
};

/* The defaults of torch.amp.GradScaler. */
extern const struct gt_scaler gt_scaler_default;

struct gt_optim_options {
	enum gt_optim_kind kind;
	double momentum, dampening;  /* momentum: SGD, Muon; dampening: SGD */
	bool nesterov;               /* SGD; needs momentum above 0 and no dampening */
	double beta1, beta2, eps;    /* Adam, AdamW; eps: also Adan */
	enum gt_adjust_lr adjust_lr; /* Muon */
	double weight_decay;         /* only for parameters with gt_slot.decay set */
	double clip;                 /* largest L2 norm of all gradients together; 0: no clipping */
	/* the norm has the same bits for any number of processes (gt_step_block.exact) */
	bool exact_norm;
	/* Some optimizers, such as Muon, leave some parameters to a second optimizer
	 * (gt_optim_rule.fallback). For these parameters, the learning rate is multiplied by this
	 * factor. */
	double fallback_lr_factor;
	struct gt_scaler scaler; /* the loss scale at the start */
};

/* ---- rules.c: the optimizers ---- */

/* The type of a struct gt_optim_member, and the source of its value. "The option" is the member of
 * struct gt_optim_options at `offset`. */
enum gt_member_type {
	GT_MEMBER_NUMBER,    /* the option, a double */
	GT_MEMBER_PAIR,      /* a tuple of two doubles: the option and the next member */
	GT_MEMBER_BOOL,      /* the option, a bool */
	GT_MEMBER_WORD,      /* a string: words[i], where i is the option, an enum */
	GT_MEMBER_FALSE,     /* always false */
	GT_MEMBER_TRUE,      /* always true */
	GT_MEMBER_INTEGER,   /* an integer: gt_optim_member.count */
	GT_MEMBER_CONSTANTS, /* constants[0]; if `count` > 1, a tuple of constants[count] */
};

/* A member of a parameter group of torch.optim, in a checkpoint. The members lr, weight_decay and
 * params, which every optimizer has, are not listed. */
struct gt_optim_member {
	const char *name;
	enum gt_member_type type;
	size_t offset; /* offset of the option in struct gt_optim_options */
	const char *const *words;
	const double *constants;
	int count;
};

/* The data of one update. GT_OPERAND_RANGES: ranges of the flat buffers, which may begin in the
 * middle of a tensor. GT_OPERAND_TENSORS: one whole tensor, as a matrix [rows, cols]; the kernel of
 * a convolution is a matrix [out, the rest]. */
enum gt_operand { GT_OPERAND_RANGES, GT_OPERAND_TENSORS };

/* A state that an optimizer keeps for each parameter, and the values that it may have. Values
 * outside of the limits come from no training: they make the next updates NaN or infinite. */
struct gt_optim_state_row {
	const char *name; /* in torch.optim, and of its plane; the last row has NULL */
	float min, max;
};

/* The number of keys that gt_optim_rule.group may name. */
enum { GT_GROUP_KEYS = 2 };

/*
 * The properties and functions of an optimizer, its row. To add an optimizer, list it in
 * GT_OPTIMIZERS, and define the row in rules.c or in a file of its own. If the optimizer needs new
 * arithmetic, also list a kernel in GT_UPDATES (step_kernels.h), and define it in each backend.
 *
 * The members `takes`, `fallback`, `work` and `adjust` are used only if `operand` is
 * GT_OPERAND_TENSORS.
 */
struct gt_optim_rule {
	enum gt_operand operand;
	/* Return whether this optimizer updates the parameter. The optimizer `fallback` updates all
	 * other parameters, with the learning rate multiplied by
	 * gt_optim_options.fallback_lr_factor. */
	bool (*takes)(const struct gt_slot *slot);
	enum gt_optim_kind fallback;
	enum gt_update_kind update; /* the kernel */
	/* Return the number of floats of workspace that the kernel needs. NULL: none. */
	int64_t (*work)(int64_t rows, int64_t cols);
	/* in the order in which the kernel has them; the last element has the name NULL */
	const struct gt_optim_state_row *states;
	const struct gt_optim_member *members; /* the last element has the name NULL */
	/* Keys that its param_groups in checkpoints of PyTorch have, and keys that they lack. No
	 * keys: such checkpoints are not recognized. */
	struct {
		const char *has[GT_GROUP_KEYS], *lacks[GT_GROUP_KEYS];
	} group;
	/* names of the options that this optimizer reads, NULL-terminated: "momentum", "betas" */
	const char *const *settings;
	bool counts_steps; /* torch.optim keeps a tensor "step" for each parameter */
	/* The step size does not depend on the size of the gradients, so the learning rate that a
	 * model recommends for Adam is suitable. */
	bool adaptive;
	/* default weight decay, by the kind of the model's input */
	struct {
		double tokens, images, other;
	} decay;
	double momentum; /* default momentum, for optimizers that read it */
	/* Optional: return a default learning rate for all models. If the result is 0, or the
	 * function is NULL, the model defines the default, which depends on `adaptive`. */
	double (*default_lr)(const struct gt_optim_options *options);
	/* Return whether an optimizer with these options keeps the states. Example: SGD keeps its
	 * state, momentum_buffer, only if the momentum is not 0. */
	bool (*keeps_states)(const struct gt_optim_options *options);
	/* Optional: set the members of *update that depend on the shape of the tensor. */
	void (*adjust)(struct gt_update_options *update, const struct gt_optim_options *options,
	    int64_t rows, int64_t cols);
	/* true: weight decay is applied to the parameter directly; false: it is added to the
	 * gradient */
	bool decoupled;
};

/* The names, indexed by enum gt_optim_kind: "sgd", "adam", "adamw", "muon", "adan", NULL. */
extern const char *const gt_optim_names[GT_OPTIM_KINDS + 1];

/* Return the row of an optimizer. */
const struct gt_optim_rule *gt_optim_rule(enum gt_optim_kind kind);

/* Return the row of the optimizer that updates this parameter if the optimizer of the run is
 * `kind`: the row of `kind`, or that of its `fallback`. */
const struct gt_optim_rule *gt_optim_rule_of(enum gt_optim_kind kind, const struct gt_slot *slot);

/* Return whether this optimizer reads an option, such as "momentum" or "betas". */
bool gt_optim_reads(enum gt_optim_kind kind, const char *setting);

/* Write the names of the optimizers that read an option to out[size], as in "adam or adamw". */
void gt_optim_readers(char *out, size_t size, const char *setting);

/* ---- optim.c: updates ---- */

struct gt_optim;

/* Check that a positive value of the option `name` does not become 0 or `limit` when it is rounded
 * to float32, the type in which updates are computed. Errors: GT_EINVAL. */
int gt_optim_check_number(const char *name, double value, float limit, struct gt_err *err);

/* Create an optimizer. Its states, planes of the store, are set to zero. The store must have its
 * memory, with float32 parameters and gradients, and must outlive the optimizer. A store has one
 * optimizer at a time. The caller frees *out. */
int gt_optim_new(struct gt_optim **out, struct gt_store *store,
    const struct gt_optim_options *options, struct gt_err *err);
void gt_optim_free(struct gt_optim *o);

/* The largest number of steps that may begin before their results are read. */
enum { GT_OPTIM_AHEAD = 4 };

/*
 * The part of other ranks in an update. Members may be NULL, and all but add_up() must be set if
 * this rank holds shards of tensors that are updated whole (GT_OPERAND_TENSORS). Functions queue
 * work on the compute stream, and are collective calls. Their errors are returned.
 */
struct gt_optim_ranks {
	/* squares[GT_SQUARES], in device memory, holds the sum of the squares of this rank's
	 * gradients: replace each element by its sum over all ranks. NULL: this rank has all
	 * gradients. */
	int (*add_up)(void *self, double *squares, struct gt_err *err);
	/* x[slot->held] is this rank's shard: replace it by the whole tensor, x[slot->count].
	 * Contents of spare[slot->count] are lost. */
	int (*join)(
	    void *self, const struct gt_slot *slot, float *x, float *spare, struct gt_err *err);
	/* Copy this rank's shard of whole[slot->count] to shard[slot->held]. No collective call. */
	int (*cut)(void *self, const struct gt_slot *slot, float *shard, const float *whole,
	    struct gt_err *err);
	void *self; /* passed to the functions */
};

/*
 * A training step calls these functions in this order. They queue work on the device's compute
 * stream, and allocate no memory:
 *
 *   gt_optim_begin()   copy the step block (struct gt_step_block) to the device: the learning rate
 *                      lr, and whether this rank was asked to stop
 *   ...                the caller runs forward and backward; nodes that compute losses add them to
 *                      gt_optim_scalars()
 *   gt_optim_update()  clip by the global norm, then update every parameter
 *   gt_optim_end()     copy the result block (struct gt_step_result) to the host
 *
 * gt_optim_result() waits for the result block of one step, and copies it to *out. Each call reads
 * the result of the oldest step whose result was not read yet. At most GT_OPTIM_AHEAD steps may
 * begin before their results are read.
 *
 * If the loss or the norm of a step is not finite, the step updates nothing. Later steps update
 * again, with a smaller loss scale, if three conditions are met: the loss is scaled; the loss is
 * finite; the new scale is not too small. Otherwise, no later step updates anything
 * (gt_step_result.diverged).
 *
 * Several ranks may update different parts of the same parameters (gt_store.parts), and hold shards
 * of them. In this case gt_optim_update() calls the functions of *ranks; otherwise `ranks` is NULL.
 */
int gt_optim_begin(struct gt_optim *o, double lr, bool stop, struct gt_err *err);
/* Return the step block and the result block, in device memory. */
struct gt_step_scalars *gt_optim_scalars(const struct gt_optim *o);
int gt_optim_update(struct gt_optim *o, const struct gt_optim_ranks *ranks, struct gt_err *err);
/* Like gt_optim_update(), but update no parameters. A rank calls this function if another rank
 * updates the parameters. Both ranks then have equal scalars, such as the norm. */
int gt_optim_begin_update(
    struct gt_optim *o, const struct gt_optim_ranks *ranks, struct gt_err *err);
int gt_optim_end(struct gt_optim *o, struct gt_err *err);
int gt_optim_result(struct gt_optim *o, struct gt_step_result *out, struct gt_err *err);

/* Do a whole step with gradients that are already computed: call gt_optim_begin(),
 * gt_optim_update(), gt_optim_end() and gt_optim_result(). *grad_norm (may be NULL) is the global
 * norm before clipping. */
int gt_optim_step(struct gt_optim *o, double lr, float *grad_norm, struct gt_err *err);

/* Queue the zeroing of all gradients. Call this before the first micro-batch of a step that
 * accumulates gradients. */
int gt_optim_zero_grad(struct gt_optim *o, struct gt_err *err);

/* gt_optim_steps() returns the number of updates so far, as of the last result that was read.
 * gt_optim_set_steps() sets this number, to resume a run. */
int64_t gt_optim_steps(const struct gt_optim *o);
int gt_optim_set_steps(struct gt_optim *o, int64_t steps, struct gt_err *err);

/* gt_optim_scaler() returns the loss scale, as of the last result that was read.
 * gt_optim_set_scaler() sets the loss scale, to resume a run. */
const struct gt_scaler *gt_optim_scaler(const struct gt_optim *o);
int gt_optim_set_scaler(struct gt_optim *o, const struct gt_scaler *scaler, struct gt_err *err);

/* Add a plane to the store for each state that an optimizer with these options keeps, named as in
 * torch.optim: "momentum_buffer"; "exp_avg", "exp_avg_sq". gt_optim_new() does so, too. Call this
 * earlier, so that plans count the memory, and gt_store_alloc() allocates it. */
int gt_optim_add_planes(
    struct gt_store *store, const struct gt_optim_options *options, struct gt_err *err);

/* Return the row of the state `name` that an optimizer with these options keeps for a slot, or
 * NULL. */
const struct gt_optim_state_row *gt_optim_state_of(
    const struct gt_optim_options *options, const struct gt_slot *slot, const char *name);

/* Return the options of an optimizer. */
const struct gt_optim_options *gt_optim_options(const struct gt_optim *o);

/* Return the bytes of device memory that an optimizer with these options needs beside the planes of
 * a store: workspace for the largest tensor that one update works on (GT_OPERAND_TENSORS). */
int64_t gt_optim_work_bytes(const struct gt_store *store, const struct gt_optim_options *options);

/* ---- schedule.c ---- */

enum gt_schedule_kind { GT_CONSTANT, GT_STEP, GT_COSINE, GT_WSD, GT_SCHEDULE_KINDS };

/* The names, indexed by enum gt_schedule_kind: "constant", "step", "cosine", "wsd" (short for
 * warm-up, stable, decay), NULL. */
extern const char *const gt_schedule_names[GT_SCHEDULE_KINDS + 1];

struct gt_schedule {
	enum gt_schedule_kind kind;
	/* lr: the rate after the warm-up; min_lr: the smallest rate, which GT_CONSTANT ignores */
	double lr, min_lr;
	int64_t warmup; /* steps of the warm-up; their rate: lr * (step + 1) / (warmup + 1) */
	int64_t total;  /* steps of the whole run */
	/* GT_STEP: after the warm-up, the rate is multiplied by gamma once every `every` steps */
	int64_t every;
	double gamma;
	int64_t decay; /* GT_WSD: steps of the linear decay to min_lr at the end */
};

/*
 * Return the learning rate of step number `step` (0, 1, ...). The result depends only on the
 * arguments. After the warm-up:
 *
 *   constant  the rate stays lr
 *   step      the rate is multiplied by gamma every `every` steps, but is at least min_lr
 *   cosine    the rate follows half a cosine from lr to min_lr at step `total` (Loshchilov and
 *             Hutter, ICLR 2017)
 *   wsd       the rate stays lr, and falls linearly to min_lr in the last `decay` steps (Hu et
 *             al., arXiv 2404.06395)
 */
double gt_schedule_lr(const struct gt_schedule *s, int64_t step);

#endif
