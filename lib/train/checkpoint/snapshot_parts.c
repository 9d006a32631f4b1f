/* snapshot_parts.c - the boxes of each tensor that a rank writes to a distributed checkpoint. */
#include "lib/train/checkpoint/snapshot_parts.h"

#include <string.h>

/*
 * A rank writes the elements that gt_parallel_walk_own() names. They are runs of consecutive
 * elements; a distributed checkpoint has boxes. Example: of a tensor of 4 x 3, a rank with ZeRO
 * writes elements 2 to 9, one run, which is three boxes:
 *
 *    .  .  2       rows 0 to 0, columns 2 to 2
 *    3  4  5       rows 1 to 2, columns 0 to 2
 *    6  7  8
 *    9  .  .       rows 3 to 3, columns 0 to 0
 *
 * And the left half of a tensor of 4 x 4 is four runs, which make one box. The elements of a box
 * lie one after the other in the rank's memory.
 */

struct box {
	int64_t offset[GT_MAX_DIMS], size[GT_MAX_DIMS];
	int64_t count;
};

struct builder {
	struct gt_dcp_set *set;
	size_t value;
	const struct gt_store *store;
	const struct gt_weights_source *source;
	struct gt_arena *a;
	struct box last; /* not added yet; no elements: there is none */
	int64_t first;   /* number of its first element among those of this rank */
};

/* ---- nodes ---- */

static int read_part(void *self, uint64_t offset, void *out, size_t bytes, struct gt_err *err)
{
	const struct gt_snapshot_part *part = self;
	const struct gt_weights_source *s = &part->source;
	size_t size = gt_dtype_size(gt_plane_dtype(s->plane, s->slot));

	return gt_parallel_read_own(s->parallel, s->plane, s->slot,
	    part->first + (int64_t)(offset / size), (int64_t)(bytes / size), out, err);
}

static struct gt_tree *new_node(const struct builder *b, struct gt_err *err)
{
	const struct gt_weights_source *s = b->source;
	enum gt_dtype dtype = gt_plane_dtype(s->plane, s->slot);
	const char *memory = b->store->device->backend->host_memory
	                         ? gt_slot_first(b->store, s->plane, s->slot)
	                         : NULL;
	struct gt_tree *node = gt_tree_tensor(b->a, dtype, s->slot->ndim, b->last.size,
	    memory ? memory + (size_t)b->first * gt_dtype_size(dtype) : NULL, err);
	struct gt_snapshot_part *part = node ? gt_arena_alloc(b->a, sizeof(*part), err) : NULL;

	if (!part)
		return NULL;
	*part = (struct gt_snapshot_part){ *s, b->first };
	node->tensor.storage->read = memory ? NULL : read_part;
	node->tensor.storage->self = part;
	return node;
}

/* ---- boxes ---- */

static int end_box(struct builder *b, struct gt_err *err)
{
	struct gt_tree *node;
	int rc;

	if (!b->last.count)
		return 0;
	node = new_node(b, err);
	rc = node ? gt_dcp_set_add_box(b->set, b->value, b->last.offset, node, err) : GT_ENOMEM;
	b->first += b->last.count;
	b->last.count = 0;
	return rc;
}

/* Make the last box larger by one that continues it along a dimension. Return false if there is no
 * such dimension. */
static bool extend_box(struct box *last, const struct box *next, int ndim)
{
	int along = 0;

	while (along < ndim && last->size[along] == 1 && next->size[along] == 1 &&
	       last->offset[along] == next->offset[along])
		along++;
	if (!last->count || along == ndim ||
	    last->offset[along] + last->size[along] != next->offset[along])
		return false;
	for (int i = along + 1; i < ndim; i++)
		if (last->offset[i] != next->offset[i] || last->size[i] != next->size[i])
			return false;
	last->size[along] += next->size[along];
	last->count += next->count;
	return true;
}

/* Return the largest box that begins at the first of `count` consecutive elements and has no
 * others. */
static struct box first_box(const struct gt_slot *slot, int64_t first, int64_t count)
{
	struct box box = { .count = 1 };
	int64_t apart = 1, rest = first;
	int i = slot->ndim - 1;

	for (int k = 0; k < slot->ndim; k++)
		box.size[k] = 1;
	for (int k = slot->ndim - 1; k >= 0; k--) {
		box.offset[k] = rest % slot->shape[k];
		rest /= slot->shape[k];
	}
	for (; i >= 0; i--) {
		int64_t most = count / apart, left = slot->shape[i] - box.offset[i];

		box.size[i] = most < left ? most : left;
		box.count = apart * box.size[i];
		apart *= slot->shape[i];
		if (box.offset[i] || box.size[i] < slot->shape[i] || count < 2 * apart)
			break;
	}
	return box;
}

static int add_run(void *self, int64_t first, int64_t count, struct gt_err *err)
{
	struct builder *b = self;
	const struct gt_slot *slot = b->source->slot;
	int rc = 0;

	while (!rc && count) {
		struct box next = first_box(slot, first, count);

		first += next.count;
		count -= next.count;
		if (extend_box(&b->last, &next, slot->ndim))
			continue;
		rc = end_box(b, err);
		b->last = next;
	}
	return rc;
}

/* ---- all of it ---- */

int gt_snapshot_choose_writer(struct gt_snapshot_loads *loads, struct gt_parallel *parallel,
    const struct gt_plane *plane, const struct gt_slot *slot)
{
	int seats = gt_parallel_axis(parallel, GT_AXIS_DATA)->size, least = 0;

	if (!gt_parallel_is_replicated(parallel, plane, slot))
		return 0;
	for (int i = 1; i < seats; i++)
		if (loads->bytes[i] < loads->bytes[least])
			least = i;
	loads->bytes[least] += slot->count * (int64_t)gt_dtype_size(gt_plane_dtype(plane, slot));
	return least;
}

/* Rank 0 writes numbers, and tensors without elements, which nobody holds. */
static int add_value(struct builder *b, struct gt_snapshot_loads *loads,
    struct gt_parallel *parallel, struct gt_err *err)
{
	const struct gt_tree *value = gt_dcp_set_value(b->set, b->value);
	bool is_source = value->kind == GT_TREE_TENSOR && value->tensor.storage->self;
	int writer, rc;

	b->source = is_source ? value->tensor.storage->self : NULL;
	if (!is_source || !b->source->slot->count)
		return gt_parallel_rank(parallel) ? 0 : gt_dcp_set_add(b->set, b->value, err);
	b->first = 0;
	writer = gt_snapshot_choose_writer(loads, parallel, b->source->plane, b->source->slot);
	rc = gt_parallel_walk_own(
	    parallel, b->source->plane, b->source->slot, writer, add_run, b, err);
	return rc ? rc : end_box(b, err);
}

int gt_snapshot_add_parts(struct gt_dcp_set *set, const struct gt_store *store,
    struct gt_parallel *parallel, struct gt_arena *a, struct gt_err *err)
{
	struct builder b = { .set = set, .store = store, .a = a };
	struct gt_snapshot_loads loads = { { 0 } };
	int rc = 0;

	for (; !rc && b.value < gt_dcp_set_count(set); b.value++)
		rc = add_value(&b, &loads, parallel, err);
	return rc;
}
