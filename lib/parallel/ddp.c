/* ddp.c - data parallelism: buckets of gradients, and the nodes that add them up over ranks. */
#include "lib/parallel/ddp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/graph/pass.h"
#include "lib/parallel/modes.h"

enum { FIRST_BUCKET = 1 << 20, NAME_BYTES = 32 };

struct ddp {
	void *gradients;        /* in memory of the group's */
	int64_t *first, *count; /* of the buckets, in elements */
	char (*name)[NAME_BYTES];
	size_t bucket_count;
};

/* ---- kernels ---- */

static int run_start(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct ddp *d = p->state;
	int i = call->attrs.bucket.index;
	char *bucket = (char *)d->gradients + (size_t)d->first[i] * gt_dtype_size(p->store->dtype);
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = bucket,
		.out = bucket,
		.count = d->count[i],
		.dtype = p->store->dtype,
		.reduction = GT_SUM,
		.what = d->name[i],
		.span = &p->events[i].span };

	return p->communicates ? gt_group_start(p->axes[GT_AXIS_DATA], &c, err) : 0;
}

static int run_wait(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;

	return p->communicates ? gt_group_wait(p->axes[GT_AXIS_DATA], err) : 0;
}

const struct gt_kernel gt_ddp_kernels[] = {
	{ .op = "all_reduce_start", .dtype = GT_F32, .run = run_start },
	{ .op = GT_PARALLEL_WAIT, .dtype = GT_F32, .run = run_wait },
	{ .op = NULL },
};

/* ---- nodes ---- */

static int infer_nothing(struct gt_node *node, struct gt_err *err)
{
	(void)node;
	(void)err;
	return 0;
}

static double no_flops(const struct gt_node *node)
{
	(void)node;
	return 0;
}

static void print_bucket(const struct gt_node *node, FILE *f)
{
	fprintf(f, " bucket=%d", node->attrs.bucket.index);
}

static const struct gt_op op_start = {
	.name = "all_reduce_start", .infer = infer_nothing, .flops = no_flops, .print = print_bucket
};
static const struct gt_op op_wait = {
	.name = GT_PARALLEL_WAIT, .infer = infer_nothing, .flops = no_flops
};

/* The bucket of an element. */
static size_t bucket_of(const struct ddp *d, int64_t offset)
{
	size_t i = 0;

	while (i + 1 < d->bucket_count && offset >= d->first[i + 1])
		i++;
	return i;
}

static void note_end(const struct gt_parallel *p, const struct gt_value *v, size_t at, size_t *end)
{
	if (v && v->role == GT_GRADIENT)
		end[bucket_of(p->state, gt_store_find(p->store, v->gradient_of->name)->offset)] =
		    at;
}

/* Behind which node each bucket is whole: [bucket_count], 0 for one that no node writes. Where
 * micro-batches add up, nodes write what is an input of theirs. */
static void find_ends(const struct gt_parallel *p, const struct gt_graph *g, size_t *end)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->outputs; k++)
			note_end(p, n->out[k], i + 1, end);
		for (int k = 0; k < n->inputs; k++)
			if (n->op->writes >> k & 1)
				note_end(p, n->in[k], i + 1, end);
	}
}

static int insert(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	const struct ddp *d = p->state;
	size_t *end = gt_calloc(d->bucket_count, sizeof(*end), err), last = g->node_count;
	union gt_attrs attrs = { 0 };

	if (!end)
		return GT_ENOMEM;
	find_ends(p, g, end);
	gt_graph_scope(g, "ddp");
	gt_emit(g, &op_wait, NULL, 0, NULL);
	/* From the end on, so that places stay what they are. A node per place holds several
	 * buckets back, in the order of their numbers, which is the same on all ranks. */
	for (size_t at = last + 1; at-- > 0;) {
		for (size_t i = d->bucket_count; i-- > 0;) {
			attrs.bucket.index = (int)i;
			if (end[i] == at && gt_emit(g, &op_start, &attrs, 0, NULL))
				gt_place_last(g, at);
		}
	}
	free(end);
	return gt_graph_status(g, err);
}

