/* attention_held.cuh - sizes, tiles and steps of the attention kernels for 16-bit types. */
#ifndef GT_KERNELS_CUDA_ATTENTION_ATTENTION_HELD_CUH
#define GT_KERNELS_CUDA_ATTENTION_ATTENTION_HELD_CUH

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/core/async.cuh"

/* The kernels for 16-bit types keep a block's own rows, their scores and their results in registers
 * (gt_held, mma.cuh). Tiles of the other matrices pass through shared memory. Rows are multiples of
 * 16 bytes, heads have at most COLS columns, 64 or 128. A warp has M tiles of 16 own rows.
 * attention_held.cu says more. */
template <class T, int COLS_, int M_> struct gt_held_shape {
	typedef T type;
	enum {
		COLS = COLS_,
		M = M_,
		CHUNKS = COLS / GT_TILE,
		WARPS = 4,
		THREADS = WARPS * 32,
		OWN = WARPS * M * GT_TILE,
		TILE = COLS > 64 ? 32 : 64,
		PACK = 8,
		LD = COLS + PACK, /* elements between rows of shared memory */
		STAGE = 2 * TILE * LD,
		/* two buffers for a tile of two matrices; own rows use them first */
		BYTES = 2 * STAGE * (int)sizeof(T)
	};
	static_assert(BYTES <= 48 * 1024, "more shared memory than a launch may have");
};

/* If the kernels support the call, queue it and return true. The gradient comes after `delta` is
 * queued (attention_grad.cu). */
extern "C" {
bool gt_held_attention(struct gt_call *call);
bool gt_held_attention_grad(struct gt_call *call, const float *delta);
}

/* The same on Hopper GPUs (attention_wgmma.cuh), without dropout. The functions above use them. */
extern "C" {
bool gt_wgmma_attention(struct gt_call *call);
bool gt_wgmma_attention_grad(struct gt_call *call, const float *delta);
}

