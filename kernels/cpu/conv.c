/* conv.c - convolutions: oneDNN for float32 and bfloat16, plain loops for float64. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl.h"

/*
 * Activations keep the layout they come in (oneDNN's kernels run at full rate on channels-last);
 * weights lie in memory as [O, C / groups, kh, kw] and are rewritten into the format that oneDNN
 * asks for in every run, as they change with every step and are small; a weight gradient goes the
 * other way.
 */

/* The tensors of all three ops in the words of the forward one. */
struct conv {
	const char *op;
	const struct gt_tensor *x, *w, *y;
	struct gt_dnnl_address x_address, w_address, y_address;
	const struct gt_window *window;
	int64_t groups;
};

static struct conv forward_of(const struct gt_call *call)
{
	return (struct conv){ "conv2d", &call->in[0], &call->in[1], &call->out[0],
		{ GT_DNNL_IN, 0 }, { GT_DNNL_IN, 1 }, { GT_DNNL_OUT, 0 }, &call->attrs.conv.window,
		call->attrs.conv.groups };
}

static struct conv input_grad_of(const struct gt_call *call)
{
	return (struct conv){ "conv2d_input_grad", &call->out[0], &call->in[1], &call->in[0],
		{ GT_DNNL_OUT, 0 }, { GT_DNNL_IN, 1 }, { GT_DNNL_IN, 0 }, &call->attrs.conv.window,
		call->attrs.conv.groups };
}

static struct conv weight_grad_of(const struct gt_call *call)
{
	return (struct conv){ "conv2d_weight_grad", &call->in[0], &call->out[0], &call->in[1],
		{ GT_DNNL_IN, 0 }, { GT_DNNL_OUT, 0 }, { GT_DNNL_IN, 1 }, &call->attrs.conv.window,
		call->attrs.conv.groups };
}

/* ---- oneDNN: float32 and bfloat16 ---- */

/* Descriptors: `w` leaves the format to oneDNN, `w_plain` is ours. Without a bias, `bias` is
 * NULL. */
struct conv_descs {
	gt_dnnl_md x, w, w_plain, y, bias;
};

static dnnl_format_tag_t tag_of(const struct gt_tensor *t)
{
	return t->layout == GT_CHANNELS_LAST ? dnnl_nhwc : dnnl_nchw;
}

/* The weight as oneDNN has it: groups are a dimension of their own, the first one. */
static struct gt_tensor weight_by_group(const struct conv *c)
{
	const int64_t *w = c->w->shape;
	struct gt_tensor t = *c->w;

	if (c->groups == 1)
		return t;
	t.ndim = 5;
	memcpy(t.shape, (int64_t[]){ c->groups, w[0] / c->groups, w[1], w[2], w[3] },
	    5 * sizeof(int64_t));
	return t;
}

static int describe_conv_tensors(
    struct gt_call *call, const struct conv *c, struct conv_descs *d, struct gt_err *err)
{
	const struct gt_tensor *bias = gt_optional_input(call, 2), w = weight_by_group(c);
	int rc;

	*d = (struct conv_descs){ 0 };
	if ((rc = gt_dnnl_describe(call, c->x, tag_of(c->x), &d->x, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_describe(call, &w, dnnl_format_tag_any, &d->w, err)) < 0)
		return rc;
	rc = gt_dnnl_describe(call, &w, c->groups == 1 ? dnnl_oihw : dnnl_goihw, &d->w_plain, err);
	if (rc < 0)
		return rc;
	if (bias && (rc = gt_dnnl_describe(call, bias, dnnl_a, &d->bias, err)) < 0)
		return rc;
	return gt_dnnl_describe(call, c->y, tag_of(c->y), &d->y, err);
}

static struct gt_dnnl_conv convolution_of(const struct conv *c, const struct conv_descs *d)
{
	const struct gt_window *w = c->window;

