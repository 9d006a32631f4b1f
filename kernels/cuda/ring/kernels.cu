/* kernels.cu - the work of a ring on its chunks: copy, add up, and tell the others. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/ring/kernels.h"

/* Few blocks, as each of them looks at *halt in memory of the host: enough for a link's speed. */
enum { THREADS = 256, MOST_BLOCKS = 264 };

/* The same for all threads of a block. One of them reads it, as memory of the host is far away. */
__device__ static bool is_halted(const uint32_t *halt)
{
	GT_SHARED(uint32_t, seen, 1);

	if (!threadIdx.x)
		*seen = gt_load_word(halt);
	__syncthreads();
	return *seen;
}

static unsigned blocks_for(size_t items)
{
	return gt_min_blocks((int64_t)((items + THREADS - 1) / THREADS), MOST_BLOCKS);
}

/* ---- copies ---- */

template <class T> struct ring_copy {
	T *dst[2];
	const T *src;
	size_t count;
};

template <class T> __global__ void ring_copy_kernel(const uint32_t *halt, ring_copy<T> c)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	if (is_halted(halt))
		return;
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.count; i += step) {
		T x = c.src[i];

		c.dst[0][i] = x;
		if (c.dst[1])
			c.dst[1][i] = x;
	}
}

template <class T>
static int copy_by(struct gt_stream *stream, const uint32_t *halt, void *const *dst, int dsts,
    const void *src, size_t bytes, struct gt_err *err)
{
	ring_copy<T> c = { { (T *)dst[0], dsts > 1 ? (T *)dst[1] : nullptr }, (const T *)src,
		bytes / sizeof(T) };

	GT_LAUNCH((ring_copy_kernel<T>), blocks_for(c.count), THREADS, 0, stream->queue, halt, c);
	return gt_cuda_launched(stream, "ring copy", err);
}

typedef gt_pack<uint32_t, 4> ring_words;

extern "C" int gt_cuda_ring_copy(struct gt_stream *stream, const uint32_t *halt, void *const *dst,
    int dsts, const void *src, size_t bytes, struct gt_err *err)
{
	uintptr_t at = (uintptr_t)dst[0] | (uintptr_t)dst[dsts - 1] | (uintptr_t)src | bytes;

	if (!bytes)
		return 0;
	return at % sizeof(ring_words)
	           ? copy_by<uint8_t>(stream, halt, dst, dsts, src, bytes, err)
	           : copy_by<ring_words>(stream, halt, dst, dsts, src, bytes, err);
}

/* ---- sums ---- */

struct ring_add {
	template <class T> static __device__ __forceinline__ T of(T x, T y)
	{
		return x + y;
	}

	/* Integers wrap around. */
	static __device__ __forceinline__ int32_t of(int32_t x, int32_t y)
	{
		return (int32_t)((uint32_t)x + (uint32_t)y);
	}

	static __device__ __forceinline__ int64_t of(int64_t x, int64_t y)
	{
		return (int64_t)((uint64_t)x + (uint64_t)y);
	}
};

struct ring_max {
	template <class T> static __device__ __forceinline__ T of(T x, T y)
	{
		return y > x || y != y ? y : x; /* a NaN wins */
	}
};

/* Divide with the same bits as the CPU (group_reduce.c). The inverse of a power of two is exact, so
 * multiplying by it rounds as a division does. */
template <class T> __device__ __forceinline__ T ring_divide(T x, int by)
{
	return by & (by - 1) ? x / (T)by : x * (1 / (T)by);
}

__device__ __forceinline__ int32_t ring_divide(int32_t x, int by)
{
	return x / by;
}

__device__ __forceinline__ int64_t ring_divide(int64_t x, int by)
{
	return x / by;
}

/* struct gt_reduce_step, in types: T in memory, wide in partial sums. */
template <class T> struct ring_sum {
	typedef typename gt_wide<T>::type wide;
	T *whole[2];
	wide *part[2]; /* where the sum goes: to one of these, and to its second if there is one */
	const T *in;
	const wide *partial[GT_RING_PARTIALS];
	int partials, divide_by; /* 0: do not */
	size_t count;
};

/*
 * Elements i W to i W + W - 1. Partial sums stay in the wide type from rank to rank, and the
 * result alone is rounded to T. The order is the step's: this rank's element, then the partial
 * sums by their numbers.
 */
template <class T, class OP, int W>
__device__ __forceinline__ void ring_sum_pack(const ring_sum<T> &s, size_t i)
{
	typedef typename ring_sum<T>::wide wide;
	gt_pack<T, W> in = ((const gt_pack<T, W> *)s.in)[i];
	gt_pack<wide, W> sum;

	for (int k = 0; k < W; k++)
		sum.at[k] = gt_load(in.at[k]);
	for (int p = 0; p < s.partials; p++) {
		gt_pack<wide, W> more = ((const gt_pack<wide, W> *)s.partial[p])[i];

		for (int k = 0; k < W; k++)
			sum.at[k] = OP::of(sum.at[k], more.at[k]);
	}
	if (s.divide_by)
		for (int k = 0; k < W; k++)
			sum.at[k] = ring_divide(sum.at[k], s.divide_by);
	for (int k = 0; k < W; k++)
		gt_store(&in.at[k], sum.at[k]);
	for (int d = 0; d < 2; d++) {
		if (s.whole[d])
			((gt_pack<T, W> *)s.whole[d])[i] = in;
		if (s.part[d])
			((gt_pack<wide, W> *)s.part[d])[i] = sum;
	}
}

