/* tensor_parts.c - what ranks of the tensor axis hold, made whole and taken apart. */
#include <stdlib.h>
#include <string.h>

#include "lib/parallel/modes.h"
#include "lib/parallel/tensor.h"

static int64_t count_of(const struct gt_parallel *p, const struct gt_split *split, int part)
{
	return gt_split_count(split, part, p->axes[GT_AXIS_TENSOR]->size);
}

/* Put this rank's part, then those that come, in their places. */
static int receive(struct gt_parallel *p, const struct gt_split *split, const struct gt_slot *slot,
    void *part, void *whole, struct gt_err *err)
{
	size_t size = gt_dtype_size(slot->dtype);
	int parts = p->axes[GT_AXIS_TENSOR]->size, rc = 0;

	gt_split_put(split, 0, parts, whole, part, size);
	for (int i = 1; !rc && i < parts; i++) {
		rc = gt_group_run(p->axes[GT_AXIS_TENSOR],
		    &(struct gt_collective){ .kind = GT_RECV,
		        .out = part,
		        .count = count_of(p, split, i),
		        .dtype = slot->dtype,
		        .peer = i,
		        .what = "parts" },
		    err);
		if (!rc)
			gt_split_put(split, i, parts, whole, part, size);
	}
	return rc;
}

int gt_tensor_collect(struct gt_parallel *p, const struct gt_split *split,
    const struct gt_slot *slot, const void *held, void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int part = p->axes[GT_AXIS_TENSOR]->rank, parts = p->axes[GT_AXIS_TENSOR]->size, rc;
	size_t size = gt_dtype_size(slot->dtype);
	int64_t most = 0;
	void *host;

	if (p->axes[GT_AXIS_DATA]->rank) /* they hold the same */
		return 0;
	for (int i = 0; i < parts; i++)
		if (count_of(p, split, i) > most)
			most = count_of(p, split, i);
	host = gt_calloc((size_t)most, size, err);
	if (!host)
		return GT_ENOMEM;
	rc = gt_device_read(s->device, host, held, (size_t)count_of(p, split, part) * size, err);
	if (!rc && part)
		rc = gt_group_run(p->axes[GT_AXIS_TENSOR],
		    &(struct gt_collective){ .kind = GT_SEND,
		        .in = host,
		        .count = count_of(p, split, part),
		        .dtype = slot->dtype,
		        .peer = 0,
		        .what = "parts" },
		    err);
	else if (!rc)
		rc = receive(p, split, slot, host, whole, err);
	free(host);
	return rc;
}

int gt_tensor_deal(struct gt_parallel *p, const struct gt_split *split, const struct gt_slot *slot,
    void *to, const void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int part = p->axes[GT_AXIS_TENSOR]->rank;
	size_t size = gt_dtype_size(slot->dtype), count = (size_t)count_of(p, split, part);
	void *host = gt_calloc(count, size, err);
	int rc;

	if (!host)
		return GT_ENOMEM;
	gt_split_take(split, part, p->axes[GT_AXIS_TENSOR]->size, host, whole, size);
	rc = gt_device_write(s->device, to, host, count * size, err);
	free(host);
	return rc;
}

/* ---- one step of all ranks ---- */

/* Of parts alone. */
static int squares_of_parts(const struct gt_parallel *p, double *squares, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	double sum[GT_SQUARES];
	int rc = gt_parallel_squares_begin(p, err);

	for (size_t i = 0; !rc && i < p->split_count; i++)
		rc = gt_parallel_squares_add(p, gt_store_find(s, p->splits[i].name), err);
	if (!rc)
		rc = gt_parallel_squares_end(p, sum, err);
	return rc ? rc : gt_device_write(s->device, squares, sum, sizeof(sum), err);
}

/* What all hold is counted by the first. */
static int add_up(void *self, double *squares, struct gt_err *err)
{
	const struct gt_parallel *p = self;
	int rc = p->axes[GT_AXIS_TENSOR]->rank ? squares_of_parts(p, squares, err) : 0;

	return rc ? rc
	          : gt_all_reduce(
	                p->axes[GT_AXIS_TENSOR], squares, GT_SQUARES, GT_F64, GT_SUM, err);
}

int gt_tensor_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	return gt_optim_update(optim, add_up, p, err);
}

int64_t gt_tensor_sent(const struct gt_parallel *p, const struct gt_graph *g)
{
	int64_t n = p->axes[GT_AXIS_TENSOR]->size, bytes = 0;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];
		const char *op = node->op->name;

		if (!strcmp(op, "fan_in") ||
		    (!strcmp(op, "all_reduce") && node->attrs.collective.axis == GT_AXIS_TENSOR))
			bytes += (int64_t)gt_value_bytes(node->in[0]);
		else if (!strcmp(op, "lse_over")) /* in float32, then in float64 */
			bytes += 3 * (int64_t)gt_value_bytes(node->in[0]);
		else if (!strcmp(op, "cross_entropy_over"))
			bytes += (int64_t)gt_value_bytes(node->in[2]);
	}
	return 2 * bytes * (n - 1) / n;
}
