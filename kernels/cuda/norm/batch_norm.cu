/* batch_norm.cu - batch_norm, whole and cut where ranks exchange sums, and in evaluation. */
#include <math.h>

#include "kernels/cuda/core/channels.cuh"

/* Formulas: lib/graph/ops/norm.c. */

/* ---- means, and sums of squared deviations from them ---- */

/*
 * The sums of d and of d^2 of some rows, where d is the deviation from the first one of these rows;
 * then, in double, those of the deviation from the first row of all, which sums of all rows share:
 *
 *   d + shift    sum + n shift    square + 2 shift sum + n shift^2
 *
 * The square of a mean that is large beside the deviations would cancel digits. A value of the
 * column itself cannot lie too far: it adds to the variance as any other.
 */
template <class T, int W> struct add_moments {
	typedef typename gt_wide<T>::type wide;
	gt_reader<T, W> x;
	wide sum[W], square[W];

	template <int N>
	__device__ __forceinline__ void add(int64_t at, int64_t stride, const wide *about)
	{
		gt_reader<T, W> v[N];

		for (int i = 0; i < N; i++) {
			v[i].p = x.p;
			v[i].load(at + i * stride);
		}
		for (int i = 0; i < N; i++)
			for (int k = 0; k < W; k++) {
				wide d = v[i].v[k] - about[k];

				sum[k] += d;
				square[k] += d * d;
			}
	}

	__device__ __forceinline__ void operator()(double *sums, int64_t at, int64_t stride, int n)
	{
		enum { N = gt_rows_at_once<T, W> };
		gt_reader<T, W> first = x, about = x;
		double rows = n;

		first.load(gt_first_column<W>());
		about.load(at);
		for (int k = 0; k < W; k++)
			sum[k] = square[k] = 0;
		for (; n >= N; n -= N, at += N * stride)
			add<N>(at, stride, about.v);
		for (; n; n--, at += stride)
			add<1>(at, stride, about.v);
		for (int k = 0; k < W; k++) {
			double shift = (double)about.v[k] - (double)first.v[k], s = (double)sum[k];

			sums[k] += s + rows * shift;
			sums[W + k] += (double)square[k] + shift * (2 * s + rows * shift);
		}
	}
};

template <class T, int W>
static __global__ void __launch_bounds__(GT_CHANNEL_THREADS, sizeof(T) == 8 ? 1 : 2)
    sum_moments(double *partial, const T *x, struct gt_channels m)
{
	gt_sum_chunk<W>(partial, m, add_moments<T, W>{ { (T *)x, {} }, {}, {} });
}

/* f(column, rows, mean, sum of squared deviations), once for each column. */
template <class T, class F>
static __global__ void __launch_bounds__(GT_CHANNEL_THREADS, 2)
    finish_moments(F f, const T *x, const double *partial, struct gt_channels m)
{
	int64_t c = (int64_t)blockIdx.x * GT_FINISH_COLUMNS + threadIdx.x;
	double n = (double)m.rows, sums[2], mean = 0, square = 0;

	gt_add_chunks_up(sums, partial, m, c < m.cols ? c : m.cols - 1);
	if (c >= m.cols || threadIdx.y)
		return;
	if (m.rows) {
		mean = (double)gt_load(x[c]) + sums[0] / n;
		square = sums[1] - sums[0] * sums[0] / n;
	}
	f(c, n, mean, square < 0 ? 0 : square);
}

/* Functors that use the sums of a column: as statistics of the batch, or as sums for other
 * ranks. */
template <class V> struct statistics_f {
	V *mean, *rstd, *running_mean, *running_var;
	int64_t *batches;
	double eps, momentum;

	/* One value has no variance. The host cannot know how many there are on all ranks, so this
	 * shows as NaN, which ends a training. */
	__device__ void operator()(int64_t c, double n, double m, double square) const
	{
		/* running_var has the unbiased variance, and normalising uses the biased one, as in
		 * PyTorch. */
		double old = 1 - momentum, unbiased = square / (n - 1);

		mean[c] = (V)m;
		rstd[c] = (V)(n < 2 ? unbiased : 1 / sqrt(square / n + eps));
		running_mean[c] = (V)(old * (double)running_mean[c] + momentum * m);
		running_var[c] = (V)(old * (double)running_var[c] + momentum * unbiased);
		if (c == 0)
			++*batches;
	}
};

