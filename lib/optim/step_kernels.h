/* step_kernels.h - the kernels of a training step: its sums, the loss scale, and updates. */
#ifndef GT_OPTIM_STEP_KERNELS_H
#define GT_OPTIM_STEP_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"

struct gt_stream;

/*
 * A sum of squares of float32 numbers is an array double [GT_SQUARES]. It is either exact or
 * rounded. To add or subtract two sums, add or subtract their elements one by one.
 *
 * An exact sum does not depend on the order of additions or on the number of ranks. Its elements,
 * except the last one, are digits in base 2^24: element i has the weight 2^(24 * i - 298). (The
 * smallest square is 2^-298, so all squares are multiples of the weight of element 0.) Elements are
 * integers. A sum may exceed 24 bits in an element, but an integer of up to 53 bits is exact in a
 * double, so additions do not round. An exact sum can hold 2^20 sums of up to 2^16 squares each.
 * The last element is the sum of all squares that are not finite.
 *
 * A rounded sum is stored in element 0, and the other elements are 0.
 *
 * Source of the idea: U. Kulisch's long accumulator ("Computer Arithmetic and Validity", 2008).
 */
enum { GT_SQUARES = 25 };

/* The step block: the settings of one training step. The host copies it to the device before the
 * step. */
struct gt_step_block {
	float lr; /* learning rate of this step */
	/* Learning rate of parameters that the run's optimizer leaves to a second optimizer
	 * (gt_optim_rule.fallback). */
	float fallback_lr;
	float clip;          /* largest allowed norm of the gradients; 0: no clipping */
	double beta1, beta2; /* Adam, AdamW */
	double stop;         /* 1: this rank was asked to stop; 0: it was not */
	bool exact;          /* true: sums of squares are exact (GT_SQUARES); false: rounded */
	/* The loss scale is a factor of the loss, so that small gradients do not become 0 in
	 * float16. It is multiplied by `growth` after growth_interval updates without an overflow,
	 * and by `backoff` after an overflow. growth_interval 0: the loss is not scaled. */
	float growth, backoff;
	int64_t growth_interval;
};

/*
 * The result block: scalars that kernels compute in a step, and that later kernels read. After the
 * step, the block is copied to the host. The host may read this copy later, so kernels never wait
 * for the host.
 */
struct gt_step_result {
	/* loss: the sum of the step's losses so far. stop: gt_step_block.stop, later its sum over
	 * all ranks. The two members are adjacent, so that one collective can sum both over the
	 * ranks. */
	double loss, stop;
	float grad_norm; /* L2 norm of all gradients, before clipping, without the loss scale */
	/* gradients are multiplied by this factor: min(1, clip / (norm + 1e-6)) / scale */
	float grad_factor;
	float scale; /* loss scale of the next step; not used if the loss is not scaled */
	int64_t growth_tracker;     /* updates since `scale` last changed */
	bool skip;                  /* this step does not update parameters */
	bool diverged;              /* neither this step nor any later step updates parameters */
	int64_t steps;              /* updates in the run so far, including the one of this step */
	float bias1, bias2_sqrt;    /* Adam: 1 - beta1^steps, sqrt(1 - beta2^steps) */
	double squares[GT_SQUARES]; /* sum of squares of the step's gradients so far */
};

/* The step block and the result block, in device memory. */
struct gt_step_scalars {
	struct gt_step_block block;
	struct gt_step_result result;
};

/* Constants of an update, the same in every step. */
struct gt_update_options {
	float momentum, dampening; /* momentum: SGD and Muon; dampening: only SGD */
	int nesterov;              /* SGD */
	double beta1, beta2; /* Adam, AdamW; double, because 1 - beta in float has few digits */
	float eps;           /* Adam, AdamW */
	float weight_decay;
	float lr_scale; /* the learning rate is multiplied by this factor */
	int decoupled;  /* 1, AdamW: decay the parameter; 0, Adam: add the decay to the gradient */
	int use_fallback_lr; /* Adam, AdamW: use gt_step_block.fallback_lr instead of lr */
	float step_scale; /* Muon: the step is multiplied by this factor, the weight decay is not */
	/* If not NULL: device memory [count] for a 16-bit copy of the parameters. The update also
	 * writes the new parameters there, rounded to nearest even in the type copy_type. */
	uint16_t *copy;
	enum gt_dtype copy_type; /* GT_F16 or GT_BF16 */
};

