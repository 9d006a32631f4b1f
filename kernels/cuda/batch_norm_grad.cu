/* batch_norm_grad.cu - the gradient of batch_norm, whole and cut where ranks exchange sums. */
#include "kernels/cuda/channels.cuh"

/* Formulas: lib/graph/ops/ops.h. */

/* y is nullptr without relu. sums: n, sums of dy [cols], of dy (x - mean) [cols], in double. */
template <class T> struct channel_grad_args {
	typedef typename gt_wide<T>::type wide;
	T *dx;
	const T *dy, *x, *y;
	const wide *weight, *mean, *rstd;
	double *sums;
	wide *dweight, *dbias;
};

/* Elements of dy, x and y, all in memory; a NaN in y lets the gradient through, as in relu_grad. */
template <class T, int W> struct grad_lanes {
	typedef typename gt_wide<T>::type wide;
	gt_reader<T, W> dy, x, y;
	gt_reader<wide, W> mean;
	bool relu;

	__device__ __forceinline__ grad_lanes(const channel_grad_args<T> &a, int64_t c)
	    : dy{ (T *)a.dy, {} }, x{ (T *)a.x, {} }, y{ (T *)a.y, {} }, mean{ (wide *)a.mean, {} },
	      relu(a.y != nullptr)
	{
		mean.load(c);
	}

	/* Afterwards dy is the gradient of the norm's result, x the deviation from the mean. */
	__device__ __forceinline__ void load(int64_t at)
	{
		dy.load(at);
		x.load(at);
		if (relu)
			y.load(at);
		for (int i = 0; i < W; i++) {
			x.v[i] -= mean.v[i];
			if (relu && y.v[i] <= 0)
				dy.v[i] = 0;
		}
	}
};

/* partial is [chunks, 2, cols]. */
template <class T, int W>
static __global__ void sum_gradients(double *partial, channel_grad_args<T> a, struct gt_channels m)
{
	typedef typename gt_wide<T>::type wide;
	int64_t c = gt_first_column<W>();

	if (c >= m.cols)
		return;
	grad_lanes<T, W> v(a, c);

	for (int64_t k = gt_first_row(); k < m.chunks; k += gt_row_step()) {
		double sum[W] = {}, dot[W] = {}, *to = partial + 2 * k * m.cols + c;

		for (int64_t r0 = m.begin(k); r0 < m.end(k); r0 += GT_SOME_ROWS) {
			wide some_sum[W] = {}, some_dot[W] = {};

			for (int64_t r = r0; r < m.end(k) && r < r0 + GT_SOME_ROWS; r++) {
				v.load(r * m.cols + c);
				for (int i = 0; i < W; i++) {
					some_sum[i] += v.dy.v[i];
					some_dot[i] += v.dy.v[i] * v.x.v[i];
				}
			}
			for (int i = 0; i < W; i++) {
				sum[i] += (double)some_sum[i];
				dot[i] += (double)some_dot[i];
			}
		}
		for (int i = 0; i < W; i++) {
			to[i] = sum[i];
			to[m.cols + i] = dot[i];
		}
	}
}

template <class T>
static __global__ void finish_gradients(
    channel_grad_args<T> a, const double *partial, struct gt_channels m)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(double, shared, GT_FINISH_COLUMNS *GT_FINISH_THREADS);
	int64_t c = (int64_t)blockIdx.x * GT_FINISH_COLUMNS + threadIdx.x;
	/*
	 * All threads of a block must reach the barriers of gt_sum_over_chunks(), those past the
	 * last column too.
	 */
	const double *at = partial + (c < m.cols ? c : m.cols - 1);
	double sum, dot;

	sum = gt_sum_over_chunks(shared, m.chunks, [=](int64_t k) { return at[2 * k * m.cols]; });
	dot = gt_sum_over_chunks(
	    shared, m.chunks, [=](int64_t k) { return at[(2 * k + 1) * m.cols]; });
	if (c >= m.cols || threadIdx.y)
		return;
	a.sums[1 + c] = sum;
	a.sums[1 + m.cols + c] = dot;
	a.dbias[c] = (wide)sum;
	a.dweight[c] = (wide)(dot * (double)a.rstd[c]);
	if (c == 0)
		a.sums[0] = (double)m.rows;
}

/*
 * dx = weight rstd (dy - sum(dy) / n - (x - mean) rstd^2 sum(dy (x - mean)) / n)
 *
 * a.sums has n and both sums. With sync_bn they are of all ranks, so n comes from there and not
 * from m. The factors of a column are computed in double once, and rounded.
 */
template <class T, int W>
static __global__ void apply_gradient(channel_grad_args<T> a, struct gt_channels m)
{
	typedef typename gt_wide<T>::type wide;
	int64_t c = gt_first_column<W>();
	wide scale[W], slope[W], offset[W];
	gt_writer<T, W> dx = { a.dx, {} };

	if (c >= m.cols)
		return;
	for (int i = 0; i < W; i++) {
		double n = a.sums[0], rstd = (double)a.rstd[c + i];

		scale[i] = a.weight[c + i] * a.rstd[c + i];
		slope[i] = (wide)(rstd * rstd * a.sums[1 + m.cols + c + i] / n);
		offset[i] = (wide)(a.sums[1 + c + i] / n);
	}
	grad_lanes<T, W> v(a, c);

	for (int64_t r = gt_first_row(); r < m.rows; r += gt_row_step()) {
		v.load(r * m.cols + c);
		for (int i = 0; i < W; i++)
			dx.v[i] = scale[i] * (v.dy.v[i] - offset[i] - v.x.v[i] * slope[i]);
		dx.store(r * m.cols + c);
	}
}