struct moments_f {
	double *moments;
	int64_t cols;

	__device__ void operator()(int64_t c, double n, double mean, double square) const
	{
		moments[1 + c] = mean;
		moments[1 + cols + c] = square;
		if (c == 0)
			moments[0] = n;
	}
};

template <class T, int W>
static void launch_moments(struct gt_call *call, const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_sum_shape_of(m);

	GT_LAUNCH((sum_moments<T, W>), s.grid, s.block, 0, call->stream->queue,
	    (double *)call->workspace, gt_in_data<T>(call, 0), *m);
}

/* Both kernels over input 0. */
template <class T, class F>
static void find_moments(struct gt_call *call, const struct gt_channels *m, F f)
{
	if (m->chunks && gt_sum_pack(m) > 1)
		launch_moments<T, GT_CHANNEL_PACK>(call, m);
	else if (m->chunks)
		launch_moments<T, 1>(call, m);
	if (m->cols)
		GT_LAUNCH((finish_moments<T, F>), (unsigned)gt_ceil_div(m->cols, GT_FINISH_COLUMNS),
		    dim3(GT_FINISH_COLUMNS, GT_FINISH_THREADS), 0, call->stream->queue, f,
		    gt_in_data<T>(call, 0), (const double *)call->workspace, *m);
}

/* ---- y = (x - mean) scale + bias + residual ---- */

/* scale is weight rstd; or weight / sqrt(var + eps), and rstd is nullptr. */
template <class T> struct apply_args {
	typedef typename gt_wide<T>::type wide;
	T *y;
	const T *x;
	const wide *weight, *bias, *mean, *rstd, *var;
	double eps;
	wide least; /* lower limit of y: 0 with relu; else NaN, which no y is below */
	const T *residual;

	__device__ wide scale(int64_t c) const
	{
		if (rstd)
			return rstd[c] * weight[c];
		return (wide)((double)weight[c] / sqrt((double)var[c] + eps));
	}
};

/* A thread keeps the coefficients of its columns, and loads AT_ONCE rows at a time. Past the last
 * row, it loads its row r again, which it has not stored yet (y may be x), and stores nothing. */
enum { AT_ONCE = 4 };

template <class T, int W, bool ADDS>
static __global__ void __launch_bounds__(GT_CHANNEL_THREADS, 3)
    apply_batch_norm(apply_args<T> a, struct gt_channels m)
{
	typename gt_wide<T>::type scale[W];
	int64_t c = gt_first_column<W>(), step = gt_row_step();
	gt_reader<T, W> x[AT_ONCE], residual[AT_ONCE];
	gt_writer<T, W> y = { a.y, {} };
	gt_reader<typename gt_wide<T>::type, W> mean = { (typename gt_wide<T>::type *)a.mean, {} },
	                                        bias = { (typename gt_wide<T>::type *)a.bias, {} };

	if (c >= m.cols)
		return;
	mean.load(c);
	bias.load(c);
	for (int k = 0; k < W; k++)
		scale[k] = a.scale(c + k);
	for (int64_t r = gt_first_row(); r < m.rows; r += AT_ONCE * step) {
		for (int i = 0; i < AT_ONCE; i++) {
			int64_t row = r + i * step < m.rows ? r + i * step : r;

			x[i].p = (T *)a.x;
			x[i].load(row * m.cols + c);
			residual[i].p = (T *)a.residual;
			if (ADDS)
				residual[i].load(row * m.cols + c);
		}
		for (int i = 0; i < AT_ONCE && r + i * step < m.rows; i++) {
			for (int k = 0; k < W; k++) {
				y.v[k] = (x[i].v[k] - mean.v[k]) * scale[k] + bias.v[k];
				if (ADDS)
					y.v[k] += residual[i].v[k];
				if (y.v[k] < a.least)
					y.v[k] = 0;
			}
			y.store((r + i * step) * m.cols + c);
		}
	}
}

