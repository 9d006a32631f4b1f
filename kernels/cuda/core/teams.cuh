/* teams.cuh - process each row of a matrix by a team of threads: a warp or a whole block. */
#ifndef GT_KERNELS_CUDA_CORE_TEAMS_CUH
#define GT_KERNELS_CUDA_CORE_TEAMS_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"

/*
 * gt_by_teams() queues a kernel in which a team of threads processes each row: every thread calls
 * f.row<TEAM, PACKED>(r). A team is a warp for rows of at most GT_TEAM_SHORT elements, else a block
 * of 8 warps. PACKED says that GT_TEAM_PACK divides `cols`; gt_each_pack() takes it.
 * gt_by_teams<false>() is for functors without use of it.
 *
 * Only `cols` determines which thread reads which elements, so a row has the same bits in every
 * batch, and 16-bit results are rounded float32 results.
 */
enum {
	GT_TEAM_PACK = 8,    /* elements that a thread reads at a time */
	GT_TEAM_SHORT = 1024 /* the longest row of a warp */
};

template <int WARPS> struct gt_team {
	/* threads per team; rows per block */
	enum { SIZE = WARPS * 32, ROWS = WARPS == 1 ? 4 : 1 };

	/* Return the thread's row, which can be past the last one. */
	static __device__ __forceinline__ int64_t row()
	{
		return (int64_t)blockIdx.x * ROWS + threadIdx.x / SIZE;
	}

	/* Return the thread's index in its team. */
	static __device__ __forceinline__ int lane()
	{
		return (int)threadIdx.x % SIZE;
	}

	/* Return the sum, or the maximum, to all threads of the team. */
	template <class W> static __device__ __forceinline__ W sum(W x)
	{
		if constexpr (WARPS == 1) {
			return gt_warp_sum(x);
		} else {
			GT_SHARED(W, shared, 32);
			return gt_block_sum(x, shared);
		}
	}

	template <class W> static __device__ __forceinline__ W max(W x)
	{
		if constexpr (WARPS == 1) {
			return gt_warp_max(x);
		} else {
			GT_SHARED(W, shared, 32);
			return gt_block_max(x, shared);
		}
	}
};

/* The team reads x[cols]: each thread calls f(v, i, step) for elements i, i + step, ... of the row,
 * v[GT_TEAM_PACK] in the wide type, -infinity past the end. PACKED reads 16 bytes at a time, with
 * step 1; else rows may begin anywhere, and neighbouring threads read neighbouring elements. */
template <class TEAM, bool PACKED, class T, class F>
__device__ __forceinline__ void gt_each_pack(const T *x, int64_t cols, F f)
{
	typedef typename gt_wide<T>::type wide;
	constexpr int step = PACKED ? 1 : TEAM::SIZE;
	int64_t i = TEAM::lane() * (PACKED ? GT_TEAM_PACK : 1);

	for (; i < cols; i += TEAM::SIZE * GT_TEAM_PACK) {
		typename gt_map_buffer<T, true, false>::template lanes<GT_TEAM_PACK> v = { (T *)x,
			{} };

		if (PACKED)
			v.load(i);
		else
			for (int k = 0; k < GT_TEAM_PACK; k++)
				v.v[k] = i + k * step < cols ? gt_load(x[i + k * step])
				                             : -(wide)INFINITY;
		f(v.v, i, step);
	}
}

template <class TEAM, bool PACKED, class F> __global__ void gt_team_kernel(F f, int64_t rows)
{
	int64_t r = TEAM::row();

	if (r < rows)
		f.template row<TEAM, PACKED>(r);
}

/* Launch the kernel for one type of team. */
template <bool PACKS, class TEAM, class F>
static void gt_launch_teams(struct gt_stream *stream, int64_t rows, int64_t cols, F f)
{
	unsigned blocks = (unsigned)((rows + TEAM::ROWS - 1) / TEAM::ROWS);

	if (PACKS && cols % GT_TEAM_PACK == 0)
		GT_LAUNCH((gt_team_kernel<TEAM, PACKS, F>), blocks, TEAM::SIZE * TEAM::ROWS, 0,
		    stream->queue, f, rows);
	else
		GT_LAUNCH((gt_team_kernel<TEAM, false, F>), blocks, TEAM::SIZE * TEAM::ROWS, 0,
		    stream->queue, f, rows);
}

/* See the top of this file. `name` is for errors: GT_EDEVICE. */
template <bool PACKS = true, class F>
static int gt_by_teams(
    struct gt_stream *stream, const char *name, int64_t rows, int64_t cols, F f, struct gt_err *err)
{
	if (!rows)
		return 0;
	if (cols <= GT_TEAM_SHORT)
		gt_launch_teams<PACKS, gt_team<1>>(stream, rows, cols, f);
	else
		gt_launch_teams<PACKS, gt_team<8>>(stream, rows, cols, f);
	return gt_cuda_launched(stream, name, err);
}

#endif
