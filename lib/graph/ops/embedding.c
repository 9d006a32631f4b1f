/* embedding.c - rows of a table, and positions. */
#include <string.h>

#include "lib/graph/expr.h"
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* Find type and width of a table's rows. */
static int find_rows(
    const struct gt_node *n, enum gt_dtype *dtype, int64_t *width, struct gt_err *err)
{
	const struct gt_value *table = n->in[0];

	if (!n->attrs.embedding.block && gt_infer_float(table, "the table", 2, err))
		return err->code;
	*dtype = n->attrs.embedding.block ? GT_F32 : table->dtype;
	*width = n->attrs.embedding.block ? n->attrs.embedding.width : table->shape[1];
	if (!n->attrs.embedding.block ||
	    gt_infer_is_packed(table, n->attrs.embedding.block, *width))
		return 0;
	return gt_err_set(err, GT_EINVAL, "the table %s has no rows of %lld in blocks of %s",
	    gt_shape_text(table).s, (long long)*width, gt_block_names[n->attrs.embedding.block]);
}

static int embedding_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *table = n->in[0], *ids = n->in[1], *position = n->in[2];
	enum gt_dtype dtype;
	int64_t width = 0;

	if (find_rows(n, &dtype, &width, err))
		return err->code;
	if (gt_infer_shard(
	        n->attrs.embedding.first, n->attrs.embedding.whole, table->shape[0], "rows", err))
		return err->code;
	if (ids->dtype != GT_I32 || ids->ndim != 2)
		return gt_err_set(err, GT_EINVAL, "ids are int32 [B, T]");
	if (position &&
	    (gt_infer_float(position, "the positions", 2, err) || position->dtype != dtype ||
	        position->shape[1] != width || position->shape[0] < ids->shape[1]))
		return gt_err_set(err, GT_EINVAL,
		    "positions %s %s do not reach %lld tokens of %s width %lld",
		    gt_dtype_name(position->dtype), gt_shape_text(position).s,
		    (long long)ids->shape[1], gt_dtype_name(dtype), (long long)width);
	if (n->in[4] && (!position || n->in[3]))
		return gt_err_set(
		    err, GT_EINVAL, "places of tokens are for positions of whole texts");
	if (gt_infer_past(n->in[3], err) || gt_infer_positions(n->in[4], ids, err))
		return err->code;
	gt_infer_shape(n->out[0], n->attrs.embedding.low == GT_F32 ? dtype : n->attrs.embedding.low,
	    3, (int64_t[]){ ids->shape[0], ids->shape[1], width });
	return 0;
}

/* Return dy with zeros where the padding was looked up, so that its row of dtable is zero. */
static struct gt_value *drop_padding(struct gt_graph *g, struct gt_node *n, struct gt_value *dy)
{
	struct gt_value *in[] = { dy, NULL };
	struct gt_expr e = { 0 };
	int d = gt_expr_input(&e, 0), id = gt_expr_input(&e, 1);
	int padding = gt_expr_number(&e, (double)(n->attrs.embedding.padding - 1));

	gt_expr_output(&e, gt_expr_apply3(&e, GT_F_WHERE, gt_expr_apply2(&e, GT_F_EQ, id, padding),
	                       gt_expr_number(&e, 0), d));
	in[1] =
	    gt_reshape(g, n->in[1], 3, (int64_t[]){ n->in[1]->shape[0], n->in[1]->shape[1], 1 });
	return gt_map_expr(g, &e, 2, in);
}

static void embedding_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	union gt_attrs attrs = n->attrs;
	bool is_narrowed = n->out[0]->dtype != n->in[0]->dtype;
	enum gt_dtype low = is_narrowed ? n->attrs.embedding.low : GT_F32;

	attrs.embedding.low = low;
	if (wanted[0]) {
		struct gt_value *dy =
		    n->attrs.embedding.padding ? drop_padding(g, n, d_out[0]) : d_out[0];

		attrs.embedding.rows = n->in[0]->shape[0];
		d_in[0] = gt_emit1(
		    g, &gt_op_embedding_grad, &attrs, 2, (struct gt_value *[]){ dy, n->in[1] });
	}
	if (wanted[2] && n->in[3]) {
		gt_graph_fail(g, GT_ENOTSUP,
		    "embedding: no gradient of positions behind those of earlier tokens");
	} else if (wanted[2] && n->in[4]) {
		attrs = (union gt_attrs){ .embedding = { .rows = n->in[2]->shape[0], .low = low } };
		d_in[2] = gt_emit1(g, &gt_op_embedding_grad, &attrs, 2,
		    (struct gt_value *[]){ d_out[0], n->in[4] });
	} else if (wanted[2]) {
		attrs = (union gt_attrs){ .embedding = { .rows = n->in[2]->shape[0], .low = low } };
		d_in[2] = gt_emit1(g, &gt_op_position_grad, &attrs, 1, d_out);
	}
}

