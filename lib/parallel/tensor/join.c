/* join.c - whole tensors made of shards of the tensor axis, for optimizers that update these. */
#include "lib/parallel/axis.h"
#include "lib/parallel/state.h"
#include "lib/parallel/tensor/tensor.h"

static const struct gt_group *seats_of(const struct gt_parallel *p)
{
	return p->axes[GT_AXIS_TENSOR];
}

static struct gt_slice slice_of(const struct gt_parallel *p, const struct gt_slot *slot, int seat)
{
	return gt_axis_tensor.held(p, slot, seat);
}

static bool are_equal(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return slot->largest * seats_of(p)->size == slot->count;
}

/* Gather all shards, one after the other, to out[slot->count]. Equal shards need one collective,
 * others one for each seat. */
static int gather_shards(const struct gt_parallel *p, const struct gt_slot *slot, const float *own,
    float *out, struct gt_err *err)
{
	struct gt_group *group = p->device_axes[GT_AXIS_TENSOR];
	struct gt_collective c = { .kind = GT_ALL_GATHER,
		.in = own,
		.out = out,
		.count = slot->held,
		.dtype = GT_F32,
		.what = slot->name,
		.stream = p->device->compute };
	int rc = 0;

	if (are_equal(p, slot))
		return gt_group_run(group, &c, err);
	c.kind = GT_BROADCAST;
	for (int seat = 0; !rc && seat < group->size; seat++) {
		const struct gt_slice slice = slice_of(p, slot, seat);

		c.peer = seat;
		c.count = gt_slice_elements(&slice);
		c.out = out;
		rc = gt_group_run(group, &c, err);
		out += c.count;
	}
	return rc;
}

/*
 * Example: 2 ranks divide the columns of a matrix [2, 4].
 *
 *   x of rank 0, 1    0 1 4 5          2 3 6 7
 *   spare             0 1 4 5 2 3 6 7  on both
 *   x                 0 1 2 3 4 5 6 7
 */
int gt_tp_join(void *self, const struct gt_slot *slot, float *x, float *spare, struct gt_err *err)
{
	const struct gt_parallel *p = self;
	int rc = gather_shards(p, slot, x, spare, err);

	for (int seat = 0; !rc && seat < seats_of(p)->size; seat++) {
		const struct gt_slice s = slice_of(p, slot, seat);

		rc = p->device->backend->steps()->copy_rows(p->device->compute, x + s.first,
		    s.stride, spare, s.length, s.length, s.rows, err);
		spare += gt_slice_elements(&s);
	}
	return rc;
}

int gt_tp_cut(
    void *self, const struct gt_slot *slot, float *shard, const float *whole, struct gt_err *err)
{
	const struct gt_parallel *p = self;
	const struct gt_slice s = slice_of(p, slot, seats_of(p)->rank);

	return p->device->backend->steps()->copy_rows(
	    p->device->compute, shard, s.length, whole + s.first, s.stride, s.length, s.rows, err);
}

int64_t gt_tp_joined_bytes(const struct gt_parallel *p, int *count)
{
	const struct gt_optim_rule *rule = gt_optim_rule(p->o.optimizer);
	const struct gt_store *s = p->store;
	int64_t bytes = 0;
	int found = 0;

	for (size_t i = 0; rule->operand == GT_OPERAND_TENSORS && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role != GT_PARAMETER || slot->on_other_ranks || !rule->takes(slot) ||
		    slot->held == slot->count ||
		    !gt_slot_part(s, s->gradients, slot, s->rank).count)
			continue;
		bytes += slot->count * (int64_t)sizeof(float);
		found++;
	}
	if (count)
		*count = found;
	return bytes;
}
