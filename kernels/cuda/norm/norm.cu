/* norm.cu - layer_norm, by itself and behind a sum, and the gradient of a bias. */
#include "kernels/cuda/core/columns.cuh"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"

/* A warp has a row. A lane reads PACK elements at a time, or one by one where PACK does not divide
 * the length of rows. All types add up in the same order, so a result of 16 bits is that of
 * float32, rounded. Statistics, weights and sums are in the type of gt_wide. Formulas:
 * lib/graph/ops/norm.c. */
enum { WARPS = 4, PACK = 8 };

template <class T, int W> using reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W> using writer = typename gt_map_buffer<T, false, true>::template lanes<W>;

/* The sum of f(element) over a row. */
template <int W, class T, class F>
static __device__ __forceinline__ typename gt_wide<T>::type sum_row(const T *x, int64_t cols, F f)
{
	reader<T, W> v = { (T *)x, {} };
	typename gt_wide<T>::type sum = 0;

	for (int64_t c = threadIdx.x % 32 * W; c < cols; c += 32 * W) {
		v.load(c);
		for (int k = 0; k < W; k++)
			sum += f(v.v[k]);
	}
	return gt_warp_sum(sum);
}

/* y is T, and so is an addend; the normalised value is S, which may be the wide type: a sum, or the
 * residual itself. */
template <class T, class S> struct norm_args {
	typedef typename gt_wide<T>::type wide;
	T *y;
	S *sum; /* nullptr: the residual is normalised */
	wide *mean, *rstd;
	const T *x;
	const S *residual;
	const wide *weight, *bias;
	int64_t rows, cols;
	double eps;
};

/*
 * A row of the sum. Each lane reads back its own writes, so no barrier is needed. The sum is
 * rounded to S when it is written, and the rounded values are normalised: the gradient reads the
 * same values.
 */
template <int W, class T, class S>
static __device__ __forceinline__ void add_residual_row(
    S *sum, const T *x, const S *residual, int64_t cols)
{
	reader<T, W> a = { (T *)x, {} };
	reader<S, W> b = { (S *)residual, {} };
	writer<S, W> to = { sum, {} };

	for (int64_t c = threadIdx.x % 32 * W; c < cols; c += 32 * W) {
		a.load(c);
		b.load(c);
		for (int k = 0; k < W; k++)
			to.v[k] = a.v[k] + b.v[k];
		to.store(c);
	}
}

template <class T, class S, int W> static __global__ void layer_norm(norm_args<T, S> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
	int lane = (int)threadIdx.x % 32;
	reader<S, W> x = { (a.sum ? a.sum : (S *)a.residual) + r * a.cols, {} };
	writer<T, W> y = { a.y + r * a.cols, {} };
	reader<wide, W> weight = { (wide *)a.weight, {} }, bias = { (wide *)a.bias, {} };
	wide mean, square, rstd;

	if (r >= a.rows)
		return;
	if (a.sum)
		add_residual_row<W>(x.p, a.x + r * a.cols, a.residual + r * a.cols, a.cols);
	mean = sum_row<W>(x.p, a.cols, [](wide v) { return v; }) / (wide)a.cols;
	square = sum_row<W>(x.p, a.cols, [mean](wide v) { return (v - mean) * (v - mean); });
	rstd = 1 / sqrt(square / (wide)a.cols + (wide)a.eps);
	if (lane == 0) {
		a.mean[r] = mean;
		a.rstd[r] = rstd;
	}
	for (int64_t c = lane * W; c < a.cols; c += 32 * W) {
		x.load(c);
		weight.load(c);
		if (a.bias)
			bias.load(c);
		for (int k = 0; k < W; k++)
			y.v[k] = (x.v[k] - mean) * rstd * weight.v[k] + (a.bias ? bias.v[k] : 0);
		y.store(c);
	}
}

/* ---- rows ---- */

template <class T, class S>
static int launch_norm(struct gt_call *call, const norm_args<T, S> &a, struct gt_err *err)
{
	unsigned blocks = (unsigned)((a.rows + WARPS - 1) / WARPS);

	if (!blocks)
		return 0;
	if (a.cols % PACK == 0)
		GT_LAUNCH((layer_norm<T, S, PACK>), blocks, WARPS * 32, 0, call->stream->queue, a);
	else
		GT_LAUNCH((layer_norm<T, S, 1>), blocks, WARPS * 32, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

template <class T, class S> static int run_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	norm_args<T, S> a = { gt_out_data<T>(call), nullptr, gt_out_data<wide>(call, 1),
		gt_out_data<wide>(call, 2), nullptr, gt_in_data<S>(call, 0),
		gt_in_data<wide>(call, 1), gt_in_data<wide>(call, 2), gt_tensor_rows(&call->in[0]),
		gt_tensor_last(&call->in[0]), call->attrs.norm.eps };

	return launch_norm(call, a, err);
}

/* S is the input's type. */
template <class S> static int run_layer_norm(struct gt_call *call, struct gt_err *err)
{
	return run_norm<S, S>(call, err);
}

template <> int run_layer_norm<float>(struct gt_call *call, struct gt_err *err)
{
	if (call->out[0].dtype == GT_BF16)
		return run_norm<gt_bf16, float>(call, err);
	if (call->out[0].dtype == GT_F16)
		return run_norm<gt_f16, float>(call, err);
	return run_norm<float, float>(call, err);
}

template <class T, class S> static int run_sum(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	norm_args<T, S> a = { gt_out_data<T>(call), gt_out_data<S>(call, 1),
		gt_out_data<wide>(call, 2), gt_out_data<wide>(call, 3), gt_in_data<T>(call, 0),
		gt_in_data<S>(call, 1), gt_in_data<wide>(call, 2), gt_in_data<wide>(call, 3),
		gt_tensor_rows(&call->in[0]), gt_tensor_last(&call->in[0]), call->attrs.norm.eps };

	return launch_norm(call, a, err);
}

template <class T> static int run_add_layer_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;

	if (call->in[1].dtype == call->in[0].dtype)
		return run_sum<T, T>(call, err);
	return run_sum<T, wide>(call, err);
}

/* ---- bias_grad: images lie channels-last, so the channel is the last dimension of all ---- */

static struct gt_column_chunks chunks_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_column_chunks_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

template <class T> static int run_bias_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m = chunks_of_channels(&call->in[0]);
	gt_column_f<T> f = { gt_in_data<T>(call, 0), m.cols };
	T *const sums[] = { gt_out_data<T>(call) };

	gt_sum_columns(call->stream, sums, (typename gt_wide<T>::type *)call->workspace, f, &m);
	return gt_cuda_launched(call->stream, "bias_grad", err);
}

static int prepare_bias_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m = chunks_of_channels(&call->in[0]);

	(void)err;
	call->launches = 2;
	call->workspace_bytes = gt_column_bytes(&m, 1, call->in[0].dtype);
	return 0;
}

static bool accepts_channels_last(const struct gt_call *call)
{
	return call->in[0].ndim != 4 || call->in[0].layout == GT_CHANNELS_LAST;
}

const struct gt_kernel gt_cuda_norm_kernels[] = {
	GT_ROWS(layer_norm, nullptr, nullptr),
	GT_ROWS(add_layer_norm, nullptr, nullptr),
	GT_ROWS(bias_grad, accepts_channels_last, prepare_bias_grad),
	{},
};
