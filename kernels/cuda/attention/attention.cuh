/* attention.cuh - sizes, tiles and dropout, for the kernels of attention and its gradient. */
#ifndef GT_KERNELS_CUDA_ATTENTION_ATTENTION_CUH
#define GT_KERNELS_CUDA_ATTENTION_ATTENTION_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/mma.cuh"
#include "kernels/cuda/core/philox.cuh"
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * The sizes of a block's work, for elements of type T. The functions below get this struct as their
 * template argument S. Queries, keys, values and results of one head are matrices with a row for
 * each token and D columns (the head size).
 *
 * A block owns OWN rows (for example, queries) of one head, 16 rows per warp. It reads the rows of
 * the other matrix (for example, keys) in tiles of TILE rows. Rows are read CHUNK columns at a
 * time. If a head has at most CHUNK columns, the block reads its own rows once and keeps them in
 * shared memory. Otherwise it reads them again for each tile.
 *
 * A block computes CHUNK columns of the result. If a head has more columns, several blocks share
 * the result, and each of these blocks computes all scores of its own rows. So a block needs a
 * limited number of registers and limited shared memory for any head size. Shared memory is at most
 * 48 KiB, the limit of a launch that does not ask for more.
 */
template <class T, int CHUNK_> struct gt_attention_shape {
	typedef T type;
	typedef typename gt_wide<T>::type wide;
	enum {
		SIZE = sizeof(T),
		CHUNK = CHUNK_,
		CHUNKS = CHUNK / GT_TILE, /* squares of 16 x 16 (mma.cuh) in CHUNK columns */
		WARPS = SIZE == 2 ? 4 : 2,
		THREADS = WARPS * 32,
		OWN = WARPS * GT_TILE,
		TILE = SIZE >= 4    ? 16
		       : CHUNK > 64 ? 32
		                    : 64,
		TILES = TILE / GT_TILE, /* squares of 16 x 16 in TILE rows */
		/* unused elements after each row of shared memory: they put neighbouring rows into
		 * different memory banks */
		PAD = 16 / SIZE,
		/* elements from one row in shared memory to the next: LD in own rows and tiles,
		 * P_LD in scores */
		LD = CHUNK + PAD,
		P_LD = TILE + PAD,
		/* shared memory of the gradient: two matrices [OWN, LD], one tile [TILE, LD] and
		 * scores [OWN, P_LD]; the forward kernel has only one matrix [OWN, LD] */
		BYTES = SIZE * (2 * OWN * LD + TILE * LD + OWN * P_LD)
	};
	/* The scores [16, TILE] and the results [16, CHUNK] of a warp. Each array holds the
	 * elements of one lane, in the layout of gt_tile_mma(). */
	typedef wide scores[TILES][GT_TILE_LANE];
	typedef wide results[CHUNKS][GT_TILE_LANE];
	static_assert(BYTES <= 48 * 1024, "more shared memory than a launch may have");
	static_assert(OWN % TILE == 0, "a block's rows are whole tiles");
};

/* The sizes of a call. The input `qkv` [B, T, stride] has one row for each token: the queries of
 * all heads, then the keys of all heads, then the values of all heads. */
struct gt_attention_sizes {
	/* B: samples; T: tokens per sample; heads: query heads; D: columns of one head; C: columns
	 * of all query heads, heads * D */
	int64_t B, T, heads, D, C;
	int64_t blocks; /* blocks of OWN rows per head */
	double scale;   /* factor of the scores: 1 / sqrt(D) */
	/* kv_heads: number of key heads, and of value heads; group: query heads that share one key
	 * head, heads / kv_heads */
	int64_t kv_heads, group;
	int64_t stride; /* columns of qkv */
	bool full;      /* true: a query attends to all keys; false: only to keys up to its token */

	/* Return the index of the last key that query i attends to. */
	__device__ __forceinline__ int64_t last_key(int64_t i) const
	{
		return full ? T - 1 : i;
	}

	/* Return the offset in qkv, in elements, of the keys of sample b and key head `kv`. The
	 * values of this head begin kv_heads * D elements after its keys. */
	__device__ __forceinline__ int64_t keys_of(int64_t b, int64_t kv) const
	{
		return b * T * stride + C + kv * D;
	}
};

/* Return the number of columns in the chunk that begins at column `col`, rounded up to a multiple
 * of 16. */
template <class S> __device__ __forceinline__ int gt_attention_width(int64_t col, int64_t D)
{
	int64_t width = (D - col + GT_TILE - 1) / GT_TILE * GT_TILE;

	return width < S::CHUNK ? (int)width : (int)S::CHUNK;
}

