/* pipeline.c - the pipeline axis: a rank's stage, its neighbours, the parameters it holds. */
#include "lib/parallel/pipeline/pipeline.h"

#include <stdlib.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/pipeline/stage.h"

/*
 * The forward graph is cut into consecutive stages, one for each rank of the pipeline axis (enum
 * gt_axis). Each stage except the first begins shortly before a node that is the first reader of a
 * parameter, where few bytes pass from earlier to later nodes. Inputs (targets, random numbers)
 * exist on all ranks, and each stage computes values that depend on them alone (flow.c).
 *
 * At each cut, a node `pipe_send` of the earlier stage sends the computed value, and a node
 * `pipe_recv` of the later stage receives it. Several values are joined into one. In the backward
 * pass the gradient of the value is sent back: the gradient of a pipe_send node is a pipe_recv
 * node, and the gradient of a pipe_recv node is a pipe_send node. Only the last stage computes the
 * loss, or the statistics of an evaluation. The other stages have an output with the same name and
 * the value zero. So the sum of this output over all stages is the model's result.
 *
 * A batch is divided into chunks, and the gradients of the chunks are added up. While one stage
 * works on a chunk, other stages work on other chunks. With P equally fast stages and C chunks, a
 * stage waits for its neighbors during (P - 1) / (C + P - 1) of the time.
 *
 * A parameter that several stages read is called tied. Each of these stages holds a copy of the
 * parameter. An example is an embedding table that is also the output layer. At the end of each
 * step, these stages add up their gradients of the parameter, so the copies stay the same.
 * Reproducible training is different: chunks are virtual ranks (virtual/rewrite.h), and for each
 * chunk, the second of these stages sends its gradient to the first one (stage.h).
 *
 * Sources: GPipe, Huang et al., arXiv 1811.06965; 1F1B, Narayanan et al., arXiv 2006.09503
 * (PipeDream-Flush) and 2104.04473.
 */

/* ---- options ---- */

static int pipeline_axis_size(const struct gt_parallel_options *o, int ranks)
{
	(void)ranks;
	return o->stages > 1 ? o->stages : 1;
}

static int check_pipeline_ranks(const struct gt_parallel_options *o, int ranks, struct gt_err *err)
{
	int tensor = gt_axis_tensor.size(o, ranks), all = o->stages * tensor;

	if (ranks % all == 0)
		return 0;
	if (tensor == 1)
		gt_err_set(err, GT_EINVAL, "{pipeline-parallel}: %d stages do not divide %d rank%s",
		    o->stages, ranks, ranks == 1 ? "" : "s");
	else
		gt_err_set(err, GT_EINVAL,
		    "{pipeline-parallel}: %d stages of %d ranks each do not divide %d ranks",
		    o->stages, tensor, ranks);
	return gt_err_hint(
	    err, "{nproc} %d has %s for each stage", all, tensor == 1 ? "a rank" : "ranks enough");
}

static int check_pipeline_axis(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	if (o->stages <= 1)
		return 0;
	if (!gt_parallel_modes[o->kind]->stages) {
		gt_err_set(err, GT_EINVAL,
		    "{pipeline-parallel} cannot be combined with {parallel} %s",
		    gt_parallel_names[o->kind]);
		return gt_err_hint(err, "use any other {parallel}");
	}
	if (check_pipeline_ranks(o, ranks, err))
		return err->code;
	if (o->chunks && !o->reproducible && batch % o->chunks) {
		gt_err_set(
		    err, GT_EINVAL, "{chunks}: %d do not divide {batch} %d", o->chunks, batch);
		return gt_err_hint(err, "chunks are parts of a batch, of the same size");
	}
	return 0;
}

/* See gt_parallel_chunks(). */
static int parts(const struct gt_parallel *p, int batch, int chunks)
{
	if (!gt_pipeline_of(p))
		return chunks;
	chunks = p->o.chunks ? p->o.chunks : p->o.stages;
	if (chunks > batch)
		chunks = batch;
	while (batch % chunks)
		chunks--;
	return chunks;
}

/* ---- groups ---- */

/* The link's other end is the stage before, or the next one. */
static int neighbour_of(const struct gt_pipeline *l, int link)
{
	bool before = link == GT_PIPE_FROM_BEFORE || link == GT_PIPE_TO_BEFORE;

	return before ? l->stage - 1 : l->stage + 1;
}

/*
 * Each stage sends a byte to its neighbours and receives theirs, all in one exchange. The first
 * message of each direction connects two ranks, and both have to take part in that at the same
 * time. Later, an exchange whose send is connected and whose receive is not would keep the send
 * from a neighbour that waits for it.
 */
