/* replicas.c - whether all ranks still have the same weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/parallel/state.h"

enum { PIECE = 1 << 16, LIST_BYTES = 256 };

/* A hash of the slots that ranks with the same gradients share; all ranks of an axis hold the same
 * slots. */
static bool is_compared(const struct gt_parallel *p, const struct gt_slot *slot)
{
	return !slot->on_other_ranks && (slot->role == GT_PARAMETER || p->o.sync_bn);
}

static int sum_slot(
    const struct gt_parallel *p, const struct gt_slot *slot, uint32_t *sum, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	const unsigned char *data = gt_store_data(s, slot);
	size_t bytes = (size_t)slot->held * gt_dtype_size(slot->dtype);
	unsigned char piece[PIECE];
	uLong crc = crc32(0, NULL, 0);
	int rc = 0;

	for (size_t at = 0; !rc && at < bytes; at += PIECE) {
		size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		rc = gt_device_read(s->device, piece, data + at, n, err);
		crc = crc32(crc, piece, (uInt)n);
	}
	*sum = (uint32_t)crc;
	return rc;
}

/*
 * Row r of sums has those of rank r: which rank's are right. More than half of the ranks agree on
 * them. Without such a majority, as between two ranks that differ, rank 0 is the reference:
 * nothing tells which of them is right.
 */
static int find_reference(const uint32_t *sums, int ranks, size_t slots)
{
	for (int r = 0; r < ranks; r++) {
		int same = 0;

		for (int k = 0; k < ranks; k++)
			same += !memcmp(sums + (size_t)r * slots, sums + (size_t)k * slots,
			    slots * sizeof(*sums));
		if (2 * same > ranks)
			return r;
	}
	return 0;
}

/* The slot in which rank r differs first, or `slots`. */
static size_t first_apart(const uint32_t *sums, size_t slots, int r, int reference)
{
	size_t i = 0;

	while (i < slots && sums[(size_t)r * slots + i] == sums[(size_t)reference * slots + i])
		i++;
	return i;
}

/* The number in the world of rank r of this rank's data axis. */
static int world_rank(const struct gt_parallel *p, int r)
{
	int apart = p->axes[GT_AXIS_TENSOR]->size; /* tensor ranks are neighbours */

	return p->world->rank + (r - p->axes[GT_AXIS_DATA]->rank) * apart;
}

static int compare_sums(
    const struct gt_parallel *p, const uint32_t *sums, int64_t step, int ranks, struct gt_err *err)
{
	size_t slots = p->store->slot_count, first = slots, used = 0;
	int reference = find_reference(sums, ranks, slots), found = 0;
	char list[LIST_BYTES] = "";

	for (int r = 0; r < ranks; r++) {
		size_t at = first_apart(sums, slots, r, reference);

		if (at == slots)
			continue;
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d",
			    found ? ", " : "", world_rank(p, r));
		found++;
		first = at < first ? at : first;
	}
	if (!found)
		return 0;
	gt_err_set(err, GT_EDEVICE,
	    "after step %lld, rank%s %s ha%s other weights than rank %d, first in '%s'",
	    (long long)step, found > 1 ? "s" : "", list, found > 1 ? "ve" : "s",
	    world_rank(p, reference), p->store->slots[first].name);
	return gt_err_hint(err,
	    "a machine that computes or remembers wrongly does this, or ranks that are not the same "
	    "program; {resume} goes on from before");
}

bool gt_parallel_checks_replicas(const struct gt_parallel *p, int64_t step)
{
	return p->o.check_every && step % p->o.check_every == 0 && p->axes[GT_AXIS_DATA]->size > 1;
}

/*
 * Check that all ranks of the data axis still have the same parameters, by checksums of each
 * tensor. With sync_bn, buffers are compared too. Call this after the update of each step; steps
 * are counted from 1. Every options->check_every steps this is a collective call; in other steps it
 * does nothing.
 *
 * Errors: GT_EDEVICE on all ranks of the axis. The text names the ranks that differ, the step, and
 *         the first tensor that differs in the order of the state_dict. Ranks are compared with the
 *         majority. If no more than half of the ranks agree, they are compared with data seat 0.
 */
int gt_parallel_check_replicas(struct gt_parallel *p, int64_t step, struct gt_err *err)
{
	struct gt_group *group = p->axes[GT_AXIS_DATA];
	size_t slots = p->store->slot_count;
	struct gt_collective c = { .kind = GT_ALL_GATHER,
		.count = (int64_t)(slots * sizeof(*p->sums)),
		.dtype = GT_U8,
		.what = "checksums of weights" };
	int rc = 0;

	if (!gt_parallel_checks_replicas(p, step))
		return 0;
	for (size_t i = 0; !rc && i < slots; i++)
		if (is_compared(p, &p->store->slots[i]))
			rc = sum_slot(p, &p->store->slots[i], &p->sums[i], err);
	c.in = p->sums;
	c.out = p->sums + slots;
	if (!rc)
		rc = gt_group_run(group, &c, err);
	return rc ? rc : compare_sums(p, p->sums + slots, step, group->size, err);
}
