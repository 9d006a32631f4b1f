/* stage.h - inside parallel: declarations that the files of the pipeline share. */
#ifndef GT_PARALLEL_PIPELINE_STAGE_H
#define GT_PARALLEL_PIPELINE_STAGE_H

#include "lib/graph/pass.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/pipeline/pipeline.h"

/* Links to the neighbours. Each is a group of two ranks, so that a wait on one link does not delay
 * the others. */
enum gt_pipe_link {
	GT_PIPE_FROM_BEFORE, /* values */
	GT_PIPE_TO_NEXT,
	GT_PIPE_FROM_NEXT, /* their gradients */
	GT_PIPE_TO_BEFORE,
	GT_PIPE_LINKS
};

/* A parameter of several stages, this one among them. */
struct gt_pipeline_tied {
	const struct gt_slot *slot;
	int rank, size;         /* number of this stage, and count, of the stages that hold it */
	struct gt_group *group; /* the group of these stages, for device memory */
	uint64_t ticket;        /* ticket of the latest send to the first of them; 0: none yet */
};

struct gt_pipeline {
	int stages, stage;
	struct gt_pipeline_cut cut;            /* made for the first graph that comes */
	struct gt_group *links[GT_PIPE_LINKS]; /* for device memory once there is a store */
	uint64_t tickets[GT_PIPE_LINKS]; /* ticket of the latest send over each link; 0: none yet */
	bool *holds; /* [slots of the store][stages], in the order of declaration */
	struct gt_pipeline_tied *tied;
	size_t tied_count;
	int64_t sent_bytes; /* by pipe_send, in a run of the largest graph */
};

/* ---- pipeline/cut.c ---- */

/* The index of the first node of stage `stage` in a graph of the model; node_count if `stage` is
 * the number of stages. */
int gt_pipeline_begin(size_t *out, const struct gt_pipeline_cut *cut, const struct gt_graph *g,
    int stage, struct gt_err *err);

/* The one computed value that goes across the place before that node. */
struct gt_value *gt_pipeline_crossing(const struct gt_graph *g, size_t before, struct gt_err *err);

/* Whether nodes [first, last) read v. */
bool gt_pipeline_reads(
    const struct gt_graph *g, size_t first, size_t last, const struct gt_value *v);

/* ---- pipeline/stage.c ---- */

/*
 * Reduce a forward graph to the nodes of stage `stage`. Of `types`, only low and low_sums are used.
 *
 * Example: two stages, cut before "fc2.weight". `loss` on stage 0 is a zero of that name (see
 * gt_pipeline_fill_tokens()), so that the sum over both stages is the model's loss.
 *
 *   whole graph    h = linear(x, fc1.weight)   y = linear(h, fc2.weight)   loss = loss(y, targets)
 *   stage 0        h = linear(x, fc1.weight)   loss = pipe_send(h)
 *   stage 1        h = pipe_recv()             y = linear(h, fc2.weight)   loss = loss(y, targets)
 */
int gt_pipeline_keep_stage(const struct gt_pipeline_cut *cut, int stage, struct gt_graph *g,
    const struct gt_pass_options *types, struct gt_err *err);

/* Copy a graph with its backward pass once for each chunk, in the order of the schedule. */
int gt_pipeline_chunk(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);

/* ---- pipeline/tied.c ---- */

/*
 * Stages that share a parameter add up their gradients of it at the end of a step. In reproducible
 * training the order of sums matters. Then the first of the stages adds the gradients of both,
 * chunk by chunk, in the order of one rank whose graph has both uses of the parameter; at the end
 * the other stage gets the result.
 */

/* Call this for a graph of one chunk with its backward pass, if the order of sums matters: it sends
 * this stage's part of such gradients, or receives the other stages' parts. GT_ENOTSUP for a
 * parameter that stages use more than twice, and for several of them with sync_bn. */
int gt_pipeline_tie(const struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* After the graph was replicated: emit zeros for the gradients that are sent. */
void gt_pipeline_emit_zeros(const struct gt_parallel *p, struct gt_graph *g);

/* Emit the exchange at the end of a step, after all nodes so far. */
void gt_pipeline_emit_tied(const struct gt_parallel *p, struct gt_graph *g);

/* ---- pipeline/ops.c ---- */

/* `link` is one of enum gt_pipe_link, or, from GT_PIPE_LINKS on, the link for a tied parameter of
 * two stages. gt_pipe_recv() receives a value like `like`, which is marked as low if `like` is; its
 * gradient is sent back unless it is `constant`. gt_pipe_send() has a token like `token` (NULL:
 * none) as output. The token represents a result that a later stage computes, until
 * gt_pipeline_fill_tokens(). */
struct gt_value *gt_pipe_recv(
    struct gt_graph *g, const struct gt_value *like, int link, bool constant);
struct gt_node *gt_pipe_send(
    struct gt_graph *g, struct gt_value *x, const struct gt_value *token, int link);

/* Once the graph has its backward pass, if any: let a node of zeros make the token of each send,
 * which the host reads. */
void gt_pipeline_fill_tokens(struct gt_graph *g);

/* Wait until x, the last thing sent over the link, has been sent. */
struct gt_node *gt_pipe_wait(struct gt_graph *g, struct gt_value *x, int link);

bool gt_is_pipe_send(const struct gt_node *n);

/* ---- pipeline.c ---- */

/* Call this for each group of the pipeline's own, if there is a pipeline. */
void gt_pipeline_each_group(const struct gt_parallel *p, void (*act)(struct gt_group *group));

#endif
