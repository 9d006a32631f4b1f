/* tile.cuh - tiled matrix products with operands that can be computed while they are read. */
#ifndef GT_KERNELS_CUDA_CONV_TILE_CUH
#define GT_KERNELS_CUDA_CONV_TILE_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/mma.cuh"

/* Copy `from` into `to`, from index i on. */
template <class T, int W, int N>
__device__ __forceinline__ void gt_put_pack(gt_pack<T, W> *to, int i, const gt_pack<T, N> &from)
{
	for (int j = 0; j < N; j++)
		to->at[i + j] = from.at[j];
}

/*
 * y [m, n] = a [m, k] * b [k, n]. A block computes SIDE x SIDE elements of y, in steps of DEPTH
 * elements (64 bytes) along k; it reads the next step while it multiplies one. A side is a row of
 * `a` or a column of b. In shared memory, a step of an operand is [DEPTH, SIDE]. Sums are in the
 * order of k, in the wide type of T.
 *
 * An operand is a struct that reads or computes elements of `a` or b (conv.cu has examples):
 *
 *   Operand(args, first)   Constructor, for sides from `first` on.
 *   load(k, end)           Read this thread's part of the step at k. Elements from `end` on are 0.
 *   put(T *shared)         Write this part to shared memory.
 *   BLOCKS                 Of the first operand: the number of blocks for which a multiprocessor
 *                          must have registers.
 */
template <class T> struct gt_tile {
	typedef typename gt_wide<T>::type wide;
	enum {
		THREADS = 256,
		SIDE = 64,
		/* elements of a pack, one access */
		W = 16 / sizeof(T),
		/* elements along k per step: a thread has one pack of each operand */
		DEPTH = 4 * W,
		/* elements between rows of shared memory; a multiple of W */
		STRIDE = SIDE + (W > 4 ? W : 4)
	};
	typedef gt_pack<T, W> pack;

	/* Where this thread's pack is in a step, if its elements are neighbours along k. */
	static __device__ __forceinline__ int side_by_k()
	{
		return (int)threadIdx.x / 4;
	}

	static __device__ __forceinline__ int k_by_k()
	{
		return (int)threadIdx.x % 4 * W;
	}

	/* Where it is if its elements are in neighbouring sides. */
	static __device__ __forceinline__ int side_by_side()
	{
		return (int)threadIdx.x % (SIDE / W) * W;
	}

	static __device__ __forceinline__ int k_by_side()
	{
		return (int)threadIdx.x / (SIDE / W);
	}

	/* Write this thread's pack to shared memory. */
	static __device__ __forceinline__ void put_by_k(T *shared, const pack &v)
	{
		for (int i = 0; i < W; i++)
			shared[(k_by_k() + i) * STRIDE + side_by_k()] = v.at[i];
	}

	static __device__ __forceinline__ void put_by_side(T *shared, const pack &v)
	{
		*(pack *)(shared + k_by_side() * STRIDE + side_by_side()) = v;
	}
};

/* The 16 elements of y in one thread, here a square of 4 x 4. multiply(a, b) adds the products of a
 * step in shared memory. store(end, m, n, rows, cols) stores the elements inside of y [rows, cols]
 * by a gt_tile_end; the block's tile is at row m and column n. */
template <class T, bool MMA = gt_has_mma<T>::value> struct gt_tile_sums {
	typedef gt_tile<T> tile;
	typedef typename gt_wide<T>::type wide;
	enum {
		EACH = 4,
		ACROSS = tile::SIDE / EACH, /* squares side by side */
		/* elements of one access, at most 16 bytes */
		PIECE = tile::W < EACH ? (int)tile::W : (int)EACH
	};
	wide sum[EACH][EACH] = {};

	/* Load EACH neighbouring elements in the wide type. */
	static __device__ __forceinline__ void read(wide *v, const T *shared)
	{
		for (int i = 0; i < EACH; i += PIECE) {
			gt_pack<T, PIECE> some = *(const gt_pack<T, PIECE> *)(shared + i);

			for (int k = 0; k < PIECE; k++)
				v[i + k] = gt_load(some.at[k]);
		}
	}

	__device__ __forceinline__ void multiply(const T *a, const T *b)
	{
		wide left[EACH], right[EACH];

		a += threadIdx.x / ACROSS * EACH;
		b += threadIdx.x % ACROSS * EACH;
		for (int k = 0; k < tile::DEPTH; k++) {
			read(left, a + k * tile::STRIDE);
			read(right, b + k * tile::STRIDE);
			for (int i = 0; i < EACH; i++)
				for (int j = 0; j < EACH; j++)
					sum[i][j] += left[i] * right[j];
		}
	}

	template <class END>
	__device__ __forceinline__ void store(
	    const END &end, int64_t m, int64_t n, int64_t rows, int64_t cols) const
	{
		m += threadIdx.x / ACROSS * EACH;
		n += threadIdx.x % ACROSS * EACH;
		for (int i = 0; i < EACH && m + i < rows; i++)
			end.template store<EACH>(m + i, n, cols - n, sum[i]);
	}
};

