/* grouped.cu - products of groups of rows, each by a matrix of its own, and the gradient. */
#include "kernels/cuda/core/channels.cuh"
#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/rows.cuh"

/* A block computes tiles of GROUPED_TILE rows and columns of the result of one group. A thread has
 * some elements of a column. The sizes of groups are known on the device alone, so a block goes
 * through the tiles of its group, in steps. */
enum {
	GROUPED_TILE = 32,
	GROUPED_LINES = 8, /* threads of a column */
	GROUPED_EACH = GROUPED_TILE / GROUPED_LINES,
	GROUPED_STEP = 16,   /* blocks that share the rows of a group */
	GROUPED_MOST = 65535 /* blocks in these dimensions of a grid */
};

template <class T> struct grouped_args {
	T *y;
	const T *a, *b;
	const int32_t *ends;
	int64_t rows, inner, columns; /* x is [rows, inner], y is [rows, columns] */
	int64_t groups;
	bool trans_b;
	struct gt_fault_slot *faults;
};

/* The rows [from, to) of a group. */
struct group_rows {
	int64_t from, to;
};

template <class T>
static __device__ __forceinline__ bool find_group(
    const grouped_args<T> &a, int64_t e, struct group_rows *r)
{
	r->from = e ? a.ends[e - 1] : 0;
	r->to = a.ends[e];
	if (r->from >= 0 && r->from <= r->to && r->to <= a.rows)
		return true;
	if (!threadIdx.x && !threadIdx.y)
		gt_report_fault(a.faults, GT_FAULT_GROUP, r->to, e, r->from, a.rows);
	return false;
}

/* Element (i, j) of a matrix with `rows` rows and `columns` columns; 0 outside. */
template <class T>
static __device__ __forceinline__ typename gt_wide<T>::type element(
    const T *m, int64_t i, int64_t j, int64_t rows, int64_t columns)
{
	typename gt_wide<T>::type zero = 0;

	return i < rows && j < columns ? gt_load(m[i * columns + j]) : zero;
}

template <class T> static __global__ void grouped(grouped_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(wide, x, GROUPED_TILE * (GROUPED_TILE + 1));
	GT_SHARED(wide, w, GROUPED_TILE * (GROUPED_TILE + 1));
	int column = (int)threadIdx.x, line = (int)threadIdx.y;
	int64_t e = blockIdx.z, n0 = (int64_t)blockIdx.x * GROUPED_TILE;
	const T *matrix = a.b + e * a.inner * a.columns;
	struct group_rows r;

	if (!find_group(a, e, &r))
		return;
	for (int64_t r0 = r.from + (int64_t)blockIdx.y * GROUPED_TILE; r0 < r.to;
	     r0 += (int64_t)gridDim.y * GROUPED_TILE) {
		wide sum[GROUPED_EACH] = {};

		for (int64_t k0 = 0; k0 < a.inner; k0 += GROUPED_TILE) {
			for (int i = line; i < GROUPED_TILE; i += GROUPED_LINES) {
				x[i * (GROUPED_TILE + 1) + column] =
				    element(a.a, r0 + i, k0 + column, r.to, a.inner);
				if (a.trans_b)
					w[column * (GROUPED_TILE + 1) + i] = element(
					    matrix, n0 + i, k0 + column, a.columns, a.inner);
				else
					w[i * (GROUPED_TILE + 1) + column] = element(
					    matrix, k0 + i, n0 + column, a.inner, a.columns);
			}
			__syncthreads();
			for (int k = 0; k < GROUPED_TILE; k++)
				for (int q = 0; q < GROUPED_EACH; q++)
					sum[q] +=
					    x[(line + q * GROUPED_LINES) * (GROUPED_TILE + 1) + k] *
					    w[k * (GROUPED_TILE + 1) + column];
			__syncthreads();
		}
		for (int q = 0; q < GROUPED_EACH; q++) {
			int64_t row = r0 + line + q * GROUPED_LINES;

			if (row < r.to && n0 + column < a.columns)
				gt_store(&a.y[row * a.columns + n0 + column], sum[q]);
		}
	}
	/* Rows behind the last group are zeros. */
	for (int64_t row = r.to + (int64_t)blockIdx.y * GROUPED_LINES + line;
	     e == a.groups - 1 && row < a.rows && n0 + column < a.columns;
	     row += (int64_t)gridDim.y * GROUPED_LINES)
		gt_store(&a.y[row * a.columns + n0 + column], (wide)0);
}

