/* traffic.c - which node communicates, with whom, and how much. */
#include "lib/parallel/traffic.h"

#include <string.h>

#include "lib/graph/op.h"
#include "lib/optim/step_kernels.h"
#include "lib/parallel/axis.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/data/zero.h"
#include "lib/parallel/node_attrs.h"
#include "lib/parallel/pipeline/stage.h"
#include "lib/parallel/tensor/tensor.h"

_Static_assert((int)GT_LINKS == (int)GT_PIPE_LINKS &&
                   (int)GT_LINK_FROM_BEFORE == (int)GT_PIPE_FROM_BEFORE &&
                   (int)GT_LINK_TO_NEXT == (int)GT_PIPE_TO_NEXT &&
                   (int)GT_LINK_FROM_NEXT == (int)GT_PIPE_FROM_NEXT &&
                   (int)GT_LINK_TO_BEFORE == (int)GT_PIPE_TO_BEFORE,
    "the links of a stage");

/* Where the size of the buffer stands. */
enum size_from { NO_SIZE, INPUT, OUTPUT, GATHERED, BUCKET };

/* A row for each op of this module whose nodes communicate or wait. */
static const struct row {
	const char *op;
	enum gt_traffic_role role;
	enum gt_collective_kind kind;
	enum gt_axis axis; /* GT_AXES: in the node's attributes */
	enum size_from size;
} rows[] = {
	{ "all_reduce", GT_TRAFFIC_CALL, GT_ALL_REDUCE, GT_AXES, INPUT },
	{ "all_gather", GT_TRAFFIC_CALL, GT_ALL_GATHER, GT_AXES, GATHERED },
	{ "reduce_rows", GT_TRAFFIC_CALL, GT_REDUCE_SCATTER, GT_AXIS_TENSOR, INPUT },
	{ "gather_rows", GT_TRAFFIC_CALL, GT_ALL_GATHER, GT_AXIS_TENSOR, OUTPUT },
	{ "join_rows", GT_TRAFFIC_CALL, GT_ALL_GATHER, GT_AXIS_TENSOR, OUTPUT },
	{ "all_reduce_start", GT_TRAFFIC_START, GT_ALL_REDUCE, GT_AXIS_DATA, BUCKET },
	{ "all_reduce_wait", GT_TRAFFIC_WAIT, GT_ALL_REDUCE, GT_AXIS_DATA, NO_SIZE },
	{ "reduce_scatter_start", GT_TRAFFIC_START, GT_REDUCE_SCATTER, GT_AXIS_DATA, BUCKET },
	{ "reduce_scatter_wait", GT_TRAFFIC_WAIT, GT_REDUCE_SCATTER, GT_AXIS_DATA, NO_SIZE },
	{ "all_gather_start", GT_TRAFFIC_START, GT_ALL_GATHER, GT_AXIS_DATA, BUCKET },
	{ "all_gather_wait", GT_TRAFFIC_WAIT, GT_ALL_GATHER, GT_AXIS_DATA, NO_SIZE },
	{ "pipe_send", GT_TRAFFIC_SEND, GT_SEND, GT_AXIS_PIPELINE, INPUT },
	{ "pipe_recv", GT_TRAFFIC_RECEIVE, GT_RECV, GT_AXIS_PIPELINE, OUTPUT },
	{ "pipe_wait", GT_TRAFFIC_SENT, GT_SEND, GT_AXIS_PIPELINE, NO_SIZE },
	{ "pipe_tied", GT_TRAFFIC_CALL, GT_ALL_REDUCE, GT_AXIS_PIPELINE, INPUT },
	{ NULL, GT_TRAFFIC_NONE, GT_BARRIER, GT_AXES, NO_SIZE },
};

static const struct row *find_row(const char *op)
{
	const struct row *row = rows;

	while (row->op && strcmp(row->op, op) != 0)
		row++;
	return row->op ? row : NULL;
}

/* Set the group to the ranks of an axis. */
static void set_group(struct gt_traffic *t, const struct gt_parallel *p, enum gt_axis axis)
{
	int tensor = p->seats[GT_AXIS_TENSOR].size;

	t->axis = axis;
	t->ranks = p->seats[axis].size;
	t->apart = 1;
	if (axis == GT_AXIS_DATA)
		t->apart = tensor;
	else if (axis == GT_AXIS_PIPELINE)
		t->apart = tensor * p->seats[GT_AXIS_DATA].size;
}

static int64_t buffer_bytes(const struct gt_parallel *p, const struct gt_node *n,
    const struct row *row, const struct gt_traffic *t)
{
	int64_t element = (int64_t)gt_dtype_size(p->store->dtype);

	switch (row->size) {
	case INPUT:
		return (int64_t)gt_value_bytes(n->in[0]);
	case OUTPUT:
		return (int64_t)gt_value_bytes(n->out[0]);
	case GATHERED:
		return (int64_t)gt_value_bytes(n->in[0]) * t->ranks;
	case BUCKET:
		if (p->o.compress)
			element = (int64_t)gt_dtype_size(GT_F16);
		return gt_node_attrs(&n->attrs).bucket.count * element;
	default:
		return 0;
	}
}