template <class T, int W>
static void launch_sums(struct gt_call *call, double *partial, const channel_grad_args<T> &a,
    const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_channel_shape_of<W>(m, m->chunks);

	GT_LAUNCH((sum_gradients<T, W>), s.grid, s.block, 0, call->stream->queue, partial, a, *m);
}

template <class T>
static void sum_gradient(struct gt_call *call, double *partial, const channel_grad_args<T> &a,
    const struct gt_channels *m)
{
	if (m->chunks && m->cols % gt_pack_elements<T>() == 0)
		launch_sums<T, gt_pack_elements<T>()>(call, partial, a, m);
	else if (m->chunks)
		launch_sums<T, 1>(call, partial, a, m);
	if (m->cols)
		GT_LAUNCH((finish_gradients<T>), (unsigned)gt_ceil_div(m->cols, GT_FINISH_COLUMNS),
		    dim3(GT_FINISH_COLUMNS, GT_FINISH_THREADS), 0, call->stream->queue, a,
		    (const double *)partial, *m);
}

template <class T, int W>
static void launch_gradient(
    struct gt_call *call, const channel_grad_args<T> &a, const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_channel_shape_of<W>(m, m->rows);

	GT_LAUNCH((apply_gradient<T, W>), s.grid, s.block, 0, call->stream->queue, a, *m);
}

template <class T>
static int finish_gradient(struct gt_call *call, const channel_grad_args<T> &a,
    const struct gt_channels *m, struct gt_err *err)
{
	if (m->rows && m->cols % gt_pack_elements<T>() == 0)
		launch_gradient<T, gt_pack_elements<T>()>(call, a, m);
	else if (m->rows)
		launch_gradient<T, 1>(call, a, m);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

/* ---- rows ---- */

/* The sums of the whole gradient lie in the workspace before those of the chunks. */
static int prepare_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_channels m = gt_channels_of(&call->in[1]);

	(void)err;
	call->launches = 3;
	call->workspace_bytes =
	    (size_t)(1 + 2 * m.cols) * sizeof(double) + gt_channel_sums_bytes(&m);
	return 0;
}

template <class T> static int run_batch_norm_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct gt_channels m = gt_channels_of(&call->in[1]);
	double *sums = (double *)call->workspace;
	channel_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<T>(call, 5), gt_in_data<wide>(call, 2),
		gt_in_data<wide>(call, 3), gt_in_data<wide>(call, 4), sums,
		gt_out_data<wide>(call, 1), gt_out_data<wide>(call, 2) };

	sum_gradient(call, sums + 1 + 2 * m.cols, a, &m);
	return finish_gradient(call, a, &m, err);
}

static int prepare_grad_sums(struct gt_call *call, struct gt_err *err)
{
	struct gt_channels m = gt_channels_of(&call->in[1]);

	(void)err;
	call->launches = 2;
	call->workspace_bytes = gt_channel_sums_bytes(&m);
	return 0;
}

/*
 * The sums go to the output, to be added up over ranks. dweight and dbias are of this rank's
 * samples: ranks add them up with all other gradients.
 */
template <class T> static int run_batch_norm_grad_sums(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct gt_channels m = gt_channels_of(&call->in[1]);
	channel_grad_args<T> a = { nullptr, gt_in_data<T>(call, 0), gt_in_data<T>(call, 1),
		gt_in_data<T>(call, 4), nullptr, gt_in_data<wide>(call, 2),
		gt_in_data<wide>(call, 3), gt_out_data<double>(call), gt_out_data<wide>(call, 1),
		gt_out_data<wide>(call, 2) };

	sum_gradient(call, (double *)call->workspace, a, &m);
	return gt_cuda_launched(call->stream, "batch_norm_grad_sums", err);
}

template <class T> static int run_batch_norm_grad_apply(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct gt_channels m = gt_channels_of(&call->in[1]);
	channel_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<T>(call, 6), gt_in_data<wide>(call, 2),
		gt_in_data<wide>(call, 3), gt_in_data<wide>(call, 4), (double *)call->in[5].data,
		nullptr, nullptr };

	return finish_gradient(call, a, &m, err);
}

const struct gt_kernel gt_cuda_batch_norm_grad_kernels[] = {
	GT_ROWS(batch_norm_grad, gt_accepts_channels_last, prepare_grad),
	{},
};

const struct gt_kernel gt_cuda_batch_norm_grad_sync_kernels[] = {
	GT_ROWS(batch_norm_grad_sums, gt_accepts_channels_last, prepare_grad_sums),
	GT_ROWS(batch_norm_grad_apply, gt_accepts_channels_last, nullptr),
	{},
};
