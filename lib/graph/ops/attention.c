/* attention.c - self-attention, of whole texts and of tokens that follow cached ones. */
#include <math.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* Infer the shape of out[0], and return the columns of a head. Returns 0 with the error set if the
 * shapes do not match. */
static int64_t head_size(const struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *qkv = n->in[0];
	int64_t heads = n->attrs.attention.heads, kv_heads = gt_attrs_kv_heads(&n->attrs), size;

	if (gt_infer_float(qkv, "the projections", 3, err))
		return 0;
	if (heads >= 1 && (kv_heads < 1 || heads % kv_heads)) {
		gt_err_set(err, GT_EINVAL, "%lld heads do not share %lld of keys and values",
		    (long long)heads, (long long)kv_heads);
		return 0;
	}
	if (heads < 1 || qkv->shape[2] % (heads + 2 * kv_heads)) {
		gt_err_set(err, GT_EINVAL, "a width of %lld does not divide into %lld heads",
		    (long long)qkv->shape[2] / 3, (long long)heads);
		return 0;
	}
	size = qkv->shape[2] / (heads + 2 * kv_heads);
	gt_infer_like(n->out[0], qkv);
	n->out[0]->shape[2] = heads * size;
	return size;
}

static int attention_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *qkv = n->in[0];
	int heads = n->attrs.attention.heads;
	double p = n->attrs.attention.p;

	if (!head_size(n, err))
		return err->code;
	if (!(p >= 0 && p < 1) || (p > 0 && !n->in[1]))
		return gt_err_set(
		    err, GT_EINVAL, "a dropout of %g is not in [0, 1), or has no rng", p);
	if (n->attrs.attention.window || n->attrs.attention.cap != 0)
		return gt_err_set(err, GT_EINVAL, "windows and caps need attention_cached");
	if (n->in[2] && n->attrs.attention.full)
		return gt_err_set(err, GT_EINVAL, "attention to later tokens knows no documents");
	if (gt_infer_positions(n->in[2], qkv, err))
		return err->code;
	if (n->attrs.attention.first_head < 0 ||
	    (n->attrs.attention.all_heads &&
	        n->attrs.attention.first_head > n->attrs.attention.all_heads - heads))
		return gt_err_set(err, GT_EINVAL, "%d heads from %d on are no shard of %d", heads,
		    n->attrs.attention.first_head, n->attrs.attention.all_heads);
	gt_infer_shape(n->out[1], gt_dtype_wide(qkv->dtype), 3,
	    (int64_t[]){ qkv->shape[0], heads, qkv->shape[1] });
	return gt_infer_vector(n->in[1], "rng", GT_I64, GT_RNG_FIELDS, err);
}

static void attention_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(g, &gt_op_attention_grad, &n->attrs, 6,
		    (struct gt_value *[]){
		        d_out[0], n->in[0], n->out[0], n->out[1], n->in[1], n->in[2] });
}

/* Return the FLOPs of `products` products of T x T scores (half of them if causal) with a head's
 * columns. The forward part has two products, the backward part five, as it recomputes the
 * scores. */
static double attention_products(const struct gt_node *n, const struct gt_value *y, double products)
{
	double t = (double)y->shape[1], seen = n->attrs.attention.full ? t : (t + 1) / 2;

	return products * 2.0 * (double)y->shape[0] * t * seen * (double)y->shape[2];
}

static double attention_flops(const struct gt_node *n)
{
	return attention_products(n, n->out[0], 2);
}

static double attention_grad_flops(const struct gt_node *n)
{
	return attention_products(n, n->in[0], 5);
}

static void attention_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " heads=%d", n->attrs.attention.heads);
	if (n->attrs.attention.kv_heads)
		fprintf(f, " kv_heads=%d", n->attrs.attention.kv_heads);
	if (n->attrs.attention.full)
		fputs(" full", f);
	if (n->attrs.attention.all_heads)
		fprintf(f, " of %d from %d", n->attrs.attention.all_heads,
		    n->attrs.attention.first_head);
	if (n->attrs.attention.p > 0)
		fprintf(f, " p=%g stream=%u", n->attrs.attention.p, n->attrs.attention.stream);
	if (n->attrs.attention.tf32)
		fputs(" tf32", f);
	if (n->attrs.attention.window)
		fprintf(f, " window=%d", n->attrs.attention.window);
	if (n->attrs.attention.cap > 0)
		fprintf(f, " cap=%g", n->attrs.attention.cap);
}

