/* stage.h - private: the state of pipeline parallelism, and functions that its files share. */
#ifndef GT_PARALLEL_PIPELINE_STAGE_H
#define GT_PARALLEL_PIPELINE_STAGE_H

#include "lib/graph/pass.h"
#include "lib/parallel/pipeline/pipeline.h"
#include "lib/parallel/state.h"

/* A chunk is a part of this rank's micro-batch. */

/* Links to the stages before and after. */
enum gt_pipe_link {
	GT_PIPE_FROM_BEFORE, /* receive a value */
	GT_PIPE_TO_NEXT,     /* send a value */
	GT_PIPE_FROM_NEXT,   /* receive its gradient */
	GT_PIPE_TO_BEFORE,   /* send the gradient of a received value */
	GT_PIPE_LINKS
};

/* A parameter of this stage and others. */
struct gt_pipeline_tied {
	const struct gt_slot *slot;
	/* this stage's index among the stages that hold it; their number */
	int rank, size;
	struct gt_group *group; /* the group of these stages, for device memory */
	/* ticket (lib/comm/group.h) of the latest send to the first of them, 0 at first; for
	 * reproducible training */
	uint64_t ticket;
};

/* The state of the pipeline axis. */
struct gt_pipeline {
	int stages, stage; /* number of stages; this rank's stage */
	/* made for the first graph of gt_parallel_rewrite() */
	struct gt_pipeline_cut cut;
	/* The group of a link, for device memory, and the other stage's number in it; from
	 * gt_parallel_attach() on. Each link has a group of its own, so that waits are independent,
	 * unless there is `all`, the group of all links: it has exchanges (lib/comm/group.h). */
	struct gt_group *links[GT_PIPE_LINKS], *all;
	int peers[GT_PIPE_LINKS];
	uint64_t tickets[GT_PIPE_LINKS]; /* ticket of the latest send; 0: none */
	/* a send over `all` that goes together with the next receive, and its link; in == NULL:
	 * there is none */
	struct gt_collective held;
	int held_link;
	bool *holds; /* [slots][stages]; whether a stage reads a slot */
	struct gt_pipeline_tied *tied;
	size_t tied_count;
	int64_t sent_bytes; /* bytes sent in a run of the largest graph */
	/* the bytes of messages that the channels of links hold at once, together */
	int64_t message_bytes;
};

/* Return the state, or NULL without a pipeline. */
static inline struct gt_pipeline *gt_pipeline_of(const struct gt_parallel *p)
{
	return p->axis_state[GT_AXIS_PIPELINE];
}

/* ---- pipeline/flow.c ---- */

/* How values go through a forward graph. Weights are parameters, and buffers that nodes write. */
struct gt_pipeline_flow {
	const struct gt_graph *g;
	bool *written;  /* [values] whether nodes write the buffer */
	bool *repeats;  /* [nodes] whether each stage computes it for itself: it needs no weight */
	size_t *made;   /* [values] index of the node that makes the value */
	size_t *first;  /* [values] index of the first reader; number of nodes: none */
	size_t *last;   /* [values] index of the last reader; 0: none */
	int64_t *bytes; /* [nodes + 1] bytes that go across the place before the node; -1: no cut */
};

/* The caller calls gt_pipeline_flow_release(). Errors: GT_ENOMEM. */
int gt_pipeline_flow_open(struct gt_pipeline_flow *f, const struct gt_graph *g, struct gt_err *err);
void gt_pipeline_flow_release(struct gt_pipeline_flow *f);

/* Return a weight whose first reader the node is, or NULL. */
const struct gt_value *gt_pipeline_first_read(const struct gt_pipeline_flow *f, size_t node);

/* Set *out to the place of the cut if a stage begins with this first reader of a weight. Return
 * false if there is none. */
bool gt_pipeline_place(size_t *out, const struct gt_pipeline_flow *f, size_t node);

/* Set *out to the first node of a stage; for stage = number of stages, to the number of nodes.
 * Errors: GT_EINVAL if it cannot begin at the parameter of the cut. */
int gt_pipeline_begin(size_t *out, const struct gt_pipeline_cut *cut,
    const struct gt_pipeline_flow *f, int stage, struct gt_err *err);

/* Write the values that go across a place to out[values], and return their number. */
int gt_pipeline_crossing(const struct gt_pipeline_flow *f, size_t place, struct gt_value **out);

/* Mark the nodes of a stage from `first` to before `last`, and those before them that it repeats,
 * in mine[nodes], which is all false. */
void gt_pipeline_mark_nodes(
    const struct gt_pipeline_flow *f, size_t first, size_t last, bool *mine);

/* Mark the values that marked nodes read, in read[values], which is all false. */
void gt_pipeline_mark_read(const struct gt_graph *g, const bool *nodes, bool *read);

/* ---- pipeline/stage.c ---- */

/* Reduce a forward graph to the nodes of a stage. Results of later stages become tokens, whose
 * value is zero (gt_pipeline_fill_tokens()). */
int gt_pipeline_keep_stage(const struct gt_pipeline_cut *cut, int stage, struct gt_graph *g,
    const struct gt_precision *precision, struct gt_err *err);

/* Turn the graph of one chunk into that of all, in the order of the schedule. */
int gt_pipeline_chunk(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);

/* ---- pipeline/tied.c ---- */

/* tied.c describes how stages add up the gradients of tied parameters. */

/* For reproducible training: insert the exchange of tied gradients into the graph of one chunk.
 * Errors: GT_ENOTSUP for more than two uses, or several tied parameters with sync_bn. */
int gt_pipeline_tie(const struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Emit zeros for the gradients of tied parameters that this stage sends away instead of storing
 * them. Call this for the graph of all chunks. */
void gt_pipeline_emit_zeros(const struct gt_parallel *p, struct gt_graph *g);

/* Emit the exchange at the end of a step. */
void gt_pipeline_emit_tied(const struct gt_parallel *p, struct gt_graph *g);

/* ---- pipeline/ops.c ---- */

/* Emit a node that receives a value like `like`, or sends x. `link` is a gt_pipe_link, or
 * GT_PIPE_LINKS + i for tied parameter i. The gradient of the received value is sent back, unless
 * `constant`. `token` (or NULL) describes the sender's output, which replaces a result of a later
 * stage. */
struct gt_value *gt_pipe_recv(
    struct gt_graph *g, const struct gt_value *like, int link, bool constant);
struct gt_node *gt_pipe_send(
    struct gt_graph *g, struct gt_value *x, const struct gt_value *token, int link);

/* Add nodes that write zeros to tokens, which the host reads as results; after the backward pass
 * was added. */
void gt_pipeline_fill_tokens(struct gt_graph *g);

/* Emit a node that waits for the latest send over `link`, of x, and keeps the memory of x until
 * then. */
struct gt_node *gt_pipe_wait(struct gt_graph *g, struct gt_value *x, int link);

/* Return whether n is a pipe_send, or a pipe_recv. */
bool gt_is_pipe_send(const struct gt_node *n);
bool gt_is_pipe_recv(const struct gt_node *n);

/* ---- pipeline.c ---- */

/* Call act() for each group of the pipeline, if there is one. */
void gt_pipeline_each_group(const struct gt_parallel *p, void (*act)(struct gt_group *group));

#endif
