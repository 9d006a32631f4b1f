/* layers.c - the layers of a stack: torch.nn's names, arguments, initial values and shapes. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/sequence/sequence.h"

/* ---- arguments ---- */

static const struct gt_argument_value *argument(const struct gt_sequence_call *c, const char *name)
{
	int i = 0;

	while (strcmp(c->layer->row->arguments[i].name, name) != 0)
		i++;
	return &c->layer->values[i];
}

static int64_t int_argument(const struct gt_sequence_call *c, const char *name)
{
	return argument(c, name)->ints[0];
}

static double number(const struct gt_sequence_call *c, const char *name)
{
	return argument(c, name)->number;
}

/* Set a number for each dimension; None and texts leave 0. */
static void read_pixels(const struct gt_sequence_call *c, const char *name, int out[2])
{
	const struct gt_argument_value *v = argument(c, name);

	for (int i = 0; i < c->layer->row->dims && v->count; i++)
		out[i] = (int)v->ints[v->count == 1 ? 0 : i];
}

/* ---- shapes ---- */

/* Set the error: the input has another shape. */
static void *fail_shape(const struct gt_sequence_call *c, const struct gt_value *x,
    const char *format, ...) __attribute__((format(printf, 3, 4)));

static void *fail_shape(
    const struct gt_sequence_call *c, const struct gt_value *x, const char *format, ...)
{
	char wanted[120];
	va_list ap;

	va_start(ap, format);
	vsnprintf(wanted, sizeof(wanted), format, ap);
	va_end(ap);
	return gt_graph_fail(
	    c->g, GT_EINVAL, "takes %s, and its input is %s", wanted, gt_shape_text(x).s);
}

/* Whether x is [batch, channels, ...] with `dims` dimensions of pixels. */
static bool is_image(
    const struct gt_sequence_call *c, const struct gt_value *x, int64_t channels, int dims)
{
	const char *pixels = dims == 2 ? ", height, width" : ", length";
	bool fits = x->ndim == 2 + dims && (!channels || x->shape[1] == channels);

	if (!fits && channels)
		fail_shape(c, x, "[batch, %lld%s]", (long long)channels, pixels);
	else if (!fits)
		fail_shape(c, x, "[batch, channels%s]", pixels);
	return fits;
}

/* ---- parameters ---- */

static struct gt_value *parameter(const struct gt_sequence_call *c, const char *leaf, int ndim,
    const int64_t *shape, struct gt_init init)
{
	char name[64];

	snprintf(name, sizeof(name), "%zu.%s", c->index, leaf);
	return gt_parameter(c->g, name, GT_F32, ndim, shape, init, true);
}

static struct gt_value *buffer(const struct gt_sequence_call *c, const char *leaf,
    enum gt_dtype dtype, int ndim, const int64_t *shape, struct gt_init init)
{
	char name[64];

	snprintf(name, sizeof(name), "%zu.%s", c->index, leaf);
	return gt_buffer(c->g, name, dtype, ndim, shape, init);
}

/* The bias, unless the argument `bias` is False. */
static struct gt_value *optional_bias(
    const struct gt_sequence_call *c, int64_t count, struct gt_init init)
{
	return number(c, "bias") ? parameter(c, "bias", 1, &count, init) : NULL;
}

/* ---- products and convolutions ---- */

static struct gt_value *emit_linear(const struct gt_sequence_call *c, struct gt_value *x)
{
	int64_t in = int_argument(c, "in_features"), out = int_argument(c, "out_features");
	struct gt_init init = gt_init_torch(in);
	struct gt_value *weight;

	if (x->shape[x->ndim - 1] != in) {
		fail_shape(c, x, "[batch, %lld]", (long long)in);
		gt_err_hint(&c->g->err,
		    x->ndim > 3 ? "put Flatten before it" : "write Linear(%lld,%lld)",
		    (long long)x->shape[x->ndim - 1], (long long)out);
		return NULL;
	}
	weight = parameter(c, "weight", 2, (int64_t[]){ out, in }, init);
	return gt_matmul(c->g, x, weight, optional_bias(c, out, init), false, true);
}