/* Return the attribute kv_heads: 0 for all heads, so that equal nodes have equal bytes. */
static int kv_heads_attr(int heads, int kv_heads)
{
	return kv_heads == heads ? 0 : kv_heads;
}

/* A shard has whole heads: queries, keys and values are three blocks of columns. If heads share
 * keys and values, packed columns have no blocks of equal units, so they stay whole. */
static struct gt_column_shards attention_takes(
    const struct gt_shard_pass *s, const struct gt_node *n, struct gt_column_shards offered)
{
	(void)s;
	if (n->in[0]->producer && n->in[0]->producer->op == &gt_op_rope)
		return offered; /* rope packed three products, which are sharded by heads */
	if (n->attrs.attention.kv_heads)
		return (struct gt_column_shards){ 0 };
	return (struct gt_column_shards){ 3, n->attrs.attention.heads };
}

/* Return this rank's heads of keys and values. A unit of the columns is one of these, with the
 * heads that share it; or a single head, if several ranks have the same keys and values. */
static int64_t own_kv_heads(const struct gt_shard_pass *s, const struct gt_node *n)
{
	struct gt_column_shards shards = gt_shard_columns(s, n->in[0]);
	int64_t first;

	return shards.units == gt_attrs_kv_heads(&n->attrs) ? gt_shard_units(s, shards, &first) : 1;
}

static int attention_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards = gt_shard_columns(s, n->in[0]);
	int64_t first, kv_heads = own_kv_heads(s, n);
	int group, count;

	if (!shards.units)
		return 0;
	group = n->attrs.attention.heads / (int)shards.units;
	count = (int)gt_shard_units(s, shards, &first);
	n->attrs.attention.all_heads = n->attrs.attention.heads;
	n->attrs.attention.heads = group * count;
	n->attrs.attention.first_head = group * (int)first;
	if (n->attrs.attention.kv_heads)
		n->attrs.attention.kv_heads =
		    kv_heads_attr(n->attrs.attention.heads, (int)kv_heads);
	gt_shard_set(s, n->out[0], (struct gt_column_shards){ 1, shards.units });
	return gt_shard_infer(s, n);
}

static const struct gt_shard_rule attention_rule = { .rewrite = attention_shard,
	.takes = attention_takes };

/*
 * attention: scaled dot-product self-attention over packed projections. No T x T matrix is stored.
 *   in   qkv F [B, T, C + 2 * kv_heads * D]: the columns of q, then k, then v; C = heads * D, where
 *        D is the size of a head;  rng I64 [4], required only for dropout (attrs.attention.p > 0);
 *        positions I32 [B, T], optional: the places of tokens in documents, which lie one behind
 *        the other in a row: 0, 1, 2, 0, 1, ...
 *   out  y F [B, T, C];  lse W [B, heads, T]: log-sum-exp of each row of scores
 *   score[i, j] = dot(q_i, k_j) / sqrt(D) for j <= i, or for all j if attrs.attention.full is set,
 *   with positions only for j >= i - positions[i], which are the tokens of the same document;
 *   p = softmax(score), then dropout;  y_i = sum over j of p[i, j] * v_j
 *   Head h of q uses head h / (heads / kv_heads), rounded down, of k and v.
 * attention_grad:  in dy, qkv, y, lse, rng (optional), positions (optional)     out  dqkv
 * For dropout, element (b, head, i, j) is element ((head * T) + i) * T + j of sample b. If the node
 * computes only a shard of the heads of a layer, attrs.attention.first_head and
 * attrs.attention.all_heads say which heads. Dropout then draws the same numbers as in the whole
 * layer.
 * Sources: Dao et al., NeurIPS 2022 (recomputation from lse); GPT-2's packing (c_attn); Ainslie et
 * al., arXiv 2305.13245 (heads that share keys and values).
 */
