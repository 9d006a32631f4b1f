/* dnnl.h - a kernel call as a few oneDNN primitives, made at plan time, executed in order. */
#ifndef GT_KERNELS_CPU_DNNL_H
#define GT_KERNELS_CPU_DNNL_H

#include "kernels/cpu/dnnl_api.h"
#include "lib/graph/kernel.h"

/* The place of an argument: the data of in[at] or out[at], or offset `at` of the workspace. */
enum gt_dnnl_place { GT_DNNL_IN, GT_DNNL_OUT, GT_DNNL_WORKSPACE };

struct gt_dnnl_where {
	enum gt_dnnl_place place;
	size_t at;
};

enum { GT_DNNL_MAX_STEPS = 2, GT_DNNL_MAX_ARGS = 6 };

/* One primitive and its arguments; where[i] belongs to args[i]. */
struct gt_dnnl_step {
	dnnl_primitive_t primitive;
	int args_count;
	dnnl_exec_arg_t args[GT_DNNL_MAX_ARGS];
	struct gt_dnnl_where where[GT_DNNL_MAX_ARGS];
};

/*
 * The state of a call: its own engine and stream, and the primitives in order of execution. Engines
 * and streams of the CPU are handles without state, so calls of different threads share nothing.
 */
struct gt_dnnl {
	const char *op;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	int steps_count;
	struct gt_dnnl_step steps[GT_DNNL_MAX_STEPS];
};

/* 0, or GT_EDEVICE with "OP: oneDNN cannot WHAT: STATUS (shapes)". */
int gt_dnnl_check(dnnl_status_t status, const struct gt_call *call, const char *op,
    const char *what, struct gt_err *err);

/* oneDNN's word for float32 or bfloat16. */
dnnl_data_type_t gt_dnnl_type(enum gt_dtype dtype);

/* accepts() of rows in bfloat16, which oneDNN supports on processors with AVX-512. If the library
 * cannot be opened, this returns false, and the float32 row that is tried next reports the reason.
 */
bool gt_dnnl_accepts_bf16(const struct gt_call *call);

/* A tensor of float32 or bfloat16 in a format of oneDNN's. */
dnnl_status_t gt_dnnl_describe(
    dnnl_memory_desc_t *desc, const struct gt_tensor *t, dnnl_format_tag_t tag);

/* Open oneDNN and make call->state, which is NULL after an error; free with gt_dnnl_release(), also
 * after an error of any function below. */
int gt_dnnl_new(struct gt_call *call, const char *op, struct gt_err *err);

/*
 * Append the primitive of a descriptor (made with user scratchpad), with its scratchpad as the only
 * argument. The scratchpad is placed at the end of the call's workspace. *out is borrowed, for
 * gt_dnnl_arg().
 */
int gt_dnnl_step_add(struct gt_call *call, const_dnnl_primitive_desc_t desc,
    struct gt_dnnl_step **out, struct gt_err *err);

/* Append an argument (DNNL_ARG_...) to a step. */
int gt_dnnl_arg(struct gt_call *call, struct gt_dnnl_step *step, int arg,
    const dnnl_memory_desc_t *desc, struct gt_dnnl_where where, struct gt_err *err);

/* Append a step that rewrites a tensor or a piece of workspace from one format into another. */
int gt_dnnl_reorder_add(struct gt_call *call, const dnnl_memory_desc_t *from,
    struct gt_dnnl_where from_where, const dnnl_memory_desc_t *to, struct gt_dnnl_where to_where,
    struct gt_err *err);

/* Add bytes to the workspace, aligned to 64 bytes, and return their place. */
struct gt_dnnl_where gt_dnnl_workspace(struct gt_call *call, size_t bytes);

/* Attributes that put the scratchpad into the call's workspace; yours to destroy. */
int gt_dnnl_attr(
    const struct gt_call *call, const char *op, dnnl_primitive_attr_t *out, struct gt_err *err);

/* bind(), run() and release() of such calls. */
int gt_dnnl_bind(struct gt_call *call, struct gt_err *err);
int gt_dnnl_run(struct gt_call *call, struct gt_err *err);
void gt_dnnl_release(struct gt_call *call);

#endif
