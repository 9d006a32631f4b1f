/* stage.c - one stage of a model's graph, and the chunks that go through it. */
#include <stdlib.h>
#include <string.h>

#include "lib/comm/shm/shm.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/node_attrs.h"
#include "lib/parallel/pipeline/stage.h"
#include "lib/parallel/virtual/rewrite.h"

/* ---- a stage ---- */

/* Values that other stages hold. The first stage holds those that no node reads. */
static int mark_elsewhere(const struct gt_pipeline_flow *f, struct gt_graph *g, const bool *mine,
    bool is_first, struct gt_err *err)
{
	bool *read = gt_calloc(g->value_count, sizeof(*read), err);

	if (!read)
		return GT_ENOMEM;
	gt_pipeline_mark_read(g, mine, read);
	for (size_t i = 0; i < g->value_count; i++) {
		struct gt_value *v = g->values[i];

		if (v->role != GT_PARAMETER && v->role != GT_BUFFER)
			continue;
		v->on_other_ranks = !read[i] && (!is_first || f->first[i] < g->node_count);
	}
	free(read);
	return 0;
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

static void keep_nodes(struct gt_graph *g, const bool *mine)
{
	size_t count = 0;

	for (size_t i = 0; i < g->node_count; i++)
		if (mine[i])
			g->nodes[count++] = g->nodes[i];
	g->node_count = count;
}

/* ---- the values at a cut ---- */

/* The values that go across one end of a stage. */
struct cut_values {
	struct gt_value **v; /* [count] in the order in which they are made */
	int count;
	bool constant; /* the stages that make them train nothing: no gradient goes back */
};

/*
 * Several values go as one: the sender joins their elements, and the receiver takes them apart.
 * Example: a [2,3] and b [4].
 *
 *   sender     p = cat(reshape(a, [6]), reshape(b, [4]))   pipe_send(p)
 *   receiver   p = pipe_recv()   a = reshape(p[0:6], [2,3])   b = reshape(p[6:10], [4])
 */
static struct gt_value joined_like(const struct cut_values *c)
{
	struct gt_value like = *c->v[0];

	for (int i = 1; i < c->count; i++) {
		like.shape[0] = gt_value_elements(&like) + gt_value_elements(c->v[i]);
		like.ndim = 1;
		like.low = like.low && c->v[i]->low;
	}
	return like;
}

static struct gt_value *join_values(struct gt_graph *g, const struct cut_values *c)
{
	const struct gt_value like = joined_like(c);
	struct gt_value **flat, *joined;

	if (c->count == 1)
		return c->v[0];
	flat = gt_arena_alloc(&g->arena, (size_t)c->count * sizeof(*flat), &g->err);
	for (int i = 0; flat && i < c->count; i++)
		flat[i] = gt_reshape(g, c->v[i], 1, (int64_t[]){ gt_value_elements(c->v[i]) });
	joined = flat ? gt_cat(g, c->count, flat, 0) : NULL;
	if (joined)
		joined->low = like.low;
	return joined;
}

static struct gt_value *take_value(
    struct gt_graph *g, struct gt_value *joined, int64_t first, const struct gt_value *like)
{
	struct gt_value *part =
	    gt_slice_dim(g, joined, 0, first, first + gt_value_elements(like), 1);

	return gt_reshape(g, part, like->ndim, like->shape);
}

/* Put the last nodes before all others, in their order. */
static void place_first(struct gt_graph *g, size_t count)
{
	for (size_t i = 0; i < count; i++)
		gt_place_last(g, 0);
}

/* The values that come from the stage before take the place of those that it makes, also at the
 * other end, for one that a later stage reads. */
static void receive(struct gt_graph *g, const struct cut_values *c, struct cut_values *behind)
{
	const struct gt_value like = joined_like(c);
	size_t nodes = g->node_count;
	int64_t first = 0;
	struct gt_value *v;

	gt_graph_scope(g, "pipeline");
	v = gt_pipe_recv(g, &like, GT_PIPE_FROM_BEFORE, c->constant);
	for (int i = 0; v && i < c->count; i++) {
		struct gt_value *part = c->count > 1 ? take_value(g, v, first, c->v[i]) : v;

		if (!part)
			return;
		first += gt_value_elements(c->v[i]);
		part->low = c->v[i]->low;
		gt_replace_uses(g, 0, c->v[i], part);
		for (int k = 0; k < behind->count; k++)
			if (behind->v[k] == c->v[i])
				behind->v[k] = part;
	}
	place_first(g, g->node_count - nodes);
}

/* The token takes the name of the result, which is made elsewhere. */
static void send(struct gt_graph *g, struct gt_value *v, struct gt_value *result)
{
	struct gt_node *n;

	gt_graph_scope(g, "pipeline");
	n = v ? gt_pipe_send(g, v, result, GT_PIPE_TO_NEXT) : NULL;
	if (!n)
		return;
	gt_value_take_name(g, n->out[0], result);
}

/* Mark values that go to the next stage if they are low in the graph of the whole model. A stage's
 * own part of it does not tell. */
static int mark_low(struct gt_graph *g, const struct cut_values *c,
    const struct gt_precision *precision, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < c->count; i++) {
		enum gt_dtype type;

		rc = gt_autocast_type(&type, g, c->v[i], precision, err);
		if (!rc)
			c->v[i]->low = type != c->v[i]->dtype;
	}
	return rc;
}