const struct gt_op gt_op_attention = {
	.name = "attention",
	.min_inputs = 1,
	.max_inputs = 3,
	.outputs = 2,
	.infer = attention_infer,
	.print = attention_print,
	.grad = attention_grad,
	.flops = attention_flops,
	.product = true,
	.shard = &attention_rule,
	.autocast = GT_AUTOCAST_LOW,
};

static struct gt_value *emit_attention(struct gt_graph *g, struct gt_value *qkv,
    struct gt_value *rng, double p, struct gt_value *positions, union gt_attrs *attrs)
{
	attrs->attention.p = p;
	if (p > 0)
		attrs->attention.stream = g->dropout_streams++;
	return gt_emit1(g, &gt_op_attention, attrs, positions ? 3 : 2,
	    (struct gt_value *[]){ qkv, p > 0 ? rng : NULL, positions });
}

struct gt_value *gt_attention(struct gt_graph *g, struct gt_value *qkv, struct gt_value *positions,
    struct gt_value *rng, int heads, double p)
{
	union gt_attrs attrs = { 0 };

	attrs.attention.heads = heads;
	return emit_attention(g, qkv, rng, p, positions, &attrs);
}

struct gt_value *gt_attention_full(
    struct gt_graph *g, struct gt_value *qkv, struct gt_value *rng, int heads, double p)
{
	union gt_attrs attrs = { 0 };

	attrs.attention.heads = heads;
	attrs.attention.full = true;
	return emit_attention(g, qkv, rng, p, NULL, &attrs);
}

struct gt_value *gt_attention_grouped(
    struct gt_graph *g, struct gt_value *qkv, struct gt_value *positions, int heads, int kv_heads)
{
	union gt_attrs attrs = { 0 };

	attrs.attention.heads = heads;
	attrs.attention.kv_heads = kv_heads_attr(heads, kv_heads);
	return emit_attention(g, qkv, NULL, 0, positions, &attrs);
}

/* View [B, heads, T, D] as [B, T, heads * D], copied as far as its bytes are in another order. */
static struct gt_value *join_heads(struct gt_graph *g, struct gt_value *x)
{
	const int order[] = { 0, 2, 1, 3 };

	x = gt_permute_dims(g, x, order);
	return x ? gt_reshape(
	               g, x, 3, (int64_t[]){ x->shape[0], x->shape[1], x->shape[2] * x->shape[3] })
	         : NULL;
}

/* The op scales by 1 / sqrt(D), so queries have the rest of the scale. */
struct gt_value *gt_attention_of_heads(struct gt_graph *g, struct gt_value *q, struct gt_value *k,
    struct gt_value *v, double scale, struct gt_value *rng, union gt_attrs *attrs)
{
	const int order[] = { 0, 2, 1, 3 };
	struct gt_value *packed[3] = { q, k, v }, *y;
	double factor;

	if (!q || !k || !v)
		return NULL;
	factor = scale * sqrt((double)q->shape[3]);
	if (fabs(factor - 1) > 1e-6)
		packed[0] = gt_apply(g, GT_F_MUL,
		    (struct gt_map_operand[]){ { .value = q }, { true, factor, NULL } });
	for (int i = 0; i < 3; i++)
		packed[i] = join_heads(g, packed[i]);
	attrs->attention.heads = (int)q->shape[1];
	attrs->attention.kv_heads = kv_heads_attr((int)q->shape[1], (int)k->shape[1]);
	y = g->err.code ? NULL : gt_cat(g, 3, packed, 2);
	y = gt_emit1(g, &gt_op_attention, attrs, 2, (struct gt_value *[]){ y, rng });
	if (!y)
		return NULL;
	y = gt_reshape(g, y, 4, (int64_t[]){ q->shape[0], q->shape[2], q->shape[1], q->shape[3] });
	return gt_permute_dims(g, y, order);
}

