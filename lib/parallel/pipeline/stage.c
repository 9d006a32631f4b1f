/* stage.c - one stage of a model's graph, and the chunks that go through it. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/pass.h"
#include "lib/parallel/node_attrs.h"
#include "lib/parallel/pipeline/stage.h"
#include "lib/parallel/virtual/rewrite.h"

/* ---- a stage ---- */

/* Values that other stages hold. The first stage holds those that no node reads. */
static void mark_elsewhere(struct gt_graph *g, size_t first, size_t last)
{
	for (size_t i = 0; i < g->value_count; i++) {
		struct gt_value *v = g->values[i];

		if (v->role != GT_PARAMETER && v->role != GT_BUFFER)
			continue;
		v->on_other_ranks = !gt_pipeline_reads(g, first, last, v) &&
		                    (first || gt_pipeline_reads(g, 0, g->node_count, v));
	}
}

/* The model's result, made behind node `last`. */
static struct gt_value *find_result(const struct gt_graph *g, size_t last)
{
	for (size_t i = last; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->outputs; k++)
			if (g->nodes[i]->out[k] && g->nodes[i]->out[k]->role == GT_OUTPUT)
				return g->nodes[i]->out[k];
	return NULL;
}

static void keep_nodes(struct gt_graph *g, size_t first, size_t last)
{
	memmove(g->nodes, g->nodes + first, (last - first) * sizeof(struct gt_node *));
	g->node_count = last - first;
}

/* The values that come from the stage before, in place of the one that it makes. */
static void receive(struct gt_graph *g, const struct gt_value *before, bool constant)
{
	struct gt_value *v;

	gt_graph_scope(g, "pipeline");
	v = gt_pipe_recv(g, before, GT_PIPE_FROM_BEFORE, constant);
	if (!v)
		return;
	gt_place_last(g, 0);
	gt_replace_uses(g, 1, before, v);
}

/* The token takes the name of the result, which is made elsewhere. */
static void send(struct gt_graph *g, struct gt_value *v, struct gt_value *result)
{
	struct gt_node *n;

	gt_graph_scope(g, "pipeline");
	n = gt_pipe_send(g, v, result, GT_PIPE_TO_NEXT);
	if (!n)
		return;
	n->out[0]->role = GT_OUTPUT;
	n->out[0]->name = result->name;
	result->role = GT_TEMPORARY;
	result->name = NULL;
}

/* Mark a value that goes to the next stage if it is low in the graph of the whole model. A stage's
 * own part of it does not tell. */
static int mark_low(struct gt_graph *g, struct gt_value *v, const struct gt_precision *precision,
    struct gt_err *err)
{
	enum gt_dtype type;
	int rc = gt_autocast_type(&type, g, v, precision, err);

	if (!rc)
		v->low = type != v->dtype;
	return rc;
}

/* Whether the stages that make a value train nothing: it has no gradient, and none goes back. */
static int find_constant(
    bool *out, const struct gt_graph *g, const struct gt_value *v, struct gt_err *err)
{
	bool *depends = gt_calloc(g->value_count, sizeof(*depends), err);

	if (!depends)
		return GT_ENOMEM;
	gt_find_dependents(g, depends);
	*out = !depends[v->id];
	free(depends);
	return 0;
}

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
    const struct gt_precision *precision, struct gt_err *err)
{
	struct gt_value *before = NULL, *behind = NULL, *result = NULL;
	bool constant = false;
	size_t first, last;
	int rc = gt_pipeline_begin(&first, cut, g, stage, err);

	if (!rc)
		rc = gt_pipeline_begin(&last, cut, g, stage + 1, err);
	if (!rc && stage) {
		before = gt_pipeline_crossing(g, first, err);
		rc = before ? find_constant(&constant, g, before, err) : err->code;
	}
	if (!rc && stage + 1 < cut->stages) {
		behind = gt_pipeline_crossing(g, last, err);
		result = find_result(g, last);
		if (behind && !result)
			gt_err_set(err, GT_EINVAL, "the last stage has no result");
		rc = behind && result ? 0 : err->code;
	}
	if (!rc && before)
		rc = mark_low(g, before, precision, err);
	if (!rc && behind)
		rc = mark_low(g, behind, precision, err);
	if (rc)
		return rc;
	mark_elsewhere(g, first, last);
	keep_nodes(g, first, last);
	if (before)
		receive(g, before, constant);
	if (behind)
		send(g, behind, result);
	return gt_graph_status(g, err);
}

