/* slots.c - the slots of a store: their layout, and their initial values. */
#include "lib/store/store.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/half.h"
#include "lib/base/mem.h"
#include "lib/base/normals.h"
#include "lib/base/philox.h"
#include "lib/store/planes.h"

/* PART: elements that are drawn at a time */
enum { ALIGN_BYTES = 64, PART = 4096 };

size_t gt_slot_bytes(const struct gt_slot *slot)
{
	return (size_t)slot->count * gt_dtype_size(slot->dtype);
}

int64_t gt_slot_padded(const struct gt_slot *slot)
{
	return gt_round_up(slot->held, (int64_t)(ALIGN_BYTES / gt_dtype_size(slot->dtype)));
}

static int fill_slot(
    struct gt_store *s, struct gt_slot *slot, const struct gt_value *v, struct gt_err *err)
{
	slot->name = gt_arena_strdup(&s->arena, v->name, err);
	if (!slot->name)
		return GT_ENOMEM;
	slot->role = v->role;
	slot->dtype = v->dtype;
	slot->ndim = v->ndim;
	memcpy(slot->shape, v->shape, sizeof(slot->shape));
	slot->init = v->init;
	slot->decay = v->decay;
	slot->lr_scale = v->lr_scale;
	slot->hidden = v->hidden;
	slot->frozen = v->frozen;
	slot->packing = v->packing;
	slot->on_other_ranks = v->on_other_ranks;
	slot->count = slot->held = slot->largest = gt_value_elements(v);
	slot->offset = -1;
	return 0;
}

/* Return whether a store holds a value of this type. Frozen weights may be in bfloat16. */
static bool takes_type(const struct gt_value *v)
{
	return v->dtype == GT_F32 || v->dtype == GT_F64 || v->dtype == GT_I64 ||
	       (v->dtype == GT_BF16 && v->frozen) || v->packing.block;
}

static int declare_slots(struct gt_store *s, const struct gt_graph *g, struct gt_err *err)
{
	int parameters = 0, weights = 0;

	s->slots = gt_calloc(g->value_count, sizeof(*s->slots), err);
	if (!s->slots)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->value_count; i++) {
		const struct gt_value *v = g->values[i];

		if (v->role != GT_PARAMETER && v->role != GT_BUFFER)
			continue;
		if (!takes_type(v))
			return gt_err_set(err, GT_ENOTSUP,
			    "'%s' is %s: a store takes float32, float64 and int64", v->name,
			    gt_dtype_name(v->dtype));
		if (fill_slot(s, &s->slots[s->slot_count], v, err))
			return GT_ENOMEM;
		if (!gt_index_add(&s->by_name, &s->slots[s->slot_count], err))
			return GT_ENOMEM;
		if (gt_value_is_weight(v))
			s->slots[s->slot_count].index = weights++;
		s->slot_count++;
		if (v->frozen)
			s->frozen_count += gt_slot_plain(&s->slots[s->slot_count - 1]).count;
		if (v->role == GT_BUFFER)
			continue;
		if (parameters && v->dtype != s->dtype)
			return gt_err_set(err, GT_ENOTSUP, "parameters of several types");
		s->dtype = v->dtype;
		parameters++;
		s->parameter_count += gt_value_elements(v);
	}
	return 0;
}

static struct gt_slot *find_slot(const struct gt_store *s, const char *name)
{
	return gt_index_find(&s->by_name, &name);
}

/* Return the index of the first node that reads each value; the caller frees the array. NULL: there
 * is no memory. */
static size_t *find_first_readers(const struct gt_graph *g, struct gt_err *err)
{
	size_t *first = gt_calloc(g->value_count, sizeof(*first), err);

	for (size_t i = g->node_count; first && i-- > 0;)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k])
				first[g->nodes[i]->in[k]->id] = i;
	return first;
}

/* Walk the nodes backwards, and place a parameter when no earlier node reads it. So the parameter
 * that the forward pass reads first is the last one. */
