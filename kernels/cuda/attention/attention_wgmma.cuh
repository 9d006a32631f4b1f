/* attention_wgmma.cuh - sizes and tiles of the attention kernels for Hopper GPUs. */
#ifndef GT_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_CUH
#define GT_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_CUH

#include "kernels/cuda/attention/attention_held.cuh"
#include "kernels/cuda/core/wgmma.cuh"

/*
 * The kernels work as those for other GPUs do (attention_held.cuh), but warpgroups compute the
 * products (wgmma.cuh). Each warpgroup of a block has 64 own rows (for example queries), and all of
 * them use the same tiles of 64 rows of two other matrices (for example keys and values).
 *
 *   GROUPS  warpgroups of a block
 *   PANELS  panels of a matrix: a head of up to 64 columns takes one, of up to 128 columns two
 *   STAGES  number of tiles in shared memory: the tile that products read; the previous tile, which
 *           the products of the previous iteration may still read; and AHEAD tiles that are being
 *           copied
 */
template <class T, int COLS_, int GROUPS_> struct gt_wgmma_shape {
	typedef T type;
	enum {
		COLS = COLS_,
		PANELS = COLS / GT_PANEL,
		CHUNKS = COLS / GT_TILE,
		GROUPS = GROUPS_,
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

/*
 * The tiles of a block, in the order in which it uses them; t counts them. Each tile has 64 rows of
 * two matrices, x and y. A thread copies the same pieces of all tiles, so that it has little to
 * compute for each tile.
 */
template <class S> struct gt_wgmma_tiles {
	typedef typename S::type T;
	enum { PACKS = S::COLS / S::PACK, ROWS = S::THREADS / PACKS };
	T *shared, *to;         /* the tiles; this thread's first piece in the first one */
	const T *x, *y;         /* row 0 of the matrices */
	int x_stride, y_stride; /* elements from one row to the next */
	/* the row of this thread's first pieces of the tile that is copied next */
	int row;
	int end; /* rows from here on are not copied but zero */
	gt_async_copies copies;

	/* Begin with row `first` of x and y; copy rows up to `limit`. */
	__device__ __forceinline__ void start(int first, int limit, const gt_attention_sizes &s)
	{
		int r = (int)threadIdx.x / PACKS, c = (int)threadIdx.x % PACKS;

		row = first + r;
		end = c * S::PACK < (int)s.D ? limit : 0;
		to = gt_panel_piece(shared + c / 8 * S::TILE * GT_PANEL, r, c % 8);
	}

	/* Return the two matrices of tile t. */
	__device__ __forceinline__ T *first(int t) const
	{
		return shared + t % (unsigned)S::STAGES * S::STAGE;
	}

	__device__ __forceinline__ T *second(int t) const
	{
		return first(t) + S::MATRIX;
	}

	/* Begin to copy the next tile, as tile t. Behind the last tile, this stores zeros. */
	__device__ __forceinline__ void copy(int t)
	{
		T *stage = to + t % (unsigned)S::STAGES * S::STAGE;
		int col = (int)threadIdx.x % PACKS * S::PACK;

		GT_UNROLL
		for (int n = 0; n < S::TILE; n += ROWS) {
			int bytes = row + n < end ? 16 : 0;

			copies.copy(
			    stage + n * GT_PANEL, x + ((int64_t)(row + n) * x_stride + col), bytes);
			copies.copy(stage + S::MATRIX + n * GT_PANEL,
			    y + ((int64_t)(row + n) * y_stride + col), bytes);
		}
		copies.commit();
		row += S::TILE;
	}

	/* Wait for tile t, where t + AHEAD - 1 is the tile that was copied last. After this, no
	 * thread reads tile t - 2, and copy(t + AHEAD) may overwrite it. */
	__device__ __forceinline__ void wait()
	{
		copies.template wait<S::AHEAD - 1>();
		gt_panel_publish();
		__syncthreads();
	}

	/* Begin to copy the block's own rows of a matrix, from row i on, to the memory of tile
	 * AHEAD + n, which is still unused. */
	__device__ __forceinline__ void copy_own(
	    int n, const T *from, int64_t stride, int i, const gt_attention_sizes &s)
	{
		static_assert(S::OWN * S::COLS <= S::STAGE, "own rows fit into a tile's memory");
		gt_wgmma_fetch<S, S::OWN>(copies, first(S::AHEAD + n), from, stride, i, s);
		copies.commit();
	}

	/* Read a warpgroup's own rows into registers. Copies of the first AHEAD tiles may run. */
	__device__ __forceinline__ void own(gt_held<T> (&held)[S::CHUNKS], int n)
	{
		int first_row = (int)threadIdx.x / 32 * GT_TILE;

		GT_UNROLL
		for (int k = 0; k < S::CHUNKS; k++)
			gt_panel_hold(held[k],
			    first(S::AHEAD + n) + k / GT_GROUP_TILES * S::OWN * GT_PANEL, first_row,
			    k % GT_GROUP_TILES * GT_TILE);
	}

	/* Wait for the copies of own rows, which are older than those of AHEAD tiles. */
	__device__ __forceinline__ void wait_own()
	{
		copies.template wait<S::AHEAD>();
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

/* Launch a kernel that needs more than 48 KiB of shared memory. CUDA requires a call of
 * cudaFuncSetAttribute() first. If that call fails, the launch fails, too. */
#define GT_WGMMA_LAUNCH(kernel, grid, S, bytes, queue, args)                                       \
	do {                                                                                       \
		(void)cudaFuncSetAttribute(                                                        \
		    kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);                   \
		GT_LAUNCH(kernel, grid, S::THREADS, bytes, queue, args);                           \
	} while (0)
#endif

#endif