	return (struct gt_dnnl_conv){ dnnl_convolution_direct, d->x, d->w, d->bias, d->y,
		{ w->stride[0], w->stride[1] }, { w->dilation[0] - 1, w->dilation[1] - 1 },
		{ w->pad[0], w->pad[1] } };
}

static int forward_desc(struct gt_call *call, const struct conv *c, const struct conv_descs *d,
    dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out, struct gt_err *err)
{
	const struct gt_dnnl_conv conv = convolution_of(c, d);
	struct gt_dnnl *dnnl = call->state;

	return gt_dnnl_check(gt_dnnl_conv_forward(out, &conv, dnnl->engine, attr), call, c->op,
	    "do this convolution", err);
}

/* A gradient needs the descriptor of the forward convolution as a hint. */
static int gradient_desc(struct gt_call *call, const struct conv *c, const struct conv_descs *d,
    bool of_weights, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out, struct gt_err *err)
{
	const struct gt_dnnl_conv conv = convolution_of(c, d);
	struct gt_dnnl *dnnl = call->state;
	dnnl_primitive_desc_t hint = NULL;
	dnnl_status_t status;
	int rc = forward_desc(call, c, d, NULL, &hint, err);

	if (rc < 0)
		return rc;
	if (of_weights)
		status = gt_dnnl_conv_weight_grad(out, &conv, dnnl->engine, attr, hint);
	else
		status = gt_dnnl_conv_input_grad(out, &conv, dnnl->engine, attr, hint);
	rc = gt_dnnl_check(status, call, c->op, "do this gradient", err);
	gt_dnnl_api->primitive_desc_destroy(hint);
	return rc;
}

/* Which arguments and formats a primitive of the three goes by. */
struct conv_role {
	int x, w, y;          /* DNNL_ARG_... */
	dnnl_query_t weights; /* the format chosen */
	bool writes_weights;
};

static const struct conv_role role_forward = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
	dnnl_query_weights_md, false };
static const struct conv_role role_input_grad = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS,
	DNNL_ARG_DIFF_DST, dnnl_query_weights_md, false };
static const struct conv_role role_weight_grad = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS,
	DNNL_ARG_DIFF_DST, dnnl_query_diff_weights_md, true };

/* Steps of the call: weights into oneDNN's format, the convolution, a weight gradient out of it. */
static int add_steps(struct gt_call *call, const struct conv *c, const struct conv_descs *d,
    const struct conv_role *role, const_dnnl_primitive_desc_t desc, struct gt_err *err)
{
	gt_dnnl_md w = gt_dnnl_api->primitive_desc_query_md(desc, role->weights, 0);
	struct gt_dnnl_address w_address = c->w_address;
	bool reorder = !gt_dnnl_api->memory_desc_equal(w, d->w_plain);
	struct gt_dnnl_step *step;
	int rc;

	if (reorder)
		w_address = gt_dnnl_workspace(call, gt_dnnl_api->memory_desc_get_size(w));
	if (reorder && !role->writes_weights) {
		rc = gt_dnnl_reorder_add(call, d->w_plain, c->w_address, w, w_address, err);
		if (rc < 0)
			return rc;
	}
	if ((rc = gt_dnnl_step_add(call, desc, &step, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, role->x, d->x, c->x_address, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, role->w, w, w_address, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, role->y, d->y, c->y_address, err)) < 0)
		return rc;
	if (d->bias) {
		const struct gt_dnnl_address bias = { GT_DNNL_IN, 2 };

		if ((rc = gt_dnnl_arg(call, step, DNNL_ARG_BIAS, d->bias, bias, err)) < 0)
			return rc;
	}
	if (reorder && role->writes_weights)
		return gt_dnnl_reorder_add(call, w, w_address, d->w_plain, c->w_address, err);
	return 0;
}

/* oneDNN's relu is max(x, 0), which turns NaN into 0 and so hides that a network is broken. With a
 * slope for negative numbers it compares and multiplies instead, and NaN stays NaN; at this slope
 * they become no more than 1e-24 of themselves, which no sum in float32 can see. */
static const float nan_slope = 0x1p-80f;

/* + residual (which lies in y when the convolution starts), then max(0, .). */
static int set_post_ops(
    struct gt_call *call, const struct conv *c, dnnl_primitive_attr_t attr, struct gt_err *err)
{
	dnnl_post_ops_t ops = NULL;
	dnnl_status_t status = gt_dnnl_api->post_ops_create(&ops);

