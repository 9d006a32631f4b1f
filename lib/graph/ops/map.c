/* map.c - the op of everything that works element by element, and its gradient. */
#include "lib/graph/expr.h"
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* ---- shapes and types ---- */

/* Broadcast a shape into *shape, as NumPy does. Return whether it fits. */
static bool broadcast(int *ndim, int64_t *shape, int more, const int64_t *from)
{
	for (; *ndim < more; (*ndim)++) {
		for (int d = *ndim; d > 0; d--)
			shape[d] = shape[d - 1];
		shape[0] = 1;
	}
	for (int d = 0; d < more; d++) {
		int64_t *size = &shape[*ndim - more + d];

		if (*size != 1 && from[d] != 1 && from[d] != *size)
			return false;
		*size = *size == 1 ? from[d] : *size;
	}
	return true;
}

static bool is_counted(enum gt_dtype dtype)
{
	return dtype == GT_U8 || dtype == GT_BOOL || dtype == GT_I32 || dtype == GT_I64;
}

/* Check input i. *real is the floating-point type of the inputs before it, or NULL. */
static int check_input(
    const struct gt_value *v, int i, const struct gt_value **real, struct gt_err *err)
{
	if (!v)
		return gt_err_set(err, GT_EINVAL, "input %d is missing", i);
	if (!gt_dtype_is_real(v->dtype) && !is_counted(v->dtype))
		return gt_err_set(err, GT_EINVAL, "input %d is %s, which has no arithmetic", i,
		    gt_dtype_name(v->dtype));
	if (!gt_dtype_is_real(v->dtype))
		return 0;
	if (*real && v->dtype != (*real)->dtype)
		return gt_err_set(err, GT_EINVAL, "input %d is %s, and another one %s", i,
		    gt_dtype_name(v->dtype), gt_dtype_name((*real)->dtype));
	*real = v;
	return 0;
}

static int map_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_map_program *p = n->attrs.map.program;
	const struct gt_value *real = NULL;
	int64_t shape[GT_MAX_DIMS] = { 0 };
	int ndim = 0;

	broadcast(&ndim, shape, n->attrs.map.ndim, n->attrs.map.shape);
	for (int i = 0; i < p->inputs; i++) {
		if (check_input(n->in[i], i, &real, err))
			return err->code;
		if (!broadcast(&ndim, shape, n->in[i]->ndim, n->in[i]->shape))
			return gt_err_set(err, GT_EINVAL,
			    "input %d has shape %s, which does not broadcast with the others", i,
			    gt_shape_text(n->in[i]).s);
	}
	for (int j = 0; j < GT_MAP_OUTPUTS; j++)
		if (j < p->outputs)
			gt_infer_shape(n->out[j], real ? real->dtype : GT_F32, ndim, shape);
		else
			n->out[j] = NULL;
	return 0;
}

static double map_flops(const struct gt_node *n)
{
	return n->attrs.map.program->flops * (double)gt_value_elements(n->out[0]);
}

static void map_print(const struct gt_node *n, FILE *f)
{
	gt_map_program_print(n->attrs.map.program, f);
}

/* ---- emitting ---- */

/* Emit a node for an expression of some inputs. `like` (or NULL): the result has at least its
 * shape. */
static struct gt_node *emit_map(struct gt_graph *g, const struct gt_expr *e,
    const union gt_attrs *like, int inputs, struct gt_value *const *in)
{
	union gt_attrs attrs = { 0 };
	struct gt_map_program p;
	struct gt_err err = GT_ERR_INIT;

	if (g->err.code)
		return NULL;
	if (gt_expr_compile(&p, e, &err))
		return gt_graph_fail(g, err.code, "map: %s", err.text);
	if (like)
		attrs = *like;
	attrs.map.program = gt_graph_intern(g, &p, sizeof(p));
	return attrs.map.program ? gt_emit(g, &gt_op_map, &attrs, inputs, in) : NULL;
}

struct gt_value *gt_map_expr(
    struct gt_graph *g, const struct gt_expr *e, int inputs, struct gt_value *const *in)
{
	struct gt_node *n = emit_map(g, e, NULL, inputs, in);

	return n ? n->out[0] : NULL;
}

struct gt_value *gt_apply(
    struct gt_graph *g, enum gt_function f, const struct gt_map_operand *operands)
{
	struct gt_value *in[3] = { NULL };
	struct gt_expr e = { 0 };
	int arg[3] = { -1, -1, -1 }, inputs = 0;

	for (int k = 0; k < gt_function_arguments(f); k++) {
		if (operands[k].is_number) {
			arg[k] = gt_expr_number(&e, operands[k].number);
			continue;
		}
		in[inputs] = operands[k].value;
		arg[k] = gt_expr_input(&e, inputs++);
	}
	gt_expr_output(&e, gt_expr_apply3(&e, f, arg[0], arg[1], arg[2]));
	return gt_map_expr(g, &e, inputs, in);
}