template <class T, int W, bool ADDS>
static void launch_apply(struct gt_call *call, const apply_args<T> &a, const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_channel_shape_of(m->cols, gt_ceil_div(m->rows, AT_ONCE), W);

	GT_LAUNCH((apply_batch_norm<T, W, ADDS>), s.grid, s.block, 0, call->stream->queue, a, *m);
}

template <class T, bool ADDS>
static void apply_rows(struct gt_call *call, const apply_args<T> &a, const struct gt_channels *m)
{
	if (m->cols % gt_pack_elements<T>() == 0)
		launch_apply<T, gt_pack_elements<T>(), ADDS>(call, a, m);
	else
		launch_apply<T, 1, ADDS>(call, a, m);
}

template <class T>
static int apply_all(struct gt_call *call, const apply_args<T> &a, struct gt_err *err)
{
	struct gt_channels m = gt_channels_of(&call->in[0]);

	if (m.rows && a.residual)
		apply_rows<T, true>(call, a, &m);
	else if (m.rows)
		apply_rows<T, false>(call, a, &m);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

/* There is no residual; the caller may set one. */
template <class T>
static apply_args<T> apply_args_of(const struct gt_call *call, const void *mean, const void *rstd)
{
	typedef typename gt_wide<T>::type wide;

	return { gt_out_data<T>(call), gt_in_data<T>(call, 0), gt_in_data<wide>(call, 1),
		gt_in_data<wide>(call, 2), (const wide *)mean, (const wide *)rstd, nullptr,
		call->attrs.norm.eps, call->attrs.norm.relu ? 0 : (wide)NAN, nullptr };
}

/* ---- rows ---- */

static int prepare_moments(struct gt_call *call, struct gt_err *err)
{
	struct gt_channels m = gt_channels_of(&call->in[0]);

	(void)err;
	call->launches = 2;
	call->workspace_bytes = gt_channel_sums_bytes(&m);
	return 0;
}

static int prepare_batch_norm(struct gt_call *call, struct gt_err *err)
{
	if (gt_channels_of(&call->in[0]).rows < 2) {
		gt_err_set(err, GT_EINVAL, "1 value per channel has no variance");
		return gt_err_hint(err, "use a larger batch or larger images");
	}
	prepare_moments(call, err);
	call->launches++;
	return 0;
}

template <class T> static int run_batch_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct gt_channels m = gt_channels_of(&call->in[0]);
	statistics_f<wide> f = { gt_out_data<wide>(call, 1), gt_out_data<wide>(call, 2),
		(wide *)call->in[3].data, (wide *)call->in[4].data, (int64_t *)call->in[5].data,
		call->attrs.norm.eps, call->attrs.norm.momentum };
	apply_args<T> a = apply_args_of<T>(call, f.mean, f.rstd);

	a.residual = gt_in_data<T>(call, 6);
	find_moments<T>(call, &m, f);
	return apply_all(call, a, err);
}

template <class T> static int run_batch_norm_eval(struct gt_call *call, struct gt_err *err)
{
	apply_args<T> a = apply_args_of<T>(call, call->in[3].data, nullptr);

	a.var = gt_in_data<typename gt_wide<T>::type>(call, 4);
	return apply_all(call, a, err);
}

template <class T> static int run_batch_norm_apply(struct gt_call *call, struct gt_err *err)
{
	apply_args<T> a = apply_args_of<T>(call, call->in[3].data, call->in[4].data);

	a.residual = gt_in_data<T>(call, 5);
	return apply_all(call, a, err);
}

template <class T> static int run_batch_norm_moments(struct gt_call *call, struct gt_err *err)
{
	struct gt_channels m = gt_channels_of(&call->in[0]);
	moments_f f = { gt_out_data<double>(call), m.cols };

	find_moments<T>(call, &m, f);
	return gt_cuda_launched(call->stream, "batch_norm_moments", err);
}

/*
 * A thread for each channel, and all ranks in their order, so that they all find the same bits. A
 * rank's row is n, means [cols], squares [cols], as moments_f wrote it.
 */