enum { GT_RANGE_STATES = 4 }; /* largest number of states that one kernel updates */

/*
 * A range of parameters that a kernel updates: the parameters p[count], their gradients g[count],
 * and the optimizer's states states[i][count]. states[i] is NULL if the optimizer does not keep
 * this state. A range may begin at any element of a buffer.
 */
struct gt_update_range {
	float *p;
	const float *g;
	float *states[GT_RANGE_STATES];
	int64_t count;
	const struct gt_update_options *o;
};

/* The phases of the update of a matrix. If ranks hold shards of the matrix, each of them averages
 * its shard, one or all make the whole matrix orthogonal, and each takes the step of its shard. */
enum gt_update_phase {
	GT_UPDATE_WHOLE, /* all phases; this rank has the whole matrix */
	/* update the states of ranges[0], and write the averaged gradients to work[count] */
	GT_UPDATE_AVERAGE,
	/* make the matrix work[rows * cols] orthogonal; the result is work + rows * cols */
	GT_UPDATE_ORTHOGONALIZE,
	/* move the parameters of ranges[0] along work[count] */
	GT_UPDATE_STEP,
};

/*
 * The memory of one update, which is of many ranges or of one matrix.
 *
 * Ranges: one call updates many, because on a GPU one launch costs as much time as 500,000
 * elements. They do not overlap, and states[i] is NULL for all of them or for none. Their options
 * *o may differ only in weight_decay, lr_scale and copy, and `copy` is NULL for all ranges or for
 * none. The result for a range does not depend on the other ranges.
 *
 * A matrix [rows, cols]: ranges[0] has its elements, or those of a shard if `phase` is set, and
 * begins at a multiple of 64 bytes; n is 1.
 */
struct gt_update {
	const struct gt_update_range *ranges; /* [n] */
	size_t n;
	int64_t rows, cols; /* of the whole matrix */
	enum gt_update_phase phase;
	float *work;       /* workspace for a matrix; its contents are lost after the last phase */
	const void *cache; /* made by gt_update_kernel.prepare(), or NULL */
};

/*
 * A kernel that updates parameters. Gradients are multiplied by s->result.grad_factor. If
 * s->result.skip is set, an update changes nothing. The caller may change or free *update, its
 * ranges and their options when the call has returned.
 */
struct gt_update_kernel {
	int (*run)(struct gt_stream *stream, const struct gt_update *update,
	    const struct gt_step_scalars *s, struct gt_err *err);
	/* Optional, both functions or none (NULL): prepare faster updates of matrices of this
	 * shape, and add them to *cache, which is NULL before the first call. If a shape has no
	 * faster update, or *cache has it, this does nothing. Do not call this while work is
	 * captured (capture_begin()). Errors: GT_ENOMEM, GT_EDEVICE. */
	int (*prepare)(void **cache, int64_t rows, int64_t cols, struct gt_err *err);
	/* Call this when all updates with the cache are done. NULL is fine. */
	void (*free_cache)(void *cache);
};

/*
 * The kernels that update parameters: X(NAME, name). Each backend has them all, as gt_cpu_name and
 * gt_cuda_name; gt_step_kernels.updates[GT_UPDATE_NAME] is the kernel.
 *
 *   sgd   Update ranges as torch.optim.SGD does. states[0] is momentum_buffer, or NULL if there is
 *         no momentum.
 *   adam  Update ranges as torch.optim.Adam does, or as AdamW if o->decoupled is 1. states[0] is
 *         exp_avg, and states[1] is exp_avg_sq.
 *   adan  Update ranges as Adan does (GT_ADAN_BETA1). states[0] to states[3] are exp_avg,
 *         exp_avg_diff, exp_avg_sq and neg_pre_grad.
 *   muon  Update a matrix as torch.optim.Muon does, with Nesterov momentum. states[0] is
 *         momentum_buffer; the workspace has gt_muon_work(rows, cols) elements. All matrix products
 *         are computed in float32. Without a cache, the update needs less memory and may be slower.
 */