struct gt_value *gt_unary(struct gt_graph *g, enum gt_function f, struct gt_value *x)
{
	return gt_apply(g, f, &(struct gt_map_operand){ .value = x });
}

struct gt_value *gt_binary(
    struct gt_graph *g, enum gt_function f, struct gt_value *a, struct gt_value *b)
{
	return gt_apply(g, f, (struct gt_map_operand[]){ { .value = a }, { .value = b } });
}

struct gt_value *gt_expand(struct gt_graph *g, struct gt_value *x, int ndim, const int64_t *shape)
{
	union gt_attrs attrs = { 0 };
	struct gt_expr e = { 0 };
	struct gt_node *n;

	attrs.map.ndim = ndim;
	for (int d = 0; d < ndim; d++)
		attrs.map.shape[d] = shape[d];
	gt_expr_output(&e, gt_expr_input(&e, 0));
	n = emit_map(g, &e, &attrs, 1, &x);
	return n ? n->out[0] : NULL;
}

/* ---- gradient ---- */

/* Sum v over the dimensions in which x was broadcast. */
static struct gt_value *sum_to(struct gt_graph *g, struct gt_value *v, const struct gt_value *x)
{
	int missing = v ? v->ndim - x->ndim : 0;
	unsigned dims = 0;

	for (int d = 0; v && d < v->ndim; d++)
		if (d < missing || (x->shape[d - missing] == 1 && v->shape[d] != 1))
			dims |= 1u << d;
	if (!dims)
		return v;
	return gt_reshape(g, gt_sum(g, v, dims, false), x->ndim, x->shape);
}

/* The gradient of a node: an expression, the values of its inputs, and its outputs so far. */
struct map_gradient {
	struct gt_expr d;
	struct gt_value *in[GT_EXPR_INPUTS], *out[GT_EXPR_INPUTS];
};

/* Emit a node that computes outputs which[0 .. count - 1] of the gradient from the inputs that
 * these outputs need. */
static void emit_part(struct gt_graph *g, struct map_gradient *m, const int *which, int count)
{
	struct gt_value *in[GT_EXPR_INPUTS] = { NULL };
	struct gt_expr part = { 0 }, chosen = m->d;
	int input[GT_EXPR_INPUTS], out[GT_EXPR_INPUTS], inputs = 0;
	struct gt_node *n;
	unsigned reads;

	chosen.outputs = count;
	for (int k = 0; k < count; k++)
		chosen.out[k] = m->d.out[which[k]];
	reads = gt_expr_reads(&chosen);
	for (int i = 0; i < m->d.inputs; i++) {
		if (!(reads >> i & 1)) {
			input[i] = gt_expr_number(&part, 0);
			continue;
		}
		in[inputs] = m->in[i];
		input[i] = gt_expr_input(&part, inputs++);
	}
	gt_expr_inline(&part, &chosen, input, out);
	for (int k = 0; k < count; k++)
		gt_expr_output(&part, out[k]);
	n = emit_map(g, &part, NULL, inputs > GT_MAP_INPUTS ? GT_MAP_INPUTS : inputs, in);
	for (int k = 0; n && k < count; k++)
		m->out[which[k]] = n->out[k];
}

/* Emit nodes for all outputs of the gradient. An output that is an input needs none. */
static void emit_gradient(struct gt_graph *g, struct map_gradient *m, const struct gt_value *like)
{
	int which[GT_MAP_OUTPUTS], count = 0;

	for (int j = 0; j < m->d.outputs; j++) {
		const struct gt_expr_value *v = &m->d.value[m->d.out[j]];

		if (v->function == GT_EXPR_INPUT) {
			m->out[j] = m->in[v->arg[0]];
		} else if (v->function == GT_EXPR_NUMBER) {
			m->out[j] = gt_fill(g, like->dtype, like->ndim, like->shape, v->number);
		} else {
			which[count++] = j;
		}
		if (count && (count == GT_MAP_OUTPUTS || j + 1 == m->d.outputs)) {
			emit_part(g, m, which, count);
			count = 0;
		}
	}
}

static void map_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	const struct gt_map_program *p = n->attrs.map.program;
	struct map_gradient m = { 0 };
	struct gt_expr e;
	unsigned bits = 0;
	int next = 0;

	if (p->outputs != 1) {
		gt_graph_fail(g, GT_ENOTSUP, "map: several outputs have no gradient");
		return;
	}
	for (int i = 0; i < p->inputs; i++)
		bits |= (unsigned)wanted[i] << i;
	gt_expr_of_program(&e, p);
	gt_expr_derive(&m.d, &e, bits);
	for (int i = 0; i < p->inputs; i++)
		m.in[i] = n->in[i];
	m.in[p->inputs] = n->out[0];
	m.in[p->inputs + 1] = d_out[0];
	emit_gradient(g, &m, n->out[0]);
	for (int i = 0; i < p->inputs; i++)
		if (wanted[i])
			d_in[i] = sum_to(g, m.out[next++], n->in[i]);
}

