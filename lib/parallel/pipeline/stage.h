/* stage.h - private: the state of pipeline parallelism, and functions that its files share. */
#ifndef GT_PARALLEL_PIPELINE_STAGE_H
#define GT_PARALLEL_PIPELINE_STAGE_H

#include "lib/graph/pass.h"
#include "lib/parallel/pipeline/pipeline.h"
#include "lib/parallel/state.h"

/* A chunk is a part of this rank's micro-batch. The samples of a chunk pass through the pipeline
 * together. */

/* The links of a stage to its neighbors: "before" is the previous stage, "next" the next one. Each
 * link is a separate group of two ranks, so a wait on one link does not delay the other links. */
enum gt_pipe_link {
	GT_PIPE_FROM_BEFORE, /* forward pass: receive a value */
	GT_PIPE_TO_NEXT,     /* forward pass: send a value */
	GT_PIPE_FROM_NEXT,   /* backward pass: receive the gradient of the value that was sent */
	GT_PIPE_TO_BEFORE,   /* backward pass: send the gradient of the value that was received */
	GT_PIPE_LINKS
};

/* A tied parameter: this stage and other stages hold it. */
struct gt_pipeline_tied {
	const struct gt_slot *slot;
	/* rank: index of this stage among the stages that hold the parameter; size: the number of
	 * these stages */
	int rank, size;
	struct gt_group *group; /* group of these stages, for device memory */
	/* In reproducible training: the ticket (lib/comm/group.h) of the latest send of a gradient
	 * to the first of these stages. A ticket is the number of a started collective: the sender
	 * waits for this number. 0: no gradient was sent yet. */
	uint64_t ticket;
};

/* The state of the pipeline axis. */
struct gt_pipeline {
	int stages, stage; /* stages: number of stages; stage: index of this rank's stage */
	/* where the model is cut; made for the first graph that gt_parallel_rewrite() gets */
	struct gt_pipeline_cut cut;
	/* groups for host memory; from gt_parallel_attach() on, groups for device memory */
	struct gt_group *links[GT_PIPE_LINKS];
	uint64_t tickets[GT_PIPE_LINKS]; /* ticket of the latest send over each link; 0: no send */
	bool *holds; /* [slots of the store][stages]: whether the stage reads the slot */
	struct gt_pipeline_tied *tied;
	size_t tied_count;
	int64_t sent_bytes; /* bytes that pipe_send nodes send in a run of the largest graph */
};

/* Return the state of the pipeline axis, or NULL without a pipeline. */
static inline struct gt_pipeline *gt_pipeline_of(const struct gt_parallel *p)
{
	return p->axis_state[GT_AXIS_PIPELINE];
}

/* ---- pipeline/cut.c ---- */

/* Set *out to the index of the first node of stage `stage` in a graph of the model. If `stage` is
 * the number of stages, set *out to g->node_count. Errors: GT_EINVAL if no node of the graph reads
 * the parameter cut->first[stage]. */
int gt_pipeline_begin(size_t *out, const struct gt_pipeline_cut *cut, const struct gt_graph *g,
    int stage, struct gt_err *err);

/* Return the only value that nodes with an index below `before` compute and the other nodes read.
 * Errors: NULL, with GT_EINVAL in *err, if there is no such value, or more than one. */
struct gt_value *gt_pipeline_crossing(const struct gt_graph *g, size_t before, struct gt_err *err);

/* Return whether a node with an index in [first, last) reads v. */
bool gt_pipeline_reads(
    const struct gt_graph *g, size_t first, size_t last, const struct gt_value *v);

/* ---- pipeline/stage.c ---- */

