/* plan.h - make a graph executable: choose kernels, lay out memory, run it many times. */
#ifndef GT_GRAPH_PLAN_H
#define GT_GRAPH_PLAN_H

#include "lib/base/clock.h"
#include "lib/device/backend.h"
#include "lib/device/marks.h"
#include "lib/graph/graph.h"
#include "lib/graph/op.h"
#include "lib/store/store.h"

/*
 * The arena is one block of device memory. It holds the workspaces of kernels, and all values of a
 * graph that are not in the store. A temporary has its place in the arena from its first writer to
 * its last reader. Values that are not needed at the same time may share memory.
 *
 * gt_plan_new() chooses a kernel for each node, calls the kernel's prepare(), and computes the
 * offset of each value in the arena. gt_plan_new() allocates no device memory, so a dry run needs
 * none. gt_plan_bind() sets the address of the arena. Plans that do not run at the same time may
 * share an arena.
 */

/* A step of a plan: one kernel call. A view needs no step, because its output is its input with
 * another shape (gt_op.view). */
struct gt_step {
	const struct gt_node *node;
	const struct gt_kernel *kernel;
	struct gt_call call;
	int index; /* index of the node in the graph's list */
	/* true: the step runs on the stream for collectives (gt_op.collective), not on the compute
	 * stream */
	bool crosses;
	size_t workspace_offset; /* offset of call.workspace in the arena, in bytes */
};

/* The memory of a plan and the cost of one run, for --dry-run. */
struct gt_plan_summary {
	/* bytes in the store; parameter_bytes includes the working copies (GT_WORKING_COPY) */
	size_t parameter_bytes, gradient_bytes, buffer_bytes;
	size_t arena_bytes;     /* size of the arena */
	size_t temporary_bytes; /* bytes of temporaries and workspaces if they shared no memory */
	struct gt_cost cost;    /* cost of one run */
	int steps, launches;    /* number of steps; number of kernels that the steps launch */
};

struct gt_plan;

/* Kernel tables in addition to the tables of the backend, for ops such as collectives. */
struct gt_plan_extra {
	/* NULL-terminated list of tables; the last row of each table has op NULL */
	const struct gt_kernel *const *kernels;
	void *context; /* gt_call.context for these kernels */
};

/*
 * Plan a graph on the store's device. The graph and the store must outlive the plan. All passes
 * must have run. For each node, gt_plan_new() looks for a kernel that accepts the node: first in
 * the tables of `extra`, then in the tables of the backend. `extra` may be NULL. If no kernel
 * accepts a node, the error names node, op and dtype.
 */
int gt_plan_new(struct gt_plan **out, const struct gt_graph *g, struct gt_store *store,
    const struct gt_plan_extra *extra, struct gt_err *err);
void gt_plan_free(struct gt_plan *plan);

/* Return the size of the arena in bytes. */
size_t gt_plan_arena_bytes(const struct gt_plan *plan);

/* Use `arena` as the arena from now on: device memory of gt_plan_arena_bytes() bytes, aligned to
 * GT_DEVICE_ALIGN. The caller owns `arena`, which must outlive all runs of the plan. Call
 * gt_store_alloc() first. */
int gt_plan_bind(struct gt_plan *plan, void *arena, struct gt_err *err);

/*
 * Queue every step once. A step runs on the device's compute stream, or on the stream for
 * collectives if gt_op.collective is set.
 *
 * A backend that can replay work captures the second run. Later runs replay the capture and call no
 * kernel's run(), so all data that change between runs must be in device memory. Capturing may
 * allocate memory; nothing else in this function does. A plan that uses rows of `extra` is not
 * captured.
 */
int gt_plan_run(struct gt_plan *plan, struct gt_err *err);

/* Run the plan as one of several runs of a training step. `runs` has the flags of enum
 * gt_run_flags: this is the first run, the last run, both (as in gt_plan_run()) or neither. Nodes
 * that belong only to other runs (gt_node.runs) are skipped. */
int gt_plan_run_as(struct gt_plan *plan, unsigned runs, struct gt_err *err);

/* Return the device address of an input, output or gradient of a bound plan; NULL for other values.
 * Queue copies to an input on the compute stream before a run, and copies from an output or a
 * gradient after it. The memory of an input is reused after its last reader, so write every input
 * before every run. */
void *gt_plan_address(const struct gt_plan *plan, const struct gt_value *v);

/* gt_plan_write() copies from host memory to an input. gt_plan_read() copies from an output or a
 * gradient to host memory. Both wait until the copy is done. `bytes` must be the size of the value.
 * Errors: GT_EINVAL for other values or sizes. */
int gt_plan_write(struct gt_plan *plan, const struct gt_value *v, const void *host, size_t bytes,
    struct gt_err *err);
int gt_plan_read(
    struct gt_plan *plan, const struct gt_value *v, void *host, size_t bytes, struct gt_err *err);

/* Set *out to the summary of a plan. */
void gt_plan_summarize(const struct gt_plan *plan, struct gt_plan_summary *out);

/* Watch a plan: from now on, measure the time at which each step begins and ends on its stream. The
 * times are measured with `marks` (lib/device/marks.h), and the times of step i are written to
 * spans[i]. `spans` has an element for each step. While a plan is watched, its steps are queued one
 * by one and not replayed. If `marks` is NULL, stop watching. */
void gt_plan_watch(struct gt_plan *plan, struct gt_marks *marks, struct gt_span *spans);

/* A part of a plan: all steps of one op, or of one block of the model. The numbers are for one run.
 */
struct gt_plan_part {
	const char *name; /* borrowed from the graph; only the first `length` characters are used */
	size_t length;
	int steps, launches; /* number of steps; number of kernels that the steps launch */
	struct gt_cost cost;
};

/* List the parts of a plan, (*out)[*count], sorted by the bytes that they move, the largest first.
 * The caller frees *out. GT_PLAN_BLOCKS lists only blocks (gt_scope_block()) whose names end with a
 * digit: "transformer.h.11". */
enum gt_plan_parts { GT_PLAN_OPS, GT_PLAN_BLOCKS };
int gt_plan_parts(struct gt_plan_part **out, size_t *count, const struct gt_plan *plan,
    enum gt_plan_parts by, struct gt_err *err);

/* Add the cost of a step to *sum: the cost of its node (gt_node_cost()), plus the additional bytes
 * that the chosen kernel reads and writes (gt_call.more_bytes_read and more_bytes_written; negative
 * if the kernel needs fewer bytes). */
void gt_step_add_cost(const struct gt_step *step, struct gt_cost *sum);

/* Return the steps in the order in which they run, for profiles and tests. */
const struct gt_step *gt_plan_steps(const struct gt_plan *plan, size_t *count);

/* Set *offset to the offset of a value in the arena, and *bytes to its size, both in bytes. Returns
 * false if the value is in the store. Tests use this to check how memory is laid out. */
bool gt_plan_place(
    const struct gt_plan *plan, const struct gt_value *v, size_t *offset, size_t *bytes);

#endif
