/* attention.cuh - sizes, tiles and dropout, for the kernels of attention and its gradient. */
#ifndef GT_KERNELS_CUDA_ATTENTION_ATTENTION_CUH
#define GT_KERNELS_CUDA_ATTENTION_ATTENTION_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/mma.cuh"
#include "kernels/cuda/core/philox.cuh"
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/rows.cuh"

/* The sizes of a block's work, the template argument S below. A block owns OWN rows of a head
 * (queries, for example), 16 per warp, reads the rows of the other matrix (keys) in tiles of TILE
 * rows, CHUNK columns at a time, and computes CHUNK columns of the result. attention.cu says
 * more. */
template <class T, int CHUNK_> struct gt_attention_shape {
	typedef T type;
	typedef typename gt_wide<T>::type wide;
	enum {
		SIZE = sizeof(T),
		CHUNK = CHUNK_,
		CHUNKS = CHUNK / GT_TILE, /* squares of 16 x 16 in CHUNK columns */
		WARPS = SIZE == 2 ? 4 : 2,
		THREADS = WARPS * 32,
		OWN = WARPS * GT_TILE,
		TILE = SIZE >= 4    ? 16
		       : CHUNK > 64 ? 32
		                    : 64,
		TILES = TILE / GT_TILE, /* squares of 16 x 16 in TILE rows */
		/* unused elements after each row, for different memory banks */
		PAD = 16 / SIZE,
		/* elements between rows in shared memory: own rows and tiles; scores */
		LD = CHUNK + PAD,
		P_LD = TILE + PAD,
		/* shared memory of the gradient; the forward kernel has only one matrix [OWN,
		 * LD] */
		BYTES = SIZE * (2 * OWN * LD + TILE * LD + OWN * P_LD)
	};
	/* A lane's elements of a warp's scores [16, TILE] and results [16, CHUNK], as in
	 * gt_tile_mma(). */
	typedef wide scores[TILES][GT_TILE_LANE];
	typedef wide results[CHUNKS][GT_TILE_LANE];
	static_assert(BYTES <= 48 * 1024, "more shared memory than a launch may have");
	static_assert(OWN % TILE == 0, "a block's rows are whole tiles");
};

/* The sizes of a call. A row of qkv [B, T, stride] is a token: all heads' queries, then keys, then
 * values. */
struct gt_attention_sizes {
	/* samples, tokens per sample, query heads, columns of a head, columns of all query heads */
	int64_t B, T, heads, D, C;
	int64_t blocks; /* blocks per head */
	double scale;   /* 1 / sqrt(D) */
	/* key heads; query heads that share one */
	int64_t kv_heads, group;
	int64_t stride; /* columns of qkv */
	bool full;      /* not causal: a query attends to all keys */
	/* [B, T] places of tokens in their documents; NULL: a row is one document */
	const int32_t *positions;

	/* Return the last key that query i attends to. */
	__device__ __forceinline__ int64_t last_key(int64_t i) const
	{
		return full ? T - 1 : i;
	}

	/* Where there are positions: return the first key that query i of sample b attends to,
	 * that of its document. Wrong positions reach at most to the beginning of the row. */
	__device__ __forceinline__ int64_t first_key(int64_t b, int64_t i) const
	{
		int64_t back = i < T ? positions[b * T + i] : i;

		return back < 0 ? i : back > i ? 0 : i - back;
	}

	/* Likewise, return the first of the tiles of `tile` keys that queries from i on need. */
	__device__ __forceinline__ int64_t first_tile(int64_t b, int64_t i, int tile) const
	{
		return first_key(b, i) / tile * tile;
	}

	/* Return where in qkv the keys of a sample and key head begin. Its values begin kv_heads *
	 * D further. */
	__device__ __forceinline__ int64_t keys_of(int64_t b, int64_t kv) const
	{
		return b * T * stride + C + kv * D;
	}
};

/* Return the columns of the chunk at `col`, rounded up to a multiple of 16. */
template <class S> __device__ __forceinline__ int gt_attention_width(int64_t col, int64_t D)
{
	int64_t width = (D - col + GT_TILE - 1) / GT_TILE * GT_TILE;

	return width < S::CHUNK ? (int)width : (int)S::CHUNK;
}

/* All threads of the block copy the chunk at `col` of `count` rows of `from` to `to` [count][LD], V
 * elements at a time. Elements outside become zero. */
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

/* The same for a matrix [T, D], 16 bytes at a time if D allows it. */
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

/* A warp adds own[16, width] times the transpose of tile[TILE, width]. */
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

/* A warp adds p[16, TILE] times tile[TILE, width]. */
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

/* Store x into p[16, TILE], for gt_attention_weigh(). */
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

/* Store a warp's results into to[T][D], times factor[] of a lane's two rows. */
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

