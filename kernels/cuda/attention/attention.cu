/* attention.cu - self-attention, a tile of keys at a time. */
#include "kernels/cuda/attention/attention_held.cuh"

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

/*
 * The sizes of a block's work, for elements of type T. The functions of attention.cuh get
 * gt_attention_shape as their template argument S. Queries, keys, values and results of one head
 * are matrices with a row for each token and D columns (the head size).
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

/*
 * A block has the rows of some queries, and goes over the keys that they see. Each row keeps the
 * largest score so far and the sum of exponentials below it; when a larger one comes, the sums
 * made so far shrink. Sources: Milakov and Gimelshein 2018, "Online normalizer calculation for
 * softmax" (arXiv 1805.02867); Dao 2023, "FlashAttention-2" (arXiv 2307.08691). Tiles:
 * attention.cuh; formulas: lib/graph/ops/attention.c.
 */
template <class T> struct forward_args {
	typedef typename gt_wide<T>::type wide;
	T *y;
	wide *lse;
	const T *qkv;
	gt_attention_sizes s;
	gt_attention_draw draw;
};

/* A thread's two rows of a warp's 16, so far. `sum` is of this thread's columns alone. */
template <class W> struct running {
	W largest[2], sum[2];
};

/* The largest of 4 neighbouring lanes, which share a row. */
template <class W> static __device__ __forceinline__ W row_largest(W x)
{
	for (int step = 1; step < 4; step *= 2) {
		W other = __shfl_xor_sync(0xffffffffu, x, step);

		x = other > x ? other : x;
	}
	return x;
}

template <class W> static __device__ __forceinline__ W row_sum(W x)
{
	for (int step = 1; step < 4; step *= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	return x;
}

/*
 * Scale scores, and hide those of keys that the query does not see: their exponentials become 0.
 * i and j are the first of the tile. Rows past the end of the text see keys of zeros; nothing of
 * them is written.
 */
template <class S>
static __device__ __forceinline__ void mask(
    typename S::scores &x, int64_t i, int64_t j, const gt_attention_sizes &s)
{
	typedef typename S::wide wide;

	GT_UNROLL
	for (int n = 0; n < S::TILES; n++) {
		GT_UNROLL
		for (int e = 0; e < GT_TILE_LANE; e++)
			x[n][e] = j + n * GT_TILE + gt_tile_col(e) <= s.last_key(i + gt_tile_row(e))
			              ? x[n][e] * (wide)s.scale
			              : -(wide)INFINITY;
	}
}

/* Hide the keys of other documents in sample b. */
template <class S>
static __device__ __forceinline__ void mask_documents(
    typename S::scores &x, int64_t b, int64_t i, int64_t j, const gt_attention_sizes &s)
{
	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		int64_t first = s.first_key(b, i + gt_tile_row(2 * h));

		GT_UNROLL
		for (int k = 0; k < S::TILES * 4; k++) {
			int n = k / 4, e = k % 2 + k / 2 % 2 * 4 + h * 2;

			if (j + n * GT_TILE + gt_tile_col(e) < first)
				x[n][e] = -(typename S::wide)INFINITY;
		}
	}
}

/*
 * Scores become exponentials; the sums made so far shrink. Example, a row whose scores are 1 3 in
 * the first tile and 5 2 in the second, with values a b and c d:
 *
 *             largest   shrink          r.sum                       sum
 *   tile 1    3         exp(-inf) = 0   e^-2 + 1                    e^-2 a + b
 *   tile 2    5         e^-2            e^-4 + e^-2 + 1 + e^-3      e^-4 a + e^-2 b + c + e^-3 d
 *
 * end_rows() divides sum by r.sum; lse is 5 + log(r.sum). Of a lane's 8 elements of a tile of 16 x
 * 16, bit 1 of the number chooses the row h (gt_tile_row()), bits 0 and 2 the column. So a row
 * has four elements of each tile: e % 2 and e / 2 % 2 * 4 make the column, h * 2 the row.
 *
 * Every query sees key 0, which is in the first tile, so after it a row's largest score is no
 * longer -infinity. Only where rows have several documents (PACKED) may a row have seen no key of
 * its own yet: its largest score is -infinity then, and its weights are 0.
 */
