/* plan.h - a graph made runnable: kernels chosen, memory laid out, then run again and again. */
#ifndef GT_GRAPH_PLAN_H
#define GT_GRAPH_PLAN_H

#include "lib/base/clock.h"
#include "lib/device/backend.h"
#include "lib/graph/graph.h"
#include "lib/graph/op.h"
#include "lib/graph/store.h"

/*
 * gt_plan_new() picks a kernel for each node, lets it prepare, and gives every value an offset in
 * one arena from its first writer to its last reader; no memory is taken yet, so a dry run costs
 * none. gt_plan_bind() hands it the arena, which plans that don't run at the same time may share.
 */

struct gt_step {
	const struct gt_node *node;
	const struct gt_kernel *kernel;
	struct gt_call call;
	int index;               /* of the node in the graph's list */
	bool crosses;            /* it runs on a stream beside the compute stream, see op.h */
	size_t workspace_offset; /* in the arena */
};

/* Bytes by role and the cost of a run, for --dry-run. */
struct gt_plan_summary {
	size_t parameter_bytes, gradient_bytes, buffer_bytes; /* in the store */
	size_t arena_bytes;                                   /* after sharing */
	size_t temporary_bytes; /* of temporaries and workspaces, if they shared no memory */
	struct gt_cost cost;    /* of one run */
	int steps, launches;
};

struct gt_plan;

/* Kernels of ops that are no backend's: a NULL-terminated list of tables, each ended by a row whose
 * op is NULL, and the call->context of their rows. */
struct gt_plan_extra {
	const struct gt_kernel *const *kernels;
	void *context;
};

/*
 * Plan a graph on the store's device. The graph and the store must outlive the plan; the graph has
 * been through its passes. `extra` (NULL: none) is looked into before the backend's tables. Fails
 * when no kernel takes a node, naming node, op and dtype.
 */
int gt_plan_new(struct gt_plan **out, const struct gt_graph *g, struct gt_store *store,
    const struct gt_plan_extra *extra, struct gt_err *err);
void gt_plan_free(struct gt_plan *plan);

/* How much memory gt_plan_bind() wants. */
size_t gt_plan_arena_bytes(const struct gt_plan *plan);

/* Use this device memory from now on: gt_plan_arena_bytes() bytes, aligned as device memory; not
 * owned. */
int gt_plan_bind(struct gt_plan *plan, void *arena, struct gt_err *err);

/* Queue every step once: on the device's compute stream, or on its stream of collectives where
 * gt_op.collective says so. Allocates nothing, except that a backend which can replay work captures
 * the second run. Later runs replay it and call no kernel's run(): all that changes between runs
 * lies in device memory. A plan with rows of `extra` is not captured. */
int gt_plan_run(struct gt_plan *plan, struct gt_err *err);

/* One of the runs of a step of training, which is the first or the last of them, both (as in
 * gt_plan_run()) or neither: `runs` of enum gt_run_flags. Nodes that only other runs have are left
 * out. */
int gt_plan_run_as(struct gt_plan *plan, unsigned runs, struct gt_err *err);

/* Where a value lies on the device, once the plan is bound, for copies on the compute stream: an
 * input before, an output or a gradient after a run; NULL for any other value. An input's memory is
 * lent on after its last reader: write every input before every run. */
void *gt_plan_address(const struct gt_plan *plan, const struct gt_value *v);

/* Copy between host memory and such a value, and wait until that is done. bytes must be the
 * value's. */
int gt_plan_write(struct gt_plan *plan, const struct gt_value *v, const void *host, size_t bytes,
    struct gt_err *err);
int gt_plan_read(
    struct gt_plan *plan, const struct gt_value *v, void *host, size_t bytes, struct gt_err *err);

void gt_plan_summarize(const struct gt_plan *plan, struct gt_plan_summary *out);

/* Note when each step is run, from now on, in spans[steps]; NULL: no more. */
void gt_plan_watch(struct gt_plan *plan, struct gt_span *spans);

/* Steps, launches and cost of one op, or of one block of the model, in one run of a plan. Views
 * are not steps. */
struct gt_plan_part {
	const char *name; /* borrowed from the graph; its first `length` characters count */
	size_t length;
	int steps, launches;
	struct gt_cost cost;
};

/* List the parts of a plan, those that move most bytes first; *out is yours to free(). Blocks are
 * those of gt_scope_block() whose names end with a number: "transformer.h.11". */
enum gt_plan_parts { GT_PLAN_OPS, GT_PLAN_BLOCKS };
int gt_plan_parts(struct gt_plan_part **out, size_t *count, const struct gt_plan *plan,
    enum gt_plan_parts by, struct gt_err *err);

/* The cost of a step, with the bytes that its kernel moves. */
void gt_step_cost(const struct gt_step *step, struct gt_cost *cost);

/* The steps in order, for profiles and tests. */
const struct gt_step *gt_plan_steps(const struct gt_plan *plan, size_t *count);

/* Where a value lies: offset and bytes in the arena, or false if it lies in the store. For tests of
 * the memory plan. */
bool gt_plan_place(
    const struct gt_plan *plan, const struct gt_value *v, size_t *offset, size_t *bytes);

#endif