/* Read the sizes of a convolution's windows. Without a dimension of rows, the first counts. */
static struct gt_conv_form read_conv(const struct gt_sequence_call *c, int kernel[2])
{
	struct gt_conv_form form = { .groups = (int)int_argument(c, "groups") };

	kernel[1] = 1;
	read_pixels(c, "kernel_size", kernel);
	read_pixels(c, "stride", form.stride);
	read_pixels(c, "padding", form.pad);
	read_pixels(c, "dilation", form.dilation);
	return form;
}

static bool divide_groups(const struct gt_sequence_call *c, int64_t in, int64_t out, int groups)
{
	int64_t odd = in % groups ? in : out;

	if (odd % groups)
		gt_graph_fail(c->g, GT_EINVAL, "%lld channels do not divide into groups=%d",
		    (long long)odd, groups);
	return odd % groups == 0;
}

/* Set the padding that keeps the size, of which the end gets one more if it is odd. Return x, with
 * that one. */
static struct gt_value *pad_same(const struct gt_sequence_call *c, struct gt_value *x,
    const int kernel[2], struct gt_conv_form *form)
{
	int64_t before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };

	for (int i = 0; i < c->layer->row->dims; i++) {
		int total = form->dilation[i] * (kernel[i] - 1);

		if (form->stride[i] != 1)
			return gt_graph_fail(
			    c->g, GT_EINVAL, "padding='same' is for a stride of 1 alone");
		form->pad[i] = total / 2;
		after[2 + i] = total % 2;
	}
	return after[2] || after[3] ? gt_pad(c->g, x, before, after) : x;
}

static struct gt_value *emit_conv(const struct gt_sequence_call *c, struct gt_value *x)
{
	int64_t in = int_argument(c, "in_channels"), out = int_argument(c, "out_channels");
	int kernel[2], dims = c->layer->row->dims;
	struct gt_conv_form form = read_conv(c, kernel);
	struct gt_value *weight, *bias;
	struct gt_init init;

	if (!is_image(c, x, in, dims) || !divide_groups(c, in, out, form.groups))
		return NULL;
	if (!strcmp(argument(c, "padding")->text, "same"))
		x = pad_same(c, x, kernel, &form);
	init = gt_init_torch(in / form.groups * kernel[0] * kernel[1]);
	weight = parameter(c, "weight", 2 + dims,
	    (int64_t[]){ out, in / form.groups, kernel[0], kernel[1] }, init);
	bias = optional_bias(c, out, init);
	return dims == 2 ? gt_conv2d(c->g, x, weight, bias, form)
	                 : gt_conv1d(c->g, x, weight, bias, form);
}

/* The fan-in of the initial values is that of torch.nn: dimensions 1 and above of the weight. */
static struct gt_value *emit_conv_transpose(const struct gt_sequence_call *c, struct gt_value *x)
{
	int64_t in = int_argument(c, "in_channels"), out = int_argument(c, "out_channels");
	int kernel[2], dims = c->layer->row->dims;
	struct gt_conv_form form = read_conv(c, kernel);
	struct gt_value *weight, *bias;
	struct gt_init init;

	read_pixels(c, "output_padding", form.out_pad);
	if (!is_image(c, x, in, dims) || !divide_groups(c, in, out, form.groups))
		return NULL;
	init = gt_init_torch(out / form.groups * kernel[0] * kernel[1]);
	weight = parameter(c, "weight", 2 + dims,
	    (int64_t[]){ in, out / form.groups, kernel[0], kernel[1] }, init);
	bias = optional_bias(c, out, init);
	return dims == 2 ? gt_conv_transpose2d(c->g, x, weight, bias, form)
	                 : gt_conv_transpose1d(c->g, x, weight, bias, form);
}

