/* rope.c - rotary positions of queries and keys, which it packs for attention. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* Return the columns of a head, or 0 with the error set if the columns do not divide into heads. */
static int64_t head_size(const struct gt_node *n, int64_t columns, struct gt_err *err)
{
	int64_t heads = n->attrs.rope.heads, size;

	size = heads < 1 || columns % heads ? 0 : columns / heads;
	if (!size || size % 2)
		gt_err_set(err, GT_EINVAL,
		    "a width of %lld does not divide into %lld heads of an even size",
		    (long long)columns, (long long)heads);
	return size % 2 ? 0 : size;
}

static int rope_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *q = n->in[0], *k = n->in[1];
	int64_t size, kv_heads = n->attrs.rope.kv_heads;

	if (gt_infer_float(q, "the queries", 3, err) || gt_infer_float(k, "the keys", 3, err) ||
	    gt_infer_same(k, n->in[2], "the values", err) || gt_infer_past(n->in[3], err) ||
	    gt_infer_positions(n->in[4], q, err))
		return err->code;
	size = head_size(n, q->shape[2], err);
	if (!size)
		return err->code;
	if (n->attrs.rope.angles &&
	    (n->attrs.rope.angles->pairs < 0 || n->attrs.rope.angles->pairs > size / 2))
		return gt_err_set(err, GT_EINVAL, "%lld pairs in heads of %lld columns",
		    (long long)n->attrs.rope.angles->pairs, (long long)size);
	if (!n->attrs.rope.angles && !(n->attrs.rope.theta > 0))
		return gt_err_set(err, GT_EINVAL, "a theta of %g", n->attrs.rope.theta);
	if (k->dtype != q->dtype || k->shape[0] != q->shape[0] || k->shape[1] != q->shape[1] ||
	    kv_heads < 1 || k->shape[2] != kv_heads * size)
		return gt_err_set(err, GT_EINVAL,
		    "keys %s are not %lld heads of %lld columns beside queries %s",
		    gt_shape_text(k).s, (long long)kv_heads, (long long)size, gt_shape_text(q).s);
	gt_infer_like(n->out[0], q);
	n->out[0]->shape[2] += 2 * k->shape[2];
	return 0;
}

static void rope_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	struct gt_node *grad;

	if (n->in[3]) {
		gt_graph_fail(
		    g, GT_ENOTSUP, "rope: no gradient of positions behind those of earlier tokens");
		return;
	}
	grad = gt_emit(g, &gt_op_rope_grad, &n->attrs, n->in[4] ? 2 : 1,
	    (struct gt_value *[]){ d_out[0], n->in[4] });
	for (int i = 0; grad && i < 3; i++)
		d_in[i] = wanted[i] ? grad->out[i] : NULL;
}

static void rope_print(const struct gt_node *n, FILE *f)
{
	const struct gt_rope_angles *angles = n->attrs.rope.angles;

	fprintf(f, " heads=%d kv_heads=%d", n->attrs.rope.heads, n->attrs.rope.kv_heads);
	if (angles)
		fprintf(f, " pairs=%lld scale=%g", (long long)angles->pairs, angles->scale);
	else
		fprintf(f, " theta=%g", n->attrs.rope.theta);
}

/* Queries and keys are multiplied and added, values are copied. */
static double rope_flops(const struct gt_node *n)
{
	return 3.0 * (double)(gt_value_elements(n->in[0]) + gt_value_elements(n->in[1]));
}

/* Whether several ranks compute with the same head of keys and values. */
static bool repeats_heads(const struct gt_shard_pass *s, const struct gt_node *n)
{
	return s->ranks > n->attrs.rope.kv_heads;
}

/* The heads that share keys and values stay together: they are a unit. Where there are more ranks
 * than these, each rank has some of the heads that share, with a copy of their keys and values.
 * Queries, keys and values are all sharded, or none is: a norm of the queries may need all of their
 * columns. */
static struct gt_column_shards rope_takes(
    const struct gt_shard_pass *s, const struct gt_node *n, struct gt_column_shards offered)
{
	(void)offered;
	for (int i = 0; i < 3; i++)
		if (!gt_shard_product_of(n->in[i]))
			return (struct gt_column_shards){ 0 };
	return (struct gt_column_shards){ 1,
		repeats_heads(s, n) ? n->attrs.rope.heads : n->attrs.rope.kv_heads };
}

static bool rope_takes_unit(
    const struct gt_shard_pass *s, const struct gt_node *n, int k, int64_t *units, int64_t *unit)
{
	struct gt_column_shards shards = gt_shard_columns(s, n->in[0]);

	if (!k || !shards.units || !repeats_heads(s, n))
		return false;
	*units = n->attrs.rope.kv_heads;
	gt_shard_units(s, shards, unit);
	*unit /= n->attrs.rope.heads / n->attrs.rope.kv_heads;
	return true;
}

/* Every rank finds out whether the heads of one of them need two heads of keys and values. */
static int check_repeated_heads(
    const struct gt_shard_pass *s, const struct gt_node *n, int64_t group)
{
	const struct gt_sharding heads = { .units = n->attrs.rope.heads };

	for (int r = 0; r < s->ranks; r++) {
		int64_t first = gt_sharding_first(&heads, r, s->ranks);
		int64_t last = gt_sharding_first(&heads, r + 1, s->ranks) - 1;

		if (first / group == last / group)
			continue;
		gt_err_set(s->err, GT_EINVAL,
		    "%s: %d ranks cannot share %d heads so that each needs one of %d heads of keys "
		    "and values",
		    n->scope, s->ranks, n->attrs.rope.heads, n->attrs.rope.kv_heads);
		return gt_err_hint(s->err, "{tensor-parallel} %d, or a multiple that divides %d",
		    n->attrs.rope.kv_heads, n->attrs.rope.heads);
	}
	return 0;
}

