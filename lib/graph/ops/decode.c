/* decode.c - the elements of weights that are stored in blocks. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

static int decode_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *x = n->in[0];
	const int64_t columns = n->attrs.decode.columns;

	if (!n->attrs.decode.block || !gt_infer_is_packed(x, n->attrs.decode.block, columns))
		return gt_err_set(err, GT_EINVAL, "%s has no rows of %lld elements in blocks of %s",
		    gt_shape_text(x).s, (long long)columns, gt_block_names[n->attrs.decode.block]);
	gt_infer_shape(n->out[0], n->attrs.decode.to, 2, (int64_t[]){ x->shape[0], columns });
	return gt_infer_float(n->out[0], "the result", 2, err);
}

static void decode_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " %s", gt_block_names[n->attrs.decode.block]);
}

/*
 * decode: the elements of a matrix that is stored in blocks (lib/base/blocks.h).
 *   in   x U8 [N, bytes of a row]
 *   out  y F [N, attrs.decode.columns] of the type attrs.decode.to: float32, or a type of 16 bits,
 *        to which elements are rounded
 * It has no gradient, because such a matrix is not trained.
 */
const struct gt_op gt_op_decode = {
	.name = "decode",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = decode_infer,
	.print = decode_print,
	.constant = true,
};

struct gt_value *gt_decode(struct gt_graph *g, struct gt_value *x, enum gt_dtype to)
{
	union gt_attrs attrs = { 0 };

	if (!x)
		return NULL;
	attrs.decode.block = x->packing.block;
	attrs.decode.columns = gt_packing_columns(&x->packing);
	attrs.decode.to = to;
	return gt_emit1(g, &gt_op_decode, &attrs, 1, &x);
}
