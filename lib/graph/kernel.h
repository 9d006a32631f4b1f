/* kernel.h - kernels, which compute the nodes of a graph: kernel tables and kernel calls. */
#ifndef GT_GRAPH_KERNEL_H
#define GT_GRAPH_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"
#include "lib/device/layout.h"
#include "lib/graph/attrs.h"

struct gt_stream; /* lib/device/backend.h */

enum { GT_MAX_INPUTS = 8, GT_MAX_OUTPUTS = 4 };

/* An input or output of a kernel: contiguous in the order of `layout`, aligned to 64 bytes. */
struct gt_tensor {
	bool present; /* false: an optional input or output that this node lacks */
	enum gt_dtype dtype;
	enum gt_layout layout;
	int ndim;
	int64_t shape[GT_MAX_DIMS]; /* logical shape: [N, C, H, W] for images in any layout */
	void *data;                 /* NULL until the plan is bound to memory */
};

static inline int64_t gt_tensor_elements(const struct gt_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

/* Return the size of the last dimension, and the product of the others. A scalar is one row of
 * one. */
static inline int64_t gt_tensor_last(const struct gt_tensor *t)
{
	return t->ndim ? t->shape[t->ndim - 1] : 1;
}

static inline int64_t gt_tensor_rows(const struct gt_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i + 1 < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

/* The call of a kernel for one node of a plan. The formula of an op is in lib/graph/ops/. */
struct gt_call {
	const struct gt_kernel *kernel; /* row of the table that runs this call */
	struct gt_stream *stream;       /* run() queues work on it; NULL until the plan is bound */
	union gt_attrs attrs;
	int inputs, outputs;
	unsigned writes; /* bit i: run() changes input i */
	bool untimed;    /* prepare() must not time algorithms (struct gt_device) */
	struct gt_tensor in[GT_MAX_INPUTS], out[GT_MAX_OUTPUTS];
	size_t workspace_bytes; /* scratch memory that run() needs; set by prepare() */
	int launches; /* kernels that run() queues: 1, or set by prepare(); a library call is one */
	/* Bytes moved besides those of gt_node_cost(), or fewer if negative; set by prepare(). */
	double more_bytes_read, more_bytes_written;
	void *workspace; /* aligned to GT_DEVICE_ALIGN; contents undefined */
	void *state;     /* private to the kernel: algorithms, library objects, packed weights */
	/* if this call computes a 16-bit call in float32: that call (kernels/cpu/half.c) */
	const struct gt_call *narrow;
	/* of prepare(): why a faster algorithm is not used, a text that lives as long as the
	 * process; NULL: nothing to say */
	const char *note;
	void *context; /* gt_plan_extra.context (plan.h); NULL for kernels of a backend */
};

/* Return input i, or NULL if this node lacks it. */
static inline const struct gt_tensor *gt_optional_input(const struct gt_call *call, int i)
{
	return i < call->inputs && call->in[i].present ? &call->in[i] : NULL;
}

/* A row of a kernel table. Functions marked "optional" may be NULL. */
struct gt_kernel {
	const char *op; /* name of the op */
	/* Type of the first floating-point input, else of the first such output, else GT_F32. */
	enum gt_dtype dtype;
	/* Optional (any call): return whether the row can compute a call. The first such row is
	 * used. */
	bool (*accepts)(const struct gt_call *call);
	/* Optional, called once: choose algorithms, create the state, ask for workspace. Data
	 * pointers are still NULL. */
	int (*prepare)(struct gt_call *call, struct gt_err *err);
	/* Optional: update the state before the next run() after data pointers have changed. */
	int (*bind)(struct gt_call *call, struct gt_err *err);
	/* Queue the work on call->stream without allocating memory. A backend's row queues the same
	 * work in each run, because plans replay it: data that differ must be read from inputs. A
	 * fault in the data is an error of run(), or of a later wait (lib/graph/fault.h). */
	int (*run)(struct gt_call *call, struct gt_err *err);
	/* Optional: free the state. */
	void (*release)(struct gt_call *call);
};

/* The fields of `rng`, an int64 [4] in device memory, which the host writes for every micro-batch.
 * Element e of sample i has the counter c = (first + i * stride) * (elements per sample) + e, where
 * first + i * stride is the number of the sample among those of all ranks. Its random number is
 * word c mod 4 of the Philox block with the key GT_RNG_SEED and the counter (c / 4 in two words,
 * the node's `stream`, GT_RNG_STEP). So it does not depend on the number of ranks, threads or
 * micro-batches. */
enum gt_rng_field { GT_RNG_SEED, GT_RNG_STEP, GT_RNG_FIRST, GT_RNG_STRIDE, GT_RNG_FIELDS };

#endif
