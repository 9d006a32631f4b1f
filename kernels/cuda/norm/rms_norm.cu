/* rms_norm.cu - rms_norm and its gradient. */
#include "kernels/cuda/core/columns.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"

/* A warp has a row; all types add up in the same order, in the type of gt_wide. Formulas:
 * lib/graph/ops/rms_norm.c. */
enum { WARPS = 4 };

template <class T> struct rms_norm_args {
	typedef typename gt_wide<T>::type wide;
	T *y;
	wide *rstd;
	const T *x;
	const wide *weight;
	int64_t rows, cols;
	double eps;
};

template <class T> static __global__ void rms_norm(rms_norm_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, at = r * a.cols;
	wide square = 0, rstd;

	if (r >= a.rows)
		return;
	for (int64_t c = threadIdx.x % 32; c < a.cols; c += 32) {
		wide x = gt_load(a.x[at + c]);

		square += x * x;
	}
	rstd = 1 / sqrt(gt_warp_sum(square) / (wide)a.cols + (wide)a.eps);
	if (threadIdx.x % 32 == 0)
		a.rstd[r] = rstd;
	for (int64_t c = threadIdx.x % 32; c < a.cols; c += 32)
		gt_store(a.y + at + c, gt_load(a.x[at + c]) * rstd * a.weight[c]);
}

template <class T> struct rms_norm_grad_args {
	typedef typename gt_wide<T>::type wide;
	T *dx;
	const T *dy, *x;
	const wide *weight, *rstd;
	int64_t rows, cols;
};

template <class T> static __global__ void rms_norm_grad(rms_norm_grad_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, at = r * a.cols;
	wide dot = 0, rstd;

	if (r >= a.rows)
		return;
	rstd = a.rstd[r];
	for (int64_t c = threadIdx.x % 32; c < a.cols; c += 32)
		dot += gt_load(a.dy[at + c]) * a.weight[c] * (gt_load(a.x[at + c]) * rstd);
	dot = gt_warp_sum(dot) / (wide)a.cols;
	for (int64_t c = threadIdx.x % 32; c < a.cols; c += 32)
		gt_store(a.dx + at + c, rstd * (gt_load(a.dy[at + c]) * a.weight[c] -
		                                   gt_load(a.x[at + c]) * rstd * dot));
}

/* dweight: sums over rows, of each column. */
template <class T> struct rms_norm_weight_f {
	typedef typename gt_wide<T>::type wide;
	const T *dy, *x;
	const wide *rstd;
	int64_t cols;

	__device__ void operator()(wide *sums, int64_t r, int64_t c) const
	{
		sums[0] += gt_load(dy[r * cols + c]) * (gt_load(x[r * cols + c]) * rstd[r]);
	}
};

/* ---- rows ---- */

template <class T> static int run_rms_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	rms_norm_args<T> a = { gt_out_data<T>(call), gt_out_data<wide>(call, 1),
		gt_in_data<T>(call, 0), gt_in_data<wide>(call, 1), gt_tensor_rows(&call->in[0]),
		gt_tensor_last(&call->in[0]), call->attrs.norm.eps };

	if (!a.rows)
		return 0;
	GT_LAUNCH((rms_norm<T>), (unsigned)((a.rows + WARPS - 1) / WARPS), WARPS * 32, 0,
	    call->stream->queue, a);
	return gt_cuda_launched(call->stream, "rms_norm", err);
}

template <class T> static int run_rms_norm_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	rms_norm_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<wide>(call, 2), gt_in_data<wide>(call, 3),
		gt_tensor_rows(&call->in[1]), gt_tensor_last(&call->in[1]) };
	struct gt_column_chunks m = gt_column_chunks_of(a.rows, a.cols);
	wide *const out[1] = { gt_out_data<wide>(call, 1) };
	rms_norm_weight_f<T> f = { a.dy, a.x, a.rstd, a.cols };

	if (a.rows)
		GT_LAUNCH((rms_norm_grad<T>), (unsigned)((a.rows + WARPS - 1) / WARPS), WARPS * 32,
		    0, call->stream->queue, a);
	gt_sum_columns<1>(call->stream, out, (wide *)call->workspace, f, &m);
	return gt_cuda_launched(call->stream, "rms_norm_grad", err);
}

static int prepare_rms_norm_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m =
	    gt_column_chunks_of(gt_tensor_rows(&call->in[1]), gt_tensor_last(&call->in[1]));

	(void)err;
	call->launches = 3;
	call->workspace_bytes = gt_column_bytes(&m, 1, call->in[1].dtype);
	return 0;
}

const struct gt_kernel gt_cuda_rms_norm_kernels[] = {
	GT_ROWS(rms_norm, nullptr, nullptr),
	GT_ROWS(rms_norm_grad, nullptr, prepare_rms_norm_grad),
	{},
};