static int rope_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards = gt_shard_columns(s, n->in[0]);
	int64_t first;
	int group, count;
	bool repeats = repeats_heads(s, n);

	for (int k = 1; k < 3; k++)
		if (gt_shard_columns(s, n->in[k]).units != shards.units)
			return gt_err_set(s->err, GT_ENOTSUP,
			    "%s: tensor parallelism cannot shard one input of 'rope' alone",
			    n->scope);
	if (!shards.units)
		return 0;
	group = n->attrs.rope.heads / n->attrs.rope.kv_heads;
	if (repeats && check_repeated_heads(s, n, group))
		return s->err->code;
	count = (int)gt_shard_units(s, shards, &first);
	n->attrs.rope.heads = repeats ? count : group * count;
	n->attrs.rope.kv_heads = repeats ? 1 : count;
	gt_shard_set(s, n->out[0], (struct gt_column_shards){ 3, shards.units });
	return gt_shard_infer(s, n);
}

static const struct gt_shard_rule rope_rule = {
	.rewrite = rope_shard, .takes = rope_takes, .takes_unit = rope_takes_unit
};

/*
 * rope: apply rotary position embeddings to queries and keys, and pack q, k, v for attention.
 *   in   q F [B, T, heads * D];  k, v F [B, T, kv_heads * D];  past I32 [], optional (0): the
 *        number of earlier tokens of the text;  positions I32 [B, T], optional (0, 1, ...)
 *   out  qkv F [B, T, (heads + 2 * kv_heads) * D]: rotated q, rotated k, and v
 *   D, an even number, is the size of a head. For j < D / 2, columns j and j + D / 2 of a head are
 *   a pair (x1, x2). For token t the pair becomes
 *   (x1 * cos a - x2 * sin a, x2 * cos a + x1 * sin a) with a = (past + t) * theta^(-2 * j / D),
 *   where positions[t] takes the place of t.
 * With attrs.rope.angles, the pairs are (j, j + pairs) for j < pairs, the angle is a = (past + t) *
 * frequency[j], and cos a and sin a are multiplied by `scale`; other columns are copied.
 * Frequencies, angles, cos and sin are computed in float64 for float64 data, and in float32 for all
 * other types. The pairing of columns and the precision are those of Hugging Face's
 * LlamaRotaryEmbedding.
 * rope_grad:  in dqkv, positions (optional)     out  dq, dk, dv, where dq and dk are rotated by
 *   the angle -a
 * Source: Su et al., "RoFormer", arXiv 2104.09864.
 */
const struct gt_op gt_op_rope = {
	.name = "rope",
	.min_inputs = 3,
	.max_inputs = 5,
	.outputs = 1,
	.infer = rope_infer,
	.print = rope_print,
	.grad = rope_grad,
	.flops = rope_flops,
	.shard = &rope_rule,
};

static struct gt_value *emit_rope(struct gt_graph *g, struct gt_value *const qkv[3],
    struct gt_value *past, struct gt_value *positions, const union gt_attrs *attrs)
{
	return gt_emit1(g, &gt_op_rope, attrs, positions ? 5 : 4,
	    (struct gt_value *[]){ qkv[0], qkv[1], qkv[2], past, positions });
}

struct gt_value *gt_rope(struct gt_graph *g, struct gt_value *const qkv[3], struct gt_value *past,
    struct gt_value *positions, int heads, int kv_heads, double theta)
{
	union gt_attrs attrs = { 0 };

	attrs.rope.heads = heads;
	attrs.rope.kv_heads = kv_heads;
	attrs.rope.theta = theta;
	return emit_rope(g, qkv, past, positions, &attrs);
}

struct gt_value *gt_rope_by(struct gt_graph *g, struct gt_value *const qkv[3],
    struct gt_value *past, struct gt_value *positions, int heads, int kv_heads,
    const struct gt_rope_angles *angles)
{
	union gt_attrs attrs = { 0 };

	attrs.rope.heads = heads;
	attrs.rope.kv_heads = kv_heads;
	attrs.rope.angles = gt_graph_intern(g, angles, sizeof(*angles));
	if (!attrs.rope.angles)
		return NULL;
	return emit_rope(g, qkv, past, positions, &attrs);
}

static int rope_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *d = n->in[0];
	int64_t heads = n->attrs.rope.heads, kv_heads = n->attrs.rope.kv_heads, size;

	if (gt_infer_float(d, "the gradient", 3, err))
		return err->code;
	if (heads < 1 || kv_heads < 1 || d->shape[2] % (heads + 2 * kv_heads))
		return gt_err_set(err, GT_EINVAL, "the gradient %s is not that of %lld heads",
		    gt_shape_text(d).s, (long long)heads);
	if (gt_infer_positions(n->in[1], d, err))
		return err->code;
	size = d->shape[2] / (heads + 2 * kv_heads);
	for (int i = 0; i < 3; i++) {
		gt_infer_like(n->out[i], d);
		n->out[i]->shape[2] = size * (i ? kv_heads : heads);
	}
	return 0;
}

static double rope_grad_flops(const struct gt_node *n)
{
	return 3.0 * (double)(gt_value_elements(n->out[0]) + gt_value_elements(n->out[1]));
}

const struct gt_op gt_op_rope_grad = {
	.name = "rope_grad",
	.min_inputs = 1,
	.max_inputs = 2,
	.outputs = 3,
	.infer = rope_grad_infer,
	.print = rope_print,
	.flops = rope_grad_flops,
};
