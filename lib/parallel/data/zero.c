/* zero.c - data parallelism whose ranks divide parameters and state: owners, and their updates. */
#include "lib/parallel/data/zero.h"

#include <stdlib.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/data/modes.h"

/* ---- parts ---- */

/* Lay the store out in buckets, and give each rank its shard of each bucket. */
static int divide_store_in_shards(struct gt_parallel *p, struct gt_store *s, struct gt_err *err)
{
	const struct gt_group *group = p->axes[GT_AXIS_DATA];
	const struct gt_optim_rule *rule = gt_optim_rule(p->o.optimizer);
	struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int rc = gt_zero_cut(&z->buckets, s, group->size, p->o.bucket_bytes,
	    rule->operand == GT_OPERAND_TENSORS ? rule->takes : NULL, err);

	if (rc)
		return rc;
	z->tickets = gt_calloc(z->buckets.size, sizeof(*z->tickets), err);
	if (!z->tickets)
		return GT_ENOMEM;
	return gt_store_divide(
	    s, z->buckets.first, z->buckets.count, z->buckets.size, group->size, group->rank, err);
}

static int compare_part_offsets(const void *x, const void *y)
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
	qsort(gaps, count, sizeof(*gaps), compare_part_offsets);
	for (size_t i = 0; i < count; i++) {
		int64_t end = gaps[i].offset + gaps[i].count;
		int64_t next = i + 1 < count ? gaps[i + 1].offset : s->flat_count;

		if (next > end)
			gaps[z->gap_count++] = (struct gt_part){ end, next - end, 0 };
	}
	return 0;
}

/* Take memory of the group for the buffers that collectives use in place. */
static int take_zero_memory(struct gt_parallel *p, struct gt_store *s, struct gt_err *err)
{
	struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int rc = gt_buckets_lend(p, s->parameters, &z->parameters, err);

	return rc || z->stage > 1 ? rc : gt_buckets_lend(p, s->gradients, &z->gradients, err);
}

static int attach_zero(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	struct gt_zero *z = gt_calloc(1, sizeof(*z), err);
	void *sent = NULL;
	int rc;

	if (!z)
		return GT_ENOMEM;
	p->axis_state[GT_AXIS_DATA] = z;
	z->stage = p->mode == &gt_parallel_zero3 ? 3 : p->mode == &gt_parallel_zero2 ? 2 : 1;
	rc = gt_buckets_check_compress(p, store, err);
	if (!rc)
		rc = divide_store_in_shards(p, store, err);
	if (!rc)
		rc = find_gaps(z, store, err);
	if (!rc)
		rc = gt_buckets_events(p, &z->buckets, z->stage > 2 ? 2 : 1, err);
	/* Set before the memory is taken, because the sizes of the planes depend on it. */
	store->gradients->cut = z->stage > 1 ? GT_CUT_PACKED : GT_CUT_IN_PLACE;
	store->parameters->cut = z->stage > 2 ? GT_CUT_PACKED : GT_CUT_NONE;
	if (!rc && !p->dry)
		rc = take_zero_memory(p, store, err);
	if (!rc && p->o.compress && z->stage == 1)
		rc = gt_buckets_add_sent(p, store, &sent, err);
	z->sent = sent;
	return rc;
}

static void release_zero(struct gt_parallel *p)
{
	struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	if (!z)
		return;
	if (z->gradients)
		gt_group_release(p->device_axes[GT_AXIS_DATA], z->gradients);
	if (z->parameters)
		gt_group_release(p->device_axes[GT_AXIS_DATA], z->parameters);
	if (z->sent)
		gt_group_release(p->device_axes[GT_AXIS_DATA], z->sent);
	gt_buckets_release(&z->buckets);
	free(z->tickets);
	free(z->gaps);
	free(z);
}

/* ---- the run ---- */

/* Each rank's part of every bucket to all, in place. */
static int gather_parameters(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	struct gt_group *group = p->device_axes[GT_AXIS_DATA];
	size_t size = gt_dtype_size(p->store->dtype);
	int rc = 0;

	for (size_t i = 0; !rc && i < z->buckets.size; i++) {
		const struct gt_part *part = &p->store->parts[i];
		char *parameters = p->store->parameters->memory;
		const struct gt_collective c = { .kind = GT_ALL_GATHER,
			.in = parameters + (size_t)part->offset * size,
			.out = parameters + (size_t)z->buckets.first[i] * size,
			.count = part->count,
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
	return p->store->parameters->cut ? 0 : gather_parameters(p, err);
}

static int update_zero_shards(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	int rc = gt_norm_update(p, optim, err);

	/* Micro-batches are added to zero. */
	if (!rc && p->store->gradients->cut == GT_CUT_PACKED)
		rc = gt_optim_zero_grad(optim, err);
	return rc ? rc : publish(p, err);
}

/* Gradients go out once, or for each micro-batch; parameters come back once, or whenever they are
 * needed. */
static int64_t zero_sent_bytes(const struct gt_parallel *p, int micro_batches)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];
	int64_t n = p->axes[GT_AXIS_DATA]->size, reduced = gt_parallel_reduce_scatter_bytes(p),
	        gathered = reduced;

	if (p->o.compress)
		reduced /= 2;
	if (z->stage > 1)
		reduced *= micro_batches;
	if (z->stage > 2)
		gathered = z->gathered / n * (n - 1) * micro_batches *
		           (int64_t)gt_dtype_size(p->store->dtype);
	return reduced + gathered;
}

/* The fields that the three modes share. */
#define ZERO                                                                                       \
	.divides = true, .compresses = true, .attach = attach_zero, .insert = gt_zero_insert,      \
	.update = update_zero_shards, .publish = publish, .sent = zero_sent_bytes,                 \
	.release = release_zero

const struct gt_parallel_mode gt_parallel_zero1 = {
	.replicates = true, .shards = true, .stages = true, ZERO
};

const struct gt_parallel_mode gt_parallel_zero2 = {
	.replicates = true, .adds = true, .shards = true, .stages = true, ZERO
};

const struct gt_parallel_mode gt_parallel_zero3 = {
	.adds = true, .shards = true, .stages = true, .insert_forward = gt_zero_insert_forward, ZERO
};