template <class T, class OP, int W>
__global__ void ring_sum_kernel(const uint32_t *halt, ring_sum<T> s, size_t packs)
{
	size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.x * blockDim.x;

	if (is_halted(halt))
		return;
	for (size_t i = first; i < packs; i += step)
		ring_sum_pack<T, OP, W>(s, i);
	for (size_t i = packs * W + first; i < s.count; i += step)
		ring_sum_pack<T, OP, 1>(s, i);
}

template <class T> static ring_sum<T> sum_of(const struct gt_reduce_step *step)
{
	typedef typename ring_sum<T>::wide wide;
	ring_sum<T> s = {};

	for (int d = 0; d < step->dsts; d++)
		if (step->ranks)
			s.whole[d] = (T *)step->dst[d];
		else
			s.part[d] = (wide *)step->dst[d];
	s.in = (const T *)step->in;
	s.partials = step->partials;
	for (int p = 0; p < step->partials; p++)
		s.partial[p] = (const wide *)step->partial[p];
	s.divide_by = step->reduction == GT_AVG ? step->ranks : 0;
	s.count = step->count;
	return s;
}

/*
 * Whether all addresses are those of packs. Buffers of callers may begin anywhere; if one of them
 * does not begin at a pack, single elements are added.
 */
template <class T, int W> static bool is_aligned(const ring_sum<T> &s)
{
	typedef typename ring_sum<T>::wide wide;
	uintptr_t narrow = (uintptr_t)s.in | (uintptr_t)s.whole[0] | (uintptr_t)s.whole[1];
	uintptr_t sums = (uintptr_t)s.part[0] | (uintptr_t)s.part[1];

	for (int p = 0; p < s.partials; p++)
		sums |= (uintptr_t)s.partial[p];
	return narrow % (W * sizeof(T)) == 0 && sums % (W * sizeof(wide)) == 0;
}

template <class T, class OP>
static int sum_by(struct gt_stream *stream, const uint32_t *halt, const struct gt_reduce_step *step,
    struct gt_err *err)
{
	constexpr int W = 16 / sizeof(typename ring_sum<T>::wide);
	const ring_sum<T> s = sum_of<T>(step);
	size_t packs = is_aligned<T, W>(s) ? s.count / W : 0;

	GT_LAUNCH((ring_sum_kernel<T, OP, W>), blocks_for(packs ? packs : s.count), THREADS, 0,
	    stream->queue, halt, s, packs);
	return gt_cuda_launched(stream, "ring reduce", err);
}

template <class T>
static int reduce_in(struct gt_stream *stream, const uint32_t *halt,
    const struct gt_reduce_step *step, struct gt_err *err)
{
	return step->reduction == GT_MAX ? sum_by<T, ring_max>(stream, halt, step, err)
	                                 : sum_by<T, ring_add>(stream, halt, step, err);
}

extern "C" int gt_cuda_ring_reduce(struct gt_stream *stream, const uint32_t *halt,
    const struct gt_reduce_step *step, struct gt_err *err)
{
	if (!step->count)
		return 0;
	switch (step->dtype) {
	case GT_F64:
		return reduce_in<double>(stream, halt, step, err);
	case GT_F16:
		return reduce_in<gt_f16>(stream, halt, step, err);
	case GT_BF16:
		return reduce_in<gt_bf16>(stream, halt, step, err);
	case GT_I32:
		return reduce_in<int32_t>(stream, halt, step, err);
	case GT_I64:
		return reduce_in<int64_t>(stream, halt, step, err);
	default: /* gt_group_run() lets no other type through */
		return reduce_in<float>(stream, halt, step, err);
	}
}

/* ---- counters ---- */

/*
 * One thread: kernels of a stream run one after the other, so all writes of the chunk come before
 * this one. The fence makes other GPUs and the host see them in that order (ring.h has the
 * sources).
 */
static __global__ void ring_post_kernel(const uint32_t *halt, uint32_t *counter, uint32_t value)
{
	if (gt_load_word(halt))
		return;
	__threadfence_system();
	gt_store_word(counter, value);
}

extern "C" int gt_cuda_ring_post(struct gt_stream *stream, const uint32_t *halt, uint32_t *counter,
    uint32_t value, struct gt_err *err)
{
	GT_LAUNCH((ring_post_kernel), 1, 1, 0, stream->queue, halt, counter, value);
	return gt_cuda_launched(stream, "ring post", err);
}