/* The random numbers of dropout; attention.cu has their counters. */
struct gt_attention_draw {
	const int64_t *rng; /* [GT_RNG_FIELDS], device memory; NULL: no dropout */
	/* heads of the whole layer; the call's first head in it */
	int64_t all, head;
	uint32_t stream; /* see lib/base/philox.h */
	/* random words whose upper 24 bits are below it drop */
	uint32_t threshold;
	double scale; /* factor of what is kept */
};

/*
 * Dropout of one head. What is drawn is read from memory anew for each tile: registers are scarce,
 * and most calls have no dropout.
 */
struct gt_attention_dropper {
	const gt_attention_draw &d;
	int b, head; /* the sample, and the head of the call */

	/*
	 * Draw for this lane's elements of a warp's scores [16, TILES * 16]: bit n * GT_TILE_LANE +
	 * e is 1 if element e of the n-th square is kept. Rows are queries from i on and columns
	 * keys from j on; SWAPPED: rows are keys and columns queries.
	 *
	 * The loop is not unrolled: the generator has a hundred instructions, and a copy for each
	 * element nearly doubled the time that these kernels take to compile.
	 */
	template <int TILES, bool SWAPPED>
	__device__ __forceinline__ uint32_t draw(int64_t i, int64_t j, int64_t T) const
	{
		uint32_t bits = 0, word[4] = {};
		uint64_t block = ~(uint64_t)0, first, seed;

		static_assert(TILES * GT_TILE_LANE <= 32, "an element has no bit");
		if (!d.rng)
			return ~0u;
		seed = (uint64_t)d.rng[GT_RNG_SEED];
		first = (uint64_t)(d.rng[GT_RNG_FIRST] + b * d.rng[GT_RNG_STRIDE]);
		first = (first * (uint64_t)d.all + (uint64_t)(d.head + head)) * (uint64_t)(T * T) +
		        (uint64_t)(i * T + j);
		GT_NO_UNROLL
		for (int at = 0; at < TILES * GT_TILE_LANE; at++) {
			int e = at % GT_TILE_LANE, across = gt_tile_row(e);
			int along = at / GT_TILE_LANE * GT_TILE + gt_tile_col(e);
			int64_t at_i = SWAPPED ? along : across, at_j = SWAPPED ? across : along;
			uint64_t c = first + (uint64_t)(at_i * T + at_j);

			if (c / 4 != block) {
				block = c / 4;
				gt_draw_block(
				    seed, block, d.stream, (uint32_t)d.rng[GT_RNG_STEP], word);
			}
			bits |= (uint32_t)(gt_drawn(word, c) >> 8 >= d.threshold) << at;
		}
		return bits;
	}

	/* Return the factor of element `at` of such bits: 0 if it is dropped. */
	template <class W> __device__ __forceinline__ W factor(uint32_t bits, int at) const
	{
		return bits >> at & 1 ? (W)d.scale : 0;
	}
};

/* ---- calls ---- */

/* Return D. */
static inline int64_t gt_attention_head_size(
    const struct gt_call *call, const struct gt_tensor *qkv)
{
	return qkv->shape[2] / (call->attrs.attention.heads + 2 * gt_attrs_kv_heads(&call->attrs));
}

/* Return the sizes of a call, for blocks of `own` rows, without the positions. */
static inline gt_attention_sizes gt_attention_sizes_of(
    const struct gt_call *call, const struct gt_tensor *qkv, int own)
{
	gt_attention_sizes s = { qkv->shape[0], qkv->shape[1], call->attrs.attention.heads,
		gt_attention_head_size(call, qkv), 0, (qkv->shape[1] + own - 1) / own, 0,
		gt_attrs_kv_heads(&call->attrs), 0, qkv->shape[2], call->attrs.attention.full,
		nullptr };

	s.C = s.heads * s.D;
	s.group = s.heads / s.kv_heads;
	s.scale = 1 / sqrt((double)s.D);
	return s;
}

/* Return the dropout of a call. `rng` is the index of that input. */
static inline gt_attention_draw gt_attention_draw_of(const struct gt_call *call, int rng)
{
	double p = call->attrs.attention.p;
	int all = call->attrs.attention.all_heads;

	return { p > 0 ? gt_in_data<int64_t>(call, rng) : nullptr,
		all ? all : call->attrs.attention.heads, call->attrs.attention.first_head,
		call->attrs.attention.stream, (uint32_t)ceil(p * 0x1p24), 1 / (1 - p) };
}

/* Return the grid of a launch: x counts blocks of all heads, y chunks of the result. */
template <class S> inline dim3 gt_attention_grid(const gt_attention_sizes &s)
{
	return dim3(
	    (unsigned)(s.B * s.heads * s.blocks), (unsigned)((s.D + S::CHUNK - 1) / S::CHUNK));
}

#endif
