/* teams.cuh - process each row of a matrix by a team of threads: a warp or a whole block. */
#ifndef GT_KERNELS_CUDA_CORE_TEAMS_CUH
#define GT_KERNELS_CUDA_CORE_TEAMS_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"

/*
 * gt_by_teams(stream, name, rows, cols, f, err) queues a kernel in which a team of threads
 * processes each row r of a matrix. Each thread of the team calls f.row<TEAM, PACKED>(r). TEAM is
 * the type gt_team<WARPS>. A team is a warp if a row has at most GT_TEAM_SHORT elements, otherwise
 * a block of 8 warps.
 *
 * PACKED is true if `cols` is a multiple of GT_TEAM_PACK; f.row() can pass it to gt_each_pack() to
 * read the row. Call gt_by_teams<false>() if f does not use PACKED; then PACKED is always false.
 *
 * Only `cols` determines which thread reads which elements; the address and the type of the row do
 * not matter. So the result of a row has the same bits in every batch. If a 16-bit row and a
 * float32 row have the same values, the 16-bit result is the float32 result, rounded.
 */
enum {
	GT_TEAM_PACK = 8,    /* elements that a thread reads at a time */
	GT_TEAM_SHORT = 1024 /* length of the longest row that a single warp processes */
};

template <int WARPS> struct gt_team {
	/* SIZE: threads per team; ROWS: rows (and teams) per block */
	enum { SIZE = WARPS * 32, ROWS = WARPS == 1 ? 4 : 1 };

	/* Return the index of the calling thread's row. The index can be past the last row. */
	static __device__ __forceinline__ int64_t row()
	{
		return (int64_t)blockIdx.x * ROWS + threadIdx.x / SIZE;
	}

	/* Return the index of the calling thread in its team. */
	static __device__ __forceinline__ int lane()
	{
		return (int)threadIdx.x % SIZE;
	}

	/* Return the sum, or the maximum, of the values x of all threads of the team. All threads
	 * of the team call this, and each gets the same result. */
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
 * Read the row x[cols] and call f(v, i, step) until all elements are processed. Each thread of the
 * team processes some of the elements. v[GT_TEAM_PACK] holds elements i, i + step, i + 2 * step,
 * ... in the wide type (gt_wide), with -infinity for elements past the end of the row.
 *
 * If PACKED is true, step is 1, and 16 bytes are read at a time. If PACKED is false, rows may begin
 * at any address. Then step is TEAM::SIZE, because memory is read fastest if neighbouring threads
 * read neighbouring elements.
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

/* The kernel that gt_by_teams() queues. */
template <class TEAM, bool PACKED, class F> __global__ void gt_team_kernel(F f, int64_t rows)
{
	int64_t r = TEAM::row();

	if (r < rows)
		f.template row<TEAM, PACKED>(r);
}

/* Launch the kernel for one type of team. If PACKS is false, PACKED is always false. */
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

/* See the top of this file. `name` is the name of the op, for error messages. If PACKS is false,
 * PACKED is always false. Errors: GT_EDEVICE. */
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