	if (status == dnnl_success && gt_optional_input(call, 3))
		status = gt_dnnl_append_sum(ops);
	if (status == dnnl_success && call->attrs.conv.relu)
		status = gt_dnnl_append_leaky_relu(ops, nan_slope);
	if (status == dnnl_success)
		status = gt_dnnl_api->primitive_attr_set_post_ops(attr, ops);
	gt_dnnl_api->post_ops_destroy(ops);
	return gt_dnnl_check(status, call, c->op, "fuse residual and relu", err);
}

/* Create the descriptor of the primitive. The caller destroys *out. */
static int describe_conv_role(struct gt_call *call, const struct conv *c,
    const struct conv_role *role, struct conv_descs *d, dnnl_primitive_desc_t *out,
    struct gt_err *err)
{
	dnnl_primitive_attr_t attr = NULL;
	int rc;

	if ((rc = describe_conv_tensors(call, c, d, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_attr(call, c->op, &attr, err)) < 0)
		return rc;
	if (role != &role_forward)
		rc = gradient_desc(call, c, d, role->writes_weights, attr, out, err);
	else if ((rc = set_post_ops(call, c, attr, err)) == 0)
		rc = forward_desc(call, c, d, attr, out, err);
	gt_dnnl_api->primitive_attr_destroy(attr);
	return rc;
}

/* prepare_conv_role() of all three. */
static int prepare_conv_role(
    struct gt_call *call, const struct conv *c, const struct conv_role *role, struct gt_err *err)
{
	dnnl_primitive_desc_t desc = NULL;
	struct conv_descs d;
	int rc;

	if ((rc = gt_dnnl_new(call, c->op, err)) < 0)
		return rc;
	if ((rc = describe_conv_role(call, c, role, &d, &desc, err)) == 0)
		rc = add_steps(call, c, &d, role, desc, err);
	gt_dnnl_api->primitive_desc_destroy(desc);
	if (rc < 0)
		gt_dnnl_release(call);
	return rc;
}

/*
 * Return whether oneDNN has a fast kernel for a call in bfloat16. For a shape without one, and
 * where it was built without such kernels, oneDNN takes its reference implementation, whose name
 * has "ref" in it; the kernel in float32 is faster.
 */
static bool accepts_bf16(
    const struct gt_call *call, const struct conv *c, const struct conv_role *role)
{
	struct gt_call trial = *call;
	dnnl_primitive_desc_t desc = NULL;
	struct conv_descs d;
	const char *name;
	bool fast;

	if (!gt_dnnl_accepts_bf16(call) || gt_dnnl_new(&trial, c->op, GT_ERR_IGNORED) < 0)
		return false;
	fast = !describe_conv_role(&trial, c, role, &d, &desc, GT_ERR_IGNORED) &&
	       gt_dnnl_api->primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) ==
	           dnnl_success &&
	       !strstr(name, "ref");
	gt_dnnl_api->primitive_desc_destroy(desc);
	gt_dnnl_release(&trial);
	return fast;
}

static bool forward_accepts_bf16(const struct gt_call *call)
{
	struct conv c = forward_of(call);

	return accepts_bf16(call, &c, &role_forward);
}

static bool input_grad_accepts_bf16(const struct gt_call *call)
{
	struct conv c = input_grad_of(call);

	return accepts_bf16(call, &c, &role_input_grad);
}

static bool weight_grad_accepts_bf16(const struct gt_call *call)
{
	struct conv c = weight_grad_of(call);

	return accepts_bf16(call, &c, &role_weight_grad);
}

static int forward_prepare(struct gt_call *call, struct gt_err *err)
{
	struct conv c = forward_of(call);

	return prepare_conv_role(call, &c, &role_forward, err);
}

static int input_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	struct conv c = input_grad_of(call);

	return prepare_conv_role(call, &c, &role_input_grad, err);
}

static int weight_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	struct conv c = weight_grad_of(call);

	return prepare_conv_role(call, &c, &role_weight_grad, err);
}

static int forward_run(struct gt_call *call, struct gt_err *err)
{
	enum { CHUNK = 1 << 18 }; /* bytes copied at a time */
	const struct gt_tensor *residual = gt_optional_input(call, 3);
	char *y = call->out[0].data;
	int64_t n = gt_tensor_elements(&call->out[0]) * (int64_t)gt_dtype_size(call->out[0].dtype);

	if (residual && residual->data != y) {
		const char *r = residual->data;

#pragma omp parallel for schedule(static)
		for (int64_t i = 0; i < n; i += CHUNK)
			memcpy(y + i, r + i, (size_t)(n - i < CHUNK ? n - i : CHUNK));
	}
	return gt_dnnl_run(call, err);
}

