/* dnnl.h - compute a node of an execution plan (lib/graph/plan.h) by oneDNN primitives. */
#ifndef GT_KERNELS_CPU_DNNL_H
#define GT_KERNELS_CPU_DNNL_H

#include "kernels/cpu/dnnl_major.h"
#include "lib/graph/kernel.h"

/* The memory of an argument of a primitive, a prepared operation. "The call" is a struct gt_call
 * (lib/graph/kernel.h). */
enum gt_dnnl_memory {
	GT_DNNL_IN,       /* an input of the call */
	GT_DNNL_OUT,      /* an output of the call */
	GT_DNNL_WORKSPACE /* the workspace of the call */
};

/* gt_dnnl_bind() computes an address from it. */
struct gt_dnnl_address {
	enum gt_dnnl_memory memory;
	size_t at; /* index, or offset in the workspace in bytes */
};

/* limits of a call */
enum { GT_DNNL_MAX_STEPS = 2, GT_DNNL_MAX_ARGS = 6, GT_DNNL_MAX_MDS = 5 };

/* A primitive and its arguments. */
struct gt_dnnl_step {
	/* The primitive is created by the first gt_dnnl_bind(), from a descriptor that is then
	 * destroyed. It takes most of the time of preparing a call, and plans that are never run do
	 * without it. */
	dnnl_primitive_t primitive;
	dnnl_primitive_desc_t desc;
	int args_count;
	dnnl_exec_arg_t args[GT_DNNL_MAX_ARGS];
	struct gt_dnnl_address address[GT_DNNL_MAX_ARGS]; /* address[i] is the memory of args[i] */
};

/* The state of a call (gt_call.state), with its own engine and stream, so that threads share
 * nothing. */
struct gt_dnnl {
	const char *op; /* name of the op, for errors */
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	int mds_count;
	gt_dnnl_md mds[GT_DNNL_MAX_MDS]; /* created by gt_dnnl_describe() */
	int steps_count;
	struct gt_dnnl_step steps[GT_DNNL_MAX_STEPS];
};

/* Return 0, GT_ENOMEM or GT_EDEVICE, with the text "OP: oneDNN cannot WHAT: STATUS (SHAPES)". */
int gt_dnnl_check(dnnl_status_t status, const struct gt_call *call, const char *op,
    const char *what, struct gt_err *err);

/* gt_kernel.accepts for bfloat16: false without AVX-512, or without oneDNN. */
bool gt_dnnl_accepts_bf16(const struct gt_call *call);

/* Open oneDNN and allocate call->state, NULL after an error. gt_dnnl_release() frees it, even after
 * errors of the functions below. */
int gt_dnnl_new(struct gt_call *call, const char *op, struct gt_err *err);

/* Create a descriptor of `t`, float32 or bfloat16, in the order `tag`. *out belongs to the call,
 * and is NULL after an error. */
int gt_dnnl_describe(struct gt_call *call, const struct gt_tensor *t, dnnl_format_tag_t tag,
    gt_dnnl_md *out, struct gt_err *err);

/* Append a step with a primitive of `desc`, made with gt_dnnl_attr(), and its scratchpad. *out,
 * borrowed, is for gt_dnnl_arg(); NULL after an error. */
int gt_dnnl_step_add(struct gt_call *call, const_dnnl_primitive_desc_t desc,
    struct gt_dnnl_step **out, struct gt_err *err);

/* Append an argument DNNL_ARG_... to `step`, described by `desc`. */
int gt_dnnl_arg(struct gt_call *call, struct gt_dnnl_step *step, int arg, gt_dnnl_md desc,
    struct gt_dnnl_address address, struct gt_err *err);

/* Append a copy into another memory format. */
int gt_dnnl_reorder_add(struct gt_call *call, gt_dnnl_md from, struct gt_dnnl_address from_address,
    gt_dnnl_md to, struct gt_dnnl_address to_address, struct gt_err *err);

/* Add bytes to the call's workspace, aligned to 64. Return their place. */
struct gt_dnnl_address gt_dnnl_workspace(struct gt_call *call, size_t bytes);

/* Create attributes for primitives with a scratchpad as an argument. The caller destroys *out. */
int gt_dnnl_attr(
    const struct gt_call *call, const char *op, dnnl_primitive_attr_t *out, struct gt_err *err);

/* gt_kernel.bind, run and release of kernels with gt_dnnl_new(). */
int gt_dnnl_bind(struct gt_call *call, struct gt_err *err);
int gt_dnnl_run(struct gt_call *call, struct gt_err *err);
void gt_dnnl_release(struct gt_call *call);

#endif
