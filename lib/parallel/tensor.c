/* tensor.c - tensor parallelism: the nodes that its pass emits, and the shards that it leaves. */
#include "lib/parallel/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/shard.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/modes.h"

const struct gt_sharding *gt_tensor_sharding(const struct gt_parallel *p, const char *name)
{
	for (size_t i = 0; i < p->sharding_count; i++)
		if (!strcmp(p->shardings[i].name, name))
			return &p->shardings[i];
	return NULL;
}

/* Several graphs are sharded the same way: the first is noted. */
static int note(void *self, const struct gt_sharding *sharding, struct gt_err *err)
{
	struct gt_parallel *p = self;
	const char *name;

	if (gt_tensor_sharding(p, sharding->name))
		return 0;
	name = gt_strdup(sharding->name, err);
	if (!name || gt_grow(&p->shardings, p->sharding_count, &p->sharding_capacity,
	                 sizeof(*p->shardings), err)) {
		free((void *)name);
		return GT_ENOMEM;
	}
	p->shardings[p->sharding_count] = *sharding;
	p->shardings[p->sharding_count++].name = name;
	return 0;
}

static struct gt_value *copy(struct gt_graph *g, struct gt_value *x)
{
	return gt_copy_to(g, x, GT_AXIS_TENSOR);
}

static struct gt_value *sum(struct gt_graph *g, struct gt_value *x)
{
	return gt_sum_over(g, x, GT_AXIS_TENSOR);
}

static struct gt_value *max(struct gt_graph *g, struct gt_value *x)
{
	return gt_max_over(g, x, GT_AXIS_TENSOR);
}

int gt_tensor_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	static const struct gt_shard_nodes nodes = { .copy = copy, .sum = sum, .max = max };
	struct gt_shard_pass pass = { .g = g,
		.rank = p->axes[GT_AXIS_TENSOR]->rank,
		.ranks = p->axes[GT_AXIS_TENSOR]->size,
		.nodes = &nodes,
		.note = note,
		.self = p,
		.err = err };
	int rc = gt_shard_graph(&pass);

	if (rc || p->sharding_count)
		return rc;
	gt_err_set(err, GT_ENOTSUP, "tensor parallelism can shard no layer of this model");
	return gt_err_hint(err, "data parallelism takes any model");
}

int64_t gt_tensor_sent(const struct gt_parallel *p, const struct gt_graph *g)
{
	int64_t n = p->axes[GT_AXIS_TENSOR]->size, bytes = 0;

	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *node = g->nodes[i];

		if (node->op == &gt_op_all_reduce && node->attrs.collective.axis == GT_AXIS_TENSOR)
			bytes += (int64_t)gt_value_bytes(node->in[0]);
	}
	return 2 * bytes * (n - 1) / n;
}
