/* teams.cuh - rows of a matrix, each read once by a team of threads: a warp or a whole block. */
#ifndef GT_KERNELS_CUDA_TEAMS_CUH
#define GT_KERNELS_CUDA_TEAMS_CUH

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"

/*
 * gt_by_teams(stream, name, rows, cols, f, err) calls f.row<TEAM, PACKED>(r) for each row, in every
 * thread of the row's team. A team is a warp if rows are short, otherwise a block. Only `cols`
 * determines which thread reads which elements; the row's place in memory and its type do not
 * matter. So a row's result has the same bits in every batch, and a result of 16 bits is the
 * float32 result, rounded. Call gt_by_teams<false>() if f does not use PACKED.
 */
enum {
	GT_TEAM_PACK = 8,    /* elements that a thread takes at a time */
	GT_TEAM_SHORT = 1024 /* the longest row of a warp */
};

template <int WARPS> struct gt_team {
	enum { SIZE = WARPS * 32, ROWS = WARPS == 1 ? 4 : 1 /* of a block */ };

	static __device__ __forceinline__ int64_t row()
	{
		return (int64_t)blockIdx.x * ROWS + threadIdx.x / SIZE;
	}

	static __device__ __forceinline__ int lane()
	{
		return (int)threadIdx.x % SIZE;
	}

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

/*
 * Call f(v, i, step) for all elements of the row x; the team's threads divide the calls among them.
 * v[GT_TEAM_PACK] are elements i, i + step, i + 2 step, ..., and -infinity past the row's end. With
 * PACKED step is 1, and elements are read 16 bytes at a time. Otherwise rows may begin at any
 * address, so neighbouring elements are read by neighbouring threads.
 */
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