static struct gt_value *emit_embedding(const struct gt_sequence_call *c, struct gt_value *x)
{
	const int64_t shape[] = { int_argument(c, "num_embeddings"),
		int_argument(c, "embedding_dim") };
	const struct gt_init normal = { GT_INIT_NORMAL, 1 };

	return gt_embedding(c->g, parameter(c, "weight", 2, shape, normal), x, NULL, NULL);
}

/* ---- norms ---- */

/* Batch norms of gtrain are those of images: features and lengths are seen as images. */
static struct gt_value *emit_batch_norm(const struct gt_sequence_call *c, struct gt_value *x)
{
	int64_t n = int_argument(c, "num_features"), shape[4] = { x->shape[0], n, 1, 1 };
	double eps = number(c, "eps"), momentum = number(c, "momentum");
	struct gt_value *weight, *bias, *mean, *var, *batches, *y = x;
	bool features = c->layer->row->dims == 1 && x->ndim == 2;

	if (features && x->shape[1] != n)
		return fail_shape(c, x, "[batch, %lld]", (long long)n);
	if (!features && !is_image(c, x, n, c->layer->row->dims))
		return NULL;
	if (x->ndim == 3)
		shape[2] = x->shape[2];
	if (x->ndim != 4)
		y = gt_reshape(c->g, x, 4, shape);
	weight = parameter(c, "weight", 1, &n, gt_init_ones);
	bias = parameter(c, "bias", 1, &n, gt_init_zeros);
	mean = buffer(c, "running_mean", GT_F32, 1, &n, gt_init_zeros);
	var = buffer(c, "running_var", GT_F32, 1, &n, gt_init_ones);
	batches = buffer(c, "num_batches_tracked", GT_I64, 0, NULL, gt_init_zeros);
	y = c->train ? gt_batch_norm(c->g, y, weight, bias, mean, var, batches, eps, momentum)
	             : gt_batch_norm_eval(c->g, y, weight, bias, mean, var, eps);
	return x->ndim == 4 ? y : gt_reshape(c->g, y, x->ndim, x->shape);
}

/* Whether the last dimensions of x are those of the argument normalized_shape. */
static bool check_normalized(const struct gt_sequence_call *c, const struct gt_value *x)
{
	const struct gt_argument_value *v = argument(c, "normalized_shape");
	char text[80] = "";
	size_t used = 0;

	if (x->ndim > v->count &&
	    !memcmp(x->shape + x->ndim - v->count, v->ints, (size_t)v->count * sizeof(*v->ints)))
		return true;
	for (int i = 0; i < v->count && used < sizeof(text); i++)
		used += (size_t)snprintf(
		    text + used, sizeof(text) - used, ", %lld", (long long)v->ints[i]);
	fail_shape(c, x, "[batch%s]", text);
	return false;
}

/* Several dimensions are seen as one. */
static struct gt_value *flatten_normalized(
    const struct gt_sequence_call *c, struct gt_value *x, int count)
{
	int64_t shape[GT_MAX_DIMS], size = 1;
	int kept;

	if (!x || count == 1)
		return x;
	kept = x->ndim - count;
	for (int i = 0; i < x->ndim; i++) {
		size *= i < kept ? 1 : x->shape[i];
		shape[i] = x->shape[i];
	}
	shape[kept] = size;
	return gt_reshape(c->g, x, kept + 1, shape);
}

static struct gt_value *emit_layer_norm(const struct gt_sequence_call *c, struct gt_value *x)
{
	const struct gt_argument_value *v = argument(c, "normalized_shape");
	struct gt_value *weight, *bias = NULL, *y;

