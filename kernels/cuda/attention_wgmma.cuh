/* attention_wgmma.cuh - sizes and tiles of the attention kernels for Hopper GPUs. */
#ifndef GT_KERNELS_CUDA_ATTENTION_WGMMA_CUH
#define GT_KERNELS_CUDA_ATTENTION_WGMMA_CUH

#include "kernels/cuda/attention_held.cuh"
#include "kernels/cuda/wgmma.cuh"

/*
 * The kernels do as those for other GPUs (attention_held.cuh), with products by warpgroups
 * (wgmma.cuh). Each warpgroup of a block has 64 own rows (for example queries), and all of them use
 * the same tiles of 64 rows of two other matrices (for example keys and values).
 *
 *   PANELS  panels of a matrix: a head of up to 64 columns takes one, of up to 128 columns two
 *   STAGES  tiles in shared memory: the one that products read, the one before, which the last
 *           products of the iteration before may still read, and AHEAD more, whose copies run
 */
template <class T, int COLS_> struct gt_wgmma_shape {
	typedef T type;
	enum {
		COLS = COLS_,
		PANELS = COLS / GT_PANEL,
		CHUNKS = COLS / GT_TILE,
		GROUPS = 2,
		THREADS = GROUPS * GT_GROUP_THREADS,
		OWN = GROUPS * GT_GROUP_ROWS,
		TILE = 64,
		PACK = 8, /* elements in 16 bytes */
		MATRIX = TILE * COLS,
		STAGE = 2 * MATRIX,
		STAGES = 4,
		AHEAD = STAGES - 2,
		/* the last 1024 are for gt_panel_base() */
		BYTES = STAGES * STAGE * (int)sizeof(T) + 1024
	};
};

#if GT_HAS_WGMMA
/* Queue copies of COUNT rows of the matrix from[T][D], beginning at row `first`, to panels of COUNT
 * rows. Elements outside of the matrix become zero. All threads of the block call this. */
template <class S, int COUNT>
__device__ __forceinline__ void gt_wgmma_fetch(gt_async_copies &copies, typename S::type *to,
    const typename S::type *from, int64_t stride, int first, const gt_attention_sizes &s)
{
	/* ROWS is a multiple of 8, so that all pieces of a thread have the same place in a row. */
	enum { PACKS = S::COLS / S::PACK, ROWS = S::THREADS / PACKS };
	int r = (int)threadIdx.x / PACKS, c = (int)threadIdx.x % PACKS;
	const typename S::type *at = from + (first + r) * stride + c * S::PACK;

	static_assert(COUNT % ROWS == 0 && ROWS % 8 == 0, "every thread copies the same pieces");
	to = gt_panel_piece(to + c / 8 * COUNT * GT_PANEL, r, c % 8);
	GT_UNROLL
	for (int n = 0; n < COUNT; n += ROWS) {
		bool inside = first + r + n < (int)s.T && c * S::PACK < (int)s.D;

		copies.copy(to + n * GT_PANEL, inside ? at : from, inside ? 16 : 0);
		at += ROWS * stride;
	}
}

/* The tiles of a block, in the order in which it uses them; t counts them. */
template <class S> struct gt_wgmma_tiles {
	typedef typename S::type T;
	T *shared;
	int end; /* rows from here on need no copies */
	gt_async_copies copies;

	/* Return the two matrices of tile t. */
	__device__ __forceinline__ T *first(int t) const
	{
		return shared + t % S::STAGES * S::STAGE;
	}

	__device__ __forceinline__ T *second(int t) const
	{
		return first(t) + S::MATRIX;
	}

	/* Begin to copy rows i to i + TILE of two matrices, as tile t. Rows behind the
	 * matrices' last one become zero. From `end` on there is nothing to copy; the empty group
	 * of copies counts. */
	__device__ __forceinline__ void begin(int t, const T *x, int64_t x_stride, const T *y,
	    int64_t y_stride, int i, const gt_attention_sizes &s)
	{
		if (i < end) {
			gt_wgmma_fetch<S, S::TILE>(copies, first(t), x, x_stride, i, s);
			gt_wgmma_fetch<S, S::TILE>(copies, second(t), y, y_stride, i, s);
		}
		copies.commit();
	}

	/* Wait for the copies of tile t, where t + AHEAD - 1 is the newest tile. After this, no
	 * thread reads tile t - 2. */
	__device__ __forceinline__ void wait()
	{
		copies.template wait<S::AHEAD - 1>();
		gt_panel_publish();
		__syncthreads();
	}

	/* Wait for tile t, and begin() to copy tile t + AHEAD. */
	__device__ __forceinline__ void turn(int t, const T *x, int64_t x_stride, const T *y,
	    int64_t y_stride, int i, const gt_attention_sizes &s)
	{
		wait();
		begin(t + S::AHEAD, x, x_stride, y, y_stride, i, s);
	}

	/* Read a warpgroup's own rows of a matrix into registers, by way of the tiles' memory. */
	__device__ __forceinline__ void own(gt_held<T> (&held)[S::CHUNKS], const T *from,
	    int64_t stride, int i, const gt_attention_sizes &s)
	{
		int row = (int)threadIdx.x / 32 * GT_TILE;

		gt_wgmma_fetch<S, S::OWN>(copies, shared, from, stride, i, s);
		copies.commit();
		copies.template wait<0>();
		__syncthreads();
		GT_UNROLL
		for (int k = 0; k < S::CHUNKS; k++)
			gt_panel_hold(held[k], shared + k / GT_GROUP_TILES * S::OWN * GT_PANEL, row,
			    k % GT_GROUP_TILES * GT_TILE);
		__syncthreads();
	}
};

