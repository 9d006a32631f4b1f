/* map.cuh - apply a function to each element of buffers, 16 bytes at a time. */
#ifndef GT_KERNELS_CUDA_CORE_MAP_CUH
#define GT_KERNELS_CUDA_CORE_MAP_CUH

#include "kernels/cuda/core/gpu.cuh"
#include "kernels/cuda/cuda.h"

/*
 * gt_map(stream, name, count, f, err, buffers...) calls f(...) for each of `count` elements, with
 * an argument for each buffer:
 *
 *   gt_in(p)      the element of p in its wide type (gpu.cuh)
 *   gt_out(p)     a reference in the wide type, stored to p after the call
 *   gt_inout(p)   both
 *   gt_index()    the index of the element, as int64_t
 *
 * f has operator() and bool begin(), which each thread calls first, to read scalars; if it returns
 * false, the thread does nothing. An output may be the memory of an input. A thread processes 16
 * bytes of the widest type at a time if all buffers are aligned.
 */

/* Functors inherit begin(), if it reads nothing. */
struct gt_map_always {
	__device__ bool begin()
	{
		return true;
	}
};

/* W elements that are loaded or stored together. */
template <class T, int W> struct alignas(sizeof(T) * W) gt_pack {
	T at[W];
};

/* A buffer of gt_map(). lanes<W> holds W elements while a thread works on them. */
template <class T, bool READS, bool WRITES> struct gt_map_buffer {
	typedef typename gt_wide<T>::type wide;
	enum { SIZE = sizeof(T) };
	T *p;

	template <int W> struct lanes {
		T *p;
		wide v[W];

		__device__ __forceinline__ void load(int64_t i)
		{
			if (READS) {
				gt_pack<T, W> pack = *(const gt_pack<T, W> *)(p + i);

				for (int k = 0; k < W; k++)
					v[k] = gt_load(pack.at[k]);
			}
		}

		__device__ __forceinline__ void store(int64_t i) const
		{
			if (WRITES) {
				gt_pack<T, W> pack;

				for (int k = 0; k < W; k++)
					gt_store(&pack.at[k], v[k]);
				*(gt_pack<T, W> *)(p + i) = pack;
			}
		}
	};
};

/* A buffer whose elements are their indices. */
struct gt_map_index {
	enum { SIZE = 1 };
	int *p;

	template <int W> struct lanes {
		int *p;
		int64_t v[W];

		__device__ __forceinline__ void load(int64_t i)
		{
			for (int k = 0; k < W; k++)
				v[k] = i + k;
		}

		__device__ __forceinline__ void store(int64_t) const
		{
		}
	};
};

template <class T> inline gt_map_buffer<T, true, false> gt_in(const T *p)
{
	return { (T *)p };
}

template <class T> inline gt_map_buffer<T, false, true> gt_out(T *p)
{
	return { p };
}

template <class T> inline gt_map_buffer<T, true, true> gt_inout(T *p)
{
	return { p };
}

inline gt_map_index gt_index()
{
	return { nullptr };
}

/* Call f for W elements, from index i on. */
template <int W, class F, class... L>
__device__ __forceinline__ void gt_map_lanes(F &f, int64_t i, L... lanes)
{
	(lanes.load(i), ...);
	for (int k = 0; k < W; k++)
		f(lanes.v[k]...);
	(lanes.store(i), ...);
}

/* The kernel: the first packs * W elements go W at a time. */
template <int W, class F, class... B>
__global__ void gt_map_kernel(F f, int64_t packs, int64_t count, B... buffers)
{
	int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t step = (int64_t)gridDim.x * blockDim.x;

	if (!f.begin())
		return;
	for (int64_t i = first; i < packs; i += step)
		gt_map_lanes<W>(f, i * W, typename B::template lanes<W>{ buffers.p, {} }...);
	for (int64_t i = packs * W + first; i < count; i += step)
		gt_map_lanes<1>(f, i, typename B::template lanes<1>{ buffers.p, {} }...);
}

/* threads per block, and most blocks */
enum { GT_MAP_THREADS = 256, GT_MAP_BLOCKS = 132 * 8 };

/* Return the smaller of both, for a launch. */
static inline unsigned gt_min_blocks(int64_t blocks, int64_t max)
{
	return (unsigned)(blocks < max ? blocks : max);
}

/* See the top of this file. `name` is for errors: GT_EDEVICE. */
template <class F, class... B>
static int gt_map(struct gt_stream *stream, const char *name, int64_t count, F f,
    struct gt_err *err, B... buffers)
{
	constexpr int sizes[] = { (int)B::SIZE... };
	constexpr int W = [](const int *size, int n) {
		int widest = 2;

		for (int i = 0; i < n; i++)
			widest = size[i] > widest ? size[i] : widest;
		return 16 / widest;
	}(sizes, (int)sizeof...(B));
	bool aligned = (((uintptr_t)buffers.p % (B::SIZE * W) == 0) && ...);
	int64_t packs = aligned ? count / W : 0, least = aligned ? packs : count;
	int64_t blocks = (least + GT_MAP_THREADS) / GT_MAP_THREADS;

	if (!count)
		return 0;
	GT_LAUNCH((gt_map_kernel<W, F, B...>), gt_min_blocks(blocks, GT_MAP_BLOCKS), GT_MAP_THREADS,
	    0, stream->queue, f, packs, count, buffers...);
	return gt_cuda_launched(stream, name, err);
}

#endif