/* Reductions and gathers of one bucket have numbers of their own. */
static int find_id(const struct gt_node *n, const struct row *row)
{
	const union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	if (row->axis == GT_AXIS_PIPELINE)
		return attrs.pipe.link;
	if (row->role == GT_TRAFFIC_WAIT && row->kind == GT_ALL_REDUCE)
		return -1;
	return 2 * attrs.bucket.index + (row->kind == GT_ALL_GATHER);
}

int gt_parallel_traffic(struct gt_traffic *out, const struct gt_parallel *p,
    const struct gt_node *n, struct gt_err *err)
{
	const struct row *row = find_row(n->op->name);
	const struct gt_pipeline *pipeline = gt_pipeline_of(p);

	*out = (struct gt_traffic){ .role = GT_TRAFFIC_NONE, .ranks = 1, .apart = 1 };
	if (p->mode->main)
		return gt_err_set(err, GT_ENOTSUP, "the time of {parallel} %s is not known",
		    gt_parallel_names[p->o.kind]);
	if (!row)
		return 0;
	out->role = row->role;
	out->kind = row->kind;
	out->calls = 1;
	set_group(out, p,
	    row->axis == GT_AXES ? (enum gt_axis)gt_node_attrs(&n->attrs).collective.axis
	                         : row->axis);
	out->bytes = buffer_bytes(p, n, row, out);
	out->id = row->role == GT_TRAFFIC_CALL ? 0 : find_id(n, row);
	if (row->axis != GT_AXIS_PIPELINE)
		return 0;
	if (row->role == GT_TRAFFIC_CALL)
		out->ranks =
		    pipeline->tied[gt_node_attrs(&n->attrs).pipe.link - GT_PIPE_LINKS].size;
	else if (out->id >= GT_LINKS)
		return gt_err_set(err, GT_ENOTSUP,
		    "the time of {reproducible} with a pipeline whose stages share parameters is "
		    "not known");
	return 0;
}

/* ---- outside of plans ---- */

static bool add(struct gt_traffic *t, const struct gt_parallel *p, enum gt_axis axis,
    enum gt_collective_kind kind, int64_t bytes, int calls)
{
	*t = (struct gt_traffic){
		.role = GT_TRAFFIC_CALL, .kind = kind, .bytes = bytes, .calls = calls
	};
	set_group(t, p, axis);
	return t->ranks > 1 && bytes;
}

/* The loss, and the request to stop, over all ranks. */
static bool add_scalars(struct gt_traffic *t, const struct gt_parallel *p)
{
	*t = (struct gt_traffic){ .role = GT_TRAFFIC_CALL,
		.kind = GT_ALL_REDUCE,
		.axis = GT_AXIS_DATA,
		.ranks = p->world->size,
		.apart = 1,
		.bytes = 2 * (int64_t)sizeof(double),
		.calls = 1 };
	return t->ranks > 1;
}

/* The shards of tensors that the optimizer updates whole. */
static bool add_joined(struct gt_traffic *t, const struct gt_parallel *p)
{
	int count;
	int64_t bytes = gt_tp_joined_bytes(p, &count);

	return add(t, p, GT_AXIS_TENSOR, GT_ALL_GATHER, bytes, count);
}

/* zero1 and zero2 gather what their ranks have updated. */
static bool add_parameters(struct gt_traffic *t, const struct gt_parallel *p)
{
	const struct gt_zero *z = p->axis_state[GT_AXIS_DATA];

	if (!p->mode->divides || p->store->parameters->cut)
		return false;
	return add(t, p, GT_AXIS_DATA, GT_ALL_GATHER, (int64_t)gt_store_flat_bytes(p->store),
	    (int)z->buckets.size);
}

int gt_parallel_step_traffic(
    struct gt_traffic *out, const struct gt_parallel *p, enum gt_traffic_time time)
{
	int n = 0;

	switch (time) {
	case GT_TRAFFIC_BEFORE:
		if (gt_parallel_shares_buffers(p))
			n += add(&out[n], p, GT_AXIS_DATA, GT_BROADCAST,
			    (int64_t)p->store->running_bytes, 1);
		break;
	case GT_TRAFFIC_AGREE:
		n += add_scalars(&out[n], p);
		break;
	case GT_TRAFFIC_NORM:
		for (int i = 0; i < GT_AXES; i++)
			if (gt_axis_rows[i]->divides && gt_axis_rows[i]->divides(p))
				n += add(&out[n], p, (enum gt_axis)i, GT_ALL_REDUCE,
				    GT_SQUARES * (int64_t)sizeof(double), 1);
		break;
	case GT_TRAFFIC_UPDATE:
		n += add_joined(&out[n], p);
		break;
	case GT_TRAFFIC_UPDATED:
		n += add_parameters(&out[n], p);
		break;
	}
	return n;
}

double gt_traffic_sent(const struct gt_traffic *t)
{
	double n = t->ranks, bytes = (double)t->bytes;

	if (t->role != GT_TRAFFIC_CALL && t->role != GT_TRAFFIC_START)
		return t->role == GT_TRAFFIC_SEND ? bytes : 0;
	switch (t->kind) {
	case GT_ALL_REDUCE:
		return 2 * bytes * (n - 1) / n;
	case GT_REDUCE_SCATTER:
	case GT_ALL_GATHER:
		return bytes * (n - 1) / n;
	default:
		return n > 1 ? bytes : 0;
	}
}
