/* shard.c - the pass that rewrites a graph for one of the ranks that share each layer. */
#include "lib/graph/shard.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/* ---- column shards ---- */

/* Values that were added during the pass are whole. */
struct gt_column_shards gt_shard_columns(const struct gt_shard_pass *s, const struct gt_value *v)
{
	return (size_t)v->id < s->shards_count ? s->shards[v->id] : (struct gt_column_shards){ 0 };
}

bool gt_shard_is_sharded(const struct gt_shard_pass *s, const struct gt_value *v)
{
	return v && gt_shard_columns(s, v).units;
}

void gt_shard_set(struct gt_shard_pass *s, const struct gt_value *v, struct gt_column_shards shards)
{
	s->shards[v->id] = shards;
}

int64_t gt_shard_units(
    const struct gt_shard_pass *s, struct gt_column_shards shards, int64_t *first)
{
	const struct gt_sharding units = { .units = shards.units };

	*first = gt_sharding_first(&units, s->rank, s->ranks);
	return gt_sharding_first(&units, s->rank + 1, s->ranks) - *first;
}

int gt_shard_parameter(
    struct gt_shard_pass *s, struct gt_value *v, int dim, struct gt_column_shards shards)
{
	struct gt_sharding sharding = {
		.blocks = shards.blocks, .units = shards.units, .dim = dim
	};

	if (!v)
		return 0;
	if (!gt_value_is_weight(v) || gt_shard_is_sharded(s, v))
		return gt_err_set(s->err, GT_ENOTSUP,
		    "tensor parallelism: '%s' is no parameter, or has two uses",
		    v->name ? v->name : "a temporary");
	if (shards.units < s->ranks) {
		gt_err_set(s->err, GT_EINVAL, "'%s' divides into %lld shards at most, not into %d",
		    v->name, (long long)shards.units, s->ranks);
		return gt_err_hint(s->err, "a smaller {tensor-parallel}");
	}
	sharding.name = v->name;
	sharding.ndim = v->ndim;
	memcpy(sharding.shape, v->shape, sizeof(sharding.shape));
	v->shape[dim] = gt_sharding_length(&sharding, s->rank, s->ranks);
	gt_shard_set(s, v, shards);
	return s->note(s->self, &sharding, s->err);
}

/* ---- nodes ---- */

int gt_shard_infer(struct gt_shard_pass *s, struct gt_node *n)
{
	int rc = n->op->infer(n, s->err);

	return rc ? gt_node_prefix(n, s->err) : 0;
}

struct gt_node *gt_shard_only_reader(const struct gt_shard_pass *s, const struct gt_value *v)
{
	struct gt_node *found = NULL;
	int readers = 0;

	for (size_t i = 0; i < s->g->node_count; i++)
		for (int k = 0; k < s->g->nodes[i]->inputs; k++)
			if (s->g->nodes[i]->in[k] == v) {
				found = s->g->nodes[i];
				readers++;
			}
	return readers == 1 ? found : NULL;
}

const struct gt_node *gt_shard_product_of(const struct gt_value *v)
{
	const struct gt_node *maker = v->producer;

	while (maker && maker->op != &gt_op_matmul && maker->op->shard && maker->op->shard->takes)
		maker = maker->in[0]->producer;
	return maker && maker->op == &gt_op_matmul && gt_value_is_weight(maker->in[1]) ? maker
	                                                                               : NULL;
}

struct gt_value *gt_shard_place(struct gt_shard_pass *s, struct gt_value *v)
{
	if (v)
		gt_place_last(s->g, s->at++);
	return v;
}

struct gt_value *gt_shard_copy(struct gt_shard_pass *s, struct gt_value *x)
{
	return gt_shard_place(s, s->nodes->copy(s->g, x));
}

struct gt_value *gt_shard_sum(struct gt_shard_pass *s, struct gt_value *x)
{
	return gt_shard_place(s, s->nodes->sum(s->g, x));
}

struct gt_value *gt_shard_max(struct gt_shard_pass *s, struct gt_value *x)
{
	return gt_shard_place(s, s->nodes->max(s->g, x));
}

void gt_shard_place_after(struct gt_shard_pass *s)
{
	s->at += !s->past;
	s->past = true;
}

void gt_shard_replace(struct gt_shard_pass *s, struct gt_value *from, struct gt_value *to)
{
	const char *name = from->name;

	if (!to)
		return;
	gt_replace_uses(s->g, s->at, from, to);
	if (from->role != GT_OUTPUT)
		return;
	from->role = GT_TEMPORARY;
	gt_value_set_name(s->g, from, NULL);
	gt_output(s->g, to, name);
}

void gt_shard_remove(struct gt_shard_pass *s)
{
	gt_remove_node(s->g, s->at);
	s->past = true;
}

/* ---- rules of many ops ---- */

static int fail_to_shard_node(struct gt_err *err, const struct gt_node *n)
{
	gt_err_set(
	    err, GT_ENOTSUP, "%s: tensor parallelism cannot shard '%s'", n->scope, n->op->name);
	return gt_err_hint(err, "data parallelism takes any model");
}

static int keep_whole(struct gt_shard_pass *s, struct gt_node *n)
{
	for (int k = 0; k < n->inputs; k++)
		if (gt_shard_is_sharded(s, n->in[k]))
			return fail_to_shard_node(s->err, n);
	return 0;
}

const struct gt_shard_rule gt_shard_whole = { .rewrite = keep_whole };

static int follow_input(struct gt_shard_pass *s, struct gt_node *n)
{
	gt_shard_set(s, n->out[0], gt_shard_columns(s, n->in[0]));
	return gt_shard_infer(s, n);
}

static struct gt_column_shards take_any(
    const struct gt_shard_pass *s, const struct gt_node *n, struct gt_column_shards offered)
{
	(void)s;
	(void)n;
	return offered;
}

const struct gt_shard_rule gt_shard_follow = { .rewrite = follow_input, .takes = take_any };

/* ---- the pass ---- */

static int rewrite_node(struct gt_shard_pass *s)
{
	struct gt_node *n = s->g->nodes[s->at];
	const struct gt_shard_rule *rule = n->op->shard ? n->op->shard : &gt_shard_whole;
	int rc;

	s->past = false;
	s->g->scope = n->scope;
	rc = rule->rewrite(s, n);
	gt_shard_place_after(s);
	return rc ? rc : gt_graph_status(s->g, s->err);
}

int gt_shard_graph(struct gt_shard_pass *s)
{
	int rc = 0;

	s->shards_count = s->g->value_count;
	s->shards = gt_calloc(s->shards_count, sizeof(*s->shards), s->err);
	if (!s->shards)
		return GT_ENOMEM;
	for (s->at = 0; !rc && s->at < s->g->node_count;)
		rc = rewrite_node(s);
	free(s->shards);
	s->shards = NULL;
	return rc;
}