static int place_parameters(struct gt_store *s, const struct gt_graph *g, struct gt_err *err)
{
	size_t *first = find_first_readers(g, err);

	if (!first)
		return GT_ENOMEM;
	for (size_t i = g->node_count; i-- > 0;) {
		const struct gt_node *n = g->nodes[i];

		for (int k = n->inputs; k-- > 0;) {
			struct gt_slot *slot;

			if (!n->in[k] || n->in[k]->role != GT_PARAMETER || first[n->in[k]->id] != i)
				continue;
			slot = find_slot(s, n->in[k]->name);
			if (slot->offset >= 0)
				continue;
			slot->offset = s->flat_count;
			s->flat_count += gt_slot_padded(slot);
		}
	}
	free(first);
	for (size_t i = 0; i < s->slot_count; i++) { /* no node reads this parameter */
		struct gt_slot *slot = &s->slots[i];

		if (slot->role != GT_PARAMETER || slot->on_other_ranks || slot->offset >= 0)
			continue;
		slot->offset = s->flat_count;
		s->flat_count += gt_slot_padded(slot);
	}
	return 0;
}

/* Place a slot at the end of a plane of bytes. */
static void append_slot(struct gt_plane *plane, struct gt_slot *slot)
{
	slot->offset = plane->elements / (int64_t)gt_dtype_size(slot->dtype);
	plane->elements += gt_round_up((int64_t)gt_slot_bytes(slot), ALIGN_BYTES);
}

static void place_buffers(struct gt_store *s, bool frozen)
{
	for (size_t i = 0; i < s->slot_count; i++) {
		struct gt_slot *slot = &s->slots[i];

		if (slot->role == GT_BUFFER && slot->frozen == frozen && !slot->on_other_ranks)
			append_slot(s->buffers, slot);
	}
}

/* Add the planes that graphs know. */
static int add_planes(struct gt_store *s, bool with_gradients, struct gt_err *err)
{
	const struct {
		struct gt_plane like, **out;
	} planes[] = {
		{ { .name = "parameters",
		      .role = GT_PARAMETER,
		      .dtype = s->dtype,
		      .saved = GT_SAVED_MODEL },
		    &s->parameters },
		{ { .name = "gradients", .role = GT_PARAMETER, .dtype = s->dtype },
		    with_gradients ? &s->gradients : NULL },
		{ { .name = "buffers", .role = GT_BUFFER, .dtype = GT_U8, .saved = GT_SAVED_MODEL },
		    &s->buffers },
		{ { .name = "caches", .role = GT_CACHE, .dtype = GT_U8 }, &s->caches },
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(planes) / sizeof(*planes); i++)
		if (planes[i].out)
			rc = gt_store_add_plane(s, &planes[i].like, NULL, NULL, planes[i].out, err);
	return rc;
}

int gt_store_new(struct gt_store **out, const struct gt_graph *g, const struct gt_device *device,
    bool with_gradients, struct gt_err *err)
{
	struct gt_store *s = gt_calloc(1, sizeof(*s), err);
	int rc;

	*out = NULL;
	if (!s)
		return GT_ENOMEM;
	s->device = device;
	s->by_name.compare = s->caches_by_name.compare = gt_index_by_name;
	rc = declare_slots(s, g, err);
	if (!rc)
		rc = add_planes(s, with_gradients, err);
	if (!rc)
		rc = place_parameters(s, g, err);
	if (rc) {
		gt_store_free(s);
		return rc;
	}
	place_buffers(s, false);
	s->running_bytes = (size_t)s->buffers->elements;
	place_buffers(s, true);
	*out = s;
	return 0;
}

static bool same_cache(const struct gt_slot *slot, const struct gt_value *v)
{
	return slot->dtype == v->dtype && slot->ndim == v->ndim &&
	       !memcmp(slot->shape, v->shape, (size_t)v->ndim * sizeof(*v->shape));
}

/* Plans keep pointers to slots, so slots never move: only the list of their addresses grows. */
static int add_cache(struct gt_store *s, const struct gt_value *v, struct gt_err *err)
{
	const struct gt_slot *before = gt_store_find_cache(s, v->name);
	struct gt_slot *slot;

	if (before && same_cache(before, v))
		return 0;
	if (before)
		return gt_err_set(
		    err, GT_EINVAL, "cache '%s' has another type or shape in this store", v->name);
	if (s->allocated)
		return gt_err_set(
		    err, GT_EINVAL, "cache '%s' comes after the store's memory", v->name);
	slot = gt_arena_alloc(&s->arena, sizeof(*slot), err);
	if (!slot || fill_slot(s, slot, v, err) ||
	    gt_grow(&s->cache_slots, s->cache_count, &s->cache_capacity, sizeof(*s->cache_slots),
	        err) ||
	    !gt_index_add(&s->caches_by_name, slot, err))
		return GT_ENOMEM;
	append_slot(s->caches, slot);
	s->cache_slots[s->cache_count++] = slot;
	return 0;
}