template <class V>
static __global__ void combine_ranks(
    statistics_f<V> f, const double *moments, int64_t ranks, int64_t cols)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, stride = 1 + 2 * cols;
	double n = 0, mean = 0, square = 0;

	if (c >= cols)
		return;
	for (int64_t r = 0; r < ranks; r++)
		n += moments[r * stride];
	for (int64_t r = 0; r < ranks; r++)
		mean += moments[r * stride] / n * moments[r * stride + 1 + c];
	for (int64_t r = 0; r < ranks; r++) {
		double d = moments[r * stride + 1 + c] - mean;

		square += moments[r * stride + 1 + cols + c] + moments[r * stride] * d * d;
	}
	f(c, n, mean, square);
}

template <class V> static int run_batch_norm_combine(struct gt_call *call, struct gt_err *err)
{
	statistics_f<V> f = { gt_out_data<V>(call), gt_out_data<V>(call, 1), (V *)call->in[0].data,
		(V *)call->in[1].data, (int64_t *)call->in[2].data, call->attrs.norm.eps,
		call->attrs.norm.momentum };
	int64_t cols = gt_tensor_elements(&call->in[0]);

	if (!cols)
		return 0;
	GT_LAUNCH((combine_ranks<V>), (unsigned)gt_ceil_div(cols, 64), 64, 0, call->stream->queue,
	    f, gt_in_data<double>(call, 3), call->in[3].shape[0], cols);
	return gt_cuda_launched(call->stream, "batch_norm_combine", err);
}

/* ---- batch_norm_fold: vectors have the type of the weight, which is [O, C, k, k] ---- */

template <class T> struct fold_args {
	T *w_out, *bias_out;
	const T *w, *weight, *bias, *mean, *var, *conv_bias;
	int64_t n; /* elements of an output channel */
	double eps;
};

/*
 * A block for each channel. (w x + conv_bias - mean) scale + bias is (w scale) x + (conv_bias -
 * mean) scale + bias. Products are in double, so each new weight is rounded once.
 */
template <class T> static __global__ void fold(fold_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t o = blockIdx.x;
	double scale = (double)gt_load(a.weight[o]) / sqrt((double)gt_load(a.var[o]) + a.eps);
	double before =
	    (a.conv_bias ? (double)gt_load(a.conv_bias[o]) : 0) - (double)gt_load(a.mean[o]);

	for (int64_t i = o * a.n + threadIdx.x; i < (o + 1) * a.n; i += blockDim.x)
		gt_store(a.w_out + i, (wide)((double)gt_load(a.w[i]) * scale));
	if (threadIdx.x == 0)
		gt_store(a.bias_out + o, (wide)((double)gt_load(a.bias[o]) + before * scale));
}

template <class T> static int run_batch_norm_fold(struct gt_call *call, struct gt_err *err)
{
	int64_t channels = call->in[0].shape[0];
	int64_t n = channels ? gt_tensor_elements(&call->in[0]) / channels : 0;
	fold_args<T> a = { gt_out_data<T>(call), gt_out_data<T>(call, 1), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<T>(call, 2), gt_in_data<T>(call, 3),
		gt_in_data<T>(call, 4), gt_in_data<T>(call, 5), n, call->attrs.norm.eps };

	if (!channels)
		return 0;
	GT_LAUNCH((fold<T>), (unsigned)channels, 128, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "batch_norm_fold", err);
}

const struct gt_kernel gt_cuda_batch_norm_kernels[] = {
	GT_ROWS(batch_norm, gt_accepts_channels_last, prepare_batch_norm),
	GT_ROWS(batch_norm_eval, gt_accepts_channels_last, nullptr),
	GT_ROWS(batch_norm_fold, nullptr, nullptr),
	{},
};

const struct gt_kernel gt_cuda_batch_norm_sync_kernels[] = {
	GT_ROWS(batch_norm_moments, gt_accepts_channels_last, prepare_moments),
	GT_ROW(batch_norm_combine, GT_F32, run_batch_norm_combine<float>, nullptr, nullptr),
	GT_ROW(batch_norm_combine, GT_F64, run_batch_norm_combine<double>, nullptr, nullptr),
	GT_ROWS(batch_norm_apply, gt_accepts_channels_last, nullptr),
	{},
};