#define GT_UPDATES(X)                                                                              \
	X(SGD, sgd)                                                                                \
	X(ADAM, adam)                                                                              \
	X(ADAN, adan)                                                                              \
	X(MUON, muon)

enum gt_update_kind {
#define GT_UPDATE_KIND(NAME, name) GT_UPDATE_##NAME,
	GT_UPDATES(GT_UPDATE_KIND)
#undef GT_UPDATE_KIND
	    GT_UPDATE_KINDS
};

/*
 * Muon makes the momentum orthogonal in GT_MUON_STEPS iterations of a polynomial with these
 * coefficients. Source: K. Jordan et al., "Muon: an optimizer for hidden layers in neural
 * networks", 2024 (https://kellerjordan.github.io/posts/muon).
 */
enum { GT_MUON_STEPS = 5 };
static const double gt_muon_coefficients[] = { 3.4445, -4.7750, 2.0315 };
/* Before the iterations, Muon divides the momentum by its norm, or by this number if the norm is
 * smaller. */
static const double gt_muon_eps = 1e-7;

/* Return the size of Muon's workspace, in floats: two matrices [rows, cols] and two square matrices
 * [side, side], where `side` is the smaller of rows and cols. */
static inline int64_t gt_muon_work(int64_t rows, int64_t cols)
{
	int64_t side = rows < cols ? rows : cols;

	return 2 * (rows * cols + side * side);
}

/* The decay of Adan's three means; beta1 and beta2 are 1 minus those of the paper. Source: X. Xie
 * et al., "Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep Models", IEEE
 * TPAMI 2024 (arXiv 2208.06677), with the defaults of its authors' program. */
#define GT_ADAN_BETA1 0.98
#define GT_ADAN_BETA2 0.92
#define GT_ADAN_BETA3 0.99

/*
 * The smallest allowed loss scale: the smallest normal number of float16. Gradients that overflow
 * at this scale overflow at any scale. (fairseq has an option for this limit, --min-loss-scale; its
 * default is 1e-4.)
 */
static const double gt_scale_min = 0x1p-14;

/*
 * The kernels of a training step. Each function queues its work on a stream. Elements are float32.
 * A range may have any length. It begins at a multiple of 64 bytes (but see struct
 * gt_update_range). Arrays of elements and the argument *s are in device memory. Structs gt_update,
 * their ranges and options are in host memory. Results are the same for any number of threads.
 * Errors: GT_EDEVICE, and errors of earlier work on this device.
 */
struct gt_step_kernels {
	/* Begin a step: set loss, norm and squares of s->result to 0, and its `stop` to
	 * s->block.stop. */
	int (*begin_step)(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
	/* Add the sum of losses[count], count >= 1, to s->result.loss, in double. The order of
	 * additions is the order of ordered groups (lib/comm/group.h): the sum of the first 2^k
	 * losses, plus the sum of the other losses. 2^k is the largest power of two below `count`.
	 * Each of these two sums is computed by the same rule. */
	int (*add_losses)(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
	    int64_t count, struct gt_err *err);
	/* Add the sum of the squares of g[count] to s->result.squares. The sum is exact if
	 * s->block.exact is set. Otherwise it is rounded: it is computed in double (GT_SQUARES). */
	int (*squares)(struct gt_stream *stream, const float *g, int64_t count,
	    struct gt_step_scalars *s, struct gt_err *err);
	/* Compute all other members of s->result from `loss` and `squares`. If the loss is scaled
	 * and gradients are not finite, set `skip` and lower the loss scale. Set `diverged` if the
	 * loss is not finite, if the loss is not scaled and gradients are not finite, or if the
	 * loss scale falls below gt_scale_min. Sources: torch.nn.utils.clip_grad_norm_ for
	 * grad_factor; torch._amp_update_scale_, of torch.amp.GradScaler, for the loss scale. */
	int (*begin_update)(
	    struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
	/* Copy `rows` rows of `length` elements each, whose first elements are to_stride and
	 * from_stride elements apart. Rows do not overlap, and begin at any element. */
	int (*copy_rows)(struct gt_stream *stream, float *to, int64_t to_stride, const float *from,
	    int64_t from_stride, int64_t length, int64_t rows, struct gt_err *err);
	const struct gt_update_kernel *updates[GT_UPDATE_KINDS];
};

#endif
