/* batch_norm_grad.cu - the gradient of batch_norm, whole and cut where ranks exchange sums. */
#include <math.h>

#include "kernels/cuda/core/channels.cuh"

/* Formulas: lib/graph/ops/norm.c. */

/* sums: n, sums of dy [cols], of dy (x - mean) [cols], in double. y is nullptr without relu. */
template <class T> struct channel_grad_args {
	typedef typename gt_wide<T>::type wide;
	T *dx;
	const T *dy, *x, *y;
	const wide *weight, *mean, *rstd;
	double *sums;
	wide *dweight, *dbias;
	T *before_relu; /* where the first kernel writes the gradient before relu; or nullptr */
	const T *more;  /* the other addend of dy, or nullptr; only with before_relu */
};

/* Kernels are compiled for each kind, so that they have no condition at run time: a load after a
 * condition would wait for the loads before it. */
enum gradient_kind {
	PLAIN,      /* there is no relu */
	RELU,       /* dy counts where y > 0 */
	WRITTEN,    /* likewise, and these values are written for later readers */
	SUM_WRITTEN /* likewise, of dy + more */
};

/* N rows of dy, x, y and more; a NaN in y lets the gradient through, as in relu_grad. */
template <class T, int W, int N, gradient_kind KIND> struct channel_grad_rows {
	typedef typename gt_wide<T>::type wide;
	gt_reader<T, W> dy[N], x[N], y[N], more[N];

	__device__ __forceinline__ void load(const channel_grad_args<T> &a, int i, int64_t at)
	{
		dy[i].p = (T *)a.dy;
		x[i].p = (T *)a.x;
		y[i].p = (T *)a.y;
		more[i].p = (T *)a.more;
		dy[i].load(at);
		x[i].load(at);
		if (KIND != PLAIN)
			y[i].load(at);
		if (KIND == SUM_WRITTEN)
			more[i].load(at);
	}

	/* Element k of the gradient of the norm's result. A sum is rounded first, as if it had been
	 * in memory: the second kernel finds the same numbers there. */
	__device__ __forceinline__ wide gradient(int i, int k) const
	{
		wide d = dy[i].v[k];

		if (KIND == SUM_WRITTEN) {
			T sum;

			gt_store(&sum, d + more[i].v[k]);
			d = gt_load(sum);
		}
		return KIND != PLAIN && y[i].v[k] <= 0 ? 0 : d;
	}
};

template <class T, int W, gradient_kind KIND> struct add_gradients {
	typedef typename gt_wide<T>::type wide;
	channel_grad_args<T> a;
	wide sum[W], dot[W];

	template <int N>
	__device__ __forceinline__ void add(int64_t at, int64_t stride, const wide *mean)
	{
		channel_grad_rows<T, W, N, KIND> v;
		gt_writer<T, W> written = { a.before_relu, {} };

		for (int i = 0; i < N; i++)
			v.load(a, i, at + i * stride);
		for (int i = 0; i < N; i++) {
			for (int k = 0; k < W; k++) {
				wide d = v.gradient(i, k);

				written.v[k] = d;
				sum[k] += d;
				dot[k] += d * (v.x[i].v[k] - mean[k]);
			}
			if (KIND >= WRITTEN)
				written.store(at + i * stride);
		}
	}

	__device__ __forceinline__ void operator()(double *sums, int64_t at, int64_t stride, int n)
	{
		/* WRITTEN and SUM_WRITTEN also need registers for before_relu and `more`, so they
		 * load half as many rows at a time. */
		enum {
			ROWS = gt_rows_at_once<T, W>,
			N = KIND >= WRITTEN && ROWS > 1 ? ROWS / 2 : ROWS
		};
		gt_reader<wide, W> mean = { (wide *)a.mean, {} };

		mean.load(gt_first_column<W>());
		for (int k = 0; k < W; k++)
			sum[k] = dot[k] = 0;
		for (; n >= N; n -= N, at += N * stride)
			add<N>(at, stride, mean.v);
		for (; n; n--, at += stride)
			add<1>(at, stride, mean.v);
		for (int k = 0; k < W; k++) {
			sums[k] += (double)sum[k];
			sums[W + k] += (double)dot[k];
		}
	}
};

template <class T, int W, gradient_kind KIND>
static __global__ void __launch_bounds__(GT_CHANNEL_THREADS, sizeof(T) == 8 ? 1 : 2)
    sum_gradients(double *partial, channel_grad_args<T> a, struct gt_channels m)
{
	gt_sum_chunk<W>(partial, m, add_gradients<T, W, KIND>{ a, {}, {} });
}

template <class T>
static __global__ void __launch_bounds__(GT_CHANNEL_THREADS, 2)
    finish_gradients(channel_grad_args<T> a, const double *partial, struct gt_channels m)
{
	typedef typename gt_wide<T>::type wide;
	int64_t c = (int64_t)blockIdx.x * GT_FINISH_COLUMNS + threadIdx.x;
	double sums[2];

	gt_add_chunks_up(sums, partial, m, c < m.cols ? c : m.cols - 1);
	if (c >= m.cols || threadIdx.y)
		return;
	a.sums[1 + c] = sums[0];
	a.sums[1 + m.cols + c] = sums[1];
	a.dbias[c] = (wide)sums[0];
	a.dweight[c] = (wide)(sums[1] * (double)a.rstd[c]);
	if (c == 0)
		a.sums[0] = (double)m.rows;
}

