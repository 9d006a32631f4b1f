/* buckets.c - ranges of the flat gradient buffer, one collective each. */
#include "lib/parallel/data/buckets.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/graph/op.h"
#include "lib/parallel/node_attrs.h"

enum { FIRST_BUCKET = 1 << 20 };

static int compare_offsets(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int gt_buckets_alloc(struct gt_buckets *b, const struct gt_store *s, struct gt_err *err)
{
	*b = (struct gt_buckets){ 0 };
	b->first = gt_calloc(s->slot_count, sizeof(*b->first), err);
	b->count = gt_calloc(s->slot_count, sizeof(*b->count), err);
	b->name = gt_calloc(s->slot_count, sizeof(*b->name), err);
	if (!b->first || !b->count || !b->name)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->slot_count; i++)
		snprintf(b->name[i], GT_BUCKET_NAME, "bucket %zu", i);
	return 0;
}

/* Return the size limit of bucket `i` in elements. `bytes` is the wanted size of buckets. A bucket
 * that has reached its limit is closed: no more parameters are added to it. The limit of the first
 * bucket is at most 1 MiB, so that its collective can start early. */
int64_t gt_buckets_limit(const struct gt_store *s, size_t i, int64_t bytes)
{
	int64_t size = (int64_t)gt_dtype_size(s->dtype);
	/* The first bucket holds the gradients that the backward pass finishes first. A small one
	 * starts the first collective early, when nothing else is sent yet. */
	int64_t max = !i && bytes > FIRST_BUCKET ? FIRST_BUCKET : bytes;

	return (max + size - 1) / size;
}

int gt_buckets_cut(
    struct gt_buckets *b, const struct gt_store *s, int64_t bytes, struct gt_err *err)
{
	int64_t *starts = gt_calloc(s->slot_count, sizeof(*starts), err);
	size_t n = 0;

	if (gt_buckets_alloc(b, s, err) || !starts) {
		free(starts);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].role == GT_PARAMETER && !s->slots[i].on_other_ranks)
			starts[n++] = s->slots[i].offset;
	/* Offsets are in the order in which gradients are finished, but slots are in the order of
	 * declaration. */
	qsort(starts, n, sizeof(*starts), compare_offsets);
	for (size_t i = 0; i < n; i++) {
		/* The padding after a parameter belongs to its bucket. So buckets cover the whole
		 * buffer without gaps, and a collective sends one range. */
		int64_t next = i + 1 < n ? starts[i + 1] : s->flat_count;

		/* A bucket is closed when it has reached its size, so it may be larger by a part of
		 * one parameter. A parameter is never divided: its gradient is finished by one
		 * node. */
		if (!b->size || b->count[b->size - 1] >= gt_buckets_limit(s, b->size - 1, bytes))
			b->first[b->size++] = starts[i];
		b->count[b->size - 1] = next - b->first[b->size - 1];
	}
	free(starts);
	return 0;
}

void gt_buckets_release(struct gt_buckets *b)
{
	free(b->first);
	free(b->count);
	free(b->name);
	*b = (struct gt_buckets){ 0 };
}

size_t gt_buckets_find(const struct gt_buckets *b, int64_t offset)
{
	size_t i = 0;

	while (i + 1 < b->size && offset >= b->first[i + 1])
		i++;
	return i;
}

/*
 * end[i] is the number of nodes after which bucket i has all its gradients. Where micro-batches
 * add up, nodes write one of their inputs.
 */
size_t *gt_buckets_ends(const struct gt_buckets *b, const struct gt_store *store,
    const struct gt_graph *g, struct gt_err *err)
{
	size_t *end = gt_calloc(b->size, sizeof(*end), err);

	for (size_t i = 0; end && i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->outputs + n->inputs; k++) {
			bool out = k < n->outputs;
			const struct gt_value *v = out ? n->out[k] : n->in[k - n->outputs];

			if (!v || v->role != GT_GRADIENT ||
			    (!out && !(n->op->writes >> (k - n->outputs) & 1)))
				continue;
			end[gt_buckets_find(b, gt_store_find(store, v->parameter->name)->offset)] =
			    i + 1;
		}
	}
	return end;
}

int gt_buckets_events(
    struct gt_parallel *p, const struct gt_buckets *b, int gathers, struct gt_err *err)
{
	size_t count = b->size * (size_t)(1 + gathers);

	if (p->axes[GT_AXIS_DATA]->size == 1)
		return 0;
	p->events = gt_calloc(count, sizeof(*p->events), err);
	if (!p->events)
		return GT_ENOMEM;
	p->event_count = count;
	p->event_buckets = b->size;
	for (size_t i = 0; i < count; i++)
		snprintf(p->events[i].what, sizeof(p->events[i].what), "%s%s",
		    i < b->size ? "" : "gather of ", b->name[i % b->size]);
	return 0;
}

struct gt_span *gt_buckets_span(
    const struct gt_parallel *p, const struct gt_buckets *b, int bucket, int gather)
{
	size_t i = (size_t)gather * b->size + (size_t)bucket;

	assert(i < p->event_count || !p->events);
	if (p->spans)
		return &p->spans[i];
	return p->events ? &p->events[i].span : NULL;
}

/* The ops with a stream of their own are those that start a bucket's collective. */
int gt_parallel_started(const struct gt_parallel *p, const struct gt_node *n)
{
	const union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	if (!n->op->collective || !p->event_count)
		return -1;
	return attrs.bucket.gather * (int)p->event_buckets + attrs.bucket.index;
}

/* ---- compression ---- */

enum gt_dtype gt_buckets_sent_as(const struct gt_parallel *p)
{
	static const enum gt_dtype types[GT_COMPRESS_KINDS] = { [GT_COMPRESS_NONE] = GT_F32,
		[GT_COMPRESS_FP16] = GT_F16,
		[GT_COMPRESS_BF16] = GT_BF16 };

	return types[p->o.compress];
}

int gt_buckets_check_compress(
    const struct gt_parallel *p, const struct gt_store *store, struct gt_err *err)
{
	if (!p->o.compress || store->dtype == GT_F32)
		return 0;
	return gt_err_set(err, GT_ENOTSUP, "{compress}: gradients are %s, not float32",
	    gt_dtype_name(store->dtype));
}

int gt_buckets_lend(
    struct gt_parallel *p, struct gt_plane *plane, void **memory, struct gt_err *err)
{
	int rc = gt_group_alloc(
	    p->device_axes[GT_AXIS_DATA], gt_plane_bytes(p->store, plane), memory, err);

	if (!rc)
		gt_store_lend(plane, *memory);
	return rc;
}

int gt_buckets_add_sent(
    struct gt_parallel *p, struct gt_store *store, void **memory, struct gt_err *err)
{
	struct gt_plane *plane, like = {
		.name = "sent gradients", .role = GT_PARAMETER, .dtype = gt_buckets_sent_as(p)
	};
	int rc = gt_store_add_plane(store, &like, NULL, NULL, &plane, err);

	*memory = NULL;
	return rc || p->dry ? rc : gt_buckets_lend(p, plane, memory, err);
}
