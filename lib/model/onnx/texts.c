/* texts.c - embeddings, rotary positions and attention as ONNX. */
#include <math.h>
#include <stdio.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/onnx/inside.h"

/* ---- embeddings ---- */

/* Return the first rows of a table of positions, as many as there are tokens. */
static const char *first_rows(
    struct gt_onnx_export *x, const struct gt_value *table, struct gt_onnx_size rows)
{
	const int64_t zero = 0;

	if (gt_onnx_is_fixed(rows) && rows.factor == table->shape[0])
		return gt_onnx_name(x, table);
	return gt_onnx_call(x, "Slice", NULL, 4,
	    (const char *[]){ gt_onnx_name(x, table), gt_onnx_ints(x, 1, &zero),
	        gt_onnx_size(x, rows), gt_onnx_ints(x, 1, &zero) });
}

void gt_onnx_embedding(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *y =
	    gt_onnx_binary(x, "Gather", gt_onnx_name(x, n->in[0]), gt_onnx_name(x, n->in[1]));

	if (n->in[3])
		gt_onnx_fail(x, "caches of earlier tokens");
	if (n->in[4])
		y = gt_onnx_binary(x, "Add", y,
		    gt_onnx_binary(
		        x, "Gather", gt_onnx_name(x, n->in[2]), gt_onnx_name(x, n->in[4])));
	else if (n->in[2])
		y = gt_onnx_binary(
		    x, "Add", y, first_rows(x, n->in[2], gt_onnx_shape_of(x, n->in[1]).dims[1]));
	gt_onnx_set(x, n->out[0], y);
}

/* ---- positions ---- */

/* Return a name that is made once for a number of tokens, or make it. */
typedef const char *make_function(
    struct gt_onnx_export *x, const struct gt_node *n, struct gt_onnx_size time);

static const char *make_once(struct gt_onnx_export *x, const struct gt_node *n, const char *what,
    struct gt_onnx_size time, make_function *make)
{
	const char *kept;
	char key[160];

	snprintf(
	    key, sizeof(key), "%s for %lld * time^%d", what, (long long)time.factor, time.time);
	kept = gt_onnx_kept(x, key);
	return kept ? kept : gt_onnx_keep(x, key, make(x, n, time));
}

/* ---- attention ---- */

/* Return 0 where a token attends to another one, and -infinity elsewhere: [time, time]. */
static const char *make_causal_mask(
    struct gt_onnx_export *x, const struct gt_node *n, struct gt_onnx_size time)
{
	enum gt_dtype type = n->in[0]->dtype;
	const char *at = gt_onnx_range(x, time);
	const char *sees = gt_onnx_binary(
	    x, "LessOrEqual", gt_onnx_unsqueeze(x, at, 0), gt_onnx_unsqueeze(x, at, 1));

	return gt_onnx_call(x, "Where", NULL, 3,
	    (const char *[]){
	        sees, gt_onnx_number(x, type, 0), gt_onnx_number(x, type, -INFINITY) });
}

/* The heads of an attention; `group` heads of queries share one of keys and values. */
struct heads {
	struct gt_onnx_size batch, time;
	int64_t kv, group, size;
};

/* Return queries, keys or values [B, T, columns] as [B, kv, group, T, size], without the group if
 * it is 1. For keys the last two are swapped. */
static const char *split_heads(
    struct gt_onnx_export *x, const char *a, const struct heads *h, int64_t group, bool keys)
{
	const struct gt_onnx_shape from = { 3,
		{ h->batch, h->time, gt_onnx_fixed(h->kv * group * h->size) } };
	struct gt_onnx_shape to = { 5, { h->batch, h->time, gt_onnx_fixed(h->kv),
		                           gt_onnx_fixed(group), gt_onnx_fixed(h->size) } };
	static const int64_t four[] = { 0, 2, 1, 3 }, four_keys[] = { 0, 2, 3, 1 },
	                     five[] = { 0, 2, 3, 1, 4 }, five_keys[] = { 0, 2, 3, 4, 1 };