static int attention_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_same(n->in[2], n->in[0], "the gradient", err) ||
	    gt_infer_positions(n->in[5], n->in[1], err))
		return err->code;
	gt_infer_like(n->out[0], n->in[1]);
	return 0;
}

const struct gt_op gt_op_attention_grad = {
	.name = "attention_grad",
	.min_inputs = 4,
	.max_inputs = 6,
	.outputs = 1,
	.infer = attention_grad_infer,
	.print = attention_print,
	.flops = attention_grad_flops,
	.product = true,
};

static int attention_cached_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *qkv = n->in[0], *keys = n->in[2];
	int heads = gt_attrs_kv_heads(&n->attrs);
	int64_t size = head_size(n, err);

	if (!size || gt_infer_float(keys, "the keys", 4, err) || gt_infer_past(n->in[1], err) ||
	    gt_infer_same(keys, n->in[3], "the values", err))
		return err->code;
	if (n->attrs.attention.window < 0 || !(n->attrs.attention.cap >= 0))
		return gt_err_set(err, GT_EINVAL, "a window of %d, a cap of %g",
		    n->attrs.attention.window, n->attrs.attention.cap);
	if (keys->dtype != qkv->dtype || keys->shape[0] != qkv->shape[0] ||
	    keys->shape[1] != heads || keys->shape[2] < qkv->shape[1] || keys->shape[3] != size)
		return gt_err_set(err, GT_EINVAL, "keys %s are not those of %d heads of %s",
		    gt_shape_text(keys).s, heads, gt_shape_text(qkv).s);
	return 0;
}

/* Each rank caches the keys and values of its heads. */
static int attention_cached_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	for (int k = 2; gt_shard_is_sharded(s, n->in[0]) && k < 4; k++)
		n->in[k]->shape[1] = own_kv_heads(s, n);
	return attention_shard(s, n);
}

static const struct gt_shard_rule attention_cached_rule = { .rewrite = attention_cached_shard,
	.takes = attention_takes };

/* The count is that of full caches. */
static double attention_cached_flops(const struct gt_node *n)
{
	const struct gt_value *y = n->out[0];

	return 4.0 * (double)gt_value_elements(y) * (double)n->in[2]->shape[2];
}

/*
 * attention_cached: causal attention for the next T tokens of a text. Earlier runs stored the keys
 * and values of the `past` earlier tokens in the caches `keys` and `values`, in float32 also with
 * mixed precision. The op has no gradient.
 *   in   qkv F as in attention;  past I32 [], past + T <= P;  keys, values F [B, kv_heads, P, D],
 *        both updated: rows past to past + T - 1 become k and v of these T tokens
 *   out  y F [B, T, C]
 *   score[i, j] = dot(q_i, keys_j) / sqrt(D) for j <= past + i, with attrs.attention.window only
 *   for j > past + i - window; with attrs.attention.cap it becomes cap * tanh(score[i, j] / cap);
 *   y_i = sum over j of softmax(score)[i, j] * values_j
 * The kernel reads only the first past + T rows of the caches.
 */
const struct gt_op gt_op_attention_cached = {
	.name = "attention_cached",
	.min_inputs = 4,
	.max_inputs = 4,
	.outputs = 1,
	.infer = attention_cached_infer,
	.print = attention_print,
	.flops = attention_cached_flops,
	.product = true,
	.shard = &attention_cached_rule,
	.autocast = GT_AUTOCAST_HIGH,
	.writes = 1u << 2 | 1u << 3,
};

struct gt_value *gt_attention_cached(struct gt_graph *g, struct gt_value *qkv,
    struct gt_value *past, struct gt_value *keys, struct gt_value *values, int heads, int kv_heads,
    const union gt_attrs *more)
{
	union gt_attrs attrs = { 0 };

	attrs.attention.heads = heads;
	attrs.attention.kv_heads = kv_heads_attr(heads, kv_heads);
	if (more) {
		attrs.attention.window = more->attention.window;
		attrs.attention.cap = more->attention.cap;
	}
	return gt_emit1(g, &gt_op_attention_cached, &attrs, 4,
	    (struct gt_value *[]){ qkv, past, keys, values });
}
