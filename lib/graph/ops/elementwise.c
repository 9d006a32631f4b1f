/* elementwise.c - sums, activations, dropout, and the small change. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

static int unary_infer(struct gt_node *n, struct gt_err *err)
{
	if (gt_infer_float(n->in[0], "the input", n->in[0]->ndim, err))
		return err->code;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

static int binary_infer(struct gt_node *n, struct gt_err *err)
{
	if (unary_infer(n, err))
		return err->code;
	return gt_infer_same(n->in[0], n->in[1], "the second input", err);
}

static void add_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)g;
	(void)n;
	for (int i = 0; i < 2; i++)
		d_in[i] = wanted[i] ? d_out[0] : NULL;
}

/* add: y = a + b, where a and b have the same shape; may overwrite a or b. */
const struct gt_op gt_op_add = {
	.name = "add",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = binary_infer,
	.grad = add_grad,
	.inplace = 3,
	.elementwise = true,
	.row_inputs = 3,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_add(struct gt_graph *g, struct gt_value *a, struct gt_value *b)
{
	return gt_emit1(g, &gt_op_add, NULL, 2, (struct gt_value *[]){ a, b });
}

static void relu_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(
		    g, &gt_op_relu_grad, NULL, 2, (struct gt_value *[]){ d_out[0], n->out[0] });
}

/* relu: y = max(0, x), where NaN stays NaN; may overwrite x.
 * relu_grad:  in dy, y     out  dx = dy where y > 0, else 0; may overwrite dy */
const struct gt_op gt_op_relu = {
	.name = "relu",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = unary_infer,
	.grad = relu_grad,
	.inplace = 1,
	.elementwise = true,
	.row_inputs = 1,
	.shard = &gt_shard_follow,
};

const struct gt_op gt_op_relu_grad = {
	.name = "relu_grad",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = binary_infer,
	.inplace = 1,
	.elementwise = true,
};

struct gt_value *gt_relu(struct gt_graph *g, struct gt_value *x)
{
	return gt_emit1(g, &gt_op_relu, NULL, 1, &x);
}

static void gelu_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(
		    g, &gt_op_gelu_grad, &n->attrs, 2, (struct gt_value *[]){ d_out[0], n->in[0] });
}

static double gelu_flops(const struct gt_node *n)
{
	return 12.0 * (double)gt_value_elements(n->out[0]);
}

static void gelu_print(const struct gt_node *n, FILE *f)
{
	fputs(n->attrs.gelu.kind == GT_GELU_ERF ? " erf" : " tanh", f);
}

/*
 * gelu, two forms (enum gt_gelu):
 *   erf   y = x/2 * (1 + erf(x / sqrt(2)))
 *   tanh  y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))
 * gelu_grad:  in dy, x     out  dx, may overwrite dy
 * Source: Hendrycks and Gimpel, arXiv 1606.08415.
 */
const struct gt_op gt_op_gelu = {
	.name = "gelu",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = unary_infer,
	.print = gelu_print,
	.grad = gelu_grad,
	.flops = gelu_flops,
	.elementwise = true,
	.row_inputs = 1,
	.shard = &gt_shard_follow,
};

const struct gt_op gt_op_gelu_grad = {
	.name = "gelu_grad",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = binary_infer,
	.print = gelu_print,
	.flops = gelu_flops,
	.inplace = 1,
	.elementwise = true,
};

struct gt_value *gt_gelu(struct gt_graph *g, struct gt_value *x, enum gt_gelu kind)
{
	union gt_attrs attrs = { 0 };

	attrs.gelu.kind = kind;
	return gt_emit1(g, &gt_op_gelu, &attrs, 1, &x);
}

static int dropout_infer(struct gt_node *n, struct gt_err *err)
{
	double p = n->attrs.dropout.p;

	if (unary_infer(n, err))
		return err->code;
	if (!(p >= 0 && p < 1))
		return gt_err_set(err, GT_EINVAL, "a probability of %g is not in [0, 1)", p);
	return gt_infer_vector(n->in[1], "rng", GT_I64, GT_RNG_FIELDS, err);
}

static void dropout_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0])
		d_in[0] = gt_emit1(
		    g, &gt_op_dropout, &n->attrs, 2, (struct gt_value *[]){ d_out[0], n->in[1] });
}

static void dropout_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " p=%g stream=%u", n->attrs.dropout.p, n->attrs.dropout.stream);
	if (n->attrs.dropout.sample)
		fprintf(f, " from %lld", (long long)n->attrs.dropout.first);
}

/*
 * dropout: y = x / (1 - p) with probability 1 - p, else 0; may overwrite x. The gradient is dropout
 * of dy with the same random numbers.
 *   in   x F [B, ...];  rng I64 [4] (enum gt_rng_field in lib/graph/kernel.h)
 * Element e of sample i (in row-major order) has the counter
 *   c = (first + i * stride) * (elements per sample) + e
 * `first` and `stride` are the elements GT_RNG_FIRST and GT_RNG_STRIDE of rng. The random number of
 * the element is word (c mod 4) of block floor(c / 4) of the Philox generator (lib/base/philox.h),
 * converted by gt_philox_float(). If the random number is below p, y is 0. If x has only some rows
 * of each sample, attrs.dropout.first and attrs.dropout.sample say which rows. Each element then
 * gets the same random number as in the whole sample.
 */
const struct gt_op gt_op_dropout = {
	.name = "dropout",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 1,
	.infer = dropout_infer,
	.print = dropout_print,
	.grad = dropout_grad,
	.inplace = 1,
	.elementwise = true,
	.row_inputs = 1,
	.shard = &gt_shard_whole,
};

