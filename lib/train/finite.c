/* finite.c - check that the weights of a run, and all data saved with them, are finite. */
#include "lib/train/finite.h"

#include <math.h>
#include <stdio.h>

#include "lib/base/text.h"

/*
 * Ranks agree on the largest of their keys. Each is the negative of 3 times the place of a tensor,
 * plus the kind of the number, so that the first tensor wins. Places count the data of all slots
 * first, then the first state of all slots, and so on.
 */
enum kind { IS_NAN, IS_INF, IS_MINUS_INF, KINDS };

static const int64_t no_key = INT64_MIN, failed_key = INT64_MAX;

static int64_t key_of(int64_t place, double value)
{
	enum kind kind = isnan(value) ? IS_NAN : value > 0 ? IS_INF : IS_MINUS_INF;

	return -(place * KINDS + kind);
}

bool gt_all_finite_host(const void *host, int64_t count, enum gt_dtype dtype, double *value)
{
	int64_t i = -1;

	gt_cpu_backend.ranges()->find_nonfinite(NULL, &i, host, count, dtype, GT_ERR_IGNORED);
	if (i < 0)
		return true;
	*value = gt_text_real(
	    dtype == GT_F64 ? ((const double *)host)[i] : (double)((const float *)host)[i]);
	return false;
}

/* A search through the memory of this rank. */
struct search {
	const struct gt_store *store;
	int64_t *first; /* device: where a kernel tells its find */
	int64_t key;    /* of the find; no_key: none so far */
};

/* The first number of x[count], in device memory, that is not finite. */
static int search(struct search *h, const char *x, int64_t count, enum gt_dtype dtype,
    int64_t place, struct gt_err *err)
{
	const struct gt_device *d = h->store->device;
	size_t size = gt_dtype_size(dtype);
	double value = 0; /* or a float, at its beginning */
	int64_t i = -1;
	int rc = d->backend->ranges()->find_nonfinite(d->compute, h->first, x, count, dtype, err);

	if (!rc)
		rc = gt_device_read(d, &i, h->first, sizeof(i), err);
	if (rc || i < 0)
		return rc;
	rc = gt_device_read(d, &value, x + (size_t)i * size, size, err);
	if (!rc && !gt_all_finite_host(&value, 1, dtype, &value))
		h->key = key_of(place, value);
	return rc;
}

/* Search one slot's elements in memory that is divided like the store's parts. With `packed` it
 * holds these parts only; else it has a place for every element of the store. */
static int search_parts(struct search *h, const struct gt_slot *slot, const char *flat, bool packed,
    int64_t place, struct gt_err *err)
{
	const struct gt_store *s = h->store;
	size_t size = gt_dtype_size(slot->dtype);
	int64_t end = slot->offset + slot->held;
	int rc = 0;

	for (size_t i = 0; !rc && h->key == no_key && i < s->part_count; i++) {
		const struct gt_part *p = &s->parts[i];
		int64_t from = p->offset > slot->offset ? p->offset : slot->offset;
		int64_t to = p->offset + p->count < end ? p->offset + p->count : end;
		int64_t at = packed ? p->at + from - p->offset : from;

		if (to > from)
			rc =
			    search(h, flat + (size_t)at * size, to - from, slot->dtype, place, err);
	}
	return rc;
}

static int search_parameter(struct search *h, const struct gt_slot *slot, const void *flat,
    bool packed, int64_t place, struct gt_err *err)
{
	const char *memory = flat;

	if (h->store->parts)
		return search_parts(h, slot, memory, packed, place, err);
	return search(h, memory + (size_t)slot->offset * gt_dtype_size(slot->dtype), slot->held,
	    slot->dtype, place, err);
}

static int search_data(struct search *h, int64_t i, struct gt_err *err)
{
	const struct gt_store *s = h->store;
	const struct gt_slot *slot = &s->slots[i];

	if (slot->role == GT_BUFFER)
		return search(h, gt_store_data(s, slot), slot->held, slot->dtype, i, err);
	return search_parameter(
	    h, slot, s->parameters->memory, s->parameters->cut == GT_CUT_PACKED, i, err);
}

static int search_all(struct search *h, const struct gt_optim *optim, struct gt_err *err)
{
	const struct gt_store *s = h->store;
	int64_t slots = (int64_t)s->slot_count;
	float *flat;
	int rc = 0;

	for (int64_t i = 0; !rc && h->key == no_key && i < slots; i++)
		if (!s->slots[i].on_other_ranks)
			rc = search_data(h, i, err);
	for (int k = 0; optim && k < GT_OPTIM_STATES; k++)
		for (int64_t i = 0; !rc && h->key == no_key && i < slots; i++)
			if (s->slots[i].role == GT_PARAMETER && !s->slots[i].on_other_ranks &&
			    gt_optim_state(optim, &s->slots[i], k, &flat))
				rc = search_parameter(
				    h, &s->slots[i], flat, true, (k + 1) * slots + i, err);
	return rc;
}

static int search_here(
    int64_t *key, const struct gt_store *s, const struct gt_optim *optim, struct gt_err *err)
{
	struct search h = { .store = s, .key = no_key };
	void *first;
	int rc = gt_device_alloc(s->device, sizeof(*h.first), &first, err);

	h.first = first;
	if (!rc)
		rc = search_all(&h, optim, err);
	gt_device_free(s->device, first, sizeof(*h.first));
	*key = h.key;
	return rc;
}

int gt_find_nonfinite(struct gt_nonfinite *out, const struct gt_store *store,
    const struct gt_optim *optim, struct gt_group *group, struct gt_err *err)
{
	static const double values[] = {
		[IS_NAN] = NAN, [IS_INF] = INFINITY, [IS_MINUS_INF] = -INFINITY
	};
	int64_t slots = (int64_t)store->slot_count, key, place;
	float *flat;
	int rc = search_here(&key, store, optim, err);

	*out = (struct gt_nonfinite){ 0 };
	if (rc)
		key = failed_key; /* the others must not wait for this rank */
	if (group && gt_all_reduce(group, &key, 1, GT_I64, GT_MAX, rc ? GT_ERR_IGNORED : err))
		return err->code;
	if (key == failed_key && rc)
		return rc;
	if (key == failed_key) {
		gt_err_set(err, GT_EDEVICE, "another rank cannot read its weights");
		return gt_err_follow(err);
	}
	if (key == no_key)
		return 0;
	place = -key / KINDS;
	out->slot = &store->slots[place % slots];
	out->state = place < slots
	                 ? NULL
	                 : gt_optim_state(optim, out->slot, (int)(place / slots) - 1, &flat);
	out->value = values[-key % KINDS];
	return 0;
}

char *gt_nonfinite_text(char out[GT_NONFINITE_SIZE], const struct gt_nonfinite *n)
{
	double value = gt_text_real(n->value);

	if (n->state)
		snprintf(out, GT_NONFINITE_SIZE, "the optimizer's '%s' of '%.80s' holds %g",
		    n->state, n->slot->name, value);
	else
		snprintf(out, GT_NONFINITE_SIZE, "the %s '%.80s' holds %g",
		    n->slot->role == GT_BUFFER ? "buffer" : "parameter", n->slot->name, value);
	return out;
}
