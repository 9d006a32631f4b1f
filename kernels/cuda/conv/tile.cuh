/* tile.cuh - tiled matrix products with operands that can be computed while they are read. */
#ifndef GT_KERNELS_CUDA_CONV_TILE_CUH
#define GT_KERNELS_CUDA_CONV_TILE_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/mma.cuh"

/* Copy the N elements of `from` into `to`, at indices i to i + N - 1. */
template <class T, int W, int N>
__device__ __forceinline__ void gt_put_pack(gt_pack<T, W> *to, int i, const gt_pack<T, N> &from)
{
	for (int j = 0; j < N; j++)
		to->at[i + j] = from.at[j];
}

/*
 * The product is y = a * b, with y [m, n], a [m, k] and b [k, n]. A thread block computes a tile of
 * SIDE x SIDE elements of y. It loops over k in steps of 64 bytes, which are DEPTH elements. While
 * the block multiplies one step, its threads already read the next step into registers.
 *
 * A side of an operand is a row of `a`, or a column of b. In shared memory, one step of an operand
 * is a matrix [DEPTH, SIDE] of type T: the first index is along k, the second counts sides. Tensor
 * cores can read this form. They multiply 16-bit types and TF32 (gt_tile_sums). Each element of y
 * is summed in the order of k, in the wide type of T (gt_wide).
 *
 * An operand is a struct that reads the elements of `a` or b from memory, or computes them (conv.cu
 * has examples):
 *
 *   Operand(args, first)   Constructor, for the operand's sides `first` to first + SIDE - 1.
 *   load(k, end)           Read this thread's part of the step that begins at k into registers.
 *                          Elements at `end` and above are zero.
 *   put(T *shared)         Write the part that load() has read to shared memory.
 */
template <class T> struct gt_tile {
	typedef typename gt_wide<T>::type wide;
	enum {
		THREADS = 256,
		SIDE = 64,
		/* elements of a pack, which a thread reads or writes in one access */
		W = 16 / sizeof(T),
		/* elements along k per step; so a thread reads one pack of `a` and one of b */
		DEPTH = 4 * W,
		/* elements from one row of shared memory to the next; a multiple of W, so that
		 * packs are aligned */
		STRIDE = SIDE + (W > 4 ? W : 4)
	};
	typedef gt_pack<T, W> pack;

	/* The position of this thread's pack in a step, if the W elements of a pack are neighbours
	 * along k. The functions return the side of all elements, and the k of the first one. */
	static __device__ __forceinline__ int side_by_k()
	{
		return (int)threadIdx.x / 4;
	}

	static __device__ __forceinline__ int k_by_k()
	{
		return (int)threadIdx.x % 4 * W;
	}

	/* The position of this thread's pack in a step, if the W elements of a pack are in
	 * neighbouring sides. The functions return the side of the first one, and the k of all. */
	static __device__ __forceinline__ int side_by_side()
	{
		return (int)threadIdx.x % (SIDE / W) * W;
	}

	static __device__ __forceinline__ int k_by_side()
	{
		return (int)threadIdx.x / (SIDE / W);
	}

	/* Write this thread's pack to shared memory: put_by_k() if its elements are neighbours
	 * along k, put_by_side() if they are in neighbouring sides. */
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

/*
 * The 16 elements of the block's tile that one thread computes.
 *
 *   multiply(a, b)   Add the products of one step. `a` and b point to the step's operands in shared
 *                    memory.
 *   store(end, m, n, rows, cols)
 *                    Store the elements with end.store() (gt_tile_end). The block's tile begins at
 *                    row m and column n of y [rows, cols]. Elements outside y are not stored.
 *
 * This version computes with multiply-adds. The elements of a thread are a square of 4 x 4.
 */
template <class T, bool MMA = gt_has_mma<T>::value> struct gt_tile_sums {
	typedef gt_tile<T> tile;
	typedef typename gt_wide<T>::type wide;
	enum {
		EACH = 4,                   /* rows and columns of a square */
		ACROSS = tile::SIDE / EACH, /* squares side by side in the tile */
		/* elements that read() loads in one access: at most 16 bytes */
		PIECE = tile::W < EACH ? (int)tile::W : (int)EACH
	};
	wide sum[EACH][EACH] = {};

	/* Load EACH neighbouring elements from shared memory and convert them to the wide type. */
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

/* The version for tensor cores: each of the 8 warps computes two neighbouring tiles of 16 x 16
 * elements by gt_tile_mma(). */
template <class T> struct gt_tile_sums<T, true> {
	typedef gt_tile<T> tile;
	/* TILES: tiles of 16 x 16 elements that a warp computes, side by side; DOWN: number of
	 * warps that are one below the other */
	enum { TILES = 2, DOWN = tile::SIDE / GT_TILE };
	float sum[TILES][GT_TILE_LANE] = {};

	/* The position of the calling thread's warp in the block's tile: row() returns its first
	 * row, and col(t) returns the first column of its tile t. */
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

/* The end of a product: optionally add the bias and the residual, apply relu, and store the result
 * to y. */
template <class T> struct gt_tile_end {
	typedef typename gt_wide<T>::type wide;
	T *y; /* [m, n] */
	/* bias [n], residual [m, n], or nullptr. The residual has the stride of y; it may be y. */
	const T *bias, *residual;
	int64_t stride; /* elements from one row of y to the next */
	bool relu;      /* replace negative results by 0 */

	/* Return the result for the sum v of column n; `at` is the index of the element in y. */
	__device__ wide finish(wide v, int64_t at, int64_t n) const
	{
		if (bias)
			v += gt_load(bias[n]);
		if (residual)
			v += gt_load(residual[at]);
		return relu && v < 0 ? 0 : v;
	}

	/* Store EACH neighbouring elements of row m of y, from column n on. v[EACH] are the sums of
	 * their products. The row has `count` elements from column n on; if `count` is less than
	 * EACH, only `count` elements are stored. */
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

/* The sizes of a product. Thread blocks with blockIdx.z = z sum only over the part
 * [z * split, (z + 1) * split) of k. They store these partial sums to y + z * m * stride. If
 * `split` is equal to k, there is only z = 0. */
struct gt_tile_sizes {
	int64_t m, n, k;
	int64_t split;
};

/* The kernel. A and B are the types of the operands, which are constructed from `a` and b. V is the
 * type of the elements of y.
 * Shared memory has two buffers for each operand, used in turn. So a thread can write the next step
 * while other threads still multiply the current step. */
template <class T, class V, class A, class B>
static __global__ __launch_bounds__(256) void gt_tile_product(
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

/* Launch the kernel for a product of the given sizes. */
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
