/* zero.c - data parallelism whose ranks divide parameters and state: owners, and their updates. */
#include "lib/parallel/data/zero.h"

#include <stdlib.h>

#include "lib/parallel/axis.h"

/* ---- parts ---- */

/*
 * Two ranks and two buckets of 8 and 4 elements. parts[i] is this rank's shard of bucket i:
 *
 *   layout    0 1 2 3 4 5 6 7 | 8 9 10 11
 *   rank 0    0 1 2 3           8 9           parts {0, 4, at 0}, {8, 2, at 4}
 *   rank 1            4 5 6 7       10 11     parts {4, 4, at 0}, {10, 2, at 4}
 *
 * `at` is the place in memory that holds only this rank's parts, as its optimizer state does.
 */
static int divide(struct gt_parallel *p, struct gt_store *s, struct gt_err *err)
{
	const struct gt_group *group = p->axes[GT_AXIS_DATA];
	const struct gt_optim_rule *rule = gt_optim_rule(p->o.optimizer);
	struct gt_zero *z = p->state;
	int rc = gt_zero_cut(&z->buckets, s, group->size, p->o.bucket_bytes,
	    rule->operand == GT_OPERAND_TENSORS ? rule->takes : NULL, err);

	if (rc)
		return rc;
	z->parts = gt_calloc(z->buckets.size, sizeof(*z->parts), err);
	z->tickets = gt_calloc(z->buckets.size, sizeof(*z->tickets), err);
	if (!z->parts || !z->tickets)
		return GT_ENOMEM;
	for (size_t i = 0; i < z->buckets.size; i++) {
		int64_t count = z->buckets.count[i] / group->size;

		z->parts[i] = (struct gt_part){ z->buckets.first[i] + group->rank * count, count,
			s->part_elements };
		s->part_elements += count;
	}
	s->parts = z->parts;
	s->part_count = z->buckets.size;
	return 0;
}

static int by_offset(const void *x, const void *y)
{
	const struct gt_part *a = x, *b = y;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* The padding between parameters. */
static int find_gaps(struct gt_zero *z, const struct gt_store *s, struct gt_err *err)
{
	struct gt_part *gaps = gt_calloc(s->slot_count + 1, sizeof(*gaps), err);
	size_t count = 0;

	z->gaps = gaps;
	if (!gaps)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].role == GT_PARAMETER && !s->slots[i].on_other_ranks)
			gaps[count++] = (struct gt_part){ s->slots[i].offset, s->slots[i].held, 0 };
	qsort(gaps, count, sizeof(*gaps), by_offset);
	for (size_t i = 0; i < count; i++) {
		int64_t end = gaps[i].offset + gaps[i].count;
		int64_t next = i + 1 < count ? gaps[i + 1].offset : s->flat_count;

		if (next > end)
			gaps[z->gap_count++] = (struct gt_part){ end, next - end, 0 };
	}
	return 0;
}

/* Take memory of the group for the buffers that collectives use in place. */
static int take_memory(struct gt_parallel *p, struct gt_store *s, struct gt_err *err)
{
	struct gt_zero *z = p->state;
	int rc = gt_group_alloc(
	    p->device_axes[GT_AXIS_DATA], gt_store_parameter_bytes(s), &z->parameters, err);

	if (rc)
		return rc;
	gt_store_lend_parameters(s, z->parameters);
	if (z->stage > 1)
		return 0;
	rc = gt_group_alloc(
	    p->device_axes[GT_AXIS_DATA], gt_store_gradient_bytes(s), &z->gradients, err);
	if (!rc)
		gt_store_lend_gradients(s, z->gradients);
	return rc;
}

static int attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	struct gt_zero *z = gt_calloc(1, sizeof(*z), err);
	int rc;

	if (!z)
		return GT_ENOMEM;
	p->state = z;
	z->stage = p->mode == &gt_parallel_zero3 ? 3 : p->mode == &gt_parallel_zero2 ? 2 : 1;
	rc = divide(p, store, err);
	if (!rc)
		rc = find_gaps(z, store, err);
	if (!rc)
		rc = gt_buckets_events(p, &z->buckets, z->stage > 2 ? 2 : 1, err);
	store->gradients_in_parts = z->stage > 1;
	/* Set before the memory is taken, because the sizes of the store's memory depend on it. */
	store->parameters_in_parts = z->stage > 2;
	return rc || p->dry ? rc : take_memory(p, store, err);
}

static void release(struct gt_parallel *p)
{
	struct gt_zero *z = p->state;

	if (!z)
		return;
	if (z->gradients)
		gt_group_release(p->device_axes[GT_AXIS_DATA], z->gradients);
	if (z->parameters)
		gt_group_release(p->device_axes[GT_AXIS_DATA], z->parameters);
	gt_buckets_release(&z->buckets);
	free(z->parts);
	free(z->tickets);
	free(z->gaps);
	free(z);
}