static int connect_neighbours(
    struct gt_parallel *p, struct gt_pipeline *l, char *bytes, struct gt_err *err)
{
	static const int order[] = { GT_PIPE_TO_BEFORE, GT_PIPE_TO_NEXT, GT_PIPE_FROM_BEFORE,
		GT_PIPE_FROM_NEXT };
	struct gt_collective calls[GT_PIPE_LINKS];
	uint64_t ticket = 0;
	int n = 0;

	for (int i = 0; i < GT_PIPE_LINKS; i++)
		if (l->links[order[i]])
			calls[n++] = (struct gt_collective){ .kind = i < 2 ? GT_SEND : GT_RECV,
				.in = bytes + i,
				.out = bytes + i,
				.count = 1,
				.dtype = GT_U8,
				.peer = l->peers[order[i]],
				.what = "links",
				.stream = p->device->compute };
	return gt_group_exchange(l->all, calls, n, &ticket, err);
}

/* One group of all stages has the messages of all links. */
static int open_group_of_links(struct gt_parallel *p, struct gt_pipeline *l, struct gt_err *err)
{
	struct gt_device_way way = p->way;
	void *bytes;
	int rc;

	way.messages = true;
	if (gt_device_group_open(&l->all, p->axes[GT_AXIS_PIPELINE], p->device, &way, err))
		return err->code;
	for (int i = 0; i < GT_PIPE_LINKS; i++) {
		int peer = neighbour_of(l, i);

		l->links[i] = peer >= 0 && peer < l->stages ? l->all : NULL;
		l->peers[i] = peer;
	}
	if (gt_group_alloc(l->all, GT_PIPE_LINKS, &bytes, err))
		return err->code;
	rc = connect_neighbours(p, l, bytes, err);
	if (!rc)
		rc = gt_device_sync(p->device, err);
	gt_group_release(l->all, bytes);
	return rc;
}

/*
 * Pairs of neighbours whose lower one has an even number, then the others: a rank is in one of
 * each at most. A split is a call of all stages and gives each of them one group, so a link to
 * each neighbour takes two splits. Example: four stages, for each of the two directions.
 *
 *   even   (0 1) (2 3)
 *   odd    (1 2)           stages 0 and 3 take part without a pair
 */
static int open_pairs(struct gt_parallel *p, struct gt_pipeline *l, struct gt_err *err)
{
	static const enum gt_pipe_link low[] = { GT_PIPE_TO_NEXT, GT_PIPE_FROM_NEXT },
	                               high[] = { GT_PIPE_FROM_BEFORE, GT_PIPE_TO_BEFORE };
	int rc = 0;

	for (int way = 0; !rc && way < 2; way++) {
		for (int odd = 0; !rc && odd < 2; odd++) {
			int pair = (l->stage - odd) / 2;
			bool is_low = l->stage % 2 == odd;
			bool alone = l->stage < odd || (is_low && l->stage + 1 == l->stages);
			int link = (int)(is_low ? low[way] : high[way]);

			rc = gt_group_split(&l->links[link], p->axes[GT_AXIS_PIPELINE],
			    alone ? -1 : pair, l->stage, err);
			l->peers[link] = is_low;
		}
	}
	for (int i = 0; !rc && i < GT_PIPE_LINKS; i++)
		rc = gt_device_group_take(&l->links[i], p->device, &p->way, err);
	return rc;
}

static int open_links(struct gt_parallel *p, struct gt_pipeline *l, struct gt_err *err)
{
	if (p->dry)
		return 0;
	return p->device_axes[GT_AXIS_PIPELINE]->ops->exchange ? open_group_of_links(p, l, err)
	                                                       : open_pairs(p, l, err);
}

static int open_axis(struct gt_parallel *p, struct gt_err *err)
{
	struct gt_group *stages = p->axes[GT_AXIS_PIPELINE];
	struct gt_pipeline *l;

	if (stages->size == 1)
		return 0;
	p->axis_state[GT_AXIS_PIPELINE] = l = gt_calloc(1, sizeof(*l), err);
	if (!l)
		return GT_ENOMEM;
	l->stages = stages->size;
	l->stage = stages->rank;
	return 0;
}

void gt_pipeline_each_group(const struct gt_parallel *p, void (*act)(struct gt_group *group))
{
	const struct gt_pipeline *l = gt_pipeline_of(p);

	for (size_t i = 0; l && i < l->tied_count; i++)
		if (l->tied[i].group)
			act(l->tied[i].group);
	if (l && l->all)
		act(l->all);
	for (int i = 0; l && !l->all && i < GT_PIPE_LINKS; i++)
		if (l->links[i])
			act(l->links[i]);
}