	if (!check_normalized(c, x))
		return NULL;
	weight = parameter(c, "weight", v->count, v->ints, gt_init_ones);
	if (number(c, "bias"))
		bias = parameter(c, "bias", v->count, v->ints, gt_init_zeros);
	y = gt_layer_norm(c->g, flatten_normalized(c, x, v->count),
	    flatten_normalized(c, weight, v->count), flatten_normalized(c, bias, v->count),
	    number(c, "eps"));
	return y && y->ndim != x->ndim ? gt_reshape(c->g, y, x->ndim, x->shape) : y;
}

/* Without a number, torch.nn adds the distance from 1 to the next float32. */
static struct gt_value *emit_rms_norm(const struct gt_sequence_call *c, struct gt_value *x)
{
	const struct gt_argument_value *v = argument(c, "normalized_shape");
	double eps = argument(c, "eps")->kind == GT_VALUE_NONE ? ldexp(1, -23) : number(c, "eps");
	struct gt_value *weight, *y;

	if (!check_normalized(c, x))
		return NULL;
	weight = parameter(c, "weight", v->count, v->ints, gt_init_ones);
	y = gt_rms_norm(
	    c->g, flatten_normalized(c, x, v->count), flatten_normalized(c, weight, v->count), eps);
	return y && y->ndim != x->ndim ? gt_reshape(c->g, y, x->ndim, x->shape) : y;
}

/* ---- activations ---- */

static struct gt_value *emit_function(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_unary(c->g, c->layer->row->function, x);
}

static struct gt_value *emit_relu(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_relu(c->g, x);
}

static struct gt_value *emit_relu6(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_hardtanh(c->g, x, 0, 6);
}

static struct gt_value *emit_leaky_relu(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_leaky_relu(c->g, x, number(c, "negative_slope"));
}

static struct gt_value *emit_elu(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_elu(c->g, x, number(c, "alpha"));
}

static struct gt_value *emit_gelu(const struct gt_sequence_call *c, struct gt_value *x)
{
	bool tanh = !strcmp(argument(c, "approximate")->text, "tanh");

	return gt_gelu(c->g, x, tanh ? GT_GELU_TANH : GT_GELU_ERF);
}

static struct gt_value *emit_mish(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_mish(c->g, x);
}

static struct gt_value *emit_softplus(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_softplus(c->g, x, number(c, "beta"), number(c, "threshold"));
}

static struct gt_value *emit_hardsigmoid(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_hardsigmoid(c->g, x);
}

static struct gt_value *emit_hardtanh(const struct gt_sequence_call *c, struct gt_value *x)
{
	return gt_hardtanh(c->g, x, number(c, "min_val"), number(c, "max_val"));
}

static struct gt_value *emit_dropout(const struct gt_sequence_call *c, struct gt_value *x)
{
	double p = number(c, "p");

	return c->train && c->rng && p > 0 ? gt_dropout(c->g, x, c->rng, p) : x;
}

static struct gt_value *emit_identity(const struct gt_sequence_call *c, struct gt_value *x)
{
	(void)c;
	return x;
}

/* ---- pooling ---- */

static struct gt_pool_form read_pool(const struct gt_sequence_call *c)
{
	struct gt_pool_form form = { .ceil_mode = number(c, "ceil_mode") != 0 };

	read_pixels(c, "kernel_size", form.kernel);
	read_pixels(c, "stride", form.stride);
	read_pixels(c, "padding", form.pad);
	return form;
}

static struct gt_value *emit_max_pool(const struct gt_sequence_call *c, struct gt_value *x)
{
	struct gt_pool_form form = read_pool(c);

	read_pixels(c, "dilation", form.dilation);
	if (!is_image(c, x, 0, c->layer->row->dims))
		return NULL;
	return c->layer->row->dims == 2 ? gt_max_pool2d(c->g, x, form)
	                                : gt_max_pool1d(c->g, x, form);
}

static struct gt_value *emit_avg_pool(const struct gt_sequence_call *c, struct gt_value *x)
{
	struct gt_pool_form form = read_pool(c);