static void embedding_print(const struct gt_node *n, FILE *f)
{
	gt_infer_print_shard(n->attrs.embedding.first, n->attrs.embedding.whole, f);
	if (n->attrs.embedding.padding)
		fprintf(f, " padding=%lld", (long long)n->attrs.embedding.padding - 1);
	if (n->attrs.embedding.block)
		fprintf(f, " %s", gt_block_names[n->attrs.embedding.block]);
}

/* Return whether ranks can share the table: it is a weight with a row for each of them, and its
 * other readers compute with rows, too. */
static bool can_share_table(const struct gt_shard_pass *s, const struct gt_node *n)
{
	const struct gt_value *table = n->in[0];

	if (!gt_value_is_weight(table) || table->shape[0] < s->ranks ||
	    (s->stays_whole && s->stays_whole(s->self, table->name)))
		return false;
	for (size_t i = 0; i < s->g->node_count; i++) {
		const struct gt_node *other = s->g->nodes[i];

		for (int k = 0; other != n && k < other->inputs; k++)
			if (other->in[k] == table &&
			    (k != 1 || !other->op->shard || !other->op->shard->takes_rows ||
			        !other->op->shard->takes_rows(s, other)))
				return false;
	}
	return true;
}

/* The table is sharded by rows: the row of a token is zero on all ranks but one. */
static int embedding_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards = { 1, n->in[0]->shape[0] };
	int rc;

	if (!can_share_table(s, n))
		return gt_shard_whole.rewrite(s, n);
	rc = gt_shard_parameter(s, n->in[0], 0, shards);
	if (rc)
		return rc;
	gt_shard_units(s, shards, &n->attrs.embedding.first);
	n->attrs.embedding.whole = shards.units;
	gt_shard_place_after(s);
	gt_shard_replace(s, n->out[0], gt_shard_sum(s, n->out[0]));
	return gt_shard_infer(s, n);
}

static const struct gt_shard_rule embedding_rule = { .rewrite = embedding_shard };

/*
 * embedding: y[b, t] = table[ids[b, t]] + position[past + t]. An id outside the table is an error;
 * the error's text contains the id.
 *   in   table F [V, C];  ids I32 [B, T];  position F [P, C], P >= past + T, optional;
 *        past I32 [], optional (0): the number of earlier tokens of the text;  places I32 [B, T],
 *        optional, without past: the rows of position, in place of past + t
 *   out  y [B, T, C] of the type F, or of the type attrs.embedding.low if this is a 16-bit type
 * embedding_grad:  in dy, ids, acc F [V, C], optional (0)
 *   out  dtable = acc + the sum of the rows of dy for each id, added in the order of (b, t);
 *        overwrites acc
 * position_grad:   in dy     out  dposition F [attrs.embedding.rows, C] = sum of dy over b; zero
 *        from row T on
 * dtable and dposition have the type of the table.
 * If attrs.embedding.padding > 0, its row of dtable, at index attrs.embedding.padding - 1, gets no
 * gradient of y: embedding_grad has zeros for these rows of dy.
 * If attrs.embedding.block is set, F is F32, and the table is U8 [V, bytes of a row]: rows of C =
 * attrs.embedding.width elements in these blocks (lib/base/blocks.h).
 * If attrs.embedding.whole > 0, the table is a shard of a whole table with attrs.embedding.whole
 * rows: it has the rows from attrs.embedding.first on. If the row of ids[b, t] is in another shard,
 * y[b, t] is zero, and no position is added. So the sum of y over all shards is the y of the whole
 * table. The gradient of this sum is also the gradient of each shard's y.
 */
const struct gt_op gt_op_embedding = {
	.name = "embedding",
	.min_inputs = 2,
	.max_inputs = 5,
	.outputs = 1,
	.infer = embedding_infer,
	.lookups = 1 << 0 | 1 << 2,
	.print = embedding_print,
	.grad = embedding_grad,
	.shard = &embedding_rule,
	.autocast = GT_AUTOCAST_LOOKUP,
};

struct gt_value *gt_embedding(struct gt_graph *g, struct gt_value *table, struct gt_value *ids,
    struct gt_value *position, struct gt_value *past)
{
	return gt_emit1(
	    g, &gt_op_embedding, NULL, 4, (struct gt_value *[]){ table, ids, position, past });
}

struct gt_value *gt_embedding_placed(struct gt_graph *g, struct gt_value *table,
    struct gt_value *ids, struct gt_value *position, struct gt_value *places)
{
	return gt_emit1(g, &gt_op_embedding, NULL, 5,
	    (struct gt_value *[]){ table, ids, position, NULL, places });
}