static void release_pipeline(struct gt_parallel *p)
{
	struct gt_pipeline *l = gt_pipeline_of(p);

	if (!l)
		return;
	gt_pipeline_each_group(p, gt_group_free);
	gt_pipeline_cut_release(&l->cut);
	free(l->holds);
	free(l->tied);
	free(l);
}

/* ---- stages ---- */

static bool is_kept(const struct gt_value *v)
{
	return v->role == GT_PARAMETER || v->role == GT_BUFFER;
}

static int find_holders_of_stage(
    struct gt_pipeline *l, const struct gt_pipeline_flow *f, int stage, struct gt_err *err)
{
	bool *mine = gt_calloc(f->g->node_count, sizeof(*mine), err);
	bool *read = gt_calloc(f->g->value_count, sizeof(*read), err);
	size_t first, last, slot = 0;
	int rc = mine && read ? gt_pipeline_begin(&first, &l->cut, f, stage, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_pipeline_begin(&last, &l->cut, f, stage + 1, err);
	if (!rc) {
		gt_pipeline_mark_nodes(f, first, last, mine);
		gt_pipeline_mark_read(f->g, mine, read);
	}
	for (size_t i = 0; !rc && i < f->g->value_count; i++)
		if (is_kept(f->g->values[i]))
			l->holds[slot++ * (size_t)l->stages + (size_t)stage] = read[i];
	free(mine);
	free(read);
	return rc;
}

/* Which stages read each parameter and buffer. */
static int find_holders(struct gt_pipeline *l, const struct gt_graph *g, struct gt_err *err)
{
	struct gt_pipeline_flow f;
	size_t slots = 0;
	int rc = gt_pipeline_flow_open(&f, g, err);

	for (size_t i = 0; i < g->value_count; i++)
		slots += is_kept(g->values[i]);
	l->holds = gt_calloc(slots * (size_t)l->stages, sizeof(*l->holds), err);
	if (!l->holds)
		rc = GT_ENOMEM;
	for (int stage = 0; !rc && stage < l->stages; stage++)
		rc = find_holders_of_stage(l, &f, stage, err);
	gt_pipeline_flow_release(&f);
	return rc;
}

/* Cut the first graph that comes into stages; the others follow it. Ranks of one stage may hold
 * unequal shards and have to agree on the cut, so it is made before there are shards. */
static int survey(struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err)
{
	struct gt_pipeline *l = gt_pipeline_of(p);

	return l && !l->cut.stages ? gt_pipeline_cut(&l->cut, g, l->stages, err) : 0;
}

static int rewrite_for_stage(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	struct gt_pipeline *l = gt_pipeline_of(p);
	int rc = l && !l->holds ? find_holders(l, g, err) : 0;

	return rc || !l ? rc : gt_pipeline_keep_stage(&l->cut, l->stage, g, &p->o.precision, err);
}

const struct gt_pipeline_cut *gt_pipeline_stages(const struct gt_parallel *p)
{
	return &gt_pipeline_of(p)->cut;
}

/* ---- the parameters of a stage ---- */

static const bool *holders_of(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return gt_pipeline_of(p)->holds + (slot - p->store->slots) * gt_pipeline_of(p)->stages;
}

/* The first stage that holds the slot; stage 0 if no node reads it. */
static int owner_of(const struct gt_parallel *p, const struct gt_slot *slot)
{
	const bool *holds = holders_of(p, slot);

	for (int stage = 0; stage < gt_pipeline_of(p)->stages; stage++)
		if (holds[stage])
			return stage;
	return 0;
}

static int add_tied(struct gt_parallel *p, const struct gt_slot *slot, struct gt_err *err)
{
	struct gt_pipeline *l = gt_pipeline_of(p);
	const bool *holds = holders_of(p, slot);
	bool mine = holds[l->stage];
	struct gt_pipeline_tied tied = { .slot = slot };
	int rc = p->dry ? 0
	                : gt_group_split(
	                      &tied.group, p->axes[GT_AXIS_PIPELINE], mine ? 0 : -1, l->stage, err);

	for (int stage = 0; stage < l->stages; stage++) {
		tied.rank += holds[stage] && stage < l->stage;
		tied.size += holds[stage];
	}
	if (!rc && mine) {
		l->tied[l->tied_count++] = tied;
		rc = gt_device_group_take(
		    &l->tied[l->tied_count - 1].group, p->device, &p->way, err);
	}
	return rc;
}

static int attach_pipeline(struct gt_parallel *p, struct gt_store *s, struct gt_err *err)
{
	struct gt_pipeline *l = gt_pipeline_of(p);
	int rc;

	if (!l)
		return 0;
	l->tied = gt_calloc(s->slot_count, sizeof(*l->tied), err);
	if (!l->tied)
		return GT_ENOMEM;
	rc = open_links(p, l, err);
	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const bool *holds = holders_of(p, &s->slots[i]);
		int count = 0;

		for (int stage = 0; stage < l->stages; stage++)
			count += holds[stage];
		if (count > 1 && s->slots[i].role == GT_PARAMETER)
			rc = add_tied(p, &s->slots[i], err);
	}
	return rc;
}