template <class S, bool PACKED>
static __device__ __forceinline__ void weigh_scores(
    typename S::scores &x, running<typename S::wide> &r, typename S::results &sum)
{
	typedef typename S::wide wide;

	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		wide largest = r.largest[h], shrink, base;

		GT_UNROLL
		for (int e = 0; e < S::TILES * 4; e++) {
			wide v = x[e / 4][e % 2 + e / 2 % 2 * 4 + h * 2];

			largest = v > largest ? v : largest;
		}
		largest = row_largest(largest);
		base = PACKED && largest == -(wide)INFINITY ? 0 : largest;
		shrink = gt_exp(r.largest[h] - base);
		r.largest[h] = largest;
		r.sum[h] *= shrink;
		GT_UNROLL
		for (int e = 0; e < S::TILES * 4; e++) {
			wide *v = &x[e / 4][e % 2 + e / 2 % 2 * 4 + h * 2];

			*v = gt_exp(*v - base);
			r.sum[h] += *v;
		}
		GT_UNROLL
		for (int e = 0; e < S::CHUNKS * 4; e++)
			sum[e / 4][e % 2 + e / 2 % 2 * 4 + h * 2] *= shrink;
	}
}

template <class S>
static __device__ __forceinline__ void drop_scores(typename S::scores &x,
    const gt_attention_dropper &draw, int64_t i, int64_t j, const gt_attention_sizes &s)
{
	GT_UNROLL
	for (int n = 0; n < S::TILES; n++) {
		uint32_t kept = draw.draw<1, false>(i, j + n * GT_TILE, s.T);

		GT_UNROLL
		for (int e = 0; e < GT_TILE_LANE; e++)
			x[n][e] *= draw.factor<typename S::wide>(kept, e);
	}
}

/*
 * y, and by the blocks of the first chunk lse. The sums of a row's four lanes are put together
 * here, once: all four have shrunk alike.
 */
template <class S>
static __device__ __forceinline__ void end_rows(const forward_args<typename S::type> &a,
    const typename S::results &sum, running<typename S::wide> &r, int64_t work, int64_t i)
{
	const gt_attention_sizes &s = a.s;
	int64_t b = work / s.heads, head = work % s.heads;
	typename S::wide factor[2];

	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		int64_t row = i + gt_tile_row(h * 2);

		r.sum[h] = row_sum(r.sum[h]);
		factor[h] = 1 / r.sum[h];
		if (blockIdx.y == 0 && threadIdx.x % 4 == 0 && row < s.T)
			a.lse[work * s.T + row] = r.largest[h] + log(r.sum[h]);
	}
	gt_attention_write<S>(a.y + b * s.T * s.C + head * s.D, s.C, i,
	    (int64_t)blockIdx.y * S::CHUNK, s, sum, factor);
}

