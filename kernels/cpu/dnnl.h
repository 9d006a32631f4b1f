/* dnnl.h - compute a node of an execution plan (lib/graph/plan.h) by oneDNN primitives. */
#ifndef GT_KERNELS_CPU_DNNL_H
#define GT_KERNELS_CPU_DNNL_H

#include "kernels/cpu/dnnl_major.h"
#include "lib/graph/kernel.h"

/* The kind of memory that holds an argument of a primitive, which is a prepared operation of
 * oneDNN. "The call" is a struct gt_call (lib/graph/kernel.h): the call of a kernel for one
 * node. */
enum gt_dnnl_memory {
	GT_DNNL_IN,       /* an input of the call */
	GT_DNNL_OUT,      /* an output of the call */
	GT_DNNL_WORKSPACE /* the workspace of the call */
};

/* The memory of an argument. gt_dnnl_bind() computes the address from it. */
struct gt_dnnl_address {
	enum gt_dnnl_memory memory;
	size_t at; /* index of the input or output; for the workspace, the offset in bytes */
};

/* Limits: primitives per call, arguments per primitive, and memory descriptors per call. */
enum { GT_DNNL_MAX_STEPS = 2, GT_DNNL_MAX_ARGS = 6, GT_DNNL_MAX_MDS = 5 };

/* A step of a call: one primitive and its arguments. */
struct gt_dnnl_step {
	dnnl_primitive_t primitive;
	int args_count;
	dnnl_exec_arg_t args[GT_DNNL_MAX_ARGS];
	struct gt_dnnl_address address[GT_DNNL_MAX_ARGS]; /* address[i] is the memory of args[i] */
};

/*
 * The state of a call (gt_call.state). Each call has its own oneDNN engine (a device) and stream (a
 * queue of work), so calls on different threads share nothing. On the CPU, an engine and a stream
 * are only handles, without state.
 */
struct gt_dnnl {
	const char *op; /* name of the op, for errors */
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	int mds_count;
	gt_dnnl_md mds[GT_DNNL_MAX_MDS]; /* those that gt_dnnl_describe() created */
	int steps_count;
	struct gt_dnnl_step steps[GT_DNNL_MAX_STEPS]; /* in order of execution */
};

/*
 * Convert a status of oneDNN into a return value: 0 for success, GT_ENOMEM if oneDNN is out of
 * memory, otherwise GT_EDEVICE. The text of an error is "OP: oneDNN cannot WHAT: STATUS (SHAPES)",
 * with the shapes of the call's tensors.
 */
int gt_dnnl_check(dnnl_status_t status, const struct gt_call *call, const char *op,
    const char *what, struct gt_err *err);

/*
 * Return true if oneDNN can compute in bfloat16, which needs a processor with AVX-512. A kernel
 * that computes in bfloat16 has this function as its member `accepts` (struct gt_kernel). If oneDNN
 * cannot be opened, return false. The call then gets a kernel that computes in float32, and that
 * kernel's prepare() reports the reason.
 */
bool gt_dnnl_accepts_bf16(const struct gt_call *call);

/*
 * Open oneDNN and allocate call->state, a struct gt_dnnl. Free the state with gt_dnnl_release(),
 * even if one of the functions below fails. If gt_dnnl_new() itself fails, call->state is NULL.
 */
int gt_dnnl_new(struct gt_call *call, const char *op, struct gt_err *err);

/*
 * Create a memory descriptor with the shape and the type of `t`, and with the memory format `tag`,
 * which is the order of the dimensions in memory. The type of `t` must be float32 or bfloat16. The
 * call owns *out; it is NULL after an error.
 */
int gt_dnnl_describe(struct gt_call *call, const struct gt_tensor *t, dnnl_format_tag_t tag,
    gt_dnnl_md *out, struct gt_err *err);

/*
 * Append a step with a new primitive, created from `desc`. `desc` must have been made with the
 * attributes of gt_dnnl_attr(). If the primitive needs a scratchpad (temporary memory), this
 * function adds one at the end of the call's workspace and makes it the first argument. *out is
 * borrowed from the call: pass it to gt_dnnl_arg() to append the other arguments. *out is NULL if
 * the primitive cannot be created.
 */
int gt_dnnl_step_add(struct gt_call *call, const_dnnl_primitive_desc_t desc,
    struct gt_dnnl_step **out, struct gt_err *err);

/* Append an argument to `step`. `arg` is one of oneDNN's DNNL_ARG_ constants. `address` is the
 * memory of the argument, and `desc` describes the memory there. */
int gt_dnnl_arg(struct gt_call *call, struct gt_dnnl_step *step, int arg, gt_dnnl_md desc,
    struct gt_dnnl_address address, struct gt_err *err);

/* Append a step that copies a tensor from one memory format into another. */
int gt_dnnl_reorder_add(struct gt_call *call, gt_dnnl_md from, struct gt_dnnl_address from_address,
    gt_dnnl_md to, struct gt_dnnl_address to_address, struct gt_err *err);

/* Add `bytes` bytes to the call's workspace, aligned to 64 bytes. Return where these bytes
 * are. */
struct gt_dnnl_address gt_dnnl_workspace(struct gt_call *call, size_t bytes);

/* Create attributes for primitives that take their scratchpad as an argument. The caller destroys
 * *out. */
int gt_dnnl_attr(
    const struct gt_call *call, const char *op, dnnl_primitive_attr_t *out, struct gt_err *err);

/* Kernels that call gt_dnnl_new() have these functions as their members `bind`, `run` and `release`
 * (struct gt_kernel). gt_dnnl_bind() stores the addresses of the arguments, gt_dnnl_run() executes
 * the steps, and gt_dnnl_release() frees the state. */
int gt_dnnl_bind(struct gt_call *call, struct gt_err *err);
int gt_dnnl_run(struct gt_call *call, struct gt_err *err);
void gt_dnnl_release(struct gt_call *call);

#endif