/* ---- float64 ---- */

/* Where element [0, c, 0, 0] of a tensor is, and how far apart its neighbours are. */
struct strides {
	int64_t image, channel, row, column;
};

static struct strides strides_of(const struct gt_tensor *t)
{
	int64_t c = t->shape[1], h = t->shape[2], w = t->shape[3];

	if (t->layout == GT_CHANNELS_LAST)
		return (struct strides){ c * h * w, 1, w * c, c };
	return (struct strides){ c * h * w, h * w, w, 1 };
}

/* The row (dim 0) or column of x that tap `tap` of window `at` is. */
static int64_t tap_place(const struct conv *c, int dim, int64_t at, int64_t tap)
{
	const struct gt_window *w = c->window;

	return at * w->stride[dim] + tap * w->dilation[dim] - w->pad[dim];
}

/* The sum over channels and window that makes y[b, o, i, j] of x and w. */
static double window_sum(const struct conv *c, int64_t b, int64_t o, int64_t i, int64_t j)
{
	struct strides s = strides_of(c->x);
	const int64_t *n = c->w->shape;
	int64_t channels = n[1], first = o / (n[0] / c->groups) * channels;
	const double *x = (const double *)c->x->data + b * s.image + first * s.channel;
	const double *w = (const double *)c->w->data + o * channels * n[2] * n[3];
	double sum = 0;

	for (int64_t u = 0; u < n[2]; u++)
		for (int64_t v = 0; v < n[3]; v++) {
			int64_t row = tap_place(c, 0, i, u), column = tap_place(c, 1, j, v);

			if (row < 0 || row >= c->x->shape[2] || column < 0 ||
			    column >= c->x->shape[3])
				continue;
			for (int64_t q = 0; q < channels; q++)
				sum += x[row * s.row + column * s.column + q * s.channel] *
				       w[(q * n[2] + u) * n[3] + v];
		}
	return sum;
}

static int forward_f64_run(struct gt_call *call, struct gt_err *err)
{
	struct conv c = forward_of(call);
	struct strides s = strides_of(c.y);
	const double *bias = gt_optional_input(call, 2) ? call->in[2].data : NULL;
	const double *residual = gt_optional_input(call, 3) ? call->in[3].data : NULL;
	const int64_t *n = c.y->shape;
	double *y = c.y->data;

	(void)err;
#pragma omp parallel for collapse(3) schedule(static)
	for (int64_t b = 0; b < n[0]; b++)
		for (int64_t i = 0; i < n[2]; i++)
			for (int64_t j = 0; j < n[3]; j++)
				for (int64_t o = 0; o < n[1]; o++) {
					int64_t at =
					    b * s.image + i * s.row + j * s.column + o * s.channel;
					double sum = window_sum(&c, b, o, i, j);

					if (bias)
						sum += bias[o];
					if (residual)
						sum += residual[at];
					if (call->attrs.conv.relu && sum < 0)
						sum = 0;
					y[at] = sum;
				}
	return 0;
}

/* Set *at to the window whose tap `tap` is row (dim 0) or column `place` of x; false: none is. */
static bool window_place(const struct conv *c, int dim, int64_t place, int64_t tap, int64_t *at)
{
	const struct gt_window *w = c->window;
	int64_t start = place + w->pad[dim] - tap * w->dilation[dim];

	*at = start / w->stride[dim];
	return start >= 0 && start % w->stride[dim] == 0 && *at < c->y->shape[2 + dim];
}

/* dx[b, q, row, column]: the sum over all windows that the element is in. */
static double input_sum(const struct conv *c, int64_t b, int64_t q, int64_t row, int64_t column)
{
	struct strides s = strides_of(c->y);
	const int64_t *n = c->w->shape;
	int64_t outputs = n[0] / c->groups, channels = n[1], first = q / channels * outputs;
	const double *dy = (const double *)c->y->data + b * s.image;
	const double *w = (const double *)c->w->data + q % channels * n[2] * n[3];
	double sum = 0;

	for (int64_t u = 0; u < n[2]; u++)
		for (int64_t v = 0; v < n[3]; v++) {
			int64_t i, j;

			if (!window_place(c, 0, row, u, &i) || !window_place(c, 1, column, v, &j))
				continue;
			for (int64_t o = first; o < first + outputs; o++)
				sum += dy[i * s.row + j * s.column + o * s.channel] *
				       w[(o * channels * n[2] + u) * n[3] + v];
		}
	return sum;
}

