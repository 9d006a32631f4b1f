/* index.cu - elements of rows by indices: the largest ones, gather and scatter. */
#include "kernels/cuda/core/channels.cuh"
#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/rows.cuh"

enum { INDEX_THREADS = 128, INDEX_ROWS = 65535 };

/* ---- topk: a thread has an element, and counts those that come before it ---- */

template <class T> struct topk_args {
	T *y;
	int32_t *ids;
	const T *x;
	int64_t rows, n, k;
	bool smallest;
};

/* Whether element number `i`, a, comes before element number `j`, b. A NaN is larger than any
 * number. */
template <class W>
static __device__ __forceinline__ bool comes_before(W a, int64_t i, W b, int64_t j, bool smallest)
{
	if (a == b || (a != a && b != b))
		return i < j;
	if (a != a)
		return !smallest;
	if (b != b)
		return smallest;
	return smallest ? a < b : a > b;
}

template <class T> static __global__ void topk(topk_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(wide, tile, INDEX_THREADS);
	int64_t i = (int64_t)blockIdx.x * INDEX_THREADS + threadIdx.x;

	for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
		const T *x = a.x + row * a.n;
		wide mine = i < a.n ? gt_load(x[i]) : 0;
		int64_t before = 0;

		for (int64_t start = 0; start < a.n; start += INDEX_THREADS) {
			int64_t left = a.n - start;
			int count = left < INDEX_THREADS ? (int)left : (int)INDEX_THREADS;

			if ((int)threadIdx.x < count)
				tile[threadIdx.x] = gt_load(x[start + threadIdx.x]);
			__syncthreads();
			for (int j = 0; j < count; j++)
				before += comes_before(tile[j], start + j, mine, i, a.smallest);
			__syncthreads();
		}
		if (i < a.n && before < a.k) {
			a.y[row * a.k + before] = x[i];
			a.ids[row * a.k + before] = (int32_t)i;
		}
	}
}

static dim3 grid_of_rows(int64_t elements, int64_t rows)
{
	return dim3(
	    (unsigned)gt_ceil_div(elements, INDEX_THREADS), gt_min_blocks(rows, INDEX_ROWS));
}

template <class T> static int run_topk(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *x = &call->in[0];
	topk_args<T> a = { gt_out_data<T>(call), gt_out_data<int32_t>(call, 1),
		gt_in_data<T>(call, 0), gt_tensor_rows(x), gt_tensor_last(x),
		call->attrs.index.size, call->attrs.index.smallest };

	if (!a.rows)
		return 0;
	GT_LAUNCH((topk<T>), grid_of_rows(a.n, a.rows), INDEX_THREADS, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "topk", err);
}

/* ---- gather and scatter: a thread has an element of the result ---- */

/* Rows of `n` elements of the tensor that has all of them, and of `k` indices. */
template <class T> struct index_args {
	T *y;
	const T *x;
	const int32_t *ids;
	int64_t rows, n, k;
	struct gt_fault_slot *faults;
};

/* Return whether an index of a row is one of its elements. Otherwise report it. */
template <class T>
static __device__ __forceinline__ bool is_inside(const index_args<T> &a, int64_t row, int64_t id)
{
	if (id >= 0 && id < a.n)
		return true;
	gt_report_fault(a.faults, GT_FAULT_INDEX, id, row, a.n);
	return false;
}

template <class T> static __global__ void gather(index_args<T> a)
{
	int64_t j = (int64_t)blockIdx.x * INDEX_THREADS + threadIdx.x;

	for (int64_t row = blockIdx.y; j < a.k && row < a.rows; row += gridDim.y) {
		int64_t id = a.ids[row * a.k + j];

		if (is_inside(a, row, id))
			a.y[row * a.k + j] = a.x[row * a.n + id];
	}
}

template <class T> static __global__ void scatter(index_args<T> a)
{
	int64_t i = (int64_t)blockIdx.x * INDEX_THREADS + threadIdx.x;

	for (int64_t row = blockIdx.y; i < a.n && row < a.rows; row += gridDim.y) {
		typename gt_wide<T>::type sum = 0;

		for (int64_t j = 0; j < a.k; j++) {
			int64_t id = a.ids[row * a.k + j];

			if (!i)
				(void)is_inside(a, row, id);
			if (id == i)
				sum += gt_load(a.x[row * a.k + j]);
		}
		gt_store(&a.y[row * a.n + i], sum);
	}
}

/* Indices differ within a row, so a thread has an element of x; the others are zeros already. */
template <class T> static __global__ void scatter_distinct(index_args<T> a)
{
	int64_t j = (int64_t)blockIdx.x * INDEX_THREADS + threadIdx.x;

	for (int64_t row = blockIdx.y; j < a.k && row < a.rows; row += gridDim.y) {
		int64_t id = a.ids[row * a.k + j];

		if (is_inside(a, row, id))
			a.y[row * a.n + id] = a.x[row * a.k + j];
	}
}

template <class T> static index_args<T> index_args_of(struct gt_call *call, int64_t n)
{
	return { gt_out_data<T>(call), gt_in_data<T>(call, 0), gt_in_data<int32_t>(call, 1),
		gt_tensor_rows(&call->in[1]), n, gt_tensor_last(&call->in[1]),
		call->stream->faults };
}

template <class T> static int run_index_gather(struct gt_call *call, struct gt_err *err)
{
	index_args<T> a = index_args_of<T>(call, gt_tensor_last(&call->in[0]));

	if (!a.rows)
		return 0;
	GT_LAUNCH((gather<T>), grid_of_rows(a.k, a.rows), INDEX_THREADS, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "index_gather", err);
}

/* More indices than these are too many for each element of the result to look at. */
enum { SEARCHED_INDICES = 16 };

static bool is_distinct_scatter(const struct gt_call *call)
{
	return call->attrs.index.distinct && gt_tensor_last(&call->in[1]) > SEARCHED_INDICES;
}

template <class T> static int run_index_scatter(struct gt_call *call, struct gt_err *err)
{
	index_args<T> a = index_args_of<T>(call, call->attrs.index.size);
	size_t bytes = (size_t)(a.rows * a.n) * sizeof(T);

	if (!a.rows)
		return 0;
	if (!is_distinct_scatter(call)) {
		GT_LAUNCH((scatter<T>), grid_of_rows(a.n, a.rows), INDEX_THREADS, 0,
		    call->stream->queue, a);
		return gt_cuda_launched(call->stream, "index_scatter", err);
	}
	if (gt_cuda_check(cudaMemsetAsync(a.y, 0, bytes, call->stream->queue), call->stream->index,
	        "cudaMemsetAsync", err))
		return err->code;
	GT_LAUNCH((scatter_distinct<T>), grid_of_rows(a.k, a.rows), INDEX_THREADS, 0,
	    call->stream->queue, a);
	return gt_cuda_launched(call->stream, "index_scatter", err);
}

const struct gt_kernel gt_cuda_index_kernels[] = {
	GT_ROWS(topk, nullptr, nullptr),
	GT_ROWS(index_gather, nullptr, nullptr),
	GT_ROWS(index_scatter, nullptr, nullptr),
	{},
};
