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

/* An input or output of a kernel. The elements are contiguous in the order that `layout` names, and
 * `data` is aligned to 64 bytes. */
struct gt_tensor {
	bool present; /* false: an optional input or output that this node lacks */
	enum gt_dtype dtype;
	enum gt_layout layout;
	int ndim;
	int64_t shape[GT_MAX_DIMS]; /* logical shape: [N, C, H, W] for images in any layout */
	void *data;                 /* NULL until the plan is bound to memory */
};

/* Return the number of elements of a tensor. */
static inline int64_t gt_tensor_elements(const struct gt_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

/* Some kernels work row by row. They treat any tensor as a matrix [rows, last]. gt_tensor_last()
 * returns the size of the last dimension, and gt_tensor_rows() the product of all other dimensions.
 * A scalar is one row of one element. */
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

/* The call of a kernel for one node of a plan (lib/graph/plan.h). The inputs, outputs and formula
 * of each op are in lib/graph/ops/ops.h. An output may share memory with an input only if the op
 * allows it (gt_op.inplace). */
struct gt_call {
	const struct gt_kernel *kernel; /* the row of the kernel table that runs this call */
	struct gt_stream *stream;       /* run() queues work on it; NULL until the plan is bound */
	union gt_attrs attrs;
	int inputs, outputs;
	unsigned writes; /* bit i: run() changes input i */
	bool untimed;    /* prepare() must not time algorithms to choose one (struct gt_device) */
	struct gt_tensor in[GT_MAX_INPUTS], out[GT_MAX_OUTPUTS];
	size_t workspace_bytes; /* set by prepare(): bytes of scratch memory that run() needs */
	/* Number of kernels that run() queues: 1, unless prepare() sets another number. A call of a
	 * library counts as one kernel. */
	int launches;
	/* The bytes that this kernel reads and writes in addition to the bytes that gt_node_cost()
	 * gives for the node; negative if the kernel reads or writes fewer bytes. 0, unless
	 * prepare() sets other numbers. */
	double more_bytes_read, more_bytes_written;
	void *workspace; /* aligned to GT_DEVICE_ALIGN; contents undefined */
	void *state;     /* private to the kernel: algorithms, library objects, packed weights */
	/* Some kernels compute a call with 16-bit tensors in this way: they copy the tensors to
	 * float32, make a second call with the copies, and round its results to 16 bits
	 * (kernels/cpu/half.c). If not NULL: this call is such a second call, and `narrow` is the
	 * first one. */
	const struct gt_call *narrow;
	/* the data of kernels that do not belong to a backend, such as collectives
	 * (gt_plan_extra.context, plan.h); NULL for kernels of a backend */
	void *context;
};

/* Return input i, or NULL if this node lacks it. */
static inline const struct gt_tensor *gt_optional_input(const struct gt_call *call, int i)
{
	return i < call->inputs && call->in[i].present ? &call->in[i] : NULL;
}

/* A row of a kernel table. Functions marked "optional" may be NULL. */
struct gt_kernel {
	const char *op; /* name of the op */
	/* The row is for calls with this data type. The data type of a call is that of its first
	 * floating-point input. If no input is floating point, it is that of the first
	 * floating-point output, and if there is none, GT_F32. */
	enum gt_dtype dtype;
	/* Optional: return whether this row can compute the call. The plan uses the first row of
	 * the table that can compute the call. NULL: the row can compute every call. */
	bool (*accepts)(const struct gt_call *call);
	/* Optional: choose algorithms, create the state, ask for workspace. The plan calls it once,
	 * when the plan is made. The data pointers are still NULL. */
	int (*prepare)(struct gt_call *call, struct gt_err *err);
	/* Optional: update the state for new data pointers. The plan calls it before the next run()
	 * whenever the data pointers have changed. */
	int (*bind)(struct gt_call *call, struct gt_err *err);
	/* Queue the node's work on call->stream, without allocating memory. The call does not
	 * change until the work is done. A row of a backend's table (gt_backend.kernels) must queue
	 * the same work in each run, because the plan may replay this work instead of calling run()
	 * again. Data that differ between runs must be read from the inputs. A fault in the data is
	 * an error of run(), or of a later wait for the device (lib/graph/fault.h). */
	int (*run)(struct gt_call *call, struct gt_err *err);
	/* Optional: free the state. */
	void (*release)(struct gt_call *call);
};

/*
 * The fields of `rng`, an input of ops that draw random numbers. It is an int64 [4] in device
 * memory, and the host writes it for every micro-batch. A sample is one index of the first
 * dimension. Element e of sample i of this batch has the counter
 *
 *   c = (first + i * stride) * (elements per sample) + e
 *
 * first + i * stride is the number of sample i among the samples of all ranks in this step. `first`
 * and `stride` are the fields GT_RNG_FIRST and GT_RNG_STRIDE.
 *
 * The random number of the element is word `c mod 4` of a block of the Philox generator. The key of
 * the block is the field GT_RNG_SEED. Words 0 and 1 of the block's counter are `c / 4`, word 2 is
 * the node's attribute `stream`, word 3 is the field GT_RNG_STEP. So results do not depend on the
 * number of ranks, threads or micro-batches.
 */
enum gt_rng_field { GT_RNG_SEED, GT_RNG_STEP, GT_RNG_FIRST, GT_RNG_STRIDE, GT_RNG_FIELDS };

#endif
