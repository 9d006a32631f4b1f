/* norm.cu - layer_norm and its gradient, and the sum of gradients for a bias. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"

/* A warp has a row. A lane reads PACK elements at a time, or one by one where PACK does not divide
 * the length of rows. All types add up in the same order, so a result of 16 bits is that of
 * float32, rounded. Statistics, weights and sums are in the type of gt_wide. Formulas:
 * lib/graph/ops/ops.h. */
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

template <class T> struct norm_args {
	typedef typename gt_wide<T>::type wide;
	T *y;
	wide *mean, *rstd;
	const T *x;
	const wide *weight, *bias;
	int64_t rows, cols;
	double eps;
};

template <class T, int W> static __global__ void layer_norm(norm_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
	int lane = (int)threadIdx.x % 32;
	reader<T, W> x = { (T *)a.x + r * a.cols, {} };
	writer<T, W> y = { a.y + r * a.cols, {} };
	reader<wide, W> weight = { (wide *)a.weight, {} }, bias = { (wide *)a.bias, {} };
	wide mean, square, rstd;

	if (r >= a.rows)
		return;
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

template <class T> struct norm_grad_args {
	typedef typename gt_wide<T>::type wide;
	T *dx;
	const T *dy, *x;
	const wide *weight, *mean, *rstd;
	int64_t rows, cols;

	/* dweight and dbias of one element. */
	__device__ void operator()(wide *sums, int64_t r, int64_t c) const
	{
		wide d = gt_load(dy[r * cols + c]);

		sums[0] += d * (gt_load(x[r * cols + c]) - mean[r]) * rstd[r];
		sums[1] += d;
	}
};

template <class T, int W> static __global__ void layer_norm_grad(norm_grad_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
	int lane = (int)threadIdx.x % 32;
	reader<T, W> dy = { (T *)a.dy + r * a.cols, {} }, x = { (T *)a.x + r * a.cols, {} };
	writer<T, W> dx = { a.dx + r * a.cols, {} };
	reader<wide, W> weight = { (wide *)a.weight, {} };
	wide mean, rstd, sum = 0, dot = 0;

	if (r >= a.rows)
		return;
	mean = a.mean[r];
	rstd = a.rstd[r];
	for (int64_t c = lane * W; c < a.cols; c += 32 * W) {
		dy.load(c);
		x.load(c);
		weight.load(c);
		for (int k = 0; k < W; k++) {
			wide g = dy.v[k] * weight.v[k];

			sum += g;
			dot += g * (x.v[k] - mean) * rstd;
		}
	}
	sum = gt_warp_sum(sum) / (wide)a.cols;
	dot = gt_warp_sum(dot) / (wide)a.cols;
	for (int64_t c = lane * W; c < a.cols; c += 32 * W) {
		dy.load(c);
		x.load(c);
		weight.load(c);
		for (int k = 0; k < W; k++)
			dx.v[k] =
			    rstd * (dy.v[k] * weight.v[k] - sum - (x.v[k] - mean) * rstd * dot);
		dx.store(c);
	}
}

/* ---- rows ---- */

template <class T> static int run_layer_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	norm_args<T> a = { gt_out_data<T>(call), gt_out_data<wide>(call, 1),
		gt_out_data<wide>(call, 2), gt_in_data<T>(call, 0), gt_in_data<wide>(call, 1),
		gt_in_data<wide>(call, 2), gt_tensor_rows(&call->in[0]),
		gt_tensor_last(&call->in[0]), call->attrs.norm.eps };
	unsigned blocks = (unsigned)((a.rows + WARPS - 1) / WARPS);

	if (!blocks)
		return 0;
	if (a.cols % PACK == 0)
		GT_LAUNCH((layer_norm<T, PACK>), blocks, WARPS * 32, 0, call->stream->queue, a);
	else
		GT_LAUNCH((layer_norm<T, 1>), blocks, WARPS * 32, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "layer_norm", err);
}

template <class T> static int run_layer_norm_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	norm_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<wide>(call, 2), gt_in_data<wide>(call, 3),
		gt_in_data<wide>(call, 4), gt_tensor_rows(&call->in[1]),
		gt_tensor_last(&call->in[1]) };
	struct gt_column_chunks m = gt_column_chunks_of(a.rows, a.cols);
	wide *const sums[] = { gt_out_data<wide>(call, 1), gt_out_data<wide>(call, 2) };
	unsigned blocks = (unsigned)((a.rows + WARPS - 1) / WARPS);

	gt_sum_columns(call->stream, sums, (wide *)call->workspace, a, &m);
	if (blocks && a.cols % PACK == 0)
		GT_LAUNCH(
		    (layer_norm_grad<T, PACK>), blocks, WARPS * 32, 0, call->stream->queue, a);
	else if (blocks)
		GT_LAUNCH((layer_norm_grad<T, 1>), blocks, WARPS * 32, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "layer_norm_grad", err);
}

static int prepare_layer_norm_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m =
	    gt_column_chunks_of(gt_tensor_rows(&call->in[1]), gt_tensor_last(&call->in[1]));

	(void)err;
	call->launches = call->out[2].present ? 4 : 3;
	call->workspace_bytes = gt_column_bytes(&m, 2, call->in[1].dtype);
	return 0;
}

/* ---- bias_grad: images lie channels-last, so the channel is the last dimension of all ---- */

template <class T> struct bias_grad_f {
	const T *dy;
	int64_t cols;

	__device__ void operator()(typename gt_wide<T>::type *sums, int64_t r, int64_t c) const
	{
		sums[0] += gt_load(dy[r * cols + c]);
	}
};

static struct gt_column_chunks chunks_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_column_chunks_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

template <class T> static int run_bias_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m = chunks_of_channels(&call->in[0]);
	bias_grad_f<T> f = { gt_in_data<T>(call, 0), m.cols };
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
	GT_ROWS(layer_norm_grad, nullptr, prepare_layer_norm_grad),
	GT_ROWS(bias_grad, accepts_channels_last, prepare_bias_grad),
	{},
};