	if (h->group == 1) {
		to.ndim = 4;
		to.dims[3] = to.dims[4];
		return gt_onnx_transpose(
		    x, gt_onnx_reshape(x, a, &from, &to), 4, keys ? four_keys : four);
	}
	return gt_onnx_transpose(x, gt_onnx_reshape(x, a, &from, &to), 5, keys ? five_keys : five);
}

/* Return [B, kv, group, T, size] as [B, T, columns]. */
static const char *join_heads(struct gt_onnx_export *x, const char *a, const struct heads *h)
{
	struct gt_onnx_shape from = { 5, { h->batch, h->time, gt_onnx_fixed(h->kv),
		                             gt_onnx_fixed(h->group), gt_onnx_fixed(h->size) } };
	const struct gt_onnx_shape to = { 3,
		{ h->batch, h->time, gt_onnx_fixed(h->kv * h->group * h->size) } };

	if (h->group > 1)
		return gt_onnx_reshape(
		    x, gt_onnx_transpose(x, a, 5, (const int64_t[]){ 0, 3, 1, 2, 4 }), &from, &to);
	from.ndim = 4;
	from.dims[3] = from.dims[4];
	return gt_onnx_reshape(
	    x, gt_onnx_transpose(x, a, 4, (const int64_t[]){ 0, 2, 1, 3 }), &from, &to);
}

void gt_onnx_attention(struct gt_onnx_export *x, const struct gt_node *n)
{
	const struct gt_onnx_shape in = gt_onnx_shape_of(x, n->in[0]);
	int64_t kv = gt_attrs_kv_heads(&n->attrs), all = n->attrs.attention.heads;
	struct heads h = { in.dims[0], in.dims[1], kv, all / kv,
		n->in[0]->shape[2] / (all + 2 * kv) };
	const int64_t columns[] = { all * h.size, kv * h.size, kv * h.size };
	const char *part[3], *scores;

	gt_onnx_split(x, gt_onnx_name(x, n->in[0]), 2, 3, columns, part);
	part[0] = gt_onnx_binary(x, "Mul", split_heads(x, part[0], &h, h.group, false),
	    gt_onnx_number(x, n->in[0]->dtype, 1 / sqrt((double)h.size)));
	part[1] = split_heads(x, part[1], &h, 1, true);
	part[2] = split_heads(x, part[2], &h, 1, false);
	scores = gt_onnx_binary(x, "MatMul", part[0], part[1]);
	if (!n->attrs.attention.full)
		scores = gt_onnx_binary(
		    x, "Add", scores, make_once(x, n, "causal mask", h.time, make_causal_mask));
	scores = gt_onnx_call(x, "Softmax",
	    (struct gt_onnx_attribute[]){ GT_ONNX_ATTR_INT("axis", -1), { 0 } }, 1, &scores);
	scores = gt_onnx_binary(x, "MatMul", scores, part[2]);
	gt_onnx_set(x, n->out[0], join_heads(x, scores, &h));
}

/* ---- rotary positions ---- */

static int64_t rope_columns(const struct gt_node *n)
{
	return n->in[0]->shape[2] / n->attrs.rope.heads;
}

/* Return the pairs of columns of a head that are rotated. */
static int64_t rope_pairs(const struct gt_node *n)
{
	return n->attrs.rope.angles ? n->attrs.rope.angles->pairs : rope_columns(n) / 2;
}

static float rope_frequency(const struct gt_node *n, int64_t j)
{
	return n->attrs.rope.angles
	           ? n->attrs.rope.angles->frequency[j]
	           : (float)pow(n->attrs.rope.theta, -(double)j / (double)rope_pairs(n));
}

/* Return the angles [time, 1, pairs]. */
static const char *make_angles(
    struct gt_onnx_export *x, const struct gt_node *n, struct gt_onnx_size time)
{
	int64_t pairs = rope_pairs(n);
	float *frequency = gt_arena_alloc(&x->arena, (size_t)pairs * sizeof(*frequency), &x->err);
	const char *at = gt_onnx_cast(x, gt_onnx_range(x, time), GT_F32);