/* y[e] is the product of the group's rows of a [rows, inner], transposed, and of b [rows, columns].
 */
template <class T> static __global__ void grouped_grad(grouped_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(wide, left, GROUPED_TILE * (GROUPED_TILE + 1));
	GT_SHARED(wide, right, GROUPED_TILE * (GROUPED_TILE + 1));
	int column = (int)threadIdx.x, line = (int)threadIdx.y;
	int64_t e = blockIdx.z, n0 = (int64_t)blockIdx.x * GROUPED_TILE;
	int64_t m0 = (int64_t)blockIdx.y * GROUPED_TILE;
	wide sum[GROUPED_EACH] = {};
	struct group_rows r;

	if (!find_group(a, e, &r))
		return;
	for (int64_t r0 = r.from; r0 < r.to; r0 += GROUPED_TILE) {
		for (int i = line; i < GROUPED_TILE; i += GROUPED_LINES) {
			left[i * (GROUPED_TILE + 1) + column] =
			    element(a.a, r0 + i, m0 + column, r.to, a.inner);
			right[i * (GROUPED_TILE + 1) + column] =
			    element(a.b, r0 + i, n0 + column, r.to, a.columns);
		}
		__syncthreads();
		for (int k = 0; k < GROUPED_TILE; k++)
			for (int q = 0; q < GROUPED_EACH; q++)
				sum[q] += left[k * (GROUPED_TILE + 1) + line + q * GROUPED_LINES] *
				          right[k * (GROUPED_TILE + 1) + column];
		__syncthreads();
	}
	for (int q = 0; q < GROUPED_EACH; q++) {
		int64_t row = m0 + line + q * GROUPED_LINES;

		if (row < a.inner && n0 + column < a.columns)
			gt_store(&a.y[(e * a.inner + row) * a.columns + n0 + column], sum[q]);
	}
}

template <class T> static grouped_args<T> grouped_args_of(struct gt_call *call, int64_t columns)
{
	const struct gt_tensor *a = &call->in[0], *ends = &call->in[2];

	return { gt_out_data<T>(call), gt_in_data<T>(call, 0), gt_in_data<T>(call, 1),
		gt_in_data<int32_t>(call, 2), a->shape[0], a->shape[1], columns, ends->shape[0],
		call->attrs.matmul.trans_b, call->stream->faults };
}

template <class T> static int run_grouped_matmul(struct gt_call *call, struct gt_err *err)
{
	grouped_args<T> a = grouped_args_of<T>(call, gt_tensor_last(&call->out[0]));
	dim3 grid((unsigned)gt_ceil_div(a.columns, GROUPED_TILE),
	    gt_min_blocks(gt_ceil_div(a.rows, GROUPED_TILE), GROUPED_STEP), (unsigned)a.groups);

	GT_LAUNCH((grouped<T>), grid, dim3(GROUPED_TILE, GROUPED_LINES), 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "grouped_matmul", err);
}

template <class T> static int run_grouped_matmul_grad(struct gt_call *call, struct gt_err *err)
{
	grouped_args<T> a = grouped_args_of<T>(call, gt_tensor_last(&call->in[1]));
	dim3 grid((unsigned)gt_ceil_div(a.columns, GROUPED_TILE),
	    (unsigned)gt_ceil_div(a.inner, GROUPED_TILE), (unsigned)a.groups);

	GT_LAUNCH(
	    (grouped_grad<T>), grid, dim3(GROUPED_TILE, GROUPED_LINES), 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "grouped_matmul_grad", err);
}

static bool fits_grouped(const struct gt_call *call)
{
	return call->in[2].shape[0] <= GROUPED_MOST &&
	       call->in[0].shape[1] <= (int64_t)GROUPED_MOST * GROUPED_TILE;
}

const struct gt_kernel gt_cuda_grouped_kernels[] = {
	GT_ROWS(grouped_matmul, fits_grouped, nullptr),
	GT_ROWS(grouped_matmul_grad, fits_grouped, nullptr),
	{},
};
