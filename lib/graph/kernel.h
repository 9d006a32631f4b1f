/* kernel.h - the kernel interface: rows of kernel tables, and their calls. */
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

/* An input or output of a kernel. Its elements are contiguous in the layout; data is aligned to 64
 * bytes. */
struct gt_tensor {
	bool present; /* false: an optional input or output that this node does not have */
	enum gt_dtype dtype;
	enum gt_layout layout;
	int ndim;
	int64_t shape[GT_MAX_DIMS]; /* logical, whatever the layout: [N, C, H, W] for images */
	void *data;                 /* NULL until the plan is bound to memory */
};

/* Elements of a tensor. */
static inline int64_t gt_tensor_elements(const struct gt_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

/* The last dimension, and the product of all other dimensions: kernels that work by row treat any
 * tensor as such a matrix. A scalar is one row of one element. */
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

/* One node of the plan, bound to memory. An op's inputs, outputs and formula stand with its row in
 * lib/graph/ops/. An output may share memory with an input only where the op's row says so. */
struct gt_call {
	const struct gt_kernel *kernel; /* the row of the kernel table that runs this call */
	struct gt_stream *stream; /* to queue work on, in run(); NULL until the plan is bound */
	union gt_attrs attrs;
	int inputs, outputs;
	unsigned writes; /* bit i: run() changes input i */
	bool untimed;    /* as in struct gt_device */
	struct gt_tensor in[GT_MAX_INPUTS], out[GT_MAX_OUTPUTS];
	size_t workspace_bytes; /* set by prepare(): scratch memory wanted during run() */
	int launches;           /* kernels that run() queues: 1, unless prepare() says otherwise; a
	                           library's call counts as one, however many it queues */
	/* Bytes that run() moves beyond those of the op's row (gt_node_cost()), which prepare() may
	 * set: negative if this kernel moves fewer. */
	double more_bytes_read, more_bytes_written;
	void *workspace; /* aligned as device memory; contents undefined */
	void *state;     /* prepare()'s own: algorithms, library objects, packed weights */
	void *context;   /* the context that was passed to the plan with the row's table, or NULL */
};

/* Input i, or NULL if this node does not have it. */
static inline const struct gt_tensor *gt_optional_input(const struct gt_call *call, int i)
{
	return i < call->inputs && call->in[i].present ? &call->in[i] : NULL;
}

struct gt_kernel {
	const char *op;      /* the op's name */
	enum gt_dtype dtype; /* of the first present floating-point input or output */
	/* Optional: whether this row can compute the call. The first row of the table that can is
	 * used. */
	bool (*accepts)(const struct gt_call *call);
	/* Optional, once at plan time: choose algorithms, create state, ask for workspace. data is
	 * NULL. */
	int (*prepare)(struct gt_call *call, struct gt_err *err);
	/* Optional, whenever the data pointers have changed, before the next run(). */
	int (*bind)(struct gt_call *call, struct gt_err *err);
	/* Queue the node's work on call->stream; allocate nothing. The call is not changed until
	 * the work is done. A backend's row must queue the same work in each run, because the plan
	 * may replay it instead of calling run() again; anything that differs between runs must be
	 * read from the inputs. A fault in the data is an error of run() or of a later wait:
	 * lib/graph/fault.h. */
	int (*run)(struct gt_call *call, struct gt_err *err);
	/* Optional: free state. */
	void (*release)(struct gt_call *call);
};

/*
 * The `rng` input of ops that draw: int64 [4] on the device, written before every step. Element e
 * of sample i of this batch has the number c = (first + i * stride) * (elements per sample) + e. It
 * uses word c mod 4 of a Philox block. The key of the block is the seed. Words 0 and 1 of its
 * counter are c / 4, word 2 is the attribute `stream`, word 3 is the step. So results do not depend
 * on the number of ranks, threads or micro-batches. A sample is one index of the first dimension.
 */
enum gt_rng_field { GT_RNG_SEED, GT_RNG_STEP, GT_RNG_FIRST, GT_RNG_STRIDE, GT_RNG_FIELDS };

#endif