	form.exclude_pad = !number(c, "count_include_pad");
	if (!is_image(c, x, 0, c->layer->row->dims))
		return NULL;
	return c->layer->row->dims == 2 ? gt_avg_pool2d(c->g, x, form)
	                                : gt_avg_pool1d(c->g, x, form);
}

static struct gt_value *emit_adaptive_avg_pool(const struct gt_sequence_call *c, struct gt_value *x)
{
	int out[2] = { 0 };

	read_pixels(c, "output_size", out);
	if (!is_image(c, x, 0, c->layer->row->dims))
		return NULL;
	return c->layer->row->dims == 2 ? gt_adaptive_avg_pool2d(c->g, x, out[0], out[1])
	                                : gt_adaptive_avg_pool1d(c->g, x, out[0]);
}

/* ---- shapes ---- */

/* Return the dimension of x that an argument names, or -1 with the error set. */
static int read_dim(const struct gt_sequence_call *c, const char *name, const struct gt_value *x)
{
	int64_t dim = int_argument(c, name);

	if (dim >= -x->ndim && dim < x->ndim)
		return (int)(dim < 0 ? dim + x->ndim : dim);
	gt_graph_fail(c->g, GT_EINVAL, "%s=%lld is no dimension of its input %s", name,
	    (long long)dim, gt_shape_text(x).s);
	return -1;
}

/* View x with the dimensions from `first` to `last` replaced by `count` sizes. */
static struct gt_value *replace_dims(const struct gt_sequence_call *c, struct gt_value *x,
    int first, int last, const int64_t *size, int count)
{
	int64_t shape[GT_MAX_DIMS + GT_SEQUENCE_INTS];
	int ndim = 0;

	for (int i = 0; i < first; i++)
		shape[ndim++] = x->shape[i];
	for (int i = 0; i < count; i++)
		shape[ndim++] = size[i];
	for (int i = last + 1; i < x->ndim; i++)
		shape[ndim++] = x->shape[i];
	return gt_reshape(c->g, x, ndim, shape);
}

static struct gt_value *emit_flatten(const struct gt_sequence_call *c, struct gt_value *x)
{
	int first = read_dim(c, "start_dim", x), last = read_dim(c, "end_dim", x);
	int64_t size = 1;

	if (first < 0 || last < 0)
		return NULL;
	if (first > last)
		return gt_graph_fail(c->g, GT_EINVAL, "start_dim is behind end_dim in its input %s",
		    gt_shape_text(x).s);
	for (int i = first; i <= last; i++)
		size *= x->shape[i];
	return first == last ? x : replace_dims(c, x, first, last, &size, 1);
}

static struct gt_value *emit_unflatten(const struct gt_sequence_call *c, struct gt_value *x)
{
	const struct gt_argument_value *v = argument(c, "unflattened_size");
	int64_t size[GT_SEQUENCE_INTS], known = 1;
	int dim = read_dim(c, "dim", x), open = -1;

	if (dim < 0)
		return NULL;
	for (int i = 0; i < v->count && known; i++) {
		size[i] = v->ints[i];
		if (size[i] < 0 && open < 0)
			open = i;
		else if (size[i] < 1 || x->shape[dim] % (known * size[i]))
			known = 0;
		else
			known *= size[i];
	}
	if (known && open >= 0)
		size[open] = x->shape[dim] / known;
	if (!known || (open < 0 && known != x->shape[dim]))
		return gt_graph_fail(c->g, GT_EINVAL,
		    "unflattened_size does not divide dimension %d of its input %s", dim,
		    gt_shape_text(x).s);
	return replace_dims(c, x, dim, dim, size, v->count);
}

/* ---- the table ---- */