/* ---- buckets ---- */

static int by_offset(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Buckets begin where a parameter does. */
static int cut(struct ddp *d, const struct gt_store *s, int64_t bucket_bytes, struct gt_err *err)
{
	int64_t *starts = gt_calloc(s->slot_count, sizeof(*starts), err);
	int64_t size = (int64_t)gt_dtype_size(s->dtype), most;
	size_t n = 0;

	d->first = gt_calloc(s->slot_count, sizeof(*d->first), err);
	d->count = gt_calloc(s->slot_count, sizeof(*d->count), err);
	d->name = gt_calloc(s->slot_count, sizeof(*d->name), err);
	if (!starts || !d->first || !d->count || !d->name) {
		free(starts);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].role == GT_PARAMETER)
			starts[n++] = s->slots[i].offset;
	qsort(starts, n, sizeof(*starts), by_offset);
	most = bucket_bytes < FIRST_BUCKET ? bucket_bytes : FIRST_BUCKET;
	for (size_t i = 0; i < n; i++) {
		int64_t next = i + 1 < n ? starts[i + 1] : s->flat_count, *count;

		if (!d->bucket_count || d->count[d->bucket_count - 1] * size >=
		                            (d->bucket_count == 1 ? most : bucket_bytes))
			d->first[d->bucket_count++] = starts[i];
		count = &d->count[d->bucket_count - 1];
		*count = next - d->first[d->bucket_count - 1];
	}
	for (size_t i = 0; i < d->bucket_count; i++)
		snprintf(d->name[i], NAME_BYTES, "bucket %zu", i);
	free(starts);
	return 0;
}

static int list_events(struct gt_parallel *p, struct gt_err *err)
{
	const struct ddp *d = p->state;

	p->events = gt_calloc(d->bucket_count, sizeof(*p->events), err);
	if (!p->events)
		return GT_ENOMEM;
	p->event_count = d->bucket_count;
	for (size_t i = 0; i < d->bucket_count; i++)
		p->events[i].what = d->name[i];
	return 0;
}

static int attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err)
{
	struct ddp *d = gt_calloc(1, sizeof(*d), err);
	int rc;

	if (!d)
		return GT_ENOMEM;
	p->state = d;
	rc = cut(d, store, p->o.bucket_bytes, err);
	if (!rc)
		rc = list_events(p, err);
	if (!rc)
		rc = gt_group_alloc(p->world, gt_store_flat_bytes(store), &d->gradients, err);
	if (!rc)
		gt_store_lend_gradients(store, d->gradients);
	return rc;
}

static void release(struct gt_parallel *p)
{
	struct ddp *d = p->state;

	if (!d)
		return;
	if (d->gradients)
		gt_group_release(p->world, d->gradients);
	free(d->first);
	free(d->count);
	free(d->name);
	free(d);
}

/* Parameters and buffers of rank 0 to all ranks. */
static int begin(struct gt_parallel *p, struct gt_err *err)
{
	struct gt_store *s = p->store;
	struct gt_group *group = p->axes[GT_AXIS_DATA];
	int rc = gt_broadcast(group, s->parameters, s->flat_count, s->dtype, 0, err);

	return rc ? rc : gt_broadcast(group, s->buffers, (int64_t)s->buffer_bytes, GT_U8, 0, err);
}

const struct gt_parallel_mode gt_parallel_ddp = {
	.name = "ddp",
	.attach = attach,
	.insert = insert,
	.begin = begin,
	.release = release,
};

/* tf.distribute.MirroredStrategy. */
const struct gt_parallel_mode gt_parallel_mirrored = {
	.name = "mirrored",
	.threads = true,
	.attach = attach,
	.insert = insert,
	.begin = begin,
	.release = release,
};

size_t gt_ddp_buckets(const struct gt_parallel *p, const int64_t **first, const int64_t **count)
{
	const struct ddp *d = p->state;

	*first = d->first;
	*count = d->count;
	return d->bucket_count;
}