/* Copy a part of the matrix `from` [rows][D] to `to` [count][LD]: the rows [first, first + count),
 * and of each row the chunk of columns that begins at column `col`. Rows of `from` are `stride`
 * elements apart. Elements outside `from` become zero. V elements are copied at a time. All threads
 * of the block call this. */
template <class S, int V>
__device__ __forceinline__ void gt_attention_copy(typename S::type *to,
    const typename S::type *from, int64_t stride, int64_t first, int count, int64_t rows,
    int64_t col, int64_t D)
{
	typedef gt_pack<typename S::type, V> pack;
	int packs = gt_attention_width<S>(col, D) / V;

	for (int i = (int)threadIdx.x; i < count * packs; i += S::THREADS) {
		int r = i / packs, c = i % packs * V;
		pack x = {};

		if (first + r < rows && col + c < D)
			x = *(const pack *)(from + (first + r) * stride + col + c);
		*(pack *)(to + r * S::LD + c) = x;
	}
}

/* Call gt_attention_copy() for a matrix [T, D], with 16 bytes at a time if D allows it. */
template <class S>
__device__ __forceinline__ void gt_attention_fetch(typename S::type *to,
    const typename S::type *from, int64_t stride, int64_t first, int count,
    const gt_attention_sizes &s, int64_t col)
{
	if (s.D % S::PAD == 0)
		gt_attention_copy<S, S::PAD>(to, from, stride, first, count, s.T, col, s.D);
	else
		gt_attention_copy<S, 1>(to, from, stride, first, count, s.T, col, s.D);
}

/* sum[16, TILE] += own[16, width] times the transpose of tile[TILE, width]. All lanes of a warp
 * call this. */
template <class S>
__device__ __forceinline__ void gt_attention_score(
    typename S::scores &sum, const typename S::type *own, const typename S::type *tile, int width)
{
	for (int k = 0; k < width; k += GT_TILE) {
		GT_UNROLL
		for (int n = 0; n < S::TILES; n++)
			gt_tile_mma<GT_TILE_TRANSPOSED>(
			    sum[n], own + k, S::LD, tile + n * GT_TILE * S::LD + k, S::LD);
	}
}

/* sum[16, width] += p[16, TILE] times tile[TILE, width]. All lanes of a warp call this. */
template <class S>
__device__ __forceinline__ void gt_attention_weigh(
    typename S::results &sum, const typename S::type *p, const typename S::type *tile, int width)
{
	GT_UNROLL
	for (int c = 0; c < S::CHUNKS; c++) {
		if (c * GT_TILE >= width)
			continue;
		GT_UNROLL
		for (int k = 0; k < S::TILE; k += GT_TILE)
			gt_tile_mma<GT_TILE_PLAIN>(
			    sum[c], p + k, S::P_LD, tile + k * S::LD + c * GT_TILE, S::LD);
	}
}

/* Store x into p[16, TILE], converted to T, the type that gt_attention_weigh() reads. */
template <class S>
__device__ __forceinline__ void gt_attention_put(typename S::type *p, const typename S::scores &x)
{
	GT_UNROLL
	for (int n = 0; n < S::TILES; n++) {
		GT_UNROLL
		for (int e = 0; e < GT_TILE_LANE; e++)
			gt_store(
			    p + gt_tile_row(e) * S::P_LD + n * GT_TILE + gt_tile_col(e), x[n][e]);
	}
}

/* Store the results `sum` of a warp into to[T][D], from row `first` and column `col` on. Rows of
 * `to` are `stride` elements apart. Each element is multiplied by the factor of its row before it
 * is stored. The elements of one lane are in two rows, so `factor` has two elements. */
template <class S>
__device__ __forceinline__ void gt_attention_write(typename S::type *to, int64_t stride,
    int64_t first, int64_t col, const gt_attention_sizes &s, const typename S::results &sum,
    const typename S::wide (&factor)[2])
{
	GT_UNROLL
	for (int c = 0; c < S::CHUNKS; c++) {
		GT_UNROLL
		for (int e = 0; e < GT_TILE_LANE; e++) {
			int64_t row = first + gt_tile_row(e);
			int64_t d = col + c * GT_TILE + gt_tile_col(e);

			if (row < s.T && d < s.D)
				gt_store(to + row * stride + d, sum[c][e] * factor[e / 2 % 2]);
		}
	}
}

/* ---- dropout of probabilities ---- */

/*
 * The random numbers of a call. The probability of query i and key j, in sample b and head h, uses
 * the random word with the counter
 *
 *   ((first + b * stride) * all + h) * T * T + i * T + j
 *
 * `first` and `stride` are elements of `rng` (enum gt_rng_field, lib/graph/kernel.h). h is the
 * index of the head in the whole layer, and `all` is the number of heads of the whole layer, even
 * if tensor parallelism gives only some of these heads to this rank.
 */