/*
 * dx = weight rstd (dy - sum(dy) / n - (x - mean) rstd^2 sum(dy (x - mean)) / n)
 *
 * a.sums has n and both sums. With sync_bn they are of all ranks, so n comes from there and not
 * from m. The factors of a column are computed in double once, and rounded: with one division, as
 * a thread may have few rows.
 */
enum { AT_ONCE = 2 };

template <class T, int W, gradient_kind KIND>
static __global__ void __launch_bounds__(GT_CHANNEL_THREADS, 2)
    apply_gradient(channel_grad_args<T> a, struct gt_channels m)
{
	typedef typename gt_wide<T>::type wide;
	int64_t c = gt_first_column<W>(), step = gt_row_step();
	wide scale[W], slope[W], offset[W];
	gt_reader<wide, W> mean = { (wide *)a.mean, {} };
	gt_writer<T, W> dx = { a.dx, {} };
	channel_grad_rows<T, W, AT_ONCE, KIND> v;
	double per_row;

	if (c >= m.cols)
		return;
	per_row = 1 / a.sums[0];
	mean.load(c);
	for (int k = 0; k < W; k++) {
		double rstd = (double)a.rstd[c + k];

		scale[k] = a.weight[c + k] * a.rstd[c + k];
		slope[k] = (wide)(rstd * rstd * a.sums[1 + m.cols + c + k] * per_row);
		offset[k] = (wide)(a.sums[1 + c + k] * per_row);
	}
	for (int64_t r = gt_first_row(); r < m.rows; r += AT_ONCE * step) {
		for (int i = 0; i < AT_ONCE; i++) {
			/* past the last row: as in batch_norm.cu */
			int64_t row = r + i * step < m.rows ? r + i * step : r;

			v.load(a, i, row * m.cols + c);
		}
		for (int i = 0; i < AT_ONCE && r + i * step < m.rows; i++) {
			for (int k = 0; k < W; k++)
				dx.v[k] = scale[k] * (v.gradient(i, k) - offset[k] -
				                         (v.x[i].v[k] - mean.v[k]) * slope[k]);
			dx.store((r + i * step) * m.cols + c);
		}
	}
}

template <class T, int W, gradient_kind KIND>
static void launch_sums(struct gt_call *call, double *partial, const channel_grad_args<T> &a,
    const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_sum_shape_of(m);

	GT_LAUNCH(
	    (sum_gradients<T, W, KIND>), s.grid, s.block, 0, call->stream->queue, partial, a, *m);
}

template <class T, int W>
static void launch_sums_of(struct gt_call *call, double *partial, const channel_grad_args<T> &a,
    const struct gt_channels *m)
{
	if (a.more)
		launch_sums<T, W, SUM_WRITTEN>(call, partial, a, m);
	else if (a.before_relu)
		launch_sums<T, W, WRITTEN>(call, partial, a, m);
	else if (a.y)
		launch_sums<T, W, RELU>(call, partial, a, m);
	else
		launch_sums<T, W, PLAIN>(call, partial, a, m);
}

template <class T>
static void sum_gradient(struct gt_call *call, double *partial, const channel_grad_args<T> &a,
    const struct gt_channels *m)
{
	if (m->chunks && gt_sum_pack(m) > 1)
		launch_sums_of<T, GT_CHANNEL_PACK>(call, partial, a, m);
	else if (m->chunks)
		launch_sums_of<T, 1>(call, partial, a, m);
	if (m->cols)
		GT_LAUNCH((finish_gradients<T>), (unsigned)gt_ceil_div(m->cols, GT_FINISH_COLUMNS),
		    dim3(GT_FINISH_COLUMNS, GT_FINISH_THREADS), 0, call->stream->queue, a,
		    (const double *)partial, *m);
}

template <class T, int W>
static void launch_gradient(
    struct gt_call *call, const channel_grad_args<T> &a, const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_channel_shape_of(m->cols, gt_ceil_div(m->rows, AT_ONCE), W);

	if (a.y)
		GT_LAUNCH(
		    (apply_gradient<T, W, RELU>), s.grid, s.block, 0, call->stream->queue, a, *m);
	else
		GT_LAUNCH(
		    (apply_gradient<T, W, PLAIN>), s.grid, s.block, 0, call->stream->queue, a, *m);
}

/* Queue what follows sum_gradient(), which may have written the gradient before relu. */
template <class T>
static int finish_gradient(
    struct gt_call *call, channel_grad_args<T> a, const struct gt_channels *m, struct gt_err *err)
{
	if (a.before_relu) {
		a.dy = a.before_relu;
		a.y = nullptr;
	}
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
		gt_out_data<wide>(call, 1), gt_out_data<wide>(call, 2), gt_out_data<T>(call, 3),
		gt_in_data<T>(call, 6) };

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
		gt_out_data<wide>(call, 2), gt_out_data<T>(call, 3), gt_in_data<T>(call, 5) };

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
		nullptr, nullptr, nullptr, nullptr };

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
