/* softmax.cu - softmax, its logarithm, and the gradients. */
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * A warp has a row, or a block if the row is long. Each thread reads only elements that it writes
 * later, so the output may be an input. Sums are in the type of gt_wide, in an order that the shape
 * alone determines. Formulas: lib/graph/ops/softmax.c.
 */
enum { SOFTMAX_WARPS = 4, SOFTMAX_THREADS = 256, SOFTMAX_LONG = 2048 };

/* The row of a team of threads, and this thread's place in the team. */
struct softmax_row {
	int64_t row;
	int first, step;
};

template <bool BLOCK> static __device__ __forceinline__ softmax_row row_of_team()
{
	if (BLOCK)
		return { (int64_t)blockIdx.x, (int)threadIdx.x, SOFTMAX_THREADS };
	return { (int64_t)blockIdx.x * SOFTMAX_WARPS + threadIdx.x / 32, (int)threadIdx.x % 32,
		32 };
}

template <bool BLOCK, class W> static __device__ __forceinline__ W team_sum(W x, W *shared)
{
	return BLOCK ? gt_block_sum(x, shared) : gt_warp_sum(x);
}

template <bool BLOCK, class W> static __device__ __forceinline__ W team_max(W x, W *shared)
{
	return BLOCK ? gt_block_max(x, shared) : gt_warp_max(x);
}

/* The maximum ignores NaN, which the sum then has. */
template <class T, bool BLOCK>
static __global__ void softmax(T *y, const T *x, int64_t rows, int64_t cols, bool is_log)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(wide, shared, 32);
	softmax_row team = row_of_team<BLOCK>();
	wide max = gt_lowest<wide>::value, sum = 0;

	if (team.row >= rows)
		return;
	x += team.row * cols;
	y += team.row * cols;
	for (int64_t c = team.first; c < cols; c += team.step) {
		wide v = gt_load(x[c]);

		max = v > max ? v : max;
	}
	max = team_max<BLOCK>(max, shared);
	for (int64_t c = team.first; c < cols; c += team.step)
		sum += gt_exp(gt_load(x[c]) - max);
	sum = team_sum<BLOCK>(sum, shared);
	sum = is_log ? gt_log(sum) : 1 / sum;
	for (int64_t c = team.first; c < cols; c += team.step) {
		wide v = gt_load(x[c]) - max;

		gt_store(y + c, is_log ? v - sum : gt_exp(v) * sum);
	}
}

template <class T, bool BLOCK>
static __global__ void softmax_grad(
    T *dx, const T *y, const T *dy, int64_t rows, int64_t cols, bool is_log)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(wide, shared, 32);
	softmax_row team = row_of_team<BLOCK>();
	wide sum = 0;

	if (team.row >= rows)
		return;
	y += team.row * cols;
	dy += team.row * cols;
	dx += team.row * cols;
	for (int64_t c = team.first; c < cols; c += team.step)
		sum += is_log ? gt_load(dy[c]) : gt_load(y[c]) * gt_load(dy[c]);
	sum = team_sum<BLOCK>(sum, shared);
	for (int64_t c = team.first; c < cols; c += team.step) {
		wide v = gt_load(y[c]), d = gt_load(dy[c]);

		gt_store(dx + c, is_log ? d - gt_exp(v) * sum : v * (d - sum));
	}
}

/* ---- rows ---- */

static unsigned warp_blocks(int64_t rows)
{
	return (unsigned)((rows + SOFTMAX_WARPS - 1) / SOFTMAX_WARPS);
}

template <class T> static int run_softmax(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]), cols = gt_tensor_last(&call->in[0]);
	const T *x = gt_in_data<T>(call, 0);
	T *y = gt_out_data<T>(call);
	bool is_log = call->attrs.softmax.log;

	if (!rows)
		return 0;
	if (cols >= SOFTMAX_LONG)
		GT_LAUNCH((softmax<T, true>), (unsigned)rows, SOFTMAX_THREADS, 0,
		    call->stream->queue, y, x, rows, cols, is_log);
	else
		GT_LAUNCH((softmax<T, false>), warp_blocks(rows), SOFTMAX_WARPS * 32, 0,
		    call->stream->queue, y, x, rows, cols, is_log);
	return gt_cuda_launched(call->stream, "softmax", err);
}

template <class T> static int run_softmax_grad(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]), cols = gt_tensor_last(&call->in[0]);
	const T *y = gt_in_data<T>(call, 0), *dy = gt_in_data<T>(call, 1);
	T *dx = gt_out_data<T>(call);
	bool is_log = call->attrs.softmax.log;

	if (!rows)
		return 0;
	if (cols >= SOFTMAX_LONG)
		GT_LAUNCH((softmax_grad<T, true>), (unsigned)rows, SOFTMAX_THREADS, 0,
		    call->stream->queue, dx, y, dy, rows, cols, is_log);
	else
		GT_LAUNCH((softmax_grad<T, false>), warp_blocks(rows), SOFTMAX_WARPS * 32, 0,
		    call->stream->queue, dx, y, dy, rows, cols, is_log);
	return gt_cuda_launched(call->stream, "softmax_grad", err);
}

const struct gt_kernel gt_cuda_softmax_kernels[] = {
	GT_ROWS(softmax, nullptr, nullptr),
	GT_ROWS(softmax_grad, nullptr, nullptr),
	{},
};
