/* plan.h - make a graph executable: choose kernels, lay out memory, run it many times. */
#ifndef GT_GRAPH_PLAN_H
#define GT_GRAPH_PLAN_H

#include "lib/base/clock.h"
#include "lib/device/backend.h"
#include "lib/device/marks.h"
#include "lib/graph/graph.h"
#include "lib/graph/op.h"
#include "lib/store/store.h"

/* The arena is one block of device memory with the workspaces of kernels and all values that are
 * not in the store. Values that are not needed at the same time may share memory; so may the arenas
 * of plans that do not run at the same time. */

/* A kernel call of a plan. Views (gt_op.view) have none. */
struct gt_step {
	const struct gt_node *node;
	const struct gt_kernel *kernel;
	struct gt_call call;
	int index;               /* index of the node in the graph's list */
	bool crosses;            /* runs on the stream for collectives (gt_op.collective) */
	size_t workspace_offset; /* offset of call.workspace in the arena, in bytes */
};

/* The memory of a plan and the cost of one run, for --dry-run. */
struct gt_plan_summary {
	/* bytes in the store; parameters with their working copies */
	size_t parameter_bytes, gradient_bytes, buffer_bytes;
	size_t arena_bytes;
	size_t temporary_bytes; /* temporaries and workspaces if they shared no memory */
	struct gt_cost cost;    /* cost of one run */
	int steps, launches;    /* number of steps; number of kernels that the steps launch */
};

struct gt_plan;

/* Kernel tables besides the backend's, for ops such as collectives. */
struct gt_plan_extra {
	/* NULL-terminated, as gt_backend.kernels */
	const struct gt_kernel *const *kernels;
	void *context; /* gt_call.context for these kernels */
};

/* Plan a graph, after all passes, on the store's device: choose and prepare kernels, first from
 * `extra` (or NULL), and compute the offsets. Allocates no device memory, so a dry run needs none.
 * The graph and the store must outlive the plan. An error names node, op and dtype that have no
 * kernel. */
int gt_plan_new(struct gt_plan **out, const struct gt_graph *g, struct gt_store *store,
    const struct gt_plan_extra *extra, struct gt_err *err);
void gt_plan_free(struct gt_plan *plan);

size_t gt_plan_arena_bytes(const struct gt_plan *plan);

/* Use `arena`, device memory of gt_plan_arena_bytes() bytes aligned to GT_DEVICE_ALIGN. The caller
 * owns it, and frees it after all runs. Call gt_store_alloc() first. */
int gt_plan_bind(struct gt_plan *plan, void *arena, struct gt_err *err);

/* Queue every step once. A backend may capture the second run, and replay it in later runs without
 * a call of the kernels' run(), unless the plan uses rows of `extra`. Nothing but capturing
 * allocates memory. */
int gt_plan_run(struct gt_plan *plan, struct gt_err *err);

/* Run the plan as one of several runs of a training step: `runs` are flags of enum gt_run_flags.
 * Nodes of other runs only (gt_node.runs) are skipped. */
int gt_plan_run_as(struct gt_plan *plan, unsigned runs, struct gt_err *err);

/* Return the device address of an input, output or gradient of a bound plan, else NULL. Copy on the
 * compute stream. Write every input before every run, because its memory is reused. */
void *gt_plan_address(const struct gt_plan *plan, const struct gt_value *v);

/* Copy host memory to an input, or an output or gradient to host memory, and wait. Errors:
 * GT_EINVAL for other values, or if `bytes` is not the value's size. */
int gt_plan_write(struct gt_plan *plan, const struct gt_value *v, const void *host, size_t bytes,
    struct gt_err *err);
int gt_plan_read(
    struct gt_plan *plan, const struct gt_value *v, void *host, size_t bytes, struct gt_err *err);

void gt_plan_summarize(const struct gt_plan *plan, struct gt_plan_summary *out);

/* Measure from now on when each step begins and ends on its stream, in spans[step]. Spans of steps
 * that a run skips stay as they are. Watched steps are not replayed. NULL marks end this. */
void gt_plan_watch(struct gt_plan *plan, struct gt_marks *marks, struct gt_span *spans);

/* Set *out to an array with, for each step, the bytes of the temporaries and workspaces that are in
 * use while it runs. The caller frees it. Errors: GT_ENOMEM. */
int gt_plan_live(size_t **out, const struct gt_plan *plan, struct gt_err *err);

/* All steps of one op, or of one block of the model; numbers per run. */
struct gt_plan_part {
	const char *name; /* `length` characters, borrowed from the graph */
	size_t length;
	int steps, launches; /* number of steps; number of kernels that the steps launch */
	struct gt_cost cost;
};

/* List the parts of a plan, those that move most bytes first. The caller frees *out. GT_PLAN_BLOCKS
 * lists blocks whose names (gt_scope_block()) end with a digit. */
enum gt_plan_parts { GT_PLAN_OPS, GT_PLAN_BLOCKS };
int gt_plan_parts(struct gt_plan_part **out, size_t *count, const struct gt_plan *plan,
    enum gt_plan_parts by, struct gt_err *err);

/* Add the cost of a step to *sum: that of its node, corrected by gt_call.more_bytes_read and
 * more_bytes_written. */
void gt_step_add_cost(const struct gt_step *step, struct gt_cost *sum);

/* Return the steps in the order in which they run. */
const struct gt_step *gt_plan_steps(const struct gt_plan *plan, size_t *count);

/* Find a value in the arena: its offset and size in bytes. Returns false if it is in the store. */
bool gt_plan_place(
    const struct gt_plan *plan, const struct gt_value *v, size_t *offset, size_t *bytes);

#endif
