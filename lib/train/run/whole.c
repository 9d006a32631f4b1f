/* whole.c - gather tensors whose shards are on several ranks, for a file. */
#include "lib/train/run/whole.h"

#include <stdlib.h>

static int collect_one(struct gt_whole *w, struct gt_parallel *p, size_t slot_index, int which,
    const void *held, struct gt_err *err)
{
	const struct gt_slot *slot = &w->store->slots[slot_index];
	enum gt_held what = which < 0 ? GT_HELD_DATA : GT_HELD_STATE;
	void **whole = &w->tensors[(size_t)(which + 1) * w->store->slot_count + slot_index];

	if (!gt_parallel_is_sharded(p, slot, what))
		return 0;
	if (!gt_parallel_rank(p)) {
		*whole = gt_calloc((size_t)slot->count, gt_dtype_size(slot->dtype), err);
		if (!*whole)
			return GT_ENOMEM;
	}
	return gt_parallel_gather_slot(p, slot, what, held, *whole, err);
}

int gt_whole_collect(struct gt_whole *out, struct gt_parallel *parallel,
    const struct gt_store *store, const struct gt_optim *optim, const struct gt_ema *ema,
    struct gt_err *err)
{
	float *flat;
	int rc = 0;

	*out = (struct gt_whole){ .store = store };
	out->tensors = gt_calloc(GT_WHOLE_KINDS * store->slot_count, sizeof(*out->tensors), err);
	if (!out->tensors)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];
		bool buffer = slot->role == GT_BUFFER;

		rc = collect_one(out, parallel, i, -1,
		    (buffer ? store->buffers : store->parameters)->memory, err);
		for (int k = 0; !rc && optim && !buffer && gt_optim_state(optim, slot, k, &flat);
		     k++)
			rc = collect_one(out, parallel, i, k, flat, err);
		if (!rc && ema && !buffer)
			rc = collect_one(out, parallel, i, GT_WHOLE_EMA, gt_ema_flat(ema), err);
	}
	return rc;
}

void gt_whole_release(struct gt_whole *w)
{
	for (size_t i = 0; w->tensors && i < GT_WHOLE_KINDS * w->store->slot_count; i++)
		free(w->tensors[i]);
	free(w->tensors);
	*w = (struct gt_whole){ 0 };
}

const void *gt_whole_find(const struct gt_whole *w, const struct gt_slot *slot, int which)
{
	if (!w || !w->tensors)
		return NULL;
	return w->tensors[(size_t)(which + 1) * w->store->slot_count +
	                  (size_t)(slot - w->store->slots)];
}