int gt_store_add_caches(struct gt_store *s, const struct gt_graph *g, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < g->value_count; i++)
		if (g->values[i]->role == GT_CACHE)
			rc = add_cache(s, g->values[i], err);
	return rc;
}

void gt_store_mark_shard(
    struct gt_store *s, const char *name, const int64_t *shape, int64_t largest)
{
	struct gt_slot *slot = find_slot(s, name);
	int64_t *sum = slot->frozen ? &s->frozen_count : &s->parameter_count;

	*sum -= slot->count;
	slot->count = 1;
	slot->largest = largest;
	for (int i = 0; i < slot->ndim; i++) {
		slot->shape[i] = shape[i];
		slot->count *= shape[i];
	}
	*sum += slot->count;
}

void gt_store_place(struct gt_store *s, const int64_t *offsets, int64_t flat_count)
{
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].role == GT_PARAMETER && !s->slots[i].on_other_ranks)
			s->slots[i].offset = offsets[i];
	s->flat_count = flat_count;
}

void gt_store_free(struct gt_store *s)
{
	if (!s)
		return;
	gt_planes_free(s);
	free(s->slots);
	free(s->cache_slots);
	gt_index_release(&s->by_name);
	gt_index_release(&s->caches_by_name);
	gt_arena_release(&s->arena);
	free(s);
}

const struct gt_slot *gt_store_find(const struct gt_store *s, const char *name)
{
	return find_slot(s, name);
}

const struct gt_slot *gt_store_find_cache(const struct gt_store *s, const char *name)
{
	return gt_index_find(&s->caches_by_name, &name);
}

/* The element i has word i % 4 of block i / 4, so it depends only on its index. */
static void draw_elements(
    const struct gt_init *init, struct gt_philox_draw d, int64_t first, int64_t count, float *out)
{
	d.block = (uint64_t)first / 4;
	if (init->kind == GT_INIT_NORMAL)
		gt_draw_normals(&d, count, out);
	else
		gt_draw_uniforms(&d, count, out);
	for (int64_t i = 0; i < count; i++)
		out[i] =
		    (float)init->scale * (init->kind == GT_INIT_NORMAL ? out[i] : 2 * out[i] - 1);
}

static void set_element(void *host, enum gt_dtype dtype, int64_t i, float x)
{
	if (dtype == GT_F32)
		((float *)host)[i] = x;
	else if (dtype == GT_F64)
		((double *)host)[i] = x;
	else if (dtype == GT_BF16)
		((uint16_t *)host)[i] = gt_bf16_of_float(x);
	else
		((int64_t *)host)[i] = (int64_t)x;
}

void gt_slot_init(const struct gt_slot *slot, uint64_t seed, void *host)
{
	const struct gt_philox_draw d = { .key = seed,
		.stream = GT_RNG_INIT + (uint32_t)slot->index };
	bool drawn = slot->init.kind == GT_INIT_NORMAL || slot->init.kind == GT_INIT_UNIFORM;
	float constant = slot->init.kind == GT_INIT_CONSTANT ? (float)slot->init.scale
	                                                     : slot->init.kind == GT_INIT_ONES;

#pragma omp parallel for schedule(static)
	for (int64_t first = 0; first < slot->count; first += PART) {
		int64_t count = slot->count - first < PART ? slot->count - first : PART;
		float x[PART];

		if (drawn)
			draw_elements(&slot->init, d, first, count, x);
		for (int64_t i = 0; i < count; i++)
			set_element(host, slot->dtype, first + i, drawn ? x[i] : constant);
	}
}

int gt_store_init(struct gt_store *s, uint64_t seed, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		void *host;

		if (slot->on_other_ranks)
			continue;
		host = gt_slot_init_stored(slot, seed, err);
		if (!host)
			return GT_ENOMEM;
		rc = gt_device_write(
		    s->device, gt_store_data(s, slot), host, gt_slot_bytes(slot), err);
		free(host);
	}
	return rc;
}
