/* backend.h - a device as a table of functions, and the list of backends. */
#ifndef GT_DEVICE_BACKEND_H
#define GT_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"
#include "lib/device/layout.h"

struct gt_kernel; /* lib/graph/kernel.h: devices carry them, graphs look into them */

/*
 * A sum of squares. Exact, it is the same in whatever order, and by however many, it was added up:
 * element i counts 2^(24 i - 298), is an integer of at most 53 bits, and so adds up without
 * rounding. (The smallest square is 2^-298; 24 bits are half of the fraction of one.) There is room
 * for 2^20 sums of 2^16 squares each, or shorter ones. The last element is the sum of what is not
 * finite. A sum that is not exact is in element 0. Elements of two sums are added, or subtracted,
 * one by one.
 * Source of the idea: U. Kulisch's long accumulator ("Computer Arithmetic and Validity", 2008).
 */
enum { GT_SQUARES = 25 };

/*
 * What the host tells the device before every optimizer step and what the device computes for
 * itself ("device"). It lies in device memory: the host writes it whole before the step, and no
 * kernel waits for the host.
 */
struct gt_step_scalars {
	float lr;         /* learning rate of this step */
	float bias1;      /* Adam: 1 - beta1^t */
	float bias2_sqrt; /* Adam: sqrt(1 - beta2^t) */
	float clip;       /* largest norm allowed; 0: no clipping */
	float first_step; /* SGD: 1 in the first step: the momentum buffer starts as the gradient */
	float grad_norm;  /* device: L2 norm of all gradients, before clipping */
	float grad_factor;          /* device: multiplies gradients, min(1, clip / (norm + 1e-6)) */
	bool exact;                 /* how squares are added up */
	double squares[GT_SQUARES]; /* device: of all gradients; 0 at first */
};

/* Constants of an update, the same in every step. */
struct gt_update_options {
	float momentum, dampening; /* SGD */
	int nesterov;              /* SGD */
	double beta1, beta2;       /* Adam, AdamW; in float 1 - beta has few digits left */
	float eps;                 /* Adam, AdamW */
	float weight_decay;        /* of this range */
	int decoupled;             /* AdamW: decay the parameter, not the gradient */
};

/*
 * Work on ranges of the flat buffers: float32 where no type is named, any length, any alignment of
 * 64 bytes. All are deterministic for any number of threads.
 */
struct gt_range_kernels {
	void (*fill)(float *x, int64_t count, float value);
	/* x[count] += y[count] */
	void (*add)(float *x, const float *y, int64_t count);
	/* s->squares += the sum of the squares of g[count], in double or exactly. */
	void (*squares)(const float *g, int64_t count, struct gt_step_scalars *s);
	/* s->grad_norm and s->grad_factor from s->squares. Source of the factor:
	 * torch.nn.utils.clip_grad_norm_. */
	void (*clip)(struct gt_step_scalars *s);
	/* p[count] -= lr * step of torch.optim.SGD; buf (NULL without momentum) is momentum_buffer.
	 * Gradients are multiplied by s->grad_factor first. */
	void (*sgd)(float *p, const float *g, float *buf, int64_t count,
	    const struct gt_update_options *o, const struct gt_step_scalars *s);
	/* torch.optim.Adam (o->decoupled 0) or AdamW (1): m is exp_avg, v exp_avg_sq. */
	void (*adam)(float *p, const float *g, float *m, float *v, int64_t count,
	    const struct gt_update_options *o, const struct gt_step_scalars *s);
	/* half[count], of type GT_F16 or GT_BF16, from x[count], rounded to nearest even, and x
	 * from half (lib/base/half.h). */
	void (*narrow)(uint16_t *half, const float *x, int64_t count, enum gt_dtype dtype);
	void (*widen)(float *x, const uint16_t *half, int64_t count, enum gt_dtype dtype);
	/* The index of the first element of x[count] that is NaN or infinite; -1 where all are
	 * finite, and for types that are neither GT_F32 nor GT_F64. */
	int64_t (*find_nonfinite)(const void *x, int64_t count, enum gt_dtype dtype);
};

struct gt_backend {
	const char *name;            /* "cpu" */
	bool host_memory;            /* its memory is the host's: read in place between runs */
	enum gt_layout image_layout; /* what its kernels want of four-dimensional values */

	/* How many devices of this kind there are, and one line on one of them. */
	int (*count)(void);
	int (*describe)(int index, char *text, size_t size, struct gt_err *err);

	/* Device memory, aligned to 64 bytes, zeroed. */
	int (*alloc)(int index, size_t bytes, void **out, struct gt_err *err);
	void (*free)(int index, void *p, size_t bytes);
	int (*copy_in)(int index, void *device, const void *host, size_t bytes, struct gt_err *err);
	int (*copy_out)(
	    int index, void *host, const void *device, size_t bytes, struct gt_err *err);

	/* NULL-terminated list of tables, each ended by a row whose op is NULL; earlier rows are
	 * preferred. */
	const struct gt_kernel *const *(*kernels)(void);
	const struct gt_range_kernels *(*ranges)(void);
};

/* The CPU, always there. Its kernels live in kernels/cpu/. */
extern const struct gt_backend gt_cpu_backend;

/* All backends of this build, NULL-terminated. */
extern const struct gt_backend *const gt_backends[];

/* The backend of a name, or NULL. */
const struct gt_backend *gt_backend_find(const char *name);

#endif