static int input_grad_f64_run(struct gt_call *call, struct gt_err *err)
{
	struct conv c = input_grad_of(call);
	struct strides s = strides_of(c.x);
	const int64_t *n = c.x->shape;
	double *dx = c.x->data;

	(void)err;
#pragma omp parallel for collapse(3) schedule(static)
	for (int64_t b = 0; b < n[0]; b++)
		for (int64_t row = 0; row < n[2]; row++)
			for (int64_t column = 0; column < n[3]; column++)
				for (int64_t q = 0; q < n[1]; q++)
					dx[b * s.image + row * s.row + column * s.column +
					    q * s.channel] = input_sum(&c, b, q, row, column);
	return 0;
}

/* dw[o, q, u, v]: the sum over all positions of the window. */
static double weight_sum(const struct conv *c, int64_t o, int64_t q, int64_t u, int64_t v)
{
	struct strides sx = strides_of(c->x), sy = strides_of(c->y);
	const int64_t *n = c->w->shape;
	int64_t channel = o / (n[0] / c->groups) * n[1] + q;
	const double *x = (const double *)c->x->data + channel * sx.channel;
	const double *dy = (const double *)c->y->data + o * sy.channel;
	double sum = 0;

	for (int64_t b = 0; b < c->y->shape[0]; b++)
		for (int64_t i = 0; i < c->y->shape[2]; i++) {
			int64_t row = tap_place(c, 0, i, u);

			if (row < 0 || row >= c->x->shape[2])
				continue;
			for (int64_t j = 0; j < c->y->shape[3]; j++) {
				int64_t column = tap_place(c, 1, j, v);

				if (column < 0 || column >= c->x->shape[3])
					continue;
				sum += x[b * sx.image + row * sx.row + column * sx.column] *
				       dy[b * sy.image + i * sy.row + j * sy.column];
			}
		}
	return sum;
}

static int weight_grad_f64_run(struct gt_call *call, struct gt_err *err)
{
	struct conv c = weight_grad_of(call);
	const int64_t *n = c.w->shape;
	double *dw = c.w->data;

	(void)err;
#pragma omp parallel for collapse(4) schedule(static)
	for (int64_t o = 0; o < n[0]; o++)
		for (int64_t q = 0; q < n[1]; q++)
			for (int64_t u = 0; u < n[2]; u++)
				for (int64_t v = 0; v < n[3]; v++)
					dw[((o * n[1] + q) * n[2] + u) * n[3] + v] =
					    weight_sum(&c, o, q, u, v);
	return 0;
}

const struct gt_kernel gt_cpu_conv_kernels[] = {
	{ "conv2d", GT_F32, NULL, forward_prepare, gt_dnnl_bind, forward_run, gt_dnnl_release },
	{ "conv2d_input_grad", GT_F32, NULL, input_grad_prepare, gt_dnnl_bind, gt_dnnl_run,
	    gt_dnnl_release },
	{ "conv2d_weight_grad", GT_F32, NULL, weight_grad_prepare, gt_dnnl_bind, gt_dnnl_run,
	    gt_dnnl_release },
	{ "conv2d", GT_BF16, forward_accepts_bf16, forward_prepare, gt_dnnl_bind, forward_run,
	    gt_dnnl_release },
	{ "conv2d_input_grad", GT_BF16, input_grad_accepts_bf16, input_grad_prepare, gt_dnnl_bind,
	    gt_dnnl_run, gt_dnnl_release },
	{ "conv2d_weight_grad", GT_BF16, weight_grad_accepts_bf16, weight_grad_prepare,
	    gt_dnnl_bind, gt_dnnl_run, gt_dnnl_release },
	{ "conv2d", GT_F64, .run = forward_f64_run },
	{ "conv2d_input_grad", GT_F64, .run = input_grad_f64_run },
	{ "conv2d_weight_grad", GT_F64, .run = weight_grad_f64_run },
	{ 0 },
};
