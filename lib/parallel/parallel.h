/* parallel.h - how the ranks of a run share its work. */
#ifndef GT_PARALLEL_PARALLEL_H
#define GT_PARALLEL_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/graph/plan.h"
#include "lib/optim/optim.h"

/*
 * This module makes one plan per rank into one training run: passes that put collectives into a
 * graph, and the kernels of these nodes. It owns no training loop; the loop calls the functions
 * here at the places that their comments name, whatever the mode.
 *
 * A mode is a row of functions (modes.h). All are SPMD: each rank has a group's seat, builds the
 * same graph, and calls the same functions in the same order.
 */

enum gt_parallel_kind {
	GT_PARALLEL_DDP /* every rank holds all weights; gradients are added up */
};

/* "ddp" and back; -1 for another word. */
int gt_parallel_kind_parse(const char *name);
const char *gt_parallel_kind_name(enum gt_parallel_kind kind);

struct gt_parallel_options {
	enum gt_parallel_kind kind;
	int64_t bucket_bytes; /* gradients that are added up at once */
};

/* The ways in which ranks differ: those of one axis differ in that alone. */
enum gt_axis {
	GT_AXIS_DATA, /* in the samples they read */
	GT_AXES
};

struct gt_parallel;

/*
 * One rank's part in a mode, for the ranks of `world`, which outlives it. A collective call. After
 * it come, in this order: gt_parallel_rewrite() for a graph, a store made of that graph,
 * gt_parallel_attach(), memory for the store, programs.
 */
int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err);

/* Free the store first. */
void gt_parallel_free(struct gt_parallel *p);

/* The ranks of an axis; a group of one where there is none. */
struct gt_group *gt_parallel_axis(const struct gt_parallel *p, enum gt_axis axis);

/* A forward graph, before any other pass: for the store's layout and for every program. */
int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Of a store that has no memory yet: take memory for gradients that the ranks can reach. */
int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);

/* A graph with a backward pass, after all other passes: its gradients are all there. */
int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* The kernels of the nodes that these passes make, for gt_plan_new(). */
const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p);

/* Weights are there, on rank 0 at least: make those of all ranks agree. A collective call. */
int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err);

/* Whether gradients of the runs from now on are added up over ranks, as they are at first: of
 * several micro-batches that make a step, only the last one's are. */
void gt_parallel_communicate(struct gt_parallel *p, bool on);

/* One update of the weights, once all gradients are there: gt_optim_step() or what the mode does
 * in its place. A collective call. */
int gt_parallel_update(
    struct gt_parallel *p, struct gt_optim *optim, double lr, float *grad_norm, struct gt_err *err);

/* ---- for profiles ---- */

/* The op that waits for what was started in the background. */
#define GT_PARALLEL_WAIT "all_reduce_wait"

/* What was done in the background by the last run of a plan. */
struct gt_parallel_event {
	const char *what; /* "bucket 3" */
	struct gt_span span;
};

/* [*count], of which a run that did not communicate has none. */
const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count);

#endif