/* ---- whole tensors for files ---- */

static bool cuts(const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what)
{
	return slot->role == GT_PARAMETER &&
	       (what != GT_HELD_DATA || p->store->parameters_in_parts);
}

/* The elements [offset, offset + count) of the layout that are a slot's and a rank's; a slot is in
 * one bucket. */
static struct gt_part overlap(
    const struct gt_parallel *p, const struct gt_slot *slot, int rank, struct gt_part *part)
{
	const struct gt_zero *z = p->state;
	size_t i = gt_buckets_find(&z->buckets, slot->offset);
	int64_t start = z->buckets.first[i] + rank * z->parts[i].count;
	int64_t end = start + z->parts[i].count, slot_end = slot->offset + slot->held;
	int64_t from = slot->offset > start ? slot->offset : start;
	int64_t to = slot_end < end ? slot_end : end;

	*part = z->parts[i];
	return (struct gt_part){ .offset = from, .count = to > from ? to - from : 0 };
}

static struct gt_slice held(
    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what, int seat)
{
	struct gt_part part, own = overlap(p, slot, seat, &part);

	(void)what;
	return (struct gt_slice){ own.offset - slot->offset, own.count, own.count, 1 };
}

/* Gradients that there is memory for all of lie where they would in any case. */
static int64_t place(const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what)
{
	struct gt_part part, own = overlap(p, slot, p->axes[GT_AXIS_DATA]->rank, &part);

	return what == GT_HELD_GRADIENT && !p->store->gradients_in_parts
	           ? own.offset
	           : part.at + own.offset - part.offset;
}

/* ---- the run ---- */

/* Each rank's part of every bucket to all, in place. */
static int gather_parameters(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_zero *z = p->state;
	struct gt_group *group = p->device_axes[GT_AXIS_DATA];
	size_t size = gt_dtype_size(p->store->dtype);
	int rc = 0;

	for (size_t i = 0; !rc && i < z->buckets.size; i++) {
		char *parameters = p->store->parameters;
		const struct gt_collective c = { .kind = GT_ALL_GATHER,
			.in = parameters + (size_t)z->parts[i].offset * size,
			.out = parameters + (size_t)z->buckets.first[i] * size,
			.count = z->parts[i].count,
			.dtype = p->store->dtype,
			.what = z->buckets.name[i],
			.span = gt_buckets_span(p, &z->buckets, (int)i, 1),
			.marks = p->marks,
			.stream = p->device->compute };

		/* All buckets are started before the first is waited for, so the next one is sent
		 * as soon as a link is free. */
		rc = gt_group_start(group, &c, NULL, err);
	}
	if (!rc)
		rc = gt_group_await(group, GT_GROUP_ALL, p->device->compute, err);
	return rc ? rc : gt_store_refresh_copies(p->store, err);
}

/* Where ranks hold parts, the plan gathers parameters before their first readers. */
static int publish(struct gt_parallel *p, struct gt_err *err)
{
	return p->store->parameters_in_parts ? 0 : gather_parameters(p, err);
}

static int update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	int rc = gt_norm_update(p, optim, err);

	/* Micro-batches are added to zero. */
	if (!rc && p->store->gradients_in_parts)
		rc = gt_optim_zero_grad(optim, err);
	return rc ? rc : publish(p, err);
}

/* Gradients go out once, or for each micro-batch; parameters come back once, or whenever they are
 * needed. */
static int64_t sent(const struct gt_parallel *p, int micro_batches)
{
	const struct gt_zero *z = p->state;
	int64_t n = p->axes[GT_AXIS_DATA]->size, reduced = gt_parallel_reduce_scatter_bytes(p),
	        gathered = reduced;

	if (z->stage > 1)
		reduced *= micro_batches;
	if (z->stage > 2)
		gathered = z->gathered / n * (n - 1) * micro_batches *
		           (int64_t)gt_dtype_size(p->store->dtype);
	return reduced + gathered;
}

/* The fields that the three modes share. */
#define ZERO                                                                                       \
	.divides = true, .attach = attach, .insert = gt_zero_insert, .cuts = cuts, .held = held,   \
	.place = place, .update = update, .publish = publish, .sent = sent, .release = release

const struct gt_parallel_mode gt_parallel_zero1 = {
	.replicates = true, .shards = true, .stages = true, ZERO
};

const struct gt_parallel_mode gt_parallel_zero2 = {
	.replicates = true, .adds = true, .shards = true, ZERO
};

const struct gt_parallel_mode gt_parallel_zero3 = {
	.adds = true, .shards = true, .insert_forward = gt_zero_insert_forward, ZERO
};