/* ---- tensor parallelism ---- */

/* Shard an input that is whole like the others. A value that is broadcast along the columns may
 * stay whole; a parameter with a number for each column is sharded. */
static int shard_input(
    struct gt_shard_pass *s, struct gt_node *n, struct gt_value *v, struct gt_column_shards shards)
{
	if (gt_value_last(v) == 1)
		return 0;
	if (!gt_value_is_weight(v))
		return gt_shard_whole.rewrite(s, n);
	return gt_shard_parameter(s, v, v->ndim - 1, shards);
}

static int map_shard(struct gt_shard_pass *s, struct gt_node *n)
{
	struct gt_column_shards shards = { 0 };
	int rc = 0;

	for (int i = 0; i < n->inputs; i++)
		if (gt_shard_is_sharded(s, n->in[i]))
			shards = gt_shard_columns(s, n->in[i]);
	if (!shards.units)
		return 0;
	if (n->attrs.map.ndim)
		return gt_shard_whole.rewrite(s, n);
	for (int i = 0; !rc && i < n->inputs && n->in[i]; i++) {
		struct gt_column_shards own = gt_shard_columns(s, n->in[i]);

		if (!own.units)
			rc = shard_input(s, n, n->in[i], shards);
		else if (own.units != shards.units || own.blocks != shards.blocks)
			rc = gt_shard_whole.rewrite(s, n);
	}
	if (rc)
		return rc;
	gt_shard_set(s, n->out[0], shards);
	return gt_shard_infer(s, n);
}

/* Return the product that makes the columns of v, if nothing else reads it, its weight, or the
 * values up to v: otherwise it stays whole. */
static const struct gt_node *own_product_of(const struct gt_shard_pass *s, const struct gt_value *v)
{
	const struct gt_node *product = gt_shard_product_of(v);

	if (!product || !gt_shard_only_reader(s, product->in[1]))
		return NULL;
	while (gt_shard_only_reader(s, v) && v->producer != product)
		v = v->producer->in[0];
	return gt_shard_only_reader(s, v) ? product : NULL;
}

/* Return the value that a product multiplies, without the node that the pass puts before it. */
static const struct gt_value *source_of(
    const struct gt_shard_pass *s, const struct gt_node *product)
{
	const struct gt_value *x = product->in[0];

	return s->shards && (size_t)x->id >= s->shards_count && x->producer->inputs == 1
	           ? x->producer->in[0]
	           : x;
}

/* Return whether two values are products of one value, as in a gated MLP. Both are then sharded,
 * or none. */
static bool are_products_of_one(
    const struct gt_shard_pass *s, const struct gt_value *a, const struct gt_value *b)
{
	const struct gt_node *x = own_product_of(s, a), *y = own_product_of(s, b);

	return x && y &&
	       (x->in[0] == y->in[0] || source_of(s, x) == y->in[0] ||
	           x->in[0] == source_of(s, y) || source_of(s, x) == source_of(s, y));
}

/* Columns of in[0] are those of out[0] if the other inputs can be sharded, too. */
static struct gt_column_shards map_takes(
    const struct gt_shard_pass *s, const struct gt_node *n, struct gt_column_shards offered)
{
	for (int i = 0; i < n->inputs && n->in[i]; i++)
		if (n->in[i] != n->in[0] && gt_value_last(n->in[i]) != 1 &&
		    !gt_value_is_weight(n->in[i]) && !are_products_of_one(s, n->in[0], n->in[i]))
			return (struct gt_column_shards){ 0 };
	return n->attrs.map.ndim ? (struct gt_column_shards){ 0 } : offered;
}

static const struct gt_shard_rule map_rule = { .rewrite = map_shard, .takes = map_takes };

/*
 * map: y[j] = output j of the program attrs.map.program (lib/graph/map_program.h) for each element.
 *   in   x[i], as many as the program has inputs: F, or I64, I32, U8 or BOOL, which are converted
 *        to F
 *   out  y[j] F, as many as the program has outputs; y[0] may overwrite an x[i] of its shape
 * The shapes of the inputs and attrs.map.shape are broadcast, as NumPy does; the result is the
 * shape of the outputs. Kernels compute in float32 for 16-bit types, and round each output once.
 * The gradient is map nodes for expressions that lib/graph/derive.c finds, and `sum` for inputs
 * that are broadcast.
 */
const struct gt_op gt_op_map = {
	.name = "map",
	.min_inputs = 1,
	.max_inputs = GT_MAP_INPUTS,
	.outputs = GT_MAP_OUTPUTS,
	.infer = map_infer,
	.print = map_print,
	.grad = map_grad,
	.flops = map_flops,
	.inplace = (1u << GT_MAP_INPUTS) - 1,
	.elementwise = true,
	.shard = &map_rule,
};