/* Return the largest, or the sum, over 4 neighbouring lanes, which share a row of scores. */
__device__ __forceinline__ float gt_held_row_largest(float x)
{
	x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
	return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float gt_held_row_sum(float x)
{
	x += __shfl_xor_sync(0xffffffffu, x, 1);
	return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Return whether the kernels support these sizes of a 16-bit call. */
static inline bool gt_held_fits(const gt_attention_sizes &s)
{
	return s.D % 8 == 0 && s.D <= 128 && s.T < INT32_MAX / 2;
}

/* All threads queue copies of COUNT rows of from[T][D], from row `first` on. Elements outside
 * become zero. */
template <class S, int COUNT>
__device__ __forceinline__ void gt_held_fetch(gt_async_copies &copies, typename S::type *to,
    const typename S::type *from, int64_t stride, int first, const gt_attention_sizes &s)
{
	enum { PACKS = S::COLS / S::PACK, ROWS = S::THREADS / PACKS };
	int r = (int)threadIdx.x / PACKS, c = (int)threadIdx.x % PACKS * S::PACK;
	const typename S::type *at = from + (first + r) * stride + c;

	static_assert(COUNT % ROWS == 0, "every thread copies the same number of rows");
	GT_UNROLL
	for (int n = 0; n < COUNT; n += ROWS) {
		bool inside = first + r + n < (int)s.T && c < (int)s.D;

		copies.copy(to + (r + n) * S::LD + c, inside ? at : from, inside ? 16 : 0);
		at += ROWS * stride;
	}
}

/* The same for two matrices, as one group of copies, one after the other in memory. */
template <class S, int COUNT>
__device__ __forceinline__ void gt_held_fetch_two(gt_async_copies &copies, typename S::type *to,
    const typename S::type *x, int64_t x_stride, const typename S::type *y, int64_t y_stride,
    int first, const gt_attention_sizes &s)
{
	gt_held_fetch<S, COUNT>(copies, to, x, x_stride, first, s);
	gt_held_fetch<S, COUNT>(copies, to + COUNT * S::LD, y, y_stride, first, s);
	copies.commit();
}

/* Read this warp's own rows from own[OWN][LD]. */
template <class S>
__device__ __forceinline__ void gt_held_own(
    gt_held<typename S::type> (&held)[S::CHUNKS][S::M], const typename S::type *own)
{
	own += (int)threadIdx.x / 32 * S::M * GT_TILE * S::LD;
	GT_UNROLL
	for (int k = 0; k < S::CHUNKS; k++) {
		GT_UNROLL
		for (int m = 0; m < S::M; m++)
			gt_hold(held[k][m], own + m * GT_TILE * S::LD + k * GT_TILE, S::LD);
	}
}

/* x = own rows times the transpose of N * 16 rows of a tile. */
template <class S, int N>
__device__ __forceinline__ void gt_held_score(float (&x)[N][S::M][GT_TILE_LANE],
    const gt_held<typename S::type> (&own)[S::CHUNKS][S::M], const typename S::type *tile)
{
	GT_UNROLL
	for (int n = 0; n < N; n++) {
		GT_UNROLL
		for (int m = 0; m < S::M; m++) {
			GT_UNROLL
			for (int e = 0; e < GT_TILE_LANE; e++)
				x[n][m][e] = 0;
		}
		GT_UNROLL
		for (int k = 0; k < S::CHUNKS; k++)
			gt_tile_mma_held<GT_TILE_TRANSPOSED>(
			    x[n], own[k], tile + n * GT_TILE * S::LD + k * GT_TILE, S::LD);
	}
}

/* sum += x * tile. x is rounded to T. `tile` points to N * 16 rows and CHUNKS * 16 columns. */
template <class S, int N, int CHUNKS>
__device__ __forceinline__ void gt_held_weigh(float (&sum)[CHUNKS][S::M][GT_TILE_LANE],
    const float (&x)[N][S::M][GT_TILE_LANE], const typename S::type *tile)
{
	GT_UNROLL
	for (int n = 0; n < N; n++) {
		gt_held<typename S::type> p[S::M];

		GT_UNROLL
		for (int m = 0; m < S::M; m++)
			gt_hold_sums(p[m], x[n][m]);
		GT_UNROLL
		for (int c = 0; c < CHUNKS; c++)
			gt_tile_mma_held<GT_TILE_PLAIN>(
			    sum[c], p, tile + n * GT_TILE * S::LD + c * GT_TILE, S::LD);
	}
}

/* Store a warp's results into to[T][D], from row `first` and column `col` on, times factor[m][h]
 * for row gt_tile_row(2 * h) of tile m. */
template <class S, int CHUNKS>
__device__ __forceinline__ void gt_held_write(typename S::type *to, int64_t stride, int first,
    int col, const gt_attention_sizes &s, const float (&sum)[CHUNKS][S::M][GT_TILE_LANE],
    const float (&factor)[S::M][2])
{
	typedef gt_pack<typename S::type, 2> two;

	GT_UNROLL
	for (int m = 0; m < S::M; m++) {
		GT_UNROLL
		for (int i = 0; i < CHUNKS * 4; i++) {
			int e = i % 4 * 2, h = i % 2;
			int row = first + m * GT_TILE + gt_tile_row(e);
			int d = col + i / 4 * GT_TILE + gt_tile_col(e);
			two pair;

			if (row >= (int)s.T || d >= (int)s.D)
				continue;
			gt_store(&pair.at[0], sum[i / 4][m][e] * factor[m][h]);
			gt_store(&pair.at[1], sum[i / 4][m][e + 1] * factor[m][h]);
			*(two *)(to + row * stride + d) = pair;
		}
	}
}

/* 2 to the power of x. -infinity gives 0. */
#ifdef __CUDACC__
__device__ __forceinline__ float gt_exp2(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#else
inline float gt_exp2(float x)
{
	return exp2f(x);
}
#endif

/* exp(x) = 2^(x * log2(e)). */
static const float gt_log2_e = 1.44269504088896340736f, gt_ln_2 = 0.69314718055994530942f;

#endif