/* Queue x = own rows times the transpose of a tile's matrix. */
template <class S>
__device__ __forceinline__ void gt_wgmma_score(gt_warpgroup &w, gt_group_sums &x,
    const gt_held<typename S::type> (&own)[S::CHUNKS], const typename S::type *matrix)
{
	typedef const gt_held<typename S::type> panel[GT_GROUP_TILES];

	w.multiply<GT_TILE_TRANSPOSED>(x, (panel &)own, matrix);
	GT_UNROLL
	for (int n = 1; n < S::PANELS; n++)
		w.multiply_add<GT_TILE_TRANSPOSED>(
		    x, (panel &)own[n * GT_GROUP_TILES], matrix + n * S::TILE * GT_PANEL);
}

/* Queue sum += x times a tile's matrix. */
template <class S>
__device__ __forceinline__ void gt_wgmma_weigh(gt_warpgroup &w, gt_group_sums (&sum)[S::PANELS],
    const gt_held<typename S::type> (&x)[GT_GROUP_TILES], const typename S::type *matrix)
{
	GT_UNROLL
	for (int n = 0; n < S::PANELS; n++)
		w.multiply_add<GT_TILE_PLAIN>(sum[n], x, matrix + n * S::TILE * GT_PANEL);
}

/* Round sums to T and make them factors. */
template <class T>
__device__ __forceinline__ void gt_wgmma_hold(
    gt_held<T> (&held)[GT_GROUP_TILES], const gt_group_sums &x)
{
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES; n++)
		gt_hold_sums(held[n], x[n]);
}

/* Multiply a warpgroup's rows of results by a factor each, and store them into to[T][D], from row
 * `first` on. factor[h] is for the row gt_group_row(2 * h). */
template <class S>
__device__ __forceinline__ void gt_wgmma_write(typename S::type *to, int64_t stride, int first,
    const gt_attention_sizes &s, const gt_group_sums (&sum)[S::PANELS], const float (&factor)[2])
{
	typedef gt_pack<typename S::type, 2> two;

	GT_UNROLL
	for (int i = 0; i < S::CHUNKS * 4; i++) {
		int e = i % 4 * 2, h = i % 2;
		int row = first + gt_group_row(e), d = i / 4 * GT_TILE + gt_tile_col(e);
		const float(&x)[GT_TILE_LANE] = sum[i / 4 / GT_GROUP_TILES][i / 4 % GT_GROUP_TILES];
		two pair;

		if (row >= (int)s.T || d >= (int)s.D)
			continue;
		gt_store(&pair.at[0], x[e] * factor[h]);
		gt_store(&pair.at[1], x[e + 1] * factor[h]);
		*(two *)(to + row * stride + d) = pair;
	}
}

/* Return whether the kernels support a call: its sizes, and the device, which must have compute
 * capability 9.0. The instructions exist there alone. */
static inline bool gt_wgmma_fits(const struct gt_call *call, const gt_attention_sizes &s)
{
	int major = 0, minor = 0, device = call->stream->index;

	return gt_held_fits(s) && call->attrs.attention.p == 0 &&
	       cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
	           cudaSuccess &&
	       cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
	           cudaSuccess &&
	       major == 9 && minor == 0;
}

/* Queue a kernel with more than 48 KiB of shared memory, which a kernel must be allowed. If that
 * fails, so does the launch. */
#define GT_WGMMA_LAUNCH(kernel, grid, S, bytes, queue, args)                                       \
	do {                                                                                       \
		(void)cudaFuncSetAttribute(                                                        \
		    kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);                   \
		GT_LAUNCH(kernel, grid, S::THREADS, bytes, queue, args);                           \
	} while (0)
#endif

#endif