/* The version for tensor cores: each of 8 warps computes two neighbouring tiles of 16 x 16. */
template <class T> struct gt_tile_sums<T, true> {
	typedef gt_tile<T> tile;
	/* tiles of a warp, side by side; warps below each other */
	enum { TILES = 2, DOWN = tile::SIDE / GT_TILE };
	float sum[TILES][GT_TILE_LANE] = {};

	/* The first row of this warp, and the first column of its tile t. */
	static __device__ __forceinline__ int row()
	{
		return (int)threadIdx.x / 32 % DOWN * GT_TILE;
	}

	static __device__ __forceinline__ int col(int t)
	{
		return ((int)threadIdx.x / 32 / DOWN * TILES + t) * GT_TILE;
	}

	__device__ __forceinline__ void multiply(const T *a, const T *b)
	{
		GT_UNROLL
		for (int k = 0; k < tile::DEPTH * tile::STRIDE; k += GT_TILE * tile::STRIDE)
			GT_UNROLL
		for (int t = 0; t < TILES; t++)
			gt_tile_mma<GT_TILE_PLAIN, GT_TILE_TRANSPOSED>(
			    sum[t], a + k + row(), tile::STRIDE, b + k + col(t), tile::STRIDE);
	}

	template <class END>
	__device__ __forceinline__ void store(
	    const END &end, int64_t m, int64_t n, int64_t rows, int64_t cols) const
	{
		GT_UNROLL
		for (int t = 0; t < TILES; t++)
			GT_UNROLL
		for (int e = 0; e < GT_TILE_LANE; e += 2) {
			int64_t i = m + row() + gt_tile_row(e), j = n + col(t) + gt_tile_col(e);

			if (i < rows)
				end.template store<2>(i, j, cols - j, &sum[t][e]);
		}
	}
};

/* The end of a product: bias, residual, relu, and the store. */
template <class T> struct gt_tile_end {
	typedef typename gt_wide<T>::type wide;
	T *y; /* [m, n] */
	/* [n]; [m, n] with y's stride, may be y; or nullptr */
	const T *bias, *residual;
	int64_t stride; /* elements between rows of y */
	bool relu;

	/* Return the result for a sum v at index `at` and column n. */
	__device__ wide finish(wide v, int64_t at, int64_t n) const
	{
		if (bias)
			v += gt_load(bias[n]);
		if (residual)
			v += gt_load(residual[at]);
		return relu && v < 0 ? 0 : v;
	}

	/* Store the results of v[EACH] from row m, column n on, at most `count`. */
	template <int EACH>
	__device__ __forceinline__ void store(
	    int64_t m, int64_t n, int64_t count, const wide *v) const
	{
		int64_t at = m * stride + n;
		gt_pack<T, EACH> pack;

		for (int i = 0; i < EACH && i < count; i++)
			gt_store(&pack.at[i], finish(v[i], at + i, n + i));
		if (stride % EACH == 0 && count >= EACH && sizeof(pack) <= 16) {
			*(gt_pack<T, EACH> *)(y + at) = pack;
			return;
		}
		for (int i = 0; i < EACH && i < count; i++)
			y[at + i] = pack.at[i];
	}
};

/* The sizes of a product. Blocks with blockIdx.z = z sum `split` elements of k from z * split on,
 * and store to y + z * m * stride. */
struct gt_tile_sizes {
	int64_t m, n, k;
	int64_t split;
};

/* The kernel. A and B are operands, V the type of y. Each operand has two buffers in shared memory,
 * so that threads can write a step while others multiply the last one. */
template <class T, class V, class A, class B>
static __global__ __launch_bounds__(256, A::BLOCKS) void gt_tile_product(
    typename A::args a, typename B::args b, gt_tile_end<V> end, struct gt_tile_sizes s)
{
	typedef gt_tile<T> tile;
	GT_SHARED(typename tile::pack, left, 2 * tile::DEPTH * tile::STRIDE / tile::W);
	GT_SHARED(typename tile::pack, right, 2 * tile::DEPTH * tile::STRIDE / tile::W);
	gt_tile_sums<T> sums;
	int64_t m = (int64_t)blockIdx.x * tile::SIDE, n = (int64_t)blockIdx.y * tile::SIDE;
	int64_t k = blockIdx.z * s.split, last = k + s.split < s.k ? k + s.split : s.k;
	A from_a(a, m);
	B from_b(b, n);
	int now = 0;

	from_a.load(k, last);
	from_b.load(k, last);
	for (; k < last; k += tile::DEPTH) {
		T *step_a = (T *)left + now * tile::DEPTH * tile::STRIDE;
		T *step_b = (T *)right + now * tile::DEPTH * tile::STRIDE;

		from_a.put(step_a);
		from_b.put(step_b);
		__syncthreads();
		if (k + tile::DEPTH < last) {
			from_a.load(k + tile::DEPTH, last);
			from_b.load(k + tile::DEPTH, last);
		}
		sums.multiply(step_a, step_b);
		now ^= 1;
	}
	end.y += (int64_t)blockIdx.z * s.m * end.stride;
	sums.store(end, m, n, s.m, s.n);
}

template <class T, class V, class A, class B>
static void gt_launch_tiles(struct gt_stream *stream, const typename A::args &a,
    const typename B::args &b, const gt_tile_end<V> &end, const struct gt_tile_sizes &s)
{
	const int64_t side = gt_tile<T>::SIDE;
	dim3 grid((unsigned)((s.m + side - 1) / side), (unsigned)((s.n + side - 1) / side),
	    (unsigned)((s.k + s.split - 1) / s.split));

	GT_LAUNCH((gt_tile_product<T, V, A, B>), grid, gt_tile<T>::THREADS, 0, stream->queue, a, b,
	    end, s);
}

#endif
