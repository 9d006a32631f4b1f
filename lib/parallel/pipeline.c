/* pipeline.c - one rank's part of a pipeline: its stage, its neighbours, what it holds. */
#include "lib/parallel/pipeline.h"

#include <stdlib.h>

#include "lib/parallel/pipeline_inside.h"

/* ---- groups ---- */

/* Pairs of neighbours whose lower one has an even number, then the others: a rank is in one of each
 * at most. */
static int open_links(struct gt_pipeline *l, struct gt_group *stages, struct gt_err *err)
{
	static const enum gt_pipe_link low[] = { GT_PIPE_TO_NEXT, GT_PIPE_FROM_NEXT },
	                               high[] = { GT_PIPE_FROM_BEFORE, GT_PIPE_TO_BEFORE };
	int rc = 0;

	for (int way = 0; !rc && way < 2; way++) {
		for (int odd = 0; !rc && odd < 2; odd++) {
			int pair = (l->stage - odd) / 2;
			bool is_low = l->stage % 2 == odd;
			bool alone = l->stage < odd || (is_low && l->stage + 1 == l->stages);

			rc = gt_group_split(&l->links[is_low ? low[way] : high[way]], stages,
			    alone ? -1 : pair, l->stage, err);
		}
	}
	return rc;
}

/* Of groups that are not there yet. */
static void take_seats(struct gt_parallel *p, int width)
{
	p->seats[GT_AXIS_PIPELINE] =
	    (struct gt_group){ .rank = p->world->rank / width, .size = p->o.stages };
	p->seats[GT_AXIS_DATA] = (struct gt_group){ .rank = p->world->rank % width, .size = width };
	p->axes[GT_AXIS_PIPELINE] = &p->seats[GT_AXIS_PIPELINE];
	p->axes[GT_AXIS_DATA] = &p->seats[GT_AXIS_DATA];
}

int gt_pipeline_new(struct gt_parallel *p, struct gt_err *err)
{
	struct gt_pipeline *l = gt_calloc(1, sizeof(*l), err);
	struct gt_group *world = p->world;
	int width = world->size / p->o.stages, rc;

	if (!l)
		return GT_ENOMEM;
	p->pipeline = l;
	l->stages = p->o.stages;
	l->stage = world->rank / width;
	if (p->dry) {
		take_seats(p, width);
		return 0;
	}
	rc = gt_group_split(
	    &p->axes[GT_AXIS_PIPELINE], world, world->rank % width, world->rank, err);
	if (!rc)
		rc = gt_group_split(&p->axes[GT_AXIS_DATA], world, l->stage, world->rank, err);
	return rc ? rc : open_links(l, p->axes[GT_AXIS_PIPELINE], err);
}

void gt_pipeline_free(struct gt_parallel *p)
{
	struct gt_pipeline *l = p->pipeline;

	if (!l)
		return;
	for (size_t i = 0; i < l->tied_count; i++)
		gt_group_free(l->tied[i].group);
	for (int i = 0; i < GT_PIPE_LINKS; i++)
		gt_group_free(l->links[i]);
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

/* Which stages read each parameter and buffer. */
static int find_holders(struct gt_pipeline *l, const struct gt_graph *g, struct gt_err *err)
{
	size_t slots = 0, first, last;

	for (size_t i = 0; i < g->value_count; i++)
		slots += is_kept(g->values[i]);
	l->holds = gt_calloc(slots * (size_t)l->stages, sizeof(*l->holds), err);
	if (!l->holds)
		return GT_ENOMEM;
	for (int stage = 0; stage < l->stages; stage++) {
		size_t slot = 0;

		if (gt_pipeline_begin(&first, &l->cut, g, stage, err) ||
		    gt_pipeline_begin(&last, &l->cut, g, stage + 1, err))
			return err->code;
		for (size_t i = 0; i < g->value_count; i++)
			if (is_kept(g->values[i]))
				l->holds[slot++ * (size_t)l->stages + (size_t)stage] =
				    gt_pipeline_reads(g, first, last, g->values[i]);
	}
	return 0;
}

int gt_pipeline_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	struct gt_pipeline *l = p->pipeline;
	int rc = 0;

	if (!l->cut.stages) {
		rc = gt_pipeline_cut(&l->cut, g, l->stages, err);
		if (!rc)
			rc = find_holders(l, g, err);
	}
	return rc ? rc : gt_pipeline_keep_stage(&l->cut, l->stage, g, err);
}

