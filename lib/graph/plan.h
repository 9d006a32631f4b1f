/* plan.h - make a graph executable: choose kernels, lay out memory, run it many times. */
#ifndef GT_GRAPH_PLAN_H
#define GT_GRAPH_PLAN_H

#include "lib/base/clock.h"
#include "lib/device/backend.h"
#include "lib/graph/graph.h"
#include "lib/graph/op.h"
#include "lib/graph/store.h"

/*
 * gt_plan_new() chooses a kernel for each node, calls its prepare(), and assigns every value an
 * offset in one arena, for the time from its first writer to its last reader. It allocates no
 * device memory, so a dry run needs none. gt_plan_bind() passes the arena, which plans that do not
 * run at the same time may share.
 */

struct gt_step {
	const struct gt_node *node;
	const struct gt_kernel *kernel;
	struct gt_call call;
	int index;               /* index of the node in the graph's list */
	bool crosses;            /* it runs on another stream than the compute stream, see op.h */
	size_t workspace_offset; /* in the arena */
};

/* Bytes by role and the cost of a run, for --dry-run. */
struct gt_plan_summary {
	size_t parameter_bytes, gradient_bytes, buffer_bytes; /* in the store */
	size_t arena_bytes;                                   /* after sharing */
	size_t temporary_bytes; /* bytes of temporaries and workspaces if they shared no memory */
	struct gt_cost cost;    /* cost of one run */
	int steps, launches;
};

struct gt_plan;

/* Kernels of ops that do not belong to a backend: a NULL-terminated list of tables, each ended by a
 * row whose op is NULL, and the call->context of their rows. */
struct gt_plan_extra {
	const struct gt_kernel *const *kernels;
	void *context;
};

/*
 * Plan a graph on the store's device. The graph and the store must outlive the plan; the graph has
 * been through its passes. `extra` (NULL: none) is searched before the backend's tables. If no
 * kernel accepts a node, the error names node, op and dtype.
 */
int gt_plan_new(struct gt_plan **out, const struct gt_graph *g, struct gt_store *store,
    const struct gt_plan_extra *extra, struct gt_err *err);
void gt_plan_free(struct gt_plan *plan);

/* The bytes of memory that gt_plan_bind() needs. */
size_t gt_plan_arena_bytes(const struct gt_plan *plan);

/* Use this device memory from now on: gt_plan_arena_bytes() bytes, aligned as device memory; not
 * owned. */
int gt_plan_bind(struct gt_plan *plan, void *arena, struct gt_err *err);

/* Queue every step once: on the device's compute stream, or on its stream of collectives where
 * gt_op.collective says so. Allocates nothing, except that a backend which can replay work captures
 * the second run. Later runs replay it and call no kernel's run(): everything that changes between
 * runs is in device memory. A plan with rows of `extra` is not captured. */
int gt_plan_run(struct gt_plan *plan, struct gt_err *err);

/* Run the plan as one of the runs of a training step. `runs`, of enum gt_run_flags, says whether
 * this is the first run, the last run, both (as in gt_plan_run()) or neither. Nodes that belong
 * only to other runs are skipped. */
int gt_plan_run_as(struct gt_plan *plan, unsigned runs, struct gt_err *err);

/* The device address of a value of a bound plan, for copies on the compute stream: write an input
 * before a run; read an output or a gradient after it. NULL for other values. An input's memory is
 * reused after its last reader, so write every input before every run. */
void *gt_plan_address(const struct gt_plan *plan, const struct gt_value *v);

/* Copy between host memory and such a value, and wait until that is done. bytes must be the
 * value's. */
int gt_plan_write(struct gt_plan *plan, const struct gt_value *v, const void *host, size_t bytes,
    struct gt_err *err);
int gt_plan_read(
    struct gt_plan *plan, const struct gt_value *v, void *host, size_t bytes, struct gt_err *err);

void gt_plan_summarize(const struct gt_plan *plan, struct gt_plan_summary *out);

/* Record the time of each step in spans[steps], from now on; NULL: stop recording. */
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

/* The offset and bytes of a value in the arena; false if it is in the store. For tests of the
 * memory plan. */
bool gt_plan_place(
    const struct gt_plan *plan, const struct gt_value *v, size_t *offset, size_t *bytes);

#endif