static bool cuts(const struct gt_parallel *p, const struct gt_slot *slot)
{
	(void)slot;
	return gt_pipeline_of(p);
}

/* All of it or nothing. The first stage has a parameter that no node reads. */
static struct gt_slice held(const struct gt_parallel *p, const struct gt_slot *slot, int seat)
{
	bool holds = holders_of(p, slot)[seat] || (!seat && !owner_of(p, slot));

	return (struct gt_slice){ 0, slot->count, slot->count, holds };
}

static bool divides(const struct gt_parallel *p)
{
	return gt_pipeline_of(p);
}

static bool counts(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return !gt_pipeline_of(p) || owner_of(p, slot) == gt_pipeline_of(p)->stage;
}

/* ---- graphs ---- */

/* Gradients of a stage are added up over ranks when all chunks have added theirs. Those that stages
 * share are added up over stages behind that; but before it where each rank gets a part of the sum
 * alone, since parts differ from stage to stage. */
static int insert_pipeline_nodes(
    struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	int rc = gt_pipeline_of(p) ? gt_pipeline_chunk(p, g, chunks, err) : 0;

	if (!rc && gt_pipeline_of(p) && p->mode->divides)
		gt_pipeline_emit_tied(p, g);
	return rc;
}

static void finish_pipeline_graph(struct gt_parallel *p, struct gt_graph *g)
{
	if (gt_pipeline_of(p) && !p->mode->divides)
		gt_pipeline_emit_tied(p, g);
}

static int insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	if (gt_pipeline_of(p))
		gt_pipeline_fill_tokens(g);
	return gt_graph_status(g, err);
}

static int64_t sent_tied(const struct gt_parallel *p, const struct gt_pipeline_tied *tied)
{
	int64_t n = tied->size;
	int64_t bytes = tied->slot->held * (int64_t)gt_dtype_size(tied->slot->dtype);

	/* The first one hands the sum to the other, or all add up. */
	if (p->o.reproducible)
		return tied->rank ? 0 : bytes;
	return 2 * bytes * (n - 1) / n;
}

static int64_t pipeline_sent_bytes(const struct gt_parallel *p, int micro_batches)
{
	const struct gt_pipeline *l = gt_pipeline_of(p);
	int64_t bytes = l ? l->sent_bytes * micro_batches : 0;

	for (size_t i = 0; l && i < l->tied_count; i++)
		bytes += sent_tied(p, &l->tied[i]);
	return bytes;
}

/* Two links to each neighbour, and a group for each parameter of several stages. Between ranks of a
 * CPU a channel of each link counts, with the messages that it holds: gradients that come back have
 * the sizes of the values that were sent, and each channel is counted by its sender. */
static void add_groups(const struct gt_parallel *p, struct gt_group_memory *m)
{
	const struct gt_pipeline *l = gt_pipeline_of(p);

	if (!l)
		return;
	for (int i = 0; i < 2; i++) {
		if (l->stage)
			gt_axes_add_group(m, p, 2);
		if (l->stage + 1 < l->stages)
			gt_axes_add_group(m, p, 2);
	}
	for (size_t i = 0; i < l->tied_count; i++)
		gt_axes_add_group(m, p, l->tied[i].size);
	if (p->device->backend->host_memory)
		m->bytes += (uint64_t)l->message_bytes;
}

const struct gt_axis_row gt_axis_pipeline = {
	.name = "pipeline",
	.size = pipeline_axis_size,
	.check = check_pipeline_axis,
	.open = open_axis,
	.release = release_pipeline,
	.survey = survey,
	.rewrite = rewrite_for_stage,
	.attach = attach_pipeline,
	.add_groups = add_groups,
	.parts = parts,
	.insert = insert_pipeline_nodes,
	.finish = finish_pipeline_graph,
	.insert_forward = insert_forward,
	.cuts = cuts,
	.held = held,
	.divides = divides,
	.counts = counts,
	.sent = pipeline_sent_bytes,
};