/* ---- chunks ---- */

/* Blocks of the schedule; the forward part ends with the node that makes the loss, or sends. Chunks
 * that are virtual ranks add up likewise, but those whose statistics are over all ranks have to
 * go through each stage together. */
static int arrange(const struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	const struct gt_pipeline *l = gt_pipeline_of(p);
	size_t count = 2 * (size_t)chunks;
	struct gt_pipeline_task *tasks = gt_calloc(count, sizeof(*tasks), err);
	struct gt_replica_block *blocks = gt_calloc(count, sizeof(*blocks), err);
	const struct gt_value *loss = gt_graph_find(g, "loss");
	size_t middle = loss ? gt_node_index(g, loss->producer) + 1 : g->node_count;
	int rc = GT_ENOMEM;

	if (!tasks || !blocks)
		goto out;
	gt_pipeline_order(tasks, p->o.pipeline_schedule, l->stages, l->stage, chunks);
	for (size_t i = 0; i < count; i++)
		blocks[i] = (struct gt_replica_block){ .copy = tasks[i].chunk,
			.first = tasks[i].backward ? middle : 0,
			.last = tasks[i].backward ? g->node_count : middle };
	if (p->o.reproducible)
		rc = gt_virtual_rewrite(g, chunks, blocks, p->o.sync_bn ? 0 : count, err);
	else
		rc = gt_replicate(g, chunks, blocks, count, err);
out:
	free(tasks);
	free(blocks);
	return rc;
}

/*
 * Sends go on in the background. A value must stay until it is sent: a node behind reads it. With
 * two chunks over one link:
 *
 *   pipe_send x0 | other nodes | pipe_wait x0 | pipe_send x1 | other nodes | pipe_wait x1
 *
 * The memory plan sees that pipe_wait reads x0, so no node in between gets its memory.
 */
static int wait_late(const struct gt_pipeline *l, struct gt_graph *g, struct gt_err *err)
{
	int links = GT_PIPE_LINKS + (int)l->tied_count;
	struct gt_value **sent = gt_calloc((size_t)links, sizeof(*sent), err);

	if (!sent)
		return GT_ENOMEM;
	gt_graph_scope(g, "pipeline");
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];
		union gt_node_attrs attrs;
		int link;

		if (!gt_is_pipe_send(n))
			continue;
		attrs = gt_node_attrs(&n->attrs);
		link = attrs.pipe.link;
		attrs.pipe.wait = false;
		n->attrs = gt_node_attrs_pack(&attrs);
		if (sent[link] && gt_pipe_wait(g, sent[link], link))
			gt_place_last(g, i++);
		sent[link] = n->in[0];
	}
	for (int link = 0; link < links; link++)
		if (sent[link])
			gt_pipe_wait(g, sent[link], link);
	free(sent);
	return gt_graph_status(g, err);
}

static int64_t sent_bytes(const struct gt_graph *g)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < g->node_count; i++)
		if (gt_is_pipe_send(g->nodes[i]))
			bytes += (int64_t)gt_value_bytes(g->nodes[i]->in[0]);
	return bytes;
}

int gt_pipeline_chunk(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	struct gt_pipeline *l = gt_pipeline_of(p);
	int rc = p->o.reproducible ? gt_pipeline_tie(p, g, err) : 0;

	gt_pipeline_fill_tokens(g);
	if (!rc && chunks > 1)
		rc = arrange(p, g, chunks, err);
	if (!rc && p->o.reproducible)
		gt_pipeline_emit_zeros(p, g);
	if (sent_bytes(g) > l->sent_bytes)
		l->sent_bytes = sent_bytes(g);
	return rc ? rc : wait_late(l, g, err);
}
