/* tensor_shards.c - shards of parameters gathered and scattered, and their gradients' norm. */
#include <stdlib.h>
#include <string.h>

#include "lib/parallel/modes.h"
#include "lib/parallel/tensor.h"

static int64_t elements_of(
    const struct gt_parallel *p, const struct gt_sharding *sharding, int shard)
{
	return gt_sharding_elements(sharding, shard, p->axes[GT_AXIS_TENSOR]->size);
}

/* Put this rank's shard, then those that come, in their places. */
static int receive(struct gt_parallel *p, const struct gt_sharding *sharding,
    const struct gt_slot *slot, void *shard, void *whole, struct gt_err *err)
{
	size_t size = gt_dtype_size(slot->dtype);
	int shards = p->axes[GT_AXIS_TENSOR]->size, rc = 0;

	gt_sharding_put(sharding, 0, shards, whole, shard, size);
	for (int i = 1; !rc && i < shards; i++) {
		rc = gt_group_run(p->axes[GT_AXIS_TENSOR],
		    &(struct gt_collective){ .kind = GT_RECV,
		        .out = shard,
		        .count = elements_of(p, sharding, i),
		        .dtype = slot->dtype,
		        .peer = i,
		        .what = "shards" },
		    err);
		if (!rc)
			gt_sharding_put(sharding, i, shards, whole, shard, size);
	}
	return rc;
}

int gt_tensor_collect(struct gt_parallel *p, const struct gt_sharding *sharding,
    const struct gt_slot *slot, const void *held, void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int shard = p->axes[GT_AXIS_TENSOR]->rank, shards = p->axes[GT_AXIS_TENSOR]->size, rc;
	size_t size = gt_dtype_size(slot->dtype);
	int64_t most = 0;
	void *host;

	if (p->axes[GT_AXIS_DATA]->rank) /* they hold the same */
		return 0;
	for (int i = 0; i < shards; i++)
		if (elements_of(p, sharding, i) > most)
			most = elements_of(p, sharding, i);
	host = gt_calloc((size_t)most, size, err);
	if (!host)
		return GT_ENOMEM;
	rc = gt_device_read(
	    s->device, host, held, (size_t)elements_of(p, sharding, shard) * size, err);
	if (!rc && shard)
		rc = gt_group_run(p->axes[GT_AXIS_TENSOR],
		    &(struct gt_collective){ .kind = GT_SEND,
		        .in = host,
		        .count = elements_of(p, sharding, shard),
		        .dtype = slot->dtype,
		        .peer = 0,
		        .what = "shards" },
		    err);
	else if (!rc)
		rc = receive(p, sharding, slot, host, whole, err);
	free(host);
	return rc;
}

int gt_tensor_deal(struct gt_parallel *p, const struct gt_sharding *sharding,
    const struct gt_slot *slot, void *to, const void *whole, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	int shard = p->axes[GT_AXIS_TENSOR]->rank;
	size_t size = gt_dtype_size(slot->dtype), count = (size_t)elements_of(p, sharding, shard);
	void *host = gt_calloc(count, size, err);
	int rc;

	if (!host)
		return GT_ENOMEM;
	gt_sharding_take(sharding, shard, p->axes[GT_AXIS_TENSOR]->size, host, whole, size);
	rc = gt_device_write(s->device, to, host, count * size, err);
	free(host);
	return rc;
}

/* ---- one step of all ranks ---- */

/* Of shards alone. */
static int squares_of_shards(const struct gt_parallel *p, double *squares, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	double sum[GT_SQUARES];
	int rc = gt_parallel_squares_begin(p, err);

	for (size_t i = 0; !rc && i < p->sharding_count; i++)
		rc = gt_parallel_squares_add(p, gt_store_find(s, p->shardings[i].name), err);
	if (!rc)
		rc = gt_parallel_squares_end(p, sum, err);
	return rc ? rc : gt_device_write(s->device, squares, sum, sizeof(sum), err);
}

/* Gradients that all ranks hold are counted by the first rank. */
static int add_up(void *self, double *squares, struct gt_err *err)
{
	const struct gt_parallel *p = self;
	int rc = p->axes[GT_AXIS_TENSOR]->rank ? squares_of_shards(p, squares, err) : 0;

	return rc ? rc
	          : gt_all_reduce(
	                p->axes[GT_AXIS_TENSOR], squares, GT_SQUARES, GT_F64, GT_SUM, err);
}

int gt_tensor_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	return gt_optim_update(optim, add_up, p, err);
}