struct gt_attention_draw {
	const int64_t *rng; /* int64 [GT_RNG_FIELDS] on the device; NULL: no dropout */
	/* all: number of heads of the whole layer; head: index, in the whole layer, of the first
	 * head of this call */
	int64_t all, head;
	uint32_t stream; /* word 2 of Philox's counter (lib/base/philox.h) */
	/* a probability is dropped if the upper 24 bits of its random word are below this */
	uint32_t threshold;
	double scale; /* factor of probabilities that are kept */
};

/* Dropout for one head, used by one thread. Philox computes a block of four random words at a time,
 * and neighbouring elements of a row mostly use words of the same block. So the thread keeps the
 * four words that it computed last. */
struct gt_attention_dropper {
	uint64_t seed, first, block;
	uint32_t stream, step, threshold, word[4];
	double scale;
	bool on;

	__device__ __forceinline__ gt_attention_dropper(
	    const gt_attention_draw &d, const gt_attention_sizes &s, int64_t b, int64_t head)
	    : seed(0), first(0), block(~(uint64_t)0), stream(d.stream), step(0),
	      threshold(d.threshold), word{}, scale(d.scale), on(d.rng)
	{
		if (!on)
			return;
		seed = (uint64_t)d.rng[GT_RNG_SEED];
		step = (uint32_t)d.rng[GT_RNG_STEP];
		first = (uint64_t)(d.rng[GT_RNG_FIRST] + b * d.rng[GT_RNG_STRIDE]);
		first =
		    (first * (uint64_t)d.all + (uint64_t)(d.head + head)) * (uint64_t)(s.T * s.T);
	}

	/* Continue with the next head of the same sample. */
	__device__ __forceinline__ void next_head(const gt_attention_sizes &s)
	{
		first += (uint64_t)(s.T * s.T);
		block = ~(uint64_t)0;
	}

	/* Return the factor for the probability of query i and key j, where `at` is i * T + j. The
	 * factor is 0 if dropout drops this probability. */
	__device__ __forceinline__ double factor(int64_t at)
	{
		uint64_t c = first + (uint64_t)at;

		if (!on)
			return 1;
		if (c / 4 != block) {
			block = c / 4;
			gt_draw_block(seed, block, stream, step, word);
		}
		return gt_drawn(word, c) >> 8 < threshold ? 0 : scale;
	}
};

/* ---- calls ---- */

/* Return D, the number of columns of one head. */
static inline int64_t gt_attention_head_size(
    const struct gt_call *call, const struct gt_tensor *qkv)
{
	return qkv->shape[2] / (call->attrs.attention.heads + 2 * gt_attrs_kv_heads(&call->attrs));
}

/* Return the sizes of a call. A block owns `own` rows (gt_attention_shape::OWN). */
static inline gt_attention_sizes gt_attention_sizes_of(
    const struct gt_call *call, const struct gt_tensor *qkv, int own)
{
	gt_attention_sizes s = { qkv->shape[0], qkv->shape[1], call->attrs.attention.heads,
		gt_attention_head_size(call, qkv), 0, (qkv->shape[1] + own - 1) / own, 0,
		gt_attrs_kv_heads(&call->attrs), 0, qkv->shape[2], call->attrs.attention.full };

	s.C = s.heads * s.D;
	s.group = s.heads / s.kv_heads;
	s.scale = 1 / sqrt((double)s.D);
	return s;
}

/* Return the description of dropout for a call. `rng` is the index of the input tensor that
 * holds gt_attention_draw::rng. */
static inline gt_attention_draw gt_attention_draw_of(const struct gt_call *call, int rng)
{
	double p = call->attrs.attention.p;
	int all = call->attrs.attention.all_heads;

	return { p > 0 ? gt_in_data<int64_t>(call, rng) : nullptr,
		all ? all : call->attrs.attention.heads, call->attrs.attention.first_head,
		call->attrs.attention.stream, (uint32_t)ceil(p * 0x1p24), 1 / (1 - p) };
}

/* Return the grid of a launch. In dimension x there is one block for every OWN rows, in each head
 * of each sample. In dimension y there is one block for each chunk of columns of the result. */
template <class S> inline dim3 gt_attention_grid(const gt_attention_sizes &s)
{
	return dim3(
	    (unsigned)(s.B * s.heads * s.blocks), (unsigned)((s.D + S::CHUNK - 1) / S::CHUNK));
}

#endif