struct gt_value *gt_embedding_padded(
    struct gt_graph *g, struct gt_value *table, struct gt_value *ids, int64_t padding)
{
	union gt_attrs attrs = { 0 };

	attrs.embedding.padding = padding + 1;
	return gt_emit1(
	    g, &gt_op_embedding, &attrs, 4, (struct gt_value *[]){ table, ids, NULL, NULL });
}

/* ---- index_select ---- */

/* Move dimension `from` of x to place `to`; the others keep their order. */
static struct gt_value *move_dim(struct gt_graph *g, struct gt_value *x, int from, int to)
{
	int order[GT_MAX_DIMS], next = 0;

	for (int i = 0; x && i < x->ndim; i++) {
		next += next == from;
		order[i] = i == to ? from : next++;
	}
	return gt_permute_dims(g, x, order);
}

/* Return x as a matrix [x->shape[0], the rest]. */
static struct gt_value *as_table(struct gt_graph *g, struct gt_value *x)
{
	if (!x || x->ndim == 2)
		return x;
	return gt_reshape(g, x, 2, (int64_t[]){ x->shape[0], gt_value_elements(x) / x->shape[0] });
}

/* Replace dimension `dim` of a shape by the dimensions of `by`. Returns the new number of
 * dimensions. */
static int replace_dim(int64_t *to, const struct gt_value *x, int dim, const struct gt_value *by)
{
	int ndim = 0;

	for (int i = 0; i < dim; i++)
		to[ndim++] = x->shape[i];
	for (int i = 0; i < by->ndim; i++)
		to[ndim++] = by->shape[i];
	for (int i = dim + 1; i < x->ndim; i++)
		to[ndim++] = x->shape[i];
	return ndim;
}

struct gt_value *gt_index_select(
    struct gt_graph *g, struct gt_value *x, int dim, struct gt_value *ids)
{
	int64_t shape[2 * GT_MAX_DIMS], rows[GT_MAX_DIMS];
	struct gt_value *table, *y;
	int ndim;

	if (!x || !ids)
		return NULL;
	if (dim < 0 || dim >= x->ndim || x->ndim - 1 + ids->ndim > GT_MAX_DIMS)
		return gt_graph_fail(g, GT_EINVAL,
		    "index_select: indices %s along dimension %d of %s", gt_shape_text(ids).s, dim,
		    gt_shape_text(x).s);
	table = move_dim(g, x, dim, 0);
	if (!table)
		return NULL;
	memcpy(rows, table->shape, sizeof(rows));
	rows[0] = gt_value_elements(ids);
	ndim = replace_dim(shape, x, dim, ids);
	y = gt_embedding(g, as_table(g, table),
	    ids->ndim == 2 ? ids : gt_reshape(g, ids, 2, (int64_t[]){ 1, rows[0] }), NULL, NULL);
	y = move_dim(g, gt_reshape(g, y, x->ndim, rows), 0, dim);
	return gt_reshape(g, y, ndim, shape);
}

/* ---- gradients ---- */

/* Infer a table's gradient: the attribute has the number of rows, dy the width. */
static int table_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *dy = n->in[0];

	if (gt_infer_float(dy, "the gradient", 3, err))
		return err->code;
	gt_infer_shape(n->out[0],
	    n->attrs.embedding.low == GT_F32 ? dy->dtype : gt_dtype_wide(dy->dtype), 2,
	    (int64_t[]){ n->attrs.embedding.rows, dy->shape[2] });
	return 0;
}

static int embedding_grad_infer(struct gt_node *n, struct gt_err *err)
{
	if (table_grad_infer(n, err))
		return err->code;
	return n->in[2] ? gt_infer_same(n->out[0], n->in[2], "the sum", err) : 0;
}

static double table_grad_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

/* A sum that is there already is changed in the rows of the ids alone. */
static void add_embedding_grad_bytes(const struct gt_node *n, struct gt_cost *cost)
{
	double table = (double)gt_value_bytes(n->out[0]), rows;

	if (!n->in[2])
		return;
	rows = (double)gt_value_elements(n->in[0]) * (double)gt_dtype_size(n->out[0]->dtype);
	if (rows < table) {
		cost->bytes_read -= table - rows;
		cost->bytes_written -= table - rows;
	}
}

const struct gt_op gt_op_embedding_grad = {
	.name = "embedding_grad",
	.min_inputs = 2,
	.max_inputs = 3,
	.outputs = 1,
	.infer = embedding_grad_infer,
	.print = embedding_print,
	.flops = table_grad_flops,
	.add_bytes = add_embedding_grad_bytes,
	.inplace = 1u << 2,
};

const struct gt_op gt_op_position_grad = {
	.name = "position_grad",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = table_grad_infer,
	.flops = table_grad_flops,
};