const struct gt_pipeline_cut *gt_pipeline_stages(const struct gt_parallel *p)
{
	return &p->pipeline->cut;
}

/* ---- what a stage holds ---- */

static const bool *holders_of(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return p->pipeline->holds + (slot - p->store->slots) * p->pipeline->stages;
}

/* The first stage that holds it; the first one of all, what nobody reads. */
static int owner_of(const struct gt_parallel *p, const struct gt_slot *slot)
{
	const bool *holds = holders_of(p, slot);

	for (int stage = 0; stage < p->pipeline->stages; stage++)
		if (holds[stage])
			return stage;
	return 0;
}

static int add_tied(struct gt_parallel *p, const struct gt_slot *slot, struct gt_err *err)
{
	struct gt_pipeline *l = p->pipeline;
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
	if (!rc && mine)
		l->tied[l->tied_count++] = tied;
	return rc;
}

int gt_pipeline_attach(struct gt_parallel *p, struct gt_err *err)
{
	struct gt_pipeline *l = p->pipeline;
	const struct gt_store *s = p->store;
	int rc = 0;

	l->tied = gt_calloc(s->slot_count, sizeof(*l->tied), err);
	if (!l->tied)
		return GT_ENOMEM;
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

bool gt_pipeline_in_parts(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return owner_of(p, slot) != 0;
}

/* The rank of the owner's stage that has rank 0's number among the samples sends it. */
int gt_pipeline_collect(struct gt_parallel *p, const struct gt_slot *slot, const void *held,
    void *whole, struct gt_err *err)
{
	int owner = owner_of(p, slot) * p->axes[GT_AXIS_DATA]->size;
	struct gt_collective c = { .kind = GT_RECV,
		.out = whole,
		.count = slot->count,
		.dtype = slot->dtype,
		.peer = owner,
		.what = slot->name };
	void *copy;
	int rc;

	if (!p->world->rank)
		return gt_group_run(p->world, &c, err);
	if (p->world->rank != owner)
		return 0;
	copy = gt_calloc(1, gt_slot_bytes(slot), err);
	if (!copy)
		return GT_ENOMEM;
	rc = gt_device_read(p->store->device, copy, held, gt_slot_bytes(slot), err);
	c = (struct gt_collective){ .kind = GT_SEND,
		.in = copy,
		.count = slot->count,
		.dtype = slot->dtype,
		.what = slot->name };
	if (!rc)
		rc = gt_group_run(p->world, &c, err);
	free(copy);
	return rc;
}

int64_t gt_pipeline_sent(const struct gt_parallel *p, int micro_batches)
{
	const struct gt_pipeline *l = p->pipeline;
	int64_t bytes = l->sent_bytes * micro_batches;

	for (size_t i = 0; i < l->tied_count; i++) {
		int64_t n = l->tied[i].size;

		/* The first one hands the sum to the other, or all add up. */
		if (p->o.reproducible)
			bytes += l->tied[i].rank ? 0 : (int64_t)gt_slot_bytes(l->tied[i].slot);
		else
			bytes += 2 * (int64_t)gt_slot_bytes(l->tied[i].slot) * (n - 1) / n;
	}
	return bytes;
}

/* ---- the norm ---- */

/* What this stage holds and a lower one counts. */
static int squares_of_others(const struct gt_parallel *p, double *squares, struct gt_err *err)
{
	const struct gt_pipeline *l = p->pipeline;
	int rc = gt_parallel_squares_begin(p, err);

	for (size_t i = 0; !rc && i < l->tied_count; i++)
		if (l->tied[i].rank)
			rc = gt_parallel_squares_add(p, l->tied[i].slot, err);
	return rc ? rc : gt_parallel_squares_end(p, squares, err);
}

int gt_pipeline_add_up(void *self, double *squares, struct gt_err *err)
{
	struct gt_parallel *p = self;
	double sum[GT_SQUARES], others[GT_SQUARES];
	int rc = squares_of_others(p, others, err);

	if (!rc)
		rc = gt_device_read(p->store->device, sum, squares, sizeof(sum), err);
	for (int i = 0; !rc && i < GT_SQUARES; i++)
		sum[i] -= others[i];
	if (!rc)
		rc = gt_all_reduce(p->axes[GT_AXIS_PIPELINE], sum, GT_SQUARES, GT_F64, GT_SUM, err);
	return rc ? rc : gt_device_write(p->store->device, squares, sum, sizeof(sum), err);
}