/* clang-format off */
#define FUNCTION(name, f) \
	{ name, gt_arguments_inplace, emit_function, 0, GT_TAKES_FLOAT, GT_F_##f, 0, 0 }
#define LAYER(name, arguments, emit, dims, in, out) \
	{ name, arguments, emit, dims, GT_TAKES_FLOAT, 0, in, out }

const struct gt_sequence_row gt_sequence_rows[] = {
	LAYER("AdaptiveAvgPool1d", gt_arguments_adaptive_pool, emit_adaptive_avg_pool, 1, 0, 0),
	LAYER("AdaptiveAvgPool2d", gt_arguments_adaptive_pool, emit_adaptive_avg_pool, 2, 0, 0),
	LAYER("AvgPool1d", gt_arguments_avg_pool1d, emit_avg_pool, 1, 0, 0),
	LAYER("AvgPool2d", gt_arguments_avg_pool2d, emit_avg_pool, 2, 0, 0),
	LAYER("BatchNorm1d", gt_arguments_batch_norm, emit_batch_norm, 1, 1, 1),
	LAYER("BatchNorm2d", gt_arguments_batch_norm, emit_batch_norm, 2, 1, 1),
	LAYER("Conv1d", gt_arguments_conv, emit_conv, 1, 1, 2),
	LAYER("Conv2d", gt_arguments_conv, emit_conv, 2, 1, 2),
	LAYER("ConvTranspose1d", gt_arguments_conv_transpose, emit_conv_transpose, 1, 1, 2),
	LAYER("ConvTranspose2d", gt_arguments_conv_transpose, emit_conv_transpose, 2, 1, 2),
	LAYER("Dropout", gt_arguments_dropout, emit_dropout, 0, 0, 0),
	LAYER("ELU", gt_arguments_elu, emit_elu, 0, 0, 0),
	{ "Embedding", gt_arguments_embedding, emit_embedding, 0, GT_TAKES_IDS, 0, 1, 2 },
	{ "Flatten", gt_arguments_flatten, emit_flatten, 0, GT_TAKES_BOTH, 0, 0, 0 },
	LAYER("GELU", gt_arguments_gelu, emit_gelu, 0, 0, 0),
	LAYER("Hardsigmoid", gt_arguments_inplace, emit_hardsigmoid, 0, 0, 0),
	FUNCTION("Hardswish", HARDSWISH),
	LAYER("Hardtanh", gt_arguments_hardtanh, emit_hardtanh, 0, 0, 0),
	{ "Identity", gt_arguments_none, emit_identity, 0, GT_TAKES_BOTH, 0, 0, 0 },
	LAYER("LayerNorm", gt_arguments_layer_norm, emit_layer_norm, 0, 0, 0),
	LAYER("LeakyReLU", gt_arguments_leaky_relu, emit_leaky_relu, 0, 0, 0),
	LAYER("Linear", gt_arguments_linear, emit_linear, 0, 1, 2),
	LAYER("MaxPool1d", gt_arguments_max_pool, emit_max_pool, 1, 0, 0),
	LAYER("MaxPool2d", gt_arguments_max_pool, emit_max_pool, 2, 0, 0),
	LAYER("Mish", gt_arguments_inplace, emit_mish, 0, 0, 0),
	LAYER("RMSNorm", gt_arguments_rms_norm, emit_rms_norm, 0, 0, 0),
	LAYER("ReLU", gt_arguments_inplace, emit_relu, 0, 0, 0),
	LAYER("ReLU6", gt_arguments_inplace, emit_relu6, 0, 0, 0),
	FUNCTION("SiLU", SILU),
	{ "Sigmoid", gt_arguments_none, emit_function, 0, GT_TAKES_FLOAT, GT_F_SIGMOID, 0, 0 },
	LAYER("Softplus", gt_arguments_softplus, emit_softplus, 0, 0, 0),
	{ "Tanh", gt_arguments_none, emit_function, 0, GT_TAKES_FLOAT, GT_F_TANH, 0, 0 },
	{ "Unflatten", gt_arguments_unflatten, emit_unflatten, 0, GT_TAKES_BOTH, 0, 0, 0 },
	{ NULL, NULL, NULL, 0, GT_TAKES_FLOAT, 0, 0, 0 },
};
/* clang-format on */