	for (int64_t j = 0; frequency && j < pairs; j++)
		frequency[j] = rope_frequency(n, j);
	if (!frequency)
		return NULL;
	at = gt_onnx_unsqueeze(x, gt_onnx_unsqueeze(x, at, 1), 2);
	return gt_onnx_binary(x, "Mul", at, gt_onnx_floats(x, (int)pairs, frequency));
}

/* Make a table of rope with a frequency for each pair of columns once; `what` names it. Equal
 * angles are one attribute of the graph. */
static const char *make_table_once(struct gt_onnx_export *x, const struct gt_node *n,
    const char *what, struct gt_onnx_size time, make_function *make)
{
	char key[120];

	snprintf(key, sizeof(key), "%s %.17g / %lld of %p", what, n->attrs.rope.theta,
	    (long long)rope_pairs(n), (const void *)n->attrs.rope.angles);
	return make_once(x, n, key, time, make);
}

/* Return cosines or sines, multiplied by the scale of the node's angles. */
static const char *scale_table(
    struct gt_onnx_export *x, const struct gt_node *n, const char *function, const char *angles)
{
	const struct gt_rope_angles *a = n->attrs.rope.angles;
	const char *table = gt_onnx_unary(x, function, angles);

	return a && a->scale != 1
	           ? gt_onnx_binary(x, "Mul", table, gt_onnx_number(x, GT_F32, a->scale))
	           : table;
}

static const char *make_cosines(
    struct gt_onnx_export *x, const struct gt_node *n, struct gt_onnx_size time)
{
	return scale_table(x, n, "Cos", make_table_once(x, n, "angles", time, make_angles));
}

static const char *make_sines(
    struct gt_onnx_export *x, const struct gt_node *n, struct gt_onnx_size time)
{
	return scale_table(x, n, "Sin", make_table_once(x, n, "angles", time, make_angles));
}

/* Rotate the heads of q or k [B, T, heads * size] by their positions. */
static const char *rotate_heads(
    struct gt_onnx_export *x, const struct gt_node *n, const struct gt_value *v)
{
	const struct gt_onnx_shape from = gt_onnx_shape_of(x, v);
	int64_t size = rope_columns(n), pairs = rope_pairs(n);
	int64_t parts[] = { pairs, pairs, size - 2 * pairs };
	const struct gt_onnx_shape to = { 4,
		{ from.dims[0], from.dims[1], gt_onnx_fixed(v->shape[2] / size),
		    gt_onnx_fixed(size) } };
	int count = parts[2] ? 3 : 2;
	const char *part[3] = { NULL }, *turned[3], *c, *s;

	if (!pairs)
		return gt_onnx_name(x, v);
	c = make_table_once(x, n, "cosines", from.dims[1], make_cosines);
	s = make_table_once(x, n, "sines", from.dims[1], make_sines);
	gt_onnx_split(x, gt_onnx_reshape(x, gt_onnx_name(x, v), &from, &to), 3, count, parts, part);
	turned[0] = gt_onnx_binary(
	    x, "Sub", gt_onnx_binary(x, "Mul", part[0], c), gt_onnx_binary(x, "Mul", part[1], s));
	turned[1] = gt_onnx_binary(
	    x, "Add", gt_onnx_binary(x, "Mul", part[1], c), gt_onnx_binary(x, "Mul", part[0], s));
	turned[2] = part[2];
	return gt_onnx_reshape(x, gt_onnx_concat(x, count, turned, 3), &to, &from);
}

void gt_onnx_rope(struct gt_onnx_export *x, const struct gt_node *n)
{
	const char *part[3];

	if (n->in[3])
		gt_onnx_fail(x, "caches of earlier tokens");
	part[0] = rotate_heads(x, n, n->in[0]);
	part[1] = rotate_heads(x, n, n->in[1]);
	part[2] = gt_onnx_name(x, n->in[2]);
	gt_onnx_set(x, n->out[0], gt_onnx_concat(x, 3, part, 2));
}