/* Whether the stages that make the values train nothing. */
static int find_constant(struct cut_values *c, const struct gt_graph *g, struct gt_err *err)
{
	bool *depends = gt_calloc(g->value_count, sizeof(*depends), err);

	if (!depends)
		return GT_ENOMEM;
	gt_find_dependents(g, depends);
	c->constant = true;
	for (int i = 0; i < c->count; i++)
		c->constant = c->constant && !depends[c->v[i]->id];
	free(depends);
	return 0;
}

static int find_values(struct cut_values *c, const struct gt_pipeline_flow *f, struct gt_graph *g,
    size_t place, const struct gt_precision *precision, struct gt_err *err)
{
	int rc;

	c->v = gt_arena_alloc(&g->arena, g->value_count * sizeof(*c->v), err);
	if (!c->v)
		return GT_ENOMEM;
	c->count = gt_pipeline_crossing(f, place, c->v);
	rc = find_constant(c, g, err);
	return rc ? rc : mark_low(g, c, precision, err);
}

/* ---- a stage's graph ---- */

/* Replace the ends of a stage from node `first` to before node `last`. */
static int cut_ends(struct gt_graph *g, const struct gt_pipeline_flow *f, size_t first, size_t last,
    const struct gt_precision *precision, struct gt_err *err)
{
	struct cut_values before = { 0 }, behind = { 0 };
	struct gt_value *result = find_result(g, last);
	bool *mine = gt_arena_alloc(&g->arena, g->node_count * sizeof(*mine), err);

	if (!mine)
		return GT_ENOMEM;
	if (first && find_values(&before, f, g, first, precision, err))
		return err->code;
	if (last < g->node_count && find_values(&behind, f, g, last, precision, err))
		return err->code;
	if (behind.count && !result)
		return gt_err_set(err, GT_EINVAL, "the last stage has no result");
	memset(mine, 0, g->node_count * sizeof(*mine));
	gt_pipeline_mark_nodes(f, first, last, mine);
	if (mark_elsewhere(f, g, mine, !first, err))
		return GT_ENOMEM;
	keep_nodes(g, mine);
	if (before.count)
		receive(g, &before, &behind);
	if (behind.count)
		send(g, join_values(g, &behind), result);
	return gt_graph_status(g, err);
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
	struct gt_pipeline_flow f;
	size_t first, last;
	int rc = gt_pipeline_flow_open(&f, g, err);

	if (!rc)
		rc = gt_pipeline_begin(&first, cut, &f, stage, err);
	if (!rc)
		rc = gt_pipeline_begin(&last, cut, &f, stage + 1, err);
	if (!rc)
		rc = cut_ends(g, &f, first, last, precision, err);
	gt_pipeline_flow_release(&f);
	return rc;
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

static bool is_over_link(const struct gt_node *n)
{
	return (gt_is_pipe_send(n) || gt_is_pipe_recv(n)) &&
	       gt_node_attrs(&n->attrs).pipe.link < GT_PIPE_LINKS;
}

/* Mark the sends whose next message is a receive. */
static void mark_meetings(struct gt_graph *g)
{
	struct gt_node *send = NULL;

	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];
		union gt_node_attrs attrs;

		if (!is_over_link(n))
			continue;
		if (send && gt_is_pipe_recv(n)) {
			attrs = gt_node_attrs(&send->attrs);
			attrs.pipe.meets = true;
			send->attrs = gt_node_attrs_pack(&attrs);
		}
		send = gt_is_pipe_send(n) ? n : NULL;
	}
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* With gpipe, all messages of a link may wait at once. */
static void measure_messages(const struct gt_parallel *p, const struct gt_graph *g)
{
	struct gt_pipeline *l = gt_pipeline_of(p);
	const bool all = p->o.pipeline_schedule == GT_PIPELINE_GPIPE;
	int64_t sent = 0, held[GT_PIPE_LINKS] = { 0 }, together = 0;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];
		int64_t bytes;
		int link;

		if (!gt_is_pipe_send(n))
			continue;
		bytes = (int64_t)gt_value_bytes(n->in[0]);
		link = gt_node_attrs(&n->attrs).pipe.link;
		sent += bytes;
		if (link < GT_PIPE_LINKS)
			held[link] = all ? held[link] + bytes : larger(held[link], bytes);
	}
	for (int i = 0; i < GT_PIPE_LINKS; i++)
		together += held[i] < GT_SHM_PAIR_BYTES ? held[i] : GT_SHM_PAIR_BYTES;
	l->sent_bytes = larger(l->sent_bytes, sent);
	l->message_bytes = larger(l->message_bytes, together);
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
	measure_messages(p, g);
	mark_meetings(g);
	return rc ? rc : wait_late(l, g, err);
}
