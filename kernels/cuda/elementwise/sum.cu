/* sum.cu - the op sum: sums over any dimensions of a tensor. */
#include "kernels/cuda/core/columns.cuh"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"
#include "kernels/loops.h"

/*
 * The terms of each result are divided into chunks. If the last dimension in memory is summed, a
 * warp adds up a chunk, else a thread; neighbouring threads then have neighbouring results. A
 * second kernel adds the chunks of a result in their order.
 */
enum { SUM_THREADS = 128, SUM_RUN = 1024, SUM_RUN_CHUNKS = 4096 };

struct sum_args {
	struct gt_loops loops; /* of gt_loops_of_sum() */
	int64_t results, terms;
	int64_t length, chunks; /* terms of a chunk, fewer in the last; chunks of a result */
	bool columns;
};

static void describe_sum(struct sum_args *a, const struct gt_call *call)
{
	struct gt_column_chunks m;

	gt_loops_of_sum(&a->loops, call);
	a->results = gt_tensor_elements(&call->out[0]);
	a->terms = gt_tensor_elements(&call->in[0]) / a->results;
	a->columns = a->loops.stride[1][a->loops.ndim - 1] != 0;
	m = gt_column_chunks_of(a->terms, a->results);
	a->length = a->columns ? m.length : (a->terms + SUM_RUN_CHUNKS - 1) / SUM_RUN_CHUNKS;
	if (!a->columns && a->length < SUM_RUN)
		a->length = SUM_RUN;
	a->chunks = (a->terms + a->length - 1) / a->length;
}

template <class I>
static __device__ __forceinline__ int64_t divide_place(
    const struct gt_loops &l, I left, bool kept, int tensor)
{
	int64_t at = 0;

	for (int d = l.ndim - 1; d >= 0; d--) {
		I size = (I)l.shape[d], next;

		if ((l.stride[1][d] != 0) != kept)
			continue;
		next = left / size;
		at += (int64_t)(left - next * size) * l.stride[tensor][d];
		left = next;
	}
	return at;
}

/* Return the place of item i of the dimensions that are kept, or of the others, in a tensor.
 * Numbers of 32 bits are divided faster. */
static __device__ __forceinline__ int64_t sum_place(
    const struct sum_args &a, int64_t i, bool kept, int tensor)
{
	return a.results <= UINT32_MAX && a.terms <= UINT32_MAX
	           ? divide_place(a.loops, (uint32_t)i, kept, tensor)
	           : divide_place(a.loops, i, kept, tensor);
}

/* partial is [chunks, results], in the order of the output. */
template <class T, bool COLUMNS>
static __global__ void sum_chunks(typename gt_wide<T>::type *partial, const T *x, struct sum_args a)
{
	constexpr int team = COLUMNS ? 1 : 32;
	int64_t k = ((int64_t)blockIdx.x * SUM_THREADS + threadIdx.x) / team;
	int64_t result = k % a.results, chunk = k / a.results, base;
	int64_t end = (chunk + 1) * a.length < a.terms ? (chunk + 1) * a.length : a.terms;
	typename gt_wide<T>::type sum = 0;

	if (chunk >= a.chunks)
		return;
	base = sum_place(a, result, true, 0);
	for (int64_t t = chunk * a.length + threadIdx.x % team; t < end; t += team)
		sum += gt_load(x[base + sum_place(a, t, false, 0)]);
	if (!COLUMNS)
		sum = gt_warp_sum(sum);
	if (threadIdx.x % team == 0)
		partial[chunk * a.results + sum_place(a, result, true, 1)] = sum;
}

template <class T> static int run_sum(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	wide *partial = (wide *)call->workspace;
	unsigned blocks;
	struct sum_args a;

	describe_sum(&a, call);
	blocks = (unsigned)((a.results * a.chunks * (a.columns ? 1 : 32) + SUM_THREADS - 1) /
	                    SUM_THREADS);
	if (a.columns)
		GT_LAUNCH((sum_chunks<T, true>), blocks, SUM_THREADS, 0, call->stream->queue,
		    partial, gt_in_data<T>(call, 0), a);
	else
		GT_LAUNCH((sum_chunks<T, false>), blocks, SUM_THREADS, 0, call->stream->queue,
		    partial, gt_in_data<T>(call, 0), a);
	GT_LAUNCH((gt_add_chunks<T, wide>),
	    (unsigned)((a.results + GT_COLUMN_THREADS - 1) / GT_COLUMN_THREADS), GT_COLUMN_THREADS,
	    0, call->stream->queue, gt_out_data<T>(call), partial, a.results, a.chunks, a.results);
	return gt_cuda_launched(call->stream, "sum", err);
}

static int prepare_sum(struct gt_call *call, struct gt_err *err)
{
	struct sum_args a;

	(void)err;
	describe_sum(&a, call);
	call->workspace_bytes =
	    (size_t)(a.results * a.chunks) * (call->in[0].dtype == GT_F64 ? 8 : 4);
	call->launches = 2;
	return 0;
}

const struct gt_kernel gt_cuda_sum_kernels[] = {
	GT_ROWS(sum, nullptr, prepare_sum),
	{},
};
