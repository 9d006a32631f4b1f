/* map.cuh - apply a function to each element of some buffers, 16 bytes at a time. */
#ifndef GT_KERNELS_CUDA_MAP_CUH
#define GT_KERNELS_CUDA_MAP_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gpu.cuh"

/*
 * gt_map(stream, name, count, f, buffers..., err) queues a kernel that calls f(...) once per
 * element. Each buffer gives one argument, converted to the type in which kernels compute
 * (gt_wide):
 *
 *   gt_in(p)      its value
 *   gt_out(p)     a reference to a value that is stored afterwards
 *   gt_inout(p)   a reference to its value, which is stored afterwards
 *   gt_index()    the element's number, int64
 *
 * f is a struct. Each thread first calls its member bool begin(), which may read scalars from
 * device memory; if it returns false, the thread does nothing. An output may also be an input,
 * because element e of an output depends only on elements e of the inputs.
 *
 * If all buffers are aligned, as tensors are, a thread takes as many elements at a time as fit into
 * 16 bytes of the widest type. The last elements, and all elements of unaligned buffers, are taken
 * one by one.
 */

/* A functor that needs nothing from device memory. */
struct gt_map_always {
	__device__ bool begin()
	{
		return true;
	}
};

template <class T, int W> struct alignas(sizeof(T) * W) gt_pack {
	T at[W];
};

/* A buffer. lanes<W> are the W elements of it that a thread works on. */
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

template <int W, class F, class... L>
__device__ __forceinline__ void gt_map_lanes(F &f, int64_t i, L... lanes)
{
	(lanes.load(i), ...);
	for (int k = 0; k < W; k++)
		f(lanes.v[k]...);
	(lanes.store(i), ...);
}

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

/* Threads of a block, and blocks that keep a large GPU busy. */
enum { GT_MAP_THREADS = 256, GT_MAP_BLOCKS = 132 * 8 };

/* The number of blocks to launch. */
static inline unsigned gt_at_most(int64_t blocks, int64_t most)
{
	return (unsigned)(blocks < most ? blocks : most);
}

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
	GT_LAUNCH((gt_map_kernel<W, F, B...>), gt_at_most(blocks, GT_MAP_BLOCKS), GT_MAP_THREADS, 0,
	    stream->queue, f, packs, count, buffers...);
	return gt_cuda_launched(stream, name, err);
}

/* Call F with the parameter and the other arguments, then store the parameter into the working
 * copy, too. */
template <class F> struct gt_with_copy : F {
	gt_with_copy(const F &f) : F(f)
	{
	}

	template <class... A> __device__ void operator()(float &copy, float &p, A &...rest)
	{
		F::operator()(p, rest...);
		copy = p;
	}
};

/* gt_map() for an update of the parameters p. If o->copy is set, it also updates their working
 * copy. */
template <class F, class... B>
static int gt_map_update(struct gt_stream *stream, const char *name, int64_t count, const F &f,
    const struct gt_update_options *o, struct gt_err *err, float *p, B... rest)
{
	if (!o->copy)
		return gt_map(stream, name, count, f, err, gt_inout(p), rest...);
	if (o->copy_type == GT_F16)
		return gt_map(stream, name, count, gt_with_copy<F>(f), err,
		    gt_out((gt_f16 *)o->copy), gt_inout(p), rest...);
	return gt_map(stream, name, count, gt_with_copy<F>(f), err, gt_out((gt_bf16 *)o->copy),
	    gt_inout(p), rest...);
}

#endif
