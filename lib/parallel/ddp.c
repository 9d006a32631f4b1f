/* ddp.c - data parallelism: buckets of gradients, and the nodes that add them up over ranks. */
#include "lib/parallel/ddp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/graph/pass.h"

enum { FIRST_BUCKET = 1 << 20, NAME_BYTES = 32 };

struct gt_ddp {
	struct gt_store *store;
	struct gt_group *group;
	void *gradients;
	int64_t *first, *count; /* of the buckets, in elements */
	char (*name)[NAME_BYTES];
	size_t bucket_count;
	bool communicates;
	struct gt_plan_extra extra;
};

/* ---- kernels ---- */

static int run_all_reduce(struct gt_call *call, struct gt_err *err)
{
	struct gt_ddp *d = call->context;
	int i = call->attrs.bucket.index;
	char *bucket = (char *)d->gradients + (size_t)d->first[i] * gt_dtype_size(d->store->dtype);
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = bucket,
		.out = bucket,
		.count = d->count[i],
		.dtype = d->store->dtype,
		.reduction = GT_SUM,
		.what = d->name[i] };

	return d->communicates ? gt_group_start(d->group, &c, err) : 0;
}

static int run_wait(struct gt_call *call, struct gt_err *err)
{
	struct gt_ddp *d = call->context;

	return d->communicates ? gt_group_wait(d->group, err) : 0;
}

static const struct gt_kernel kernels[] = {
	{ .op = "all_reduce", .dtype = GT_F32, .run = run_all_reduce },
	{ .op = "all_reduce_wait", .dtype = GT_F32, .run = run_wait },
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

static const struct gt_op op_all_reduce = {
	.name = "all_reduce", .infer = infer_nothing, .flops = no_flops, .print = print_bucket
};
static const struct gt_op op_wait = {
	.name = "all_reduce_wait", .infer = infer_nothing, .flops = no_flops
};

/* The bucket of an element. */
static size_t bucket_of(const struct gt_ddp *d, int64_t offset)
{
	size_t i = 0;

	while (i + 1 < d->bucket_count && offset >= d->first[i + 1])
		i++;
	return i;
}

static void note_end(const struct gt_ddp *d, const struct gt_value *v, size_t at, size_t *end)
{
	if (v && v->role == GT_GRADIENT)
		end[bucket_of(d, gt_store_find(d->store, v->gradient_of->name)->offset)] = at;
}

/* Behind which node each bucket is whole: [bucket_count], 0 for one that no node writes. Where
 * micro-batches add up, nodes write what is an input of theirs. */
static void find_ends(const struct gt_ddp *d, const struct gt_graph *g, size_t *end)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->outputs; k++)
			note_end(d, n->out[k], i + 1, end);
		for (int k = 0; k < n->inputs; k++)
			if (n->op->writes >> k & 1)
				note_end(d, n->in[k], i + 1, end);
	}
}

int gt_ddp_insert(const struct gt_ddp *d, struct gt_graph *g, struct gt_err *err)
{
	size_t *end = gt_calloc(d->bucket_count, sizeof(*end), err), last = g->node_count;
	union gt_attrs attrs = { 0 };

	if (!end)
		return GT_ENOMEM;
	find_ends(d, g, end);
	gt_graph_scope(g, "ddp");
	gt_emit(g, &op_wait, NULL, 0, NULL);
	/* From the end on, so that places stay what they are. A node per place holds several
	 * buckets back, in the order of their numbers, which is the same on all ranks. */
	for (size_t at = last + 1; at-- > 0;) {
		for (size_t i = d->bucket_count; i-- > 0;) {
			attrs.bucket.index = (int)i;
			if (end[i] == at && gt_emit(g, &op_all_reduce, &attrs, 0, NULL))
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
static int cut(struct gt_ddp *d, int64_t bucket_bytes, struct gt_err *err)
{
	const struct gt_store *s = d->store;
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

int gt_ddp_new(struct gt_ddp **out, struct gt_store *store, struct gt_group *group,
    int64_t bucket_bytes, struct gt_err *err)
{
	struct gt_ddp *d = gt_calloc(1, sizeof(*d), err);
	int rc;

	*out = NULL;
	if (!d)
		return GT_ENOMEM;
	d->store = store;
	d->group = group;
	d->communicates = true;
	d->extra = (struct gt_plan_extra){ kernels, d };
	rc = cut(d, bucket_bytes, err);
	if (!rc)
		rc = gt_group_alloc(group, gt_store_flat_bytes(store), &d->gradients, err);
	if (rc) {
		gt_ddp_free(d);
		return rc;
	}
	gt_store_lend_gradients(store, d->gradients);
	*out = d;
	return 0;
}

void gt_ddp_free(struct gt_ddp *d)
{
	if (!d)
		return;
	if (d->gradients)
		gt_group_release(d->group, d->gradients);
	free(d->first);
	free(d->count);
	free(d->name);
	free(d);
}

const struct gt_plan_extra *gt_ddp_kernels(struct gt_ddp *d)
{
	return &d->extra;
}

void gt_ddp_communicate(struct gt_ddp *d, bool on)
{
	d->communicates = on;
}

int gt_ddp_broadcast(struct gt_ddp *d, struct gt_err *err)
{
	struct gt_store *s = d->store;
	int rc = gt_broadcast(d->group, s->parameters, s->flat_count, s->dtype, 0, err);

	return rc ? rc
	          : gt_broadcast(d->group, s->buffers, (int64_t)s->buffer_bytes, GT_U8, 0, err);
}

size_t gt_ddp_buckets(const struct gt_ddp *d, const int64_t **first, const int64_t **count)
{
	*first = d->first;
	*count = d->count;
	return d->bucket_count;
}