/*
 * Reduce a forward graph to the nodes of stage `stage`.
 *
 * Example: two stages, cut before "fc2.weight". On stage 0, the output `loss` is a token: it stands
 * for the loss, which only stage 1 computes, and its value is zero (gt_pipeline_fill_tokens()). So
 * the sum over both stages is the loss of the model.
 *
 *   whole graph    h = linear(x, fc1.weight)   y = linear(h, fc2.weight)   loss = loss(y, targets)
 *   stage 0        h = linear(x, fc1.weight)   loss = pipe_send(h)
 *   stage 1        h = pipe_recv()             y = linear(h, fc2.weight)   loss = loss(y, targets)
 */
int gt_pipeline_keep_stage(const struct gt_pipeline_cut *cut, int stage, struct gt_graph *g,
    const struct gt_precision *precision, struct gt_err *err);

/* Turn the graph of one chunk, with its backward pass, into the graph of all chunks: one copy of
 * the nodes for each chunk, in the order of the schedule. */
int gt_pipeline_chunk(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);

/* ---- pipeline/tied.c ---- */

/*
 * At the end of a step, the stages that share a tied parameter add up their gradients of the
 * parameter. In reproducible training the order of the sums matters, and at most two stages may
 * share a parameter. For each chunk, the later of the two stages sends its gradient to the earlier
 * stage, and the earlier stage adds both gradients. Without a pipeline, one rank adds the gradients
 * of the two uses in the same order. At the end of the step, the earlier stage sends the sum to the
 * later stage.
 */

/* For reproducible training: insert the nodes that send or receive the gradients of tied
 * parameters. Call this for the graph of one chunk, with its backward pass. Errors: GT_ENOTSUP in
 * two cases: the model uses a tied parameter more than twice; sync_bn is set, and there are several
 * tied parameters. */
int gt_pipeline_tie(const struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* This stage sends the gradients of some tied parameters to another stage, so no node writes these
 * gradients to the store. Emit nodes that write zeros to these gradients in the store. Call this
 * after gt_pipeline_tie(), when the graph has the nodes of all chunks. */
void gt_pipeline_emit_zeros(const struct gt_parallel *p, struct gt_graph *g);

/* Emit the nodes that exchange the gradients of tied parameters at the end of a step. */
void gt_pipeline_emit_tied(const struct gt_parallel *p, struct gt_graph *g);

/* ---- pipeline/ops.c ---- */

/*
 * Emit a node that receives or sends a value. `link` is a value of enum gt_pipe_link, or
 * GT_PIPE_LINKS + i for the group of the tied parameter with index i in gt_pipeline.tied.
 *
 * gt_pipe_recv() returns a value with the type and shape of `like`. The value also has the flag
 * gt_value.low of `like`: with mixed precision, the value is sent in the 16-bit type. The gradient
 * of the returned value is sent back, unless `constant` is true.
 *
 * gt_pipe_send() sends x. The output of its node is a token with the type and shape of `token`; if
 * `token` is NULL, there is no output. The token replaces a result, such as the loss, that only a
 * later stage computes.
 */
struct gt_value *gt_pipe_recv(
    struct gt_graph *g, const struct gt_value *like, int link, bool constant);
struct gt_node *gt_pipe_send(
    struct gt_graph *g, struct gt_value *x, const struct gt_value *token, int link);

/* For the token of each send, add a node that writes zeros to it, because the host reads tokens as
 * results. If the graph gets a backward pass, call this after the backward pass was added. */
void gt_pipeline_fill_tokens(struct gt_graph *g);

/* Emit a node that waits until the latest send over `link` has ended. x is the value that is sent.
 * The node reads x, so no other value uses the memory of x before this node. */
struct gt_node *gt_pipe_wait(struct gt_graph *g, struct gt_value *x, int link);

/* Return whether n is a node of gt_pipe_send(). */
bool gt_is_pipe_send(const struct gt_node *n);

/* ---- pipeline.c ---- */

/* Call act() for each group that the pipeline has created. Without a pipeline, do nothing. */
void gt_pipeline_each_group(const struct gt_parallel *p, void (*act)(struct gt_group *group));

#endif