struct gt_value *gt_dropout(struct gt_graph *g, struct gt_value *x, struct gt_value *rng, double p)
{
	union gt_attrs attrs = { 0 };

	if (p == 0)
		return x;
	attrs.dropout.p = p;
	attrs.dropout.stream = g->dropout_streams++;
	return gt_emit1(g, &gt_op_dropout, &attrs, 2, (struct gt_value *[]){ x, rng });
}

static int fill_infer(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_shape(n->out[0], n->attrs.fill.dtype, n->attrs.fill.ndim, n->attrs.fill.shape);
	return 0;
}

static void fill_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, " %g", n->attrs.fill.value);
}

/* fill: a tensor with the same constant in each element.     out  F, with the given shape
 * copy: y = x.
 * cast: y = x in the floating-point type `to`, rounded to nearest even. The gradient of x is dy,
 * cast to the type of x. From float32, `to` may be int32, without a gradient: a fraction is
 * dropped, and NaN or a number beyond the type gives any number.
 * accumulate: acc += x, in place.     in acc, x     no output */
const struct gt_op gt_op_fill = {
	.name = "fill",
	.min_inputs = 0,
	.max_inputs = 0,
	.outputs = 1,
	.infer = fill_infer,
	.print = fill_print,
};

struct gt_value *gt_fill(
    struct gt_graph *g, enum gt_dtype dtype, int ndim, const int64_t *shape, double value)
{
	union gt_attrs attrs = { 0 };

	attrs.fill.value = value;
	attrs.fill.dtype = dtype;
	attrs.fill.ndim = ndim;
	for (int i = 0; i < ndim; i++)
		attrs.fill.shape[i] = shape[i];
	return gt_emit1(g, &gt_op_fill, &attrs, 0, NULL);
}

static int constant_infer(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_shape(
	    n->out[0], n->attrs.constant.dtype, n->attrs.constant.ndim, n->attrs.constant.shape);
	return 0;
}

static double constant_flops(const struct gt_node *n)
{
	(void)n;
	return 0;
}

/*
 * constant: a tensor with the elements attrs.constant.elements.
 *   out  any type, with the shape of attrs.constant
 */
const struct gt_op gt_op_constant = {
	.name = "constant",
	.min_inputs = 0,
	.max_inputs = 0,
	.outputs = 1,
	.infer = constant_infer,
	.flops = constant_flops,
};

struct gt_value *gt_constant(
    struct gt_graph *g, enum gt_dtype dtype, int ndim, const int64_t *shape, const void *elements)
{
	union gt_attrs attrs = { 0 };
	size_t bytes = gt_dtype_size(dtype);

	attrs.constant.dtype = dtype;
	attrs.constant.ndim = ndim;
	for (int i = 0; i < ndim; i++) {
		attrs.constant.shape[i] = shape[i];
		bytes *= (size_t)shape[i];
	}
	attrs.constant.elements = gt_graph_intern(g, elements, bytes);
	return attrs.constant.elements ? gt_emit1(g, &gt_op_constant, &attrs, 0, NULL) : NULL;
}

static void copy_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)g;
	(void)n;
	d_in[0] = wanted[0] ? d_out[0] : NULL;
}

const struct gt_op gt_op_copy = {
	.name = "copy",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = unary_infer,
	.grad = copy_grad,
	.elementwise = true,
};

struct gt_value *gt_copy(struct gt_graph *g, struct gt_value *x)
{
	return gt_emit1(g, &gt_op_copy, NULL, 1, &x);
}

static int cast_infer(struct gt_node *n, struct gt_err *err)
{
	enum gt_dtype to = n->attrs.cast.to;

	if (unary_infer(n, err))
		return err->code;
	if (!gt_dtype_is_real(to) && (to != GT_I32 || n->in[0]->dtype != GT_F32))
		return gt_err_set(
		    err, GT_EINVAL, "%s is not a type to compute with", gt_dtype_name(to));
	n->out[0]->dtype = to;
	return 0;
}

static void cast_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[0] && gt_dtype_is_float(n->out[0]->dtype))
		d_in[0] = gt_cast_to(g, d_out[0], n->in[0]->dtype);
}

const struct gt_op gt_op_cast = {
	.name = "cast",
	.min_inputs = 1,
	.max_inputs = 1,
	.outputs = 1,
	.infer = cast_infer,
	.grad = cast_grad,
	.elementwise = true,
};

struct gt_value *gt_cast_to(struct gt_graph *g, struct gt_value *x, enum gt_dtype to)
{
	union gt_attrs attrs = { 0 };

	if (x && x->dtype == to)
		return x;
	attrs.cast.to = to;
	return gt_emit1(g, &gt_op_cast, &attrs, 1, &x);
}

static int accumulate_infer(struct gt_node *n, struct gt_err *err)
{
	return gt_infer_same(n->in[0], n->in[1], "the summand", err);
}

static double accumulate_flops(const struct gt_node *n)
{
	return (double)gt_value_elements(n->in[0]);
}

const struct gt_op gt_op_accumulate = {
	.name = "accumulate",
	.min_inputs = 2,
	.max_inputs = 2,
	.outputs = 0,
	.infer = accumulate_infer,
	.flops = accumulate_flops,
	.writes = 1,
	.elementwise = true,
};

void gt_accumulate(struct gt_graph *g, struct gt_value *acc, struct gt_value *x)
{
	gt_emit(g, &gt_op_accumulate, NULL, 2, (struct gt_value *[]){ acc, x });
}