/* PACKED: rows have several documents (a.s.positions). That needs more registers. */
template <class T, int CHUNK, bool PACKED>
static __global__ void __launch_bounds__(gt_attention_shape<T, CHUNK>::THREADS)
    attend_rows(forward_args<T> a)
{
	typedef gt_attention_shape<T, CHUNK> S;
	typedef typename S::wide wide;
	const gt_attention_sizes &s = a.s;
	GT_DYNAMIC_SHARED(T, own);
	T *tile = own + S::OWN * S::LD, *p = tile + S::TILE * S::LD;
	int warp = (int)threadIdx.x / 32;
	/* The longest first, so that no long one is left over at the end. */
	int64_t work = blockIdx.x / s.blocks, block = s.blocks - 1 - blockIdx.x % s.blocks;
	int64_t b = work / s.heads, head = work % s.heads, stride = s.stride;
	int64_t first = block * S::OWN, i = first + warp * GT_TILE, mine = blockIdx.y * CHUNK;
	const T *q = a.qkv + b * s.T * stride + head * s.D;
	const T *k = a.qkv + s.keys_of(b, head / s.group), *v = k + s.kv_heads * s.D;
	int64_t begin = PACKED ? s.first_tile(b, first, S::TILE) : 0;
	const gt_attention_dropper draw = { a.draw, (int)b, (int)head };
	running<wide> r = { { -(wide)INFINITY, -(wide)INFINITY }, {} };
	typename S::results sum = {};

	/*
	 * `p` is this warp's alone. `tile` holds the keys first and the values after them, so a
	 * barrier stands before each copy to it, for warps that still read, and one behind.
	 */
	p += warp * GT_TILE * S::P_LD;
	for (int64_t j = begin; j < s.T && (s.full || j < first + S::OWN); j += S::TILE) {
		typename S::scores x = {};

		for (int64_t col = 0; col < s.D; col += CHUNK) {
			__syncthreads();
			if (j == begin || s.D > CHUNK)
				gt_attention_fetch<S>(own, q, stride, first, S::OWN, s, col);
			gt_attention_fetch<S>(tile, k, stride, j, S::TILE, s, col);
			__syncthreads();
			gt_attention_score<S>(
			    x, own + warp * GT_TILE * S::LD, tile, gt_attention_width<S>(col, s.D));
		}
		mask<S>(x, i, j, s);
		if (PACKED)
			mask_documents<S>(x, b, i, j, s);
		weigh_scores<S, PACKED>(x, r, sum);
		if (a.draw.rng)
			drop_scores<S>(x, draw, i, j, s);
		gt_attention_put<S>(p, x);
		__syncthreads();
		gt_attention_fetch<S>(tile, v, stride, j, S::TILE, s, mine);
		__syncthreads();
		gt_attention_weigh<S>(sum, p, tile, gt_attention_width<S>(mine, s.D));
	}
	end_rows<S>(a, sum, r, work, i);
}

/* ---- rows ---- */

template <class T, int CHUNK, bool PACKED> static void launch(struct gt_call *call)
{
	typedef gt_attention_shape<T, CHUNK> S;
	forward_args<T> a = { gt_out_data<T>(call), gt_out_data<typename S::wide>(call, 1),
		gt_in_data<T>(call, 0), gt_attention_sizes_of(call, &call->in[0], S::OWN),
		gt_attention_draw_of(call, 1) };
	/* BYTES is for the gradient, which keeps two matrices of own rows; here there is one. */
	size_t bytes = S::BYTES - S::SIZE * S::OWN * S::LD;

	a.s.positions = gt_in_data<int32_t>(call, 2);
	if (a.s.B && a.s.blocks)
		GT_LAUNCH((attend_rows<T, CHUNK, PACKED>), gt_attention_grid<S>(a.s), S::THREADS,
		    bytes, call->stream->queue, a);
}

/* BYTES is 47.5 KiB for 128 columns of a type with 16 bits. It would be 86 KiB for float64, and a
 * launch has 48. */
template <class T> static void launch_for_size(struct gt_call *call)
{
	constexpr int LARGE = sizeof(T) == 2 ? 128 : 64;

	/* Several documents need registers: too many with 128 columns, and with 64 of float64. */
	if (gt_optional_input(call, 2))
		launch<T, sizeof(T) == 8 ? 48 : 64, true>(call);
	else if (gt_attention_head_size(call, &call->in[0]) > 64)
		launch<T, LARGE, false>(call);
	else
		launch<T, 64, false>(call);
}

template <class T> static int run_attention(struct gt_call *call, struct gt_err *err)
{
	if (call->attrs.attention.tf32)
		launch_for_size<typename gt_rounded<T>::type>(call);
	else if (!gt_held_attention(call))
		launch_for_size<T>(call);
	return gt_cuda_launched(call->stream, "attention", err);
}

const struct gt_kernel gt_cuda_attention_kernels[] = {
	GT_ROWS(attention, nullptr, nullptr),
	{},
};
